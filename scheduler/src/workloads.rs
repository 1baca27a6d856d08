//! [`Workloads`]: Services and the controllers of pods, from which the default topology spread takes its selector.
//! Pure; the informers feed it.

use crate::affinity::{Operator, Requirement};
use crate::change::Change;
use crate::pod::{PodInfo, WorkloadKind};
use crate::pod_constraints::{LabelSelector, Labels};
use crate::storage::{MetaDoc, Record};
use kstore_api::lenient;
use kstore_informer::Key;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A change of a Service or controller. Its selector is `None` if it selects no pod.
#[derive(Clone, Debug)]
pub struct WorkloadChange {
    /// The kind of the object.
    pub kind: WorkloadKind,
    /// The change.
    pub change: Change<Record<Option<LabelSelector>>>,
}

/// The selectors of Services and controllers.
#[derive(Debug, Default)]
pub struct Workloads {
    /// Services by namespace and name.
    services: BTreeMap<String, BTreeMap<String, LabelSelector>>,
    controllers: BTreeMap<(WorkloadKind, Key), LabelSelector>,
}

impl Workloads {
    /// Processes a change.
    pub fn apply(&mut self, change: WorkloadChange) {
        let (key, selector) = match change.change {
            Change::Set(record) => (record.key.clone(), record.fields.clone()),
            Change::Gone(record) => (record.key.clone(), None),
        };
        if change.kind != WorkloadKind::Service {
            match selector {
                Some(selector) => self.controllers.insert((change.kind, key), selector),
                None => self.controllers.remove(&(change.kind, key)),
            };
            return;
        }
        let services = self.services.entry(key.namespace().to_owned()).or_default();
        match selector {
            Some(selector) => services.insert(key.name().to_owned(), selector),
            None => services.remove(key.name()),
        };
        if services.is_empty() {
            self.services.remove(key.namespace());
        }
    }

    /// The selector for the pods among which `pod` is spread by default: those of its Services and of its controller.
    /// `None` if the pod has neither.
    pub fn selector(&self, pod: &PodInfo) -> Option<Cow<'_, LabelSelector>> {
        let services = self.services.get(pod.key.namespace()).into_iter().flat_map(BTreeMap::values);
        let mut services = services.filter(|service| service.matches(&pod.labels));
        let controller = pod.preferences.as_ref().and_then(|preferences| preferences.controller.as_ref());
        let controller = controller
            .and_then(|(kind, name)| self.controllers.get(&(*kind, Key::new(pod.key.namespace(), name))));
        let selector = match (services.next(), services.next(), controller) {
            (only, None, None) | (None, _, only) => Cow::Borrowed(only?),
            (first, second, controller) => {
                Cow::Owned(joined(first.into_iter().chain(second).chain(services), controller))
            }
        };
        (!selector.is_empty()).then_some(selector)
    }
}

/// The selector of the pods that the Services and the controller select.
fn joined<'a>(
    services: impl Iterator<Item = &'a LabelSelector>,
    controller: Option<&LabelSelector>,
) -> LabelSelector {
    let mut all = LabelSelector::default();
    services.for_each(|service| all.match_labels.extend(service.match_labels.clone()));
    if let Some(controller) = controller {
        // Both must hold, even if the controller does not select the pod.
        for (key, value) in &controller.match_labels {
            if all.match_labels.get(key).is_some_and(|other| other != value) {
                let (key, values) = (key.clone(), vec![value.clone()]);
                all.match_expressions.push(Requirement { key, operator: Operator::In, values });
            } else {
                all.match_labels.insert(key.clone(), value.clone());
            }
        }
        all.match_expressions.extend(controller.match_expressions.clone());
    }
    all
}

/// Decodes a Service or ReplicationController: its selector is a map of labels.
///
/// # Errors
///
/// `json` is no such object.
pub fn decode_labels(json: &[u8]) -> Result<Record<Option<LabelSelector>>, serde_json::Error> {
    decode(json, |labels: Labels| LabelSelector { match_labels: labels, ..LabelSelector::default() })
}

/// Decodes a ReplicaSet or StatefulSet: its selector is a label selector.
///
/// # Errors
///
/// `json` is no such object.
pub fn decode_selector(json: &[u8]) -> Result<Record<Option<LabelSelector>>, serde_json::Error> {
    decode(json, |selector: LabelSelector| selector)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Doc<S> {
    metadata: MetaDoc,
    spec: SpecDoc<S>,
}

#[derive(Deserialize)]
#[serde(default)]
struct SpecDoc<S> {
    selector: Option<S>,
}

impl<S> Default for SpecDoc<S> {
    fn default() -> Self {
        Self { selector: None }
    }
}

fn decode<S: serde::de::DeserializeOwned + Default>(
    json: &[u8],
    selector: impl Fn(S) -> LabelSelector,
) -> Result<Record<Option<LabelSelector>>, serde_json::Error> {
    let doc = lenient::from_slice::<Doc<S>>(json)?;
    Ok(Record::of(doc.metadata, doc.spec.selector.map(selector)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_pod, set, with};
    use serde_json::{Value, json};

    fn workload(kind: WorkloadKind, name: &str, selector: Value) -> WorkloadChange {
        let value = json!({ "metadata": { "namespace": "ns", "name": name, "uid": name }, "spec": { "selector": selector } });
        let decode = match kind {
            WorkloadKind::Service | WorkloadKind::ReplicationController => decode_labels,
            WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet => decode_selector,
        };
        WorkloadChange { kind, change: set(&value, decode) }
    }

    #[test]
    fn the_default_selector_joins_those_of_services_and_of_the_controller() {
        let pod = with(&cpu_pod("p", "1"), |pod| {
            pod.labels = Labels::from([("app".into(), "a".into()), ("tier".into(), "x".into())]);
            let preferences = pod.preferences.as_mut().unwrap();
            preferences.controller = Some((WorkloadKind::ReplicaSet, "rs".into()));
        });
        let mut workloads = Workloads::default();
        assert_eq!(workloads.selector(&pod), None);
        workloads.apply(workload(WorkloadKind::Service, "other", json!({ "app": "b" })));
        workloads.apply(workload(WorkloadKind::Service, "headless", Value::Null));
        workloads.apply(workload(WorkloadKind::StatefulSet, "rs", json!({ "matchLabels": { "app": "a" } })));
        assert_eq!(workloads.selector(&pod), None, "nothing here selects the pod");
        workloads.apply(workload(WorkloadKind::Service, "s", json!({ "tier": "x" })));
        let labels = |pairs: &[(&str, &str)]| {
            let labels = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Some(Cow::Owned(LabelSelector { match_labels: labels.collect(), ..LabelSelector::default() }))
        };
        assert_eq!(workloads.selector(&pod), labels(&[("tier", "x")]));
        workloads.apply(workload(WorkloadKind::ReplicaSet, "rs", json!({ "matchLabels": { "app": "a" } })));
        assert_eq!(workloads.selector(&pod), labels(&[("app", "a"), ("tier", "x")]));
        let WorkloadChange { kind, change: Change::Set(service) } =
            workload(WorkloadKind::Service, "s", Value::Null)
        else {
            unreachable!()
        };
        workloads.apply(WorkloadChange { kind, change: Change::Gone(service) });
        assert_eq!(workloads.selector(&pod), labels(&[("app", "a")]));
    }
}
