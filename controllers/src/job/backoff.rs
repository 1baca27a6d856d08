//! Back-off before a Job replaces failed pods: 10 s, doubled for each further failure, at most 10 min,
//! counted from the end of the newest failed pod. Pure.

use crate::view::{ContainerStatus, Pod, elapsed};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Back-off after one failure.
const FIRST: Duration = Duration::from_secs(10);

/// Longest back-off.
const LONGEST: Duration = Duration::from_secs(600);

/// Failures of a Job since its last success. In memory only, as upstream: a restarted controller waits less,
/// never longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFailures {
    failures: u32,
    newest: Option<Timestamp>,
}

impl JobFailures {
    /// The failures after these pods ended. A success resets earlier failures.
    #[must_use]
    pub(crate) fn after(self, succeeded: &[&Arc<Pod>], failed: &[&Arc<Pod>]) -> Self {
        let success = succeeded.iter().map(|pod| finished(pod)).max();
        let failures = failed.iter().map(|pod| finished(pod));
        let since: Vec<Timestamp> =
            failures.filter(|at| success.is_none_or(|success| *at > success)).collect();
        let before = if success.is_some() { Self::default() } else { self };
        let count = u32::try_from(since.len()).unwrap_or(u32::MAX);
        Self {
            failures: before.failures.saturating_add(count),
            newest: since.into_iter().max().or(before.newest),
        }
    }

    /// Remaining time without pod creations.
    pub(crate) fn remaining(self, now: Timestamp) -> Duration {
        self.newest.map_or(Duration::ZERO, |newest| remaining(self.failures, newest, now))
    }
}

/// Remaining time without pod creations after `failures` consecutive failures, the last at `newest`.
pub(crate) fn remaining(failures: u32, newest: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let wait = kstore_nondet::Backoff::doubling(FIRST, LONGEST).wait(failures - 1);
    // A clock behind the node's does not lengthen the back-off.
    wait.saturating_sub(elapsed(newest, now))
}

/// When a pod ended: its last container; else when it stopped being ready; else its deletion timestamp; else
/// its creation.
pub(crate) fn finished(pod: &Pod) -> Timestamp {
    let ends: Option<Vec<Timestamp>> = pod.status.container_statuses.iter().map(container_end).collect();
    if let Some(end) = ends.and_then(|ends| ends.into_iter().max()) {
        return end;
    }
    let unready = pod.condition("Ready").filter(|c| c.status == "False");
    if let Some(since) = unready.and_then(|c| c.last_transition_time.as_ref()) {
        return since.0;
    }
    if let Some(deadline) = &pod.metadata.deletion_timestamp {
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
        return deadline.0.checked_sub(grace).unwrap_or(deadline.0);
    }
    pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |created| created.0)
}

fn container_end(status: &ContainerStatus) -> Option<Timestamp> {
    status.state.terminated.as_ref()?.finished_at.as_ref().map(|end| end.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn ended(second: i64) -> Arc<Pod> {
        let state = json!({"terminated": {"exitCode": 1, "finishedAt": at(second)}});
        Arc::new(from_value(json!({"status": {"containerStatuses": [{"state": state}]}})).unwrap())
    }

    #[test]
    fn each_failure_doubles_the_back_off_up_to_ten_minutes() {
        let table = [
            (0, 0),
            (1, 10),
            (2, 20),
            (3, 40),
            (4, 80),
            (5, 160),
            (6, 320),
            (7, 600),
            (8, 600),
            (40, 600),
            (99, 600),
        ];
        for (failures, seconds) in table {
            assert_eq!(remaining(failures, at(0), at(0)), Duration::from_secs(seconds), "{failures}");
        }
        assert_eq!(remaining(2, at(0), at(15)), Duration::from_secs(5));
        assert_eq!(remaining(2, at(0), at(25)), Duration::ZERO);
        assert_eq!(remaining(2, at(30), at(0)), Duration::from_secs(20));
    }

    #[test]
    fn a_success_forgets_the_failures_before_it() {
        let (f1, f5, f9, s5) = (ended(1), ended(5), ended(9), ended(5));
        let none = JobFailures::default();
        let two = none.after(&[], &[&f5, &f1]);
        assert_eq!(two, JobFailures { failures: 2, newest: Some(at(5)) });
        assert_eq!(two.after(&[], &[]), two);
        assert_eq!(two.after(&[], &[&f9]), JobFailures { failures: 3, newest: Some(at(9)) });
        assert_eq!(two.after(&[&s5], &[]), none);
        assert_eq!(two.after(&[&s5], &[&f1, &f5, &f9]), JobFailures { failures: 1, newest: Some(at(9)) });
        assert_eq!(none.remaining(at(0)), Duration::ZERO);
        assert_eq!(two.remaining(at(6)), Duration::from_secs(19));
    }

    #[test]
    fn the_end_of_a_pod_is_that_of_its_last_container_or_an_estimate() {
        let table = [
            (
                json!({"status": {"containerStatuses": [
                {"state": {"terminated": {"finishedAt": at(3)}}}, {"state": {"terminated": {"finishedAt": at(7)}}}]}}),
                7,
            ),
            (
                json!({"status": {"containerStatuses": [{"state": {"terminated": {"finishedAt": at(3)}}}, {}],
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(4)}]}}),
                4,
            ),
            (
                json!({"metadata": {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30, "creationTimestamp": at(1)},
                "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(4)}]}}),
                10,
            ),
            (json!({"metadata": {"creationTimestamp": at(1)}}), 1),
        ];
        for (pod, second) in table {
            assert_eq!(finished(&from_value(pod.clone()).unwrap()), at(second), "{pod}");
        }
    }
}
