//! What an answer of etcd that is none means: whether another member may do better, and what the caller is told. The texts
//! and codes are etcd's.

use crate::storage::{CommitError, ReadError};
use std::error::Error;
use tonic::{Code, ConnectError, Status};

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The member cannot serve it now, or did not say; another may. `sent`: it may have been carried out.
    Away { sent: bool, why: String },
    /// The member does not know our token (any more). Nothing was carried out.
    Stranger,
    /// The cluster refuses. Nothing was carried out, and no member will say anything else.
    Refused(Refusal),
}

/// What was refused.
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

impl Trouble {
    /// No answer within the time of a call.
    pub(super) fn late() -> Self {
        Self::Away { sent: true, why: "no answer in time".into() }
    }

    /// What a failed call means.
    pub(super) fn of(status: &Status) -> Self {
        let text = status.message();
        let other = || Self::Refused(Refusal::Other(text.to_owned()));
        match status.code() {
            Code::Unauthenticated => Self::Stranger,
            Code::InvalidArgument
                if text.contains("auth store is old") || text.contains("user name is empty") =>
            {
                Self::Stranger
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
            | Code::Aborted => Self::Away { sent: !never_sent(status), why: text.to_owned() },
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

    /// Why a member ended a watch.
    pub(super) fn of_cancelled(why: &str) -> Self {
        if why.contains("auth token") || why.contains("auth store is old") {
            Self::Stranger
        } else if why.contains("permission denied") {
            Self::Refused(Refusal::Other(why.to_owned()))
        } else {
            Self::Away { sent: true, why: why.to_owned() }
        }
    }

    /// What a reader at `revision` is told when this is the last word; `newest` is the newest revision that was heard of.
    pub(super) fn into_read(self, revision: i64, newest: i64) -> ReadError {
        match self {
            Self::Away { why, .. } => ReadError::Unavailable(why),
            Self::Stranger => ReadError::Unavailable("it does not accept our credentials".into()),
            // It does not say what is left; later than what was asked for it is.
            Self::Refused(Refusal::Compacted) => ReadError::Compacted { oldest: revision + 1 },
            Self::Refused(Refusal::Future) => ReadError::Future { current: newest },
            Self::Refused(Refusal::Overloaded) => ReadError::Unavailable("too many requests".into()),
            Self::Refused(Refusal::LeaseNotFound) => ReadError::Failed("lease not found".into()),
            Self::Refused(Refusal::TooLarge(why) | Refusal::NoSpace(why) | Refusal::Other(why)) => {
                ReadError::Failed(why)
            }
        }
    }

    /// What a writer is told when this is the last word. `doubtful`: an earlier attempt may have been carried out.
    pub(super) fn into_commit(self, doubtful: bool) -> CommitError {
        match self {
            Self::Away { sent, why } if sent || doubtful => CommitError::Unknown(why),
            Self::Away { why, .. } => CommitError::Unavailable(why),
            other if doubtful => CommitError::Unknown(format!("{other:?}")),
            Self::Stranger => CommitError::Unavailable("it does not accept our credentials".into()),
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

/// Whether there was no connection that the request could have gone over.
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
    fn what_etcd_says_decides_who_is_asked_next_and_what_is_told() {
        let of = |code, text: &str| Trouble::of(&Status::new(code, text));
        let away = |why: &str| Trouble::Away { sent: true, why: why.into() };
        let refused = Trouble::Refused;
        for (code, text, expected) in [
            (Code::Unavailable, "etcdserver: leader changed", away("etcdserver: leader changed")),
            (Code::Unavailable, "etcdserver: request timed out", away("etcdserver: request timed out")),
            (Code::Unknown, "transport error", away("transport error")),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Trouble::Stranger),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", Trouble::Stranger),
            (Code::InvalidArgument, "etcdserver: user name is empty", Trouble::Stranger),
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
    fn a_writer_hears_that_nothing_happened_only_when_that_is_certain() {
        let away = |sent| Trouble::Away { sent, why: String::new() };
        assert!(matches!(away(false).into_commit(false), CommitError::Unavailable(_)));
        assert!(matches!(away(true).into_commit(false), CommitError::Unknown(_)));
        assert!(matches!(away(false).into_commit(true), CommitError::Unknown(_)));
        let refused = Trouble::Refused(Refusal::Overloaded);
        assert!(matches!(refused.clone().into_commit(false), CommitError::Overloaded));
        assert!(matches!(refused.into_commit(true), CommitError::Unknown(_)));
    }
}
