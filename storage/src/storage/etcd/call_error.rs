//! Classifies failed calls to etcd: whether another member may succeed, and which error the caller gets. The
//! texts and codes matched here are etcd's.

use crate::storage::{CommitError, ReadError};
use std::error::Error;
use tonic::{Code, ConnectError, Status};

/// Why a call to etcd failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The member cannot serve the call now, or did not reply; another may. `sent`: the call may have been
    /// executed.
    Unavailable { sent: bool, why: String },
    /// The member does not accept this client's token. Nothing was executed.
    InvalidToken,
    /// The cluster refuses the call. Nothing was executed, and other members would refuse too.
    Refused(Refusal),
}

/// Why the cluster refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Compacted,
    Future,
    TooLarge(String),
    Overloaded,
    NoSpace(String),
    LeaseNotFound,
    Other(String),
}

impl CallError {
    /// The call timed out.
    pub(super) fn late() -> Self {
        Self::Unavailable { sent: true, why: "the call timed out".into() }
    }

    /// Classifies the status of a failed call.
    pub(super) fn of(status: &Status) -> Self {
        let text = status.message();
        let other = || Self::Refused(Refusal::Other(text.to_owned()));
        match status.code() {
            Code::Unauthenticated => Self::InvalidToken,
            Code::InvalidArgument
                if text.contains("auth store is old") || text.contains("user name is empty") =>
            {
                Self::InvalidToken
            }
            Code::InvalidArgument if text.contains("too large") || text.contains("too many operations") => {
                Self::Refused(Refusal::TooLarge(text.to_owned()))
            }
            Code::ResourceExhausted if text.contains("larger than max") => {
                Self::Refused(Refusal::TooLarge(text.to_owned()))
            }
            Code::ResourceExhausted if text.contains("too many requests") => {
                Self::Refused(Refusal::Overloaded)
            }
            Code::ResourceExhausted if text.contains("database space exceeded") => {
                Self::Refused(Refusal::NoSpace(text.to_owned()))
            }
            Code::OutOfRange if text.contains("compacted") => Self::Refused(Refusal::Compacted),
            Code::OutOfRange if text.contains("future") => Self::Refused(Refusal::Future),
            Code::NotFound if text.contains("lease not found") => Self::Refused(Refusal::LeaseNotFound),
            Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted => Self::Unavailable { sent: !never_sent(status), why: text.to_owned() },
            Code::Ok
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss => other(),
        }
    }

    /// Classifies the reason why a member ended a watch.
    pub(super) fn of_cancelled(why: &str) -> Self {
        if why.contains("auth token") || why.contains("auth store is old") {
            Self::InvalidToken
        } else if why.contains("permission denied") {
            Self::Refused(Refusal::Other(why.to_owned()))
        } else {
            Self::Unavailable { sent: true, why: why.to_owned() }
        }
    }

    /// The final error of a read at `revision`; `newest` is the newest revision in any response.
    pub(super) fn into_read(self, revision: i64, newest: i64) -> ReadError {
        match self {
            Self::Unavailable { why, .. } => ReadError::Unavailable(why),
            Self::InvalidToken => ReadError::Unavailable("etcd does not accept the credentials".into()),
            // etcd does not say what the oldest revision is; it is later than the requested one.
            Self::Refused(Refusal::Compacted) => ReadError::Compacted { oldest: revision + 1 },
            Self::Refused(Refusal::Future) => ReadError::Future { current: newest },
            Self::Refused(Refusal::Overloaded) => ReadError::Unavailable("too many requests".into()),
            Self::Refused(Refusal::LeaseNotFound) => ReadError::Failed("lease not found".into()),
            Self::Refused(Refusal::TooLarge(why) | Refusal::NoSpace(why) | Refusal::Other(why)) => {
                ReadError::Failed(why)
            }
        }
    }

    /// The final error of a commit. `may_have_committed`: an earlier attempt may have been executed.
    pub(super) fn into_commit(self, may_have_committed: bool) -> CommitError {
        match self {
            Self::Unavailable { sent, why } if sent || may_have_committed => CommitError::Unknown(why),
            Self::Unavailable { why, .. } => CommitError::Unavailable(why),
            other if may_have_committed => CommitError::Unknown(format!("{other:?}")),
            Self::InvalidToken => CommitError::Unavailable("etcd does not accept the credentials".into()),
            Self::Refused(Refusal::TooLarge(why)) => CommitError::TooLarge(why),
            Self::Refused(Refusal::Overloaded) => CommitError::Overloaded,
            Self::Refused(Refusal::NoSpace(why)) => CommitError::NoSpace(why),
            Self::Refused(Refusal::LeaseNotFound) => CommitError::Failed("lease not found".into()),
            Self::Refused(refusal @ (Refusal::Compacted | Refusal::Future)) => {
                CommitError::Failed(format!("{refusal:?}"))
            }
            Self::Refused(Refusal::Other(why)) => CommitError::Failed(why),
        }
    }
}

/// Whether the connection failed, so that the request was never sent.
fn never_sent(status: &Status) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_errors_are_classified_by_code_and_text() {
        let of = |code, text: &str| CallError::of(&Status::new(code, text));
        let away = |why: &str| CallError::Unavailable { sent: true, why: why.into() };
        let refused = CallError::Refused;
        for (code, text, expected) in [
            (Code::Unavailable, "etcdserver: leader changed", away("etcdserver: leader changed")),
            (Code::Unavailable, "etcdserver: request timed out", away("etcdserver: request timed out")),
            (Code::Unknown, "transport error", away("transport error")),
            (Code::Unauthenticated, "etcdserver: invalid auth token", CallError::InvalidToken),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", CallError::InvalidToken),
            (Code::InvalidArgument, "etcdserver: user name is empty", CallError::InvalidToken),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                refused(Refusal::TooLarge("etcdserver: request is too large".into())),
            ),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                refused(Refusal::TooLarge("etcdserver: too many operations in txn request".into())),
            ),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (3 vs. 2)",
                refused(Refusal::TooLarge("grpc: received message larger than max (3 vs. 2)".into())),
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                refused(Refusal::NoSpace("etcdserver: mvcc: database space exceeded".into())),
            ),
            (Code::ResourceExhausted, "etcdserver: too many requests", refused(Refusal::Overloaded)),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                refused(Refusal::Compacted),
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                refused(Refusal::Future),
            ),
            (Code::NotFound, "etcdserver: requested lease not found", refused(Refusal::LeaseNotFound)),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                refused(Refusal::Other("etcdserver: permission denied".into())),
            ),
        ] {
            assert_eq!(of(code, text), expected, "{code:?} {text}");
        }
    }

    #[test]
    fn a_commit_counts_as_not_executed_only_when_that_is_certain() {
        let away = |sent| CallError::Unavailable { sent, why: String::new() };
        assert!(matches!(away(false).into_commit(false), CommitError::Unavailable(_)));
        assert!(matches!(away(true).into_commit(false), CommitError::Unknown(_)));
        assert!(matches!(away(false).into_commit(true), CommitError::Unknown(_)));
        let refused = CallError::Refused(Refusal::Overloaded);
        assert!(matches!(refused.clone().into_commit(false), CommitError::Overloaded));
        assert!(matches!(refused.into_commit(true), CommitError::Unknown(_)));
    }
}
