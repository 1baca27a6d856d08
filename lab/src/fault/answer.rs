//! What each fault does to a request, as a value: texts, codes and `retryAfterSeconds` are those of kube-apiserver. Pure.

use super::{CutForm, ErrorText, Fault, Loss, Unavailability};
use crate::request::{Intervention, Refusal, RequestTarget, WatchEnding};
use kstore_api::status::{DeniedRequest, MODIFIED, Status};
use std::time::Duration;

/// The whole body of kube-apiserver's answer while too many requests are in flight.
const TOO_MANY: &str = "Too many requests, please try again later.";

/// The group and the plural of `plural.group`.
fn group_and_plural(resource: &str) -> (&str, &str) {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    (group, plural)
}

/// What a fault does to a request of `user`.
pub fn intervention(fault: &Fault, user: &str, target: &RequestTarget) -> Intervention {
    let name = fault.name();
    let mut result = Intervention { fault: name, ..Intervention::default() };
    let about = group_and_plural(&target.resource);
    match fault {
        Fault::Touch {} => result.touches = true,
        Fault::TooMany { seconds } => {
            result.refusal = Some(Refusal::status(Status::too_many_requests(TOO_MANY, *seconds)));
        }
        Fault::Error { how } => {
            let text = match how {
                ErrorText::TimedOut => "etcdserver: request timed out",
                ErrorText::LeaderChanged => "etcdserver: leader changed",
            };
            result.refusal = Some(Refusal::status(Status::unclassified(text)));
        }
        Fault::Unavailable { how: Unavailability::Reset } => result.refusal = Some(Refusal::Reset),
        Fault::Unavailable { how: Unavailability::Status } => {
            let text = "the server is currently unable to handle the request";
            result.refusal = Some(Refusal::status(Status::service_unavailable(text)));
        }
        Fault::Timeout { after } => {
            result.delay = *after;
            result.refusal = Some(Refusal::status(timed_out()));
        }
        Fault::LostAnswer { how } => {
            result.is_performed = true;
            result.refusal = Some(match how {
                Loss::Reset => Refusal::Reset,
                Loss::Status => Refusal::status(timed_out()),
                Loss::Silence => Refusal::Silence,
            });
        }
        Fault::Slow { delay, .. } => result.delay = *delay,
        Fault::ForbiddenYet {} => {
            let denied = DeniedRequest {
                user,
                verb: target.verb.as_str(),
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
                why: "",
            };
            result.refusal = Some(Refusal::status(Status::forbidden_access(about, &denied)));
        }
        Fault::NotFoundYet {} => result.refusal = Some(Refusal::status(Status::no_such_route())),
        Fault::Cut { how, after } => {
            result.ending = Some(WatchEnding::Cut { how: *how, after: after.unwrap_or(0) });
        }
        Fault::Expire {} => result.ending = Some(WatchEnding::Expired),
        Fault::SilentEnd {} => {
            result.ending = Some(WatchEnding::Cut { how: CutForm::End, after: 0 });
        }
        Fault::StaleLists { by } => result.stale_by = *by,
        Fault::Conflict {} => {
            result.refusal = Some(Refusal::status(Status::conflict(about, &target.name, MODIFIED)));
        }
    }
    result
}

/// The answer of a request that was not performed in time.
fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

impl Intervention {
    /// Delays the request further.
    #[must_use]
    pub fn delayed(self, by: Duration) -> Self {
        Self { delay: self.delay + by, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn refused(fault: Fault) -> Status {
        let uri = "/apis/batch/v1/namespaces/a/jobs/b/status".parse().unwrap();
        let target = RequestTarget::of(&Method::PUT, &uri).unwrap();
        match intervention(&fault, "operator", &target).refusal {
            Some(Refusal::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Messages as kube-apiserver and client-go have them.
    #[test]
    fn refusals_have_the_texts_codes_and_times_of_a_real_server() {
        let rows = [
            (Fault::TooMany { seconds: 2 }, 429, "TooManyRequests", TOO_MANY),
            (Fault::Error { how: ErrorText::TimedOut }, 500, "", "etcdserver: request timed out"),
            (Fault::Error { how: ErrorText::LeaderChanged }, 500, "", "etcdserver: leader changed"),
            (
                Fault::Unavailable { how: Unavailability::Status },
                503,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            (
                Fault::Timeout { after: Duration::ZERO },
                504,
                "Timeout",
                "Timeout: request did not complete within the allotted timeout",
            ),
            (
                Fault::ForbiddenYet {},
                403,
                "Forbidden",
                "jobs.batch \"b\" is forbidden: User \"operator\" cannot update resource \"jobs/status\" in API group \"batch\" in the namespace \"a\"",
            ),
            (Fault::NotFoundYet {}, 404, "NotFound", "the server could not find the requested resource"),
            (
                Fault::Conflict {},
                409,
                "Conflict",
                "Operation cannot be fulfilled on jobs.batch \"b\": the object has been modified; please apply your changes to the latest version and try again",
            ),
        ];
        for (fault, code, reason, message) in rows {
            let status = refused(fault);
            assert_eq!((status.code, status.message.as_str()), (code, message));
            let json: serde_json::Value = serde_json::from_slice(&status.to_json()).unwrap();
            assert_eq!(json["reason"].as_str().unwrap_or_default(), reason);
        }
        assert_eq!(refused(Fault::TooMany { seconds: 2 }).retry_after_seconds(), Some(2));
        let uri = "/api/v1/namespaces/a/pods".parse().unwrap();
        let create = RequestTarget::of(&Method::POST, &uri).unwrap();
        let lost = intervention(&Fault::LostAnswer { how: Loss::Silence }, "u", &create);
        assert!(lost.is_performed && lost.refusal == Some(Refusal::Silence));
    }
}
