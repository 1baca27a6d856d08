//! [`PodGroups`]: PodGroups of the API and the pods that name them in `spec.schedulingGroup`, for gang scheduling. Pure; the informers
//! feed it.
//!
//! A gang is a group with `schedulingPolicy.gang`: its pods are scheduled all or none, as soon as `minCount` of them exist. The pods of a
//! group with another policy are scheduled one by one until Kubernetes 1.36, and since 1.37 like those of a gang for which one pod is
//! enough.

use crate::change::Change;
use crate::pod::{PodInfo, Uid};
use crate::storage::{MetaDoc, Record};
use kstore_api::lenient;
use kstore_api::version::Minor;
use kstore_informer::Key;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The version of the API that has PodGroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGroupVersion {
    /// `scheduling.k8s.io/v1alpha2`, which Kubernetes 1.36 has.
    V1Alpha2,
    /// `scheduling.k8s.io/v1beta1`, which Kubernetes 1.37 has.
    V1Beta1,
}

impl PodGroupVersion {
    /// The version that a version of Kubernetes has.
    #[must_use]
    pub fn of(minor: Minor) -> Self {
        if minor >= Minor::V37 { Self::V1Beta1 } else { Self::V1Alpha2 }
    }

    /// The name of the version.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1Alpha2 => "v1alpha2",
            Self::V1Beta1 => "v1beta1",
        }
    }

    /// The type of the condition in which the scheduler says whether a group has its nodes.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::V1Alpha2 => "PodGroupScheduled",
            Self::V1Beta1 => "PodGroupInitiallyScheduled",
        }
    }
}

/// The fields of a PodGroup that the scheduler reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    /// The version that the group was read in.
    pub version: PodGroupVersion,
    /// The priority, which the pods of the group must have in `v1beta1`.
    pub priority: i32,
    /// The number of pods that must have nodes at the same time; `None` for a group whose pods are scheduled one by one. A group without a
    /// gang has one cycle in `v1beta1` as well, in which one pod is enough.
    pub min_count: Option<usize>,
    /// The object's generation, which the condition repeats.
    pub generation: i64,
    /// The conditions in the object's status.
    pub conditions: Vec<Value>,
}

impl PodGroup {
    /// Why these pods of the group are not scheduled together, in kube-scheduler's words; `None` if they may be. Kubernetes asks since 1.37
    /// for one scheduler, one preemption policy, and the priority of the group.
    pub(crate) fn mismatch<'p>(&self, pods: impl IntoIterator<Item = &'p PodInfo>) -> Option<String> {
        let mut pods = pods.into_iter().peekable();
        let first = *pods.peek()?;
        let all = "all pods in a single pod group should have the same";
        let policy = |pod: &PodInfo| if pod.never_preempts { "Never" } else { "PreemptLowerPriority" };
        pods.find_map(|pod| {
            if pod.scheduler_name != first.scheduler_name {
                let names = format!("{:?} and {:?}", pod.scheduler_name, first.scheduler_name);
                return Some(format!("{all} .spec.schedulerName set, got: {names}"));
            }
            if pod.priority != self.priority {
                let priorities = format!("{} and {}", pod.priority, self.priority);
                return Some(format!("{all} priority as the pod group's priority, got {priorities}"));
            }
            (pod.never_preempts != first.never_preempts)
                .then(|| format!("{all} preemption policy, got {} and {}", policy(pod), policy(first)))
        })
    }

    /// Status, reason and message of the condition that says whether the group has its nodes; empty without one.
    pub(crate) fn scheduled(&self) -> (&str, &str, &str) {
        let condition =
            self.conditions.iter().find(|condition| condition["type"] == self.version.condition());
        let text = |member: &str| condition.and_then(|one| one[member].as_str()).unwrap_or_default();
        (text("status"), text("reason"), text("message"))
    }
}

/// The PodGroups by namespace and name, and the pods that name them, whether or not the PodGroup exists.
#[derive(Debug, Default)]
pub struct PodGroups {
    groups: BTreeMap<Key, Arc<Record<PodGroup>>>,
    members: BTreeMap<Key, BTreeSet<Uid>>,
}

impl PodGroups {
    /// Processes a change of a PodGroup. True if pods that wait for the group may be let into the queue: the group is new, or needs fewer
    /// pods than before.
    pub fn apply(&mut self, change: Change<Record<PodGroup>>) -> bool {
        match change {
            Change::Gone(group) => {
                self.groups.remove(&group.key);
                false
            }
            Change::Set(group) => {
                let needed = group.min_count.unwrap_or_default();
                let before = self.groups.insert(group.key.clone(), group);
                before.is_none_or(|before| needed < before.min_count.unwrap_or_default())
            }
        }
    }

    /// Adds a pod to its group. True if it is new there.
    pub fn add_pod(&mut self, pod: &PodInfo) -> bool {
        let Some(group) = &pod.pod_group else { return false };
        self.members.entry(group.clone()).or_default().insert(Arc::clone(&pod.uid))
    }

    /// Removes a pod that is gone or has ended from its group.
    pub fn remove_pod(&mut self, pod: &PodInfo) {
        if let Some(group) = &pod.pod_group
            && let Some(members) = self.members.get_mut(group)
        {
            members.remove(&pod.uid);
            if members.is_empty() {
                self.members.remove(group);
            }
        }
    }

