//! Requests to the writer and their answers. Transactions, leases, compaction and alarms share one order.

use crate::types::alarm::AlarmChange;
use crate::types::error::{AlarmError, CompactError, LeaseError, TxnError};
use crate::types::lease::{LeaseGranted, LeaseRenewed};
use crate::{LeaseId, Revision, Txn, TxnResult};
use bytes::Bytes;
use tokio::time::Instant;

/// A request to the writer. The caller supplies times, since the writer's thread has no clock.
#[derive(Debug)]
pub(crate) enum Request {
    /// Execute a transaction that passed its check.
    Txn(Txn),
    /// Execute transactions that passed their checks one after the other, each at a revision of its own.
    Each(Vec<Txn>),
    /// Grant a lease; the time to live is within bounds.
    Grant { id: LeaseId, ttl: i64, now: Instant },
    /// Revoke a lease.
    Revoke(LeaseId),
    /// Revoke a lease if it has expired at `now`.
    Expire { id: LeaseId, now: Instant },
    /// Renew a lease.
    KeepAlive { id: LeaseId, now: Instant },
    /// Return a lease's time to live, with its keys on request.
    Inspect { id: LeaseId, keys: bool },
    /// List all leases.
    List,
    /// Compact up to this revision.
    Compact(Revision),
    /// Raise or disarm an alarm.
    Alarm(AlarmChange),
}

/// The answer to the request of the same name.
#[derive(Debug)]
pub(crate) enum Response {
    Txn(Result<TxnResult, TxnError>),
    /// In the order of the transactions.
    Each(Vec<Result<TxnResult, TxnError>>),
    Grant(Result<LeaseGranted, LeaseError>),
    /// Answers `Expire` too.
    Revoke(Result<Revision, LeaseError>),
    /// The lease has more keys than one commit may delete. Some are deleted; the caller repeats the request for the
    /// rest.
    RevokedInPart,
    KeepAlive(Result<LeaseRenewed, LeaseError>),
    /// The time to live in seconds, the keys, and the store's revision.
    Inspect(Result<(i64, Vec<Bytes>, Revision), LeaseError>),
    List(Vec<LeaseId>),
    Compact(Result<(), CompactError>),
    /// Whether the request changed the alarms.
    Alarm(bool),
}

/// Why a request was refused before evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    Busy,
    Stopped,
}

macro_rules! refused {
    ($($error:ident),*) => {
        $(impl From<Rejection> for $error {
            fn from(refused: Rejection) -> Self {
                match refused {
                    Rejection::Busy => Self::Busy,
                    Rejection::Stopped => Self::Stopped(crate::types::error::Stopped),
                }
            }
        })*
    };
}

refused!(TxnError, LeaseError, CompactError, AlarmError);
