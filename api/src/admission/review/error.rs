//! [`CallError`]: a webhook could not be asked, or its answer says nothing that can be used.

use std::sync::Arc;

use crate::status::Status;

/// A failed call. `Display` is the text that upstream answers and logs with; the failure policy of the hook says what it means.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed calling webhook \"{webhook}\": {reason}")]
pub struct CallError {
    /// Name of the hook.
    pub webhook: Arc<str>,
    /// What went wrong.
    pub reason: String,
    /// The HTTP status that Kubernetes counts the failure under in metrics. The answer to the client is 500 all the same.
    pub code: u16,
}

impl CallError {
    /// No answer was had, for example because the connection was refused or the time ran out.
    #[must_use]
    pub fn no_answer(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self { webhook: webhook.clone(), reason: format!("failed to call webhook: {cause}"), code: 503 }
    }

    /// The hook cannot be called with this configuration.
    #[must_use]
    pub fn no_client(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self { webhook: webhook.clone(), reason: format!("could not get REST client: {cause}"), code: 500 }
    }

    /// The request could not be made.
    #[must_use]
    pub(super) fn no_request(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self {
            webhook: webhook.clone(),
            reason: format!("could not create admission objects: {cause}"),
            code: 400,
        }
    }

    /// There is an answer and it is wrong.
    pub(super) fn invalid(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self {
            webhook: webhook.clone(),
            reason: format!("received invalid webhook response: {cause}"),
            code: 503,
        }
    }

    /// The answer to the client where the failure policy is `Fail`: 500.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::internal(self)
    }
}
