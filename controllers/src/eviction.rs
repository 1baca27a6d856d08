//! Evictions because of taints, of nodes or of devices: [`Verdict`] is the decision about a pod, [`EvictionTexts`] makes
//! the writes, and [`ScheduledEvictions`] executes verdicts and remembers which pods wait for their eviction.

use crate::action::{Action, Propagation};
use crate::apply::Executor;
use crate::cluster::ReconcileError;
use crate::disruption_target::{self, Phase};
use crate::view::Pod;
use jiff::Timestamp;
use kstore_informer::{Action as Next, Context, Key};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

/// Decision about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The pod may stay.
    Stay,
    /// The pod may stay this long.
    StayFor(Duration),
    /// The pod must be evicted.
    Leave,
}

/// Texts of a controller's events and conditions.
#[derive(Debug)]
pub(crate) struct EvictionTexts {
    /// Reason of the events.
    pub event: &'static str,
    /// Whether the messages of the events name the pod.
    pub names_pod: bool,
    /// Reason and message of the condition DisruptionTarget.
    pub condition: (&'static str, &'static str),
}

impl EvictionTexts {
    /// The writes that evict a pod.
    pub(crate) fn evict(&self, pod: &Pod, now: Timestamp) -> Vec<Action> {
        vec![
            self.notice(pod, "Marking for deletion", ""),
            disruption_target::mark(pod, Phase::Keep, Some(self.condition), now),
            Action::Delete { target: pod.target(), propagation: Propagation::Default, force: false },
        ]
    }

    /// The event that a scheduled eviction was cancelled.
    fn reprieve(&self, pod: &Pod) -> Action {
        self.notice(pod, "Cancelling deletion", " of")
    }

    fn notice(&self, pod: &Pod, what: &str, preposition: &str) -> Action {
        let message = match self.names_pod {
            true => format!("{what}{preposition} Pod {}/{}", pod.metadata.namespace, pod.metadata.name),
            false => what.to_owned(),
        };
        Action::normal(pod.subject(), self.event, message)
    }
}

/// Executes verdicts, and cancels evictions that are no longer due with an event.
pub(crate) struct ScheduledEvictions {
    texts: &'static EvictionTexts,
    executor: Executor,
    /// Pods with a scheduled eviction.
    scheduled: Mutex<BTreeSet<Key>>,
}

impl ScheduledEvictions {
    /// No scheduled evictions.
    pub(crate) fn new(executor: Executor, texts: &'static EvictionTexts) -> Self {
        Self { texts, executor, scheduled: Mutex::default() }
    }

    /// Forgets the eviction of a pod that does not exist any more.
    pub(crate) fn forget(&self, pod: &Key) {
        self.scheduled.lock().remove(pod);
    }

    /// Executes the verdict about the pod of this run.
    pub(crate) async fn execute(
        &self,
        cx: Context,
        pod: &Pod,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<Next, ReconcileError> {
        match verdict {
            Verdict::StayFor(time) => {
                self.scheduled.lock().insert(cx.key);
                Ok(Next::Again(time))
            }
            Verdict::Stay => {
                let was_scheduled = self.scheduled.lock().remove(&cx.key);
                if was_scheduled && !pod.metadata.is_deleting() {
                    self.executor.execute(&cx, &[self.texts.reprieve(pod)]).await;
                }
                Ok(Next::Done)
            }
            Verdict::Leave => {
                self.forget(&cx.key);
                match self.executor.execute(&cx, &self.texts.evict(pod, now)).await.result() {
                    Err(error) if !error.is_not_found() => Err(error.into()),
                    Err(_) | Ok(()) => Ok(Next::Done),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
    const TEXTS: EvictionTexts =
        EvictionTexts { event: "Evicted", names_pod: true, condition: ("Why", "because") };

    fn pod() -> Pod {
        from_value(json!({"metadata": {"name": "p", "namespace": "n"}})).unwrap()
    }

    #[test]
    fn an_evicted_pod_gets_an_event_and_a_condition_before_its_deletion() {
        let actions = TEXTS.evict(&pod(), START);
        let [
            Action::Event(notice),
            Action::Patch { patch, status: true, .. },
            Action::Delete { force: false, .. },
        ] = &actions[..]
        else {
            panic!("{actions:?}")
        };
        assert_eq!(
            (notice.reason.as_str(), notice.message.as_str()),
            ("Evicted", "Marking for deletion Pod n/p")
        );
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(
            [&condition["type"], &condition["reason"], &condition["message"]],
            ["DisruptionTarget", "Why", "because"]
        );
        assert!(patch["status"].get("phase").is_none());
    }

    #[test]
    fn events_name_the_pod_only_if_the_controller_does() {
        let message = |names_pod: bool| {
            let texts = EvictionTexts { names_pod, ..TEXTS };
            let Action::Event(event) = texts.reprieve(&pod()) else { panic!("no event") };
            event.message
        };
        assert_eq!(message(true), "Cancelling deletion of Pod n/p");
        assert_eq!(message(false), "Cancelling deletion");
    }
}
