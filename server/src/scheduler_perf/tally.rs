//! [`PodRecord`]: a pod as far as a workload reads it, and [`Tally`]: how many pods got a node. Pure.

use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Delta, Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// A pod as far as a workload reads it.
#[derive(Debug)]
pub(super) struct PodRecord {
    key: Key,
    pod: PodObject,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodObject {
    metadata: ProjectedMeta<BTreeMap<String, String>, IgnoredAny, IgnoredAny, IgnoredAny>,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
}

impl PodRecord {
    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let pod: PodObject = lenient::from_slice(json)?;
        Ok(Self { key: pod.metadata.key(), pod })
    }

    /// Whether the pod has a node.
    pub(super) fn is_scheduled(&self) -> bool {
        !self.pod.spec.node_name.is_empty()
    }

    /// Whether the scheduler has tried the pod.
    pub(super) fn is_attempted(&self) -> bool {
        let is_tried = |condition: &Condition| condition.type_ == "PodScheduled";
        self.is_scheduled() || self.pod.status.conditions.iter().any(is_tried)
    }
}

impl Object for PodRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.pod.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.pod.metadata.revision()
    }
}

/// The pods that an operation is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodSelection {
    /// Namespaces; none: all.
    pub(super) namespaces: Vec<String>,
    /// Labels that a pod has.
    pub(super) labels: BTreeMap<String, String>,
}

impl PodSelection {
    /// Whether the operation is about this pod.
    pub(super) fn takes(&self, pod: &PodRecord) -> bool {
        let own = &pod.pod.metadata.labels;
        let is_in =
            self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == pod.key.namespace());
        is_in && self.labels.iter().all(|(key, value)| own.get(key) == Some(value))
    }
}

/// How many pods of each registered selection got a node, deleted ones included.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Vec<(PodSelection, u64)>,
}

impl Tally {
    /// Counts the pods of a selection that get a node from now on; returns its number, for [`Tally::count`].
    pub(super) fn register(&mut self, selection: PodSelection) -> usize {
        self.counts.push((selection, 0));
        self.counts.len() - 1
    }

    /// The count of a registered selection.
    pub(super) fn count(&self, number: usize) -> u64 {
        self.counts[number].1
    }

    /// Takes changes of the informer.
    pub(super) fn take(&mut self, deltas: &[Delta<PodRecord>]) {
        for delta in deltas {
            let pod = match delta {
                Delta::Added(pod) => pod,
                // Another pod of the same name is a new one.
                Delta::Updated { old, new } if !old.is_scheduled() || old.uid() != new.uid() => new,
                Delta::Updated { .. } | Delta::Resync(_) | Delta::Deleted(_) => continue,
            };
            if pod.is_scheduled() {
                let taking = self.counts.iter_mut().filter(|(selection, _)| selection.takes(pod));
                taking.for_each(|(_, count)| *count += 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn pod(name: &str, uid: &str, node: &str, tried: bool) -> Arc<PodRecord> {
        let conditions = if tried { r#"[{"type":"PodScheduled"}]"# } else { "[]" };
        let json = format!(
            r#"{{"metadata":{{"namespace":"a","name":"{name}","uid":"{uid}","resourceVersion":"1","labels":{{"k":"v"}}}},
            "spec":{{"nodeName":"{node}"}},"status":{{"conditions":{conditions}}}}}"#
        );
        Arc::new(PodRecord::decode(json.as_bytes()).unwrap())
    }

    fn in_namespace(namespace: &str) -> PodSelection {
        PodSelection { namespaces: vec![namespace.to_owned()], ..PodSelection::default() }
    }

    #[test]
    fn a_pod_counts_once_when_it_gets_its_node() {
        let mut tally = Tally::default();
        let labelled = |value: &str| PodSelection {
            labels: [("k".to_owned(), value.to_owned())].into(),
            ..in_namespace("a")
        };
        let numbers = [PodSelection::default(), in_namespace("b"), labelled("v"), labelled("w")]
            .map(|selection| tally.register(selection));
        let updated = |old: (&str, &str), new: (&str, &str)| Delta::Updated {
            old: pod("p", old.0, old.1, false),
            new: pod("p", new.0, new.1, true),
        };
        for (delta, expected) in [
            (Delta::Added(pod("p", "1", "", false)), 0),
            (updated(("1", ""), ("1", "n")), 1),
            (updated(("1", "n"), ("1", "n")), 1),
            (Delta::Resync(pod("p", "1", "n", true)), 1),
            (updated(("1", "n"), ("2", "n")), 2),
            (Delta::Deleted(pod("p", "2", "n", true)), 2),
            (Delta::Added(pod("p", "3", "n", true)), 3),
        ] {
            tally.take(&[delta]);
            assert_eq!(numbers.map(|number| tally.count(number)), [expected, 0, expected, 0]);
        }
    }

    #[test]
    fn a_tried_pod_has_a_condition_or_a_node() {
        for (node, tried, expected) in
            [("", false, (false, false)), ("", true, (false, true)), ("n", false, (true, true))]
        {
            let pod = pod("p", "1", node, tried);
            assert_eq!((pod.is_scheduled(), pod.is_attempted()), expected);
        }
    }
}