    /// The PodGroup of this key.
    pub(crate) fn get(&self, group: &Key) -> Option<&Arc<Record<PodGroup>>> {
        self.groups.get(group)
    }

    /// The pods of a group that exist and have not ended.
    pub(crate) fn members(&self, group: &Key) -> impl Iterator<Item = &Uid> {
        self.members.get(group).into_iter().flatten()
    }

    /// Why a pod of this group must wait before any attempt, in kube-scheduler's words; `None` if it need not.
    pub(crate) fn obstacle(&self, group: &Key) -> Option<String> {
        let Some(known) = self.get(group) else {
            let name = group.name();
            return Some(format!("waiting for pods's pod group \"{name}\" to appear in scheduling queue"));
        };
        let is_small = known.min_count.is_some_and(|needed| self.members(group).count() < needed);
        is_small.then(|| "waiting for minCount pods from a gang to appear in scheduling queue".to_owned())
    }

    /// Whether the pods of a group are scheduled all or none: it is a gang, or its PodGroup is missing, so that this is not known.
    pub(crate) fn is_gang(&self, group: &Key) -> bool {
        self.get(group).is_none_or(|known| known.min_count.is_some())
    }
}

/// The decoder of PodGroups of a version.
pub(crate) fn decoder(version: PodGroupVersion) -> fn(&[u8]) -> Result<Record<PodGroup>, serde_json::Error> {
    match version {
        PodGroupVersion::V1Alpha2 => |json| decode(json, PodGroupVersion::V1Alpha2),
        PodGroupVersion::V1Beta1 => |json| decode(json, PodGroupVersion::V1Beta1),
    }
}

/// Decodes a PodGroup of a version.
///
/// # Errors
///
/// `json` is not a PodGroup.
pub fn decode(json: &[u8], version: PodGroupVersion) -> Result<Record<PodGroup>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Doc {
        metadata: MetaDoc,
        spec: SpecDoc,
        status: StatusDoc,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct SpecDoc {
        scheduling_policy: PolicyDoc,
        priority: i32,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PolicyDoc {
        gang: Option<GangDoc>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct GangDoc {
        min_count: usize,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct StatusDoc {
        conditions: Vec<Value>,
    }
    let doc = lenient::from_slice::<Doc>(json)?;
    let group = PodGroup {
        version,
        priority: doc.spec.priority,
        min_count: match (doc.spec.scheduling_policy.gang, version) {
            (Some(gang), _) => Some(gang.min_count),
            (None, PodGroupVersion::V1Beta1) => Some(1),
            (None, PodGroupVersion::V1Alpha2) => None,
        },
        generation: doc.metadata.generation.unwrap_or_default(),
        conditions: doc.status.conditions,
    };
    Ok(Record::of(doc.metadata, group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_pod, set, with};
    use serde_json::json;

    fn group(policy: &Value) -> Change<Record<PodGroup>> {
        let meta =
            json!({ "namespace": "ns", "name": "g", "uid": "g", "resourceVersion": "3", "generation": 2 });
        let status = json!({ "conditions": [{ "type": "PodGroupScheduled", "status": "True", "reason": "Scheduled" }] });
        let group = json!({ "metadata": meta, "spec": { "schedulingPolicy": policy }, "status": status });
        set(&group, decoder(PodGroupVersion::V1Alpha2))
    }

    #[test]
    fn pods_of_a_gang_wait_for_their_group_and_for_min_count_pods() {
        let key = Key::new("ns", "g");
        let member = |name: &str| with(&cpu_pod(name, "1"), |pod| pod.pod_group = Some(Key::new("ns", "g")));
        let mut groups = PodGroups::default();
        assert!(groups.add_pod(&member("a")) && !groups.add_pod(&member("a")), "a member counts once");
        assert!(!groups.add_pod(&cpu_pod("alone", "1")));
        let missing = "waiting for pods's pod group \"g\" to appear in scheduling queue";
        assert_eq!(groups.obstacle(&key).as_deref(), Some(missing));
        assert!(groups.is_gang(&key), "not known");
        assert!(groups.apply(group(&json!({ "gang": { "minCount": 2 } }))), "the group is new");
        let few = "waiting for minCount pods from a gang to appear in scheduling queue";
        assert_eq!(groups.obstacle(&key).as_deref(), Some(few));
        assert!(!groups.apply(group(&json!({ "gang": { "minCount": 2 } }))), "nothing changed");
        groups.add_pod(&member("b"));
        assert_eq!(groups.obstacle(&key), None);
        groups.remove_pod(&member("b"));
        assert_eq!(groups.obstacle(&key).as_deref(), Some(few));
        assert!(groups.apply(group(&json!({ "gang": { "minCount": 1 } }))), "it needs fewer pods");
        assert_eq!((groups.obstacle(&key), groups.is_gang(&key)), (None, true));
        groups.apply(group(&json!({ "basic": {} })));
        assert_eq!((groups.obstacle(&key), groups.is_gang(&key)), (None, false));
        let known = groups.get(&key).unwrap();
        assert_eq!((known.scheduled(), known.generation), (("True", "Scheduled", ""), 2));
    }
}
