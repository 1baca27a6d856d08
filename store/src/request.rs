//! What can be asked of the writer, and its answers. One order for everything: transactions, leases, compaction.

use bytes::Bytes;
use tokio::time::Instant;

use crate::alarm::AlarmChange;
use crate::error::{AlarmError, CompactError, LeaseError, TxnError};
use crate::lease::{LeaseGranted, LeaseRenewed};
use crate::{LeaseId, Revision, Txn, TxnResult};

/// A request. Times are the caller's, since the writer's thread has no clock of its own.
#[derive(Debug)]
pub(crate) enum Request {
    /// Do a transaction that passed its check.
    Txn(Txn),
    /// Grant a lease; the time to live is within bounds.
    Grant { id: LeaseId, ttl: i64, now: Instant },
    /// End a lease.
    Revoke(LeaseId),
    /// End a lease if its time is over at `now`.
    Expire { id: LeaseId, now: Instant },
    /// Renew a lease.
    KeepAlive { id: LeaseId, now: Instant },
    /// Say what is known of a lease.
    Inspect { id: LeaseId, keys: bool },
    /// Name all leases.
    List,
    /// Compact.
    Compact(Revision),
    /// Raise an alarm, or disarm it.
    Alarm(AlarmChange),
}

/// The answer to the request of the same name.
#[derive(Debug)]
pub(crate) enum Answer {
    Txn(Result<TxnResult, TxnError>),
    Grant(Result<LeaseGranted, LeaseError>),
    /// Also to `Expire`.
    Revoke(Result<Revision, LeaseError>),
    /// The lease has more keys than one commit may delete. Some are deleted; asking again deletes the next ones.
    RevokedInPart,
    KeepAlive(Result<LeaseRenewed, LeaseError>),
    /// Time to live and keys.
    Inspect(Result<(i64, Vec<Bytes>, Revision), LeaseError>),
    List(Vec<LeaseId>),
    Compact(Result<(), CompactError>),
    /// Whether that changed it.
    Alarm(bool),
}

/// Why a request did not get an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Busy,
    Stopped,
}

macro_rules! refused {
    ($($error:ident),*) => {
        $(impl From<Refused> for $error {
            fn from(refused: Refused) -> Self {
                match refused {
                    Refused::Busy => Self::Busy,
                    Refused::Stopped => Self::Stopped(crate::error::Stopped),
                }
            }
        })*
    };
}

refused!(TxnError, LeaseError, CompactError, AlarmError);
