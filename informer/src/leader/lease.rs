//! [`LeaseRecord`]: the content of a lease, [`LeaseStore`]: its storage, and [`Fence`]: the token by which a store
//! refuses writes of a deposed leader. The fields of a record have the meaning of a
//! `coordination.k8s.io` Lease, so that other implementations can compete for the same lease. The rules of
//! the election are in `candidate`.

use crate::Revision;
use jiff::Timestamp;
use std::fmt;
use std::future::Future;
use std::time::Duration;

/// Content of a lease: the fields of a `coordination.k8s.io` Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Identity of the leader; empty if the last leader released the lease.
    pub holder: String,
    /// Validity of the lease after a renewal, in whole seconds.
    pub duration: Duration,
    /// When the holder acquired the lease, by the holder's wall clock. Informational: no candidate compares
    /// it with its own clock.
    pub acquired: Timestamp,
    /// When the holder last renewed the lease, by the holder's wall clock.
    pub renewed: Timestamp,
    /// How often the lease changed hands after the first acquisition. Together with the holder it identifies
    /// one term of leadership.
    pub transitions: u32,
}

/// Error of reading or writing a lease.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another client has written the lease.
    #[error("the lease was modified by another client")]
    Conflict,
    /// No response, or an error. A write may have been stored.
    #[error("{0}")]
    Failed(String),
}

/// Storage of one lease. A call may be dropped before it returns; its request may still take effect.
pub trait LeaseStore: Send + Sync + 'static {
    /// The namespace of the lease.
    fn namespace(&self) -> &str;
    /// The name of the lease.
    fn name(&self) -> &str;
    /// Reads the lease, `None` if it does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<(LeaseRecord, Revision)>, LeaseError>> + Send;
    /// Stores the first record. Returns a conflict if the lease exists.
    fn create(&self, record: &LeaseRecord) -> impl Future<Output = Result<Revision, LeaseError>> + Send;
    /// Replaces the record if its revision is `at`; otherwise returns a conflict.
    fn replace(
        &self,
        record: &LeaseRecord,
        at: Revision,
    ) -> impl Future<Output = Result<Revision, LeaseError>> + Send;
}

/// Truncates a time to the microseconds of a lease, so that a stored record compares equal when read back.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// Fencing token of one term of leadership: the lease, its holder and its number of transitions. A store
/// refuses writes with an outdated token, independent of clocks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// Identity of the leader in this term.
    pub holder: String,
    /// The lease's `leaseTransitions` in this term.
    pub transitions: u32,
}

/// `namespace/name/transitions/holder`, as in the `kstore-fence` header. The holder may be any text and is
/// percent-encoded: every byte except ASCII letters, digits and `-._~` becomes `%` and two upper-case hex
/// digits.
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/", self.namespace, self.name, self.transitions)?;
        for byte in self.holder.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' => write!(f, "{}", char::from(byte))?,
                byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_header_escapes_any_holder() {
        let holder = "host-1_5f0c/ä %\n".to_owned();
        let fence =
            Fence { namespace: "kube-system".into(), name: "scheduler".into(), holder, transitions: 7 };
        let text = fence.to_string();
        assert_eq!(text, "kube-system/scheduler/7/host-1_5f0c%2F%C3%A4%20%25%0A");
    }
}
