//! PodBehaviors in the manager: they act on pods when these are observed. Synchronous.

use super::Manager;
use super::groups::SimKind;
use crate::pod_behavior::record::BehaviorRecord;
use crate::pod_behavior::{PodFacts, effective, ordered};
use crate::record::PodRecord;
use kstore_informer::{Delta, Object as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The PodBehaviors of the cluster.
#[derive(Default)]
pub(super) struct Behaviors {
    all: BTreeMap<String, Arc<BehaviorRecord>>,
    /// The valid ones, the strongest first.
    ordered: Vec<Arc<BehaviorRecord>>,
}

impl Manager {
    /// Takes changes from the informer of PodBehaviors. Pods get what they say when they are observed next.
    pub(crate) fn observe_behaviors(&mut self, deltas: Vec<Delta<BehaviorRecord>>) {
        for delta in deltas {
            match delta {
                Delta::Added(record) | Delta::Updated { new: record, .. } | Delta::Resync(record) => {
                    let problem = record.spec.as_ref().err().cloned();
                    let known = self.behaviors.all.insert(record.name().to_owned(), Arc::clone(&record));
                    let is_news = known.is_none_or(|known| known.spec != record.spec);
                    if let Some(problem) = problem.filter(|_| is_news) {
                        let about = (SimKind::PodBehavior, record.name(), Arc::from(record.uid()));
                        self.sim_event(about, true, ("InvalidSimulation", problem), record.revision());
                    }
                }
                Delta::Deleted(record) => drop(self.behaviors.all.remove(record.name())),
            }
        }
        self.behaviors.ordered = ordered(self.behaviors.all.values().cloned());
    }

    /// A pod with the annotations that PodBehaviors add.
    pub(super) fn with_behaviors(&self, record: Arc<PodRecord>) -> Arc<PodRecord> {
        if self.behaviors.ordered.is_empty() {
            return record;
        }
        let pod = &record.pod;
        let facts = PodFacts {
            namespace: &pod.metadata.namespace,
            labels: &record.labels,
            annotations: &pod.metadata.annotations,
        };
        let containers: Vec<_> =
            pod.containers().map(|spec| (spec.name.as_str(), spec.image.as_str())).collect();
        match effective(&self.behaviors.ordered, facts, &containers) {
            Cow::Borrowed(_) => record,
            Cow::Owned(merged) => {
                let mut changed = PodRecord::clone(&record);
                changed.pod.metadata.annotations = merged;
                Arc::new(changed)
            }
        }
    }
}
