//! [`CallError`]: a failed webhook call, or a response that cannot be used.

use crate::status::Status;
use std::sync::Arc;

/// Failed webhook call. `Display` is Kubernetes' message. The webhook's failure policy decides about the
/// request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed calling webhook \"{webhook}\": {reason}")]
pub struct CallError {
    /// Name of the webhook.
    pub webhook: Arc<str>,
    /// Reason of the failure.
    pub reason: String,
    /// HTTP status code for Kubernetes' metrics. The client always gets a 500.
    pub code: u16,
}

impl CallError {
    /// Error of a call without a response, for example because the connection was refused or the call timed
    /// out.
    #[must_use]
    pub fn no_answer(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self { webhook: webhook.clone(), reason: format!("failed to call webhook: {cause}"), code: 503 }
    }

    /// Error of a webhook that cannot be called with its configuration.
    #[must_use]
    pub fn no_client(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self { webhook: webhook.clone(), reason: format!("could not get REST client: {cause}"), code: 500 }
    }

    /// Error of a request that could not be encoded.
    #[must_use]
    pub(super) fn no_request(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self {
            webhook: webhook.clone(),
            reason: format!("could not create admission objects: {cause}"),
            code: 400,
        }
    }

    /// Error of a wrong response.
    pub(super) fn invalid(webhook: &Arc<str>, cause: impl std::fmt::Display) -> Self {
        Self {
            webhook: webhook.clone(),
            reason: format!("received invalid webhook response: {cause}"),
            code: 503,
        }
    }

    /// Status for the client if the failure policy is `Fail`: 500.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::internal(self)
    }
}
