//! [`AttemptLog`]: the results of the newest attempts to place pods, in memory, for people who ask why a pod is pending or why it is on its
//! node. The scheduler adds a record at the end of each attempt; another task reads.
//!
//! A record has counts of nodes by reason and the scores of the chosen node, and nothing per node, so its size does not depend on the
//! cluster's. What it leaves out can be computed again: see [`crate::reconstruct`].

mod document;
mod record;

use crate::action::{Binding, Evict, Notice, SchedulingFailure};
use crate::limits::{ATTEMPT_LOG_BYTES, ATTEMPTS_PER_POD};
use crate::pod::{PodInfo, Uid};
pub use document::VisibleNames;
use jiff::Timestamp;
use kstore_informer::{Key, Revision};
use kstore_nondet::HashMap;
use parking_lot::Mutex;
pub use record::{Attempt, AttemptResult, Placement, PlannedEvictions, ReasonCount, RefusedAttempt};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The newest attempts, by pod. Clones share the records. At [`ATTEMPT_LOG_BYTES`] the records of the pod whose last attempt is the oldest
/// are dropped.
#[derive(Clone, Default)]
pub struct AttemptLog(Arc<Mutex<Records>>);

impl fmt::Debug for AttemptLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptLog").field("bytes", &self.0.lock().bytes).finish_non_exhaustive()
    }
}

#[derive(Clone, Default)]
struct Records {
    /// Copies of the log share the attempts of pods without later ones.
    pods: HashMap<Uid, Arc<PodAttempts>>,
    /// The pods by the sequence number of their last attempt.
    order: BTreeMap<u64, Uid>,
    /// The number of attempts so far.
    sequence: u64,
    /// The estimated size of all records.
    bytes: usize,
}

/// The attempts of one pod.
#[derive(Clone, Debug)]
pub struct PodAttempts {
    /// Namespace and name of the pod.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// The scheduler name in its spec.
    pub scheduler_name: Arc<str>,
    /// Its newest attempts, oldest first: at most [`ATTEMPTS_PER_POD`].
    pub attempts: VecDeque<Attempt>,
    sequence: u64,
    bytes: usize,
}

/// The end of an attempt, as it is recorded.
struct AttemptEnd {
    /// The number of the attempt; `None` if the scheduler does not say: one more than the last one's.
    number: Option<u32>,
    /// Whether the end is the failure of a write, and the decision was recorded before.
    is_late: bool,
    at: Timestamp,
    seen: Revision,
    cause: Revision,
    result: AttemptResult,
}

impl AttemptLog {
    /// Records that a pod got a node. `seen` is the newest revision that the scheduler has read of pods and nodes.
    pub(crate) fn placed(&self, binding: &Binding, seen: Revision) {
        let result = AttemptResult::Placed(Placement::of(&binding.choice));
        let (number, cause) = (Some(binding.attempts), binding.cause);
        let end = AttemptEnd { number, is_late: false, at: binding.at, seen, cause, result };
        self.0.lock().add(&binding.pod, end);
    }

    /// Records that an attempt failed, or that the API refused what it decided.
    pub(crate) fn refused(&self, notice: &Notice, at: Timestamp, seen: Revision) {
        self.0.lock().add(&notice.pod, AttemptEnd::of(notice, None, at, seen));
    }

    /// Records that pods are evicted for a pod.
    pub(crate) fn preempted(&self, evict: &Evict, at: Timestamp, seen: Revision) {
        let evictions = PlannedEvictions::of(evict);
        self.0.lock().add(&evict.notice.pod, AttemptEnd::of(&evict.notice, Some(evictions), at, seen));
    }

    /// A log with the same records, to which others are added than to this one.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.0.lock().pods.is_empty()
    }

    /// The attempts for the pods of this name that the log still has: the newest pod first.
    pub fn of(&self, key: &Key) -> Vec<PodAttempts> {
        let records = self.0.lock();
        let own = records.pods.values().filter(|pod| pod.key == *key);
        let mut found: Vec<_> = own.map(|pod| PodAttempts::clone(pod)).collect();
        found.sort_by_key(|pod| std::cmp::Reverse(pod.sequence));
        found
    }
}

impl AttemptEnd {
    fn of(notice: &Notice, evictions: Option<PlannedEvictions>, at: Timestamp, seen: Revision) -> Self {
        let is_late = match &notice.failure {
            SchedulingFailure::Unfit(_) | SchedulingFailure::AttemptFailed => false,
            SchedulingFailure::BindFailed
            | SchedulingFailure::VolumesFailed
            | SchedulingFailure::DevicesFailed => true,
        };
        let result = AttemptResult::of(notice, evictions);
        Self { number: None, is_late, at, seen, cause: notice.cause, result }
    }
}

impl Records {
    fn add(&mut self, pod: &PodInfo, end: AttemptEnd) {
        self.sequence += 1;
        let sequence = self.sequence;
        let records = self.pods.entry(Arc::clone(&pod.uid)).or_insert_with(|| {
            Arc::new(PodAttempts {
                key: pod.key.clone(),
                uid: Arc::clone(&pod.uid),
                scheduler_name: pod.scheduler_name.as_str().into(),
                attempts: VecDeque::new(),
                sequence,
                bytes: 0,
            })
        });
        let records = Arc::make_mut(records);
        self.order.remove(&records.sequence);
        self.order.insert(sequence, Arc::clone(&pod.uid));
        self.bytes -= records.bytes;
        records.sequence = sequence;
        records.add(end);
        records.bytes = records.size();
        self.bytes += records.bytes;
        while self.bytes > ATTEMPT_LOG_BYTES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            let dropped = self.pods.remove(&oldest);
            self.bytes -= dropped.map_or(0, |pod| pod.bytes);
        }
    }
}

impl PodAttempts {
    /// Adds the end of an attempt. Consecutive attempts with equal results are one record.
    fn add(&mut self, AttemptEnd { number, is_late, at, seen, cause, result }: AttemptEnd) {
        let last = self.attempts.back_mut();
        let known = last.as_ref().map_or(0, |last| last.number + last.repeats);
        let number = number.unwrap_or(if is_late { known.max(1) } else { known + 1 });
        match last {
            // A pod that waited for its volumes or devices is bound by a second action of the same attempt.
            Some(last) if number == known && last.result == result => (last.last, last.seen) = (at, seen),
            Some(last) if last.result == result => {
                last.repeats = number.saturating_sub(last.number);
                (last.last, last.seen, last.cause) = (at, seen, cause);
            }
            _ => {
                if self.attempts.len() == ATTEMPTS_PER_POD {
                    self.attempts.pop_front();
                }
                let attempt = Attempt { number, repeats: 0, first: at, last: at, seen, cause, result };
                self.attempts.push_back(attempt);
            }
        }
    }

    fn size(&self) -> usize {
        const POD: usize = size_of::<PodAttempts>() + 4 * size_of::<usize>();
        let names = self.key.as_str().len() + self.uid.len() + self.scheduler_name.len();
        POD + names + self.attempts.iter().map(Attempt::size).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
