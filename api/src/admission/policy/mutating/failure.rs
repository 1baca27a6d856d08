//! Refusal of a request whose mutating policies failed.

use crate::admission::policy::request::PolicyRequest;
use crate::status::Status;
use std::sync::Arc;

/// Failure of a policy whose failure policy is `Fail`.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) policy: Arc<str>,
    pub(super) binding: Option<Arc<str>>,
    pub(super) message: String,
    /// Whether the refusal has the reason `Invalid` instead of `Forbidden`; its code is 403 in both cases.
    pub(super) is_invalid: bool,
}

impl Failure {
    fn text(&self) -> String {
        let (policy, message) = (&self.policy, &self.message);
        match &self.binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {message}"),
            None => format!("policy '{policy}' denied request: {message}"),
        }
    }
}

/// The refusal: the first failure is its message, all failures are its causes. `None` without failures.
pub(super) fn refusal(request: &PolicyRequest<'_>, failures: &[Failure]) -> Option<Status> {
    let first = failures.first()?;
    let resource = request.attributes.resource;
    let named = Status::forbidden((resource.group, resource.resource), request.shown_name(), "");
    let reason = if first.is_invalid { "Invalid" } else { "Forbidden" };
    let mut status = Status::foreign(named.code, reason.to_owned(), first.text());
    status.details = named.details;
    Some(failures.iter().fold(status, |status, failure| status.cause("", failure.text())))
}
