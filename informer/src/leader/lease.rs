//! [`LeaseRecord`]: what a lease says, and [`LeaseStore`]: where one is kept. The fields and their meaning are those of a
//! `coordination.k8s.io` Lease, so that candidates of other makes can stand for the same office. Not the rules of the
//! election: those are `candidate`'s.

use std::{future::Future, time::Duration};

use jiff::Timestamp;

use crate::Revision;

/// What a lease says. The fields of a `coordination.k8s.io` Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Who leads; empty if the last leader gave it up.
    pub holder: String,
    /// How long it holds after a renewal. Whole seconds.
    pub duration: Duration,
    /// When the holder took it. By the holder's wall clock, for people: no candidate compares it with its own.
    pub acquired: Timestamp,
    /// When the holder last renewed it, likewise.
    pub renewed: Timestamp,
    /// How often the lease was taken after the first time. With the holder it names one term of leadership.
    pub transitions: u32,
}

/// Why a lease could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeaseError {
    /// Someone else wrote it.
    #[error("someone else wrote the lease")]
    Conflict,
    /// No answer, or a refusal. A write may have happened.
    #[error("{0}")]
    Failed(String),
}

/// Where one lease is kept. Calls may be dropped before they answer; what they asked for may happen all the same.
pub trait LeaseStore: Send + Sync + 'static {
    /// The namespace of the lease.
    fn namespace(&self) -> &str;
    /// The name of the lease.
    fn name(&self) -> &str;
    /// The lease, if there is one.
    fn get(&self) -> impl Future<Output = Result<Option<(LeaseRecord, Revision)>, LeaseError>> + Send;
    /// Stores the first record. A conflict if there is one.
    fn create(&self, record: &LeaseRecord) -> impl Future<Output = Result<Revision, LeaseError>> + Send;
    /// Replaces the record that is at revision `at`. A conflict if it is not.
    fn replace(
        &self,
        record: &LeaseRecord,
        at: Revision,
    ) -> impl Future<Output = Result<Revision, LeaseError>> + Send;
}

/// A time in the precision that a lease has, so that what is read again compares equal to what was written.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}
