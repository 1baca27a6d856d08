//! Decodes a pod's JSON to [`PodInfo`]. The decoder reads only what scheduling needs and skips other fields.

use super::{
    ContainerRequests, NonZero, PodInfo, Preferences, ScheduledCondition, device_claims, device_requests,
    preferences, volumes,
};
use crate::affinity::{NodeAffinity, Operator, Preference, Requirement, Term};
use crate::limits::{DEFAULT_MEMORY, DEFAULT_MILLI_CPU};
use crate::pod_constraints::{AffinityTerm, LabelSelector, Labels, PodAffinity, Spread, WeightedTerm};
use crate::ports::HostPort;
use crate::quantity::Amount;
use crate::resources::Resources;
use crate::taint::Toleration;
use jiff::Timestamp;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::Key;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The type of the condition of a pod that is about to be evicted.
pub(crate) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The reason in this condition if a scheduler evicts the pod for another.
pub(crate) const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// Decodes a pod.
///
/// # Errors
///
/// `json` is not a pod, or a quantity in it is invalid. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<PodInfo, serde_json::Error> {
    lenient::from_slice(json).map(PodDoc::into_info)
}

#[derive(Deserialize)]
struct PodDoc {
    metadata: ProjectedMeta<Labels, IgnoredAny, Vec<preferences::OwnerDoc>>,
    #[serde(default)]
    spec: SpecDoc,
    #[serde(default)]
    status: StatusDoc,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecDoc {
    scheduler_name: Option<String>,
    node_name: Option<String>,
    priority: Option<i32>,
    preemption_policy: Option<String>,
    scheduling_gates: Option<Vec<IgnoredAny>>,
    scheduling_group: Option<SchedulingGroupDoc>,
    containers: Option<Vec<ContainerDoc>>,
    init_containers: Option<Vec<ContainerDoc>>,
    overhead: Option<Amounts>,
    resources: Option<ResourcesDoc>,
    tolerations: Option<Vec<Toleration>>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<AffinityDoc>,
    topology_spread_constraints: Option<Vec<SpreadDoc>>,
    volumes: Option<Vec<volumes::VolumeDoc>>,
    resource_claims: Option<Vec<device_claims::EntryDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SchedulingGroupDoc {
    pod_group_name: Option<String>,
}

type Amounts = BTreeMap<String, Amount>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerDoc {
    name: String,
    pub(super) image: Option<String>,
    resources: Option<ResourcesDoc>,
    ports: Option<Vec<PortDoc>>,
    restart_policy: Option<String>,
    restart_policy_rules: Option<Vec<RestartRuleDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RestartRuleDoc {
    action: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourcesDoc {
    requests: Option<Amounts>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PortDoc {
    host_port: Option<u16>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    protocol: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AffinityDoc {
    node_affinity: Option<NodeAffinityDoc>,
    pod_affinity: Option<TermsDoc>,
    pod_anti_affinity: Option<TermsDoc>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinityDoc {
    required_during_scheduling_ignored_during_execution: Option<RequiredDoc>,
    preferred_during_scheduling_ignored_during_execution: Option<Vec<Preference>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequiredDoc {
    node_selector_terms: Vec<Term>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermsDoc {
    required_during_scheduling_ignored_during_execution: Option<Vec<AffinityTerm>>,
    preferred_during_scheduling_ignored_during_execution: Option<Vec<WeightedTerm>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpreadDoc {
    max_skew: i64,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<LabelSelector>,
    min_domains: Option<i64>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
    match_label_keys: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusDoc {
    phase: Option<String>,
    start_time: Option<Timestamp>,
    nominated_node_name: Option<String>,
    conditions: Option<Vec<ConditionDoc>>,
    resource_claim_statuses: Option<Vec<device_claims::EntryStatusDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionDoc {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

impl PodDoc {
    fn into_info(self) -> PodInfo {
        let Self { metadata, mut spec, mut status } = self;
        let (requests, nonzero) = spec.requests();
        let (key, revision, deleting) = (metadata.key(), metadata.revision(), metadata.is_deleting());
        let labels = metadata.labels;
        let group = spec.scheduling_group.take().and_then(|group| group.pod_group_name);
        let preferences = spec.preferences(metadata.owner_references, &labels);
        PodInfo {
            key,
            uid: metadata.uid.into(),
            revision,
            generation: metadata.generation.unwrap_or(0),
            node_name: spec.node_name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
            nominated_node: status.nominated_node_name.take().filter(|name| !name.is_empty()).map(Into::into),
            deleting,
            preempted: status.is_preempted(),
            started: status.start_time,
            ended: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            pod_group: group.map(|name| Key::new(&metadata.namespace, &name)),
            gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
            restarts_all_containers: spec.restarts_all_containers(),
            requests,
            nonzero,
            ports: spec.host_ports(),
            pod_affinity: spec.pod_affinity(&metadata.namespace),
            spread: spec.spread(&labels, "DoNotSchedule"),
            preferences,
            device_requests: spec.device_requests(),
            volumes: volumes::read(spec.volumes, &metadata.name),
            device_claims: device_claims::read(spec.resource_claims, status.resource_claim_statuses.take()),
            tolerations: spec.tolerations.unwrap_or_default(),
            affinity: node_affinity(spec.node_selector, spec.affinity),
            labels,
            scheduler_name: spec.scheduler_name.unwrap_or_default(),
            scheduled: status.scheduled(),
        }
    }
}

impl StatusDoc {
    /// Whether the condition DisruptionTarget says that a scheduler evicted the pod.
    fn is_preempted(&self) -> bool {
        self.conditions.iter().flatten().any(|condition| {
            let reason = condition.reason.as_deref();
            condition.kind == DISRUPTION_TARGET
                && condition.status == "True"
                && reason == Some(PREEMPTION_BY_SCHEDULER)
        })
    }

    fn scheduled(self) -> Option<ScheduledCondition> {
        let condition = self.conditions?.into_iter().find(|c| c.kind == "PodScheduled")?;
        Some(ScheduledCondition {
            status: condition.status,
            reason: condition.reason.unwrap_or_default(),
            message: condition.message.unwrap_or_default(),
        })
    }
}

impl ContainerDoc {
    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// The container's requests; `fill` gives the amounts that the container does not mention.
    fn requests(&self, fill: &Resources) -> Resources {
        let mut sum = fill.clone();
        if let Some(requests) = self.resources.as_ref().and_then(|r| r.requests.as_ref()) {
            set_all(&mut sum, requests);
        }
        sum
    }
}

fn set_all(resources: &mut Resources, amounts: &Amounts) {
    for (name, amount) in amounts {
        match name.as_str() {
            "cpu" => resources.milli_cpu = amount.milli,
            "memory" => resources.memory = amount.whole,
            "ephemeral-storage" => resources.ephemeral_storage = amount.whole,
            other => resources.set_extended(other, amount.whole),
        }
    }
}

impl SpecDoc {
    fn requests(&self) -> (Resources, NonZero) {
        let actual = self.total(&Resources::default());
        let filled = self.total(&Resources::of(DEFAULT_MILLI_CPU, DEFAULT_MEMORY));
        (actual, NonZero { milli_cpu: filled.milli_cpu.into(), memory: filled.memory.into() })
    }

    /// The pod's requests: the greater of the sum of its containers and of the largest need during
    /// initialisation (an init container with the sidecars started before it). Pod-level requests replace
    /// that; overhead is added.
    fn total(&self, fill: &Resources) -> Resources {
        let mut running = Resources::default();
        for container in self.containers.iter().flatten() {
            running.add(&container.requests(fill));
        }
        let (mut sidecars, mut initialising) = (Resources::default(), Resources::default());
        for container in self.init_containers.iter().flatten() {
            let mut moment = container.requests(fill);
            if container.is_sidecar() {
                running.add(&moment);
                sidecars.add(&moment);
                initialising.raise_to(&sidecars);
            } else {
                moment.add(&sidecars);
                initialising.raise_to(&moment);
            }
        }
        running.raise_to(&initialising);
        if let Some(whole_pod) = self.resources.as_ref().and_then(|r| r.requests.as_ref()) {
            set_all(&mut running, whole_pod);
        }
        let mut overhead = Resources::default();
        set_all(&mut overhead, self.overhead.as_ref().unwrap_or(&Amounts::new()));
        running.add(&overhead);
        running
    }

    /// The requests for resources that devices may satisfy.
    fn device_requests(&self) -> Option<Box<[ContainerRequests]>> {
        let init =
            self.init_containers.iter().flatten().map(|container| (container, !container.is_sidecar()));
        let containers = self.containers.iter().flatten().map(|container| (container, false));
        let requests =
            init.chain(containers).enumerate().filter_map(|(index, (container, is_short_lived))| {
                let amounts = container.resources.as_ref()?.requests.as_ref()?;
                device_requests::of_container((index, &container.name, is_short_lived), amounts)
            });
        let requests: Box<[ContainerRequests]> = requests.collect();
        (!requests.is_empty()).then_some(requests)
    }

    fn restarts_all_containers(&self) -> bool {
        let containers = self.containers.iter().chain(&self.init_containers).flatten();
        let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
        rules.any(|rule| rule.action == "RestartAllContainers")
    }

    fn host_ports(&self) -> Vec<HostPort> {
        let sidecars = self.init_containers.iter().flatten().filter(|c| c.is_sidecar());
        let containers = self.containers.iter().flatten().chain(sidecars);
        let ports = containers.flat_map(|c| c.ports.iter().flatten());
        ports.filter_map(PortDoc::host_port).collect()
    }
}

impl SpecDoc {
    /// The pod affinity terms. A term that names no namespaces selects the pod's own.
    fn pod_affinity(&mut self, namespace: &str) -> PodAffinity {
        let complete = |term: &mut AffinityTerm| {
            if term.namespaces.is_empty() && term.namespace_selector.is_none() {
                term.namespaces.push(namespace.to_owned());
            }
        };
        let terms = |doc: Option<TermsDoc>| {
            let doc = doc.unwrap_or_default();
            let mut required = doc.required_during_scheduling_ignored_during_execution.unwrap_or_default();
            let mut preferred = doc.preferred_during_scheduling_ignored_during_execution.unwrap_or_default();
            required.iter_mut().for_each(complete);
            preferred.iter_mut().for_each(|weighted| complete(&mut weighted.term));
            (required, preferred)
        };
        let Some(affinity) = &mut self.affinity else { return PodAffinity::default() };
        let (required, preferred) = terms(affinity.pod_affinity.take());
        let (anti_required, anti_preferred) = terms(affinity.pod_anti_affinity.take());
        PodAffinity { required, anti_required, preferred, anti_preferred }
    }

    /// The constraints with this `whenUnsatisfiable`.
    fn spread(&self, labels: &Labels, when_unsatisfiable: &str) -> Vec<Spread> {
        let constraints = self.topology_spread_constraints.iter().flatten();
        let chosen = constraints.filter(|c| c.when_unsatisfiable == when_unsatisfiable);
        chosen.map(|c| c.spread(labels)).collect()
    }

    /// What only scores read; nothing for an assigned pod, which is not scored.
    fn preferences(&self, owners: Vec<preferences::OwnerDoc>, labels: &Labels) -> Option<Box<Preferences>> {
        if self.node_name.as_deref().is_some_and(|name| !name.is_empty()) {
            return None;
        }
        let containers = self.containers.iter().chain(&self.init_containers).flatten();
        let images = containers.map(|container| container.image.as_deref());
        let volumes = self.volumes.iter().flatten().filter_map(volumes::VolumeDoc::image);
        let images: Vec<Option<&str>> = images.chain(volumes.map(Some)).collect();
        Some(Box::new(Preferences {
            image_users: images.len(),
            images: images.into_iter().flatten().map(preferences::with_tag).collect(),
            spread: self.spread(labels, "ScheduleAnyway"),
            has_spread: self.topology_spread_constraints.as_ref().is_some_and(|all| !all.is_empty()),
            controller: preferences::controller(owners),
        }))
    }
}

impl SpreadDoc {
    /// The constraint. `matchLabelKeys` narrow the selector to the pod's own values.
    fn spread(&self, labels: &Labels) -> Spread {
        let mut selector = self.label_selector.clone();
        for key in self.match_label_keys.iter().flatten() {
            if let (Some(selector), Some(value)) = (&mut selector, labels.get(key)) {
                let (key, values) = (key.clone(), vec![value.clone()]);
                selector.match_expressions.push(Requirement { key, operator: Operator::In, values });
            }
        }
        Spread {
            topology_key: self.topology_key.clone(),
            max_skew: self.max_skew,
            min_domains: self.min_domains.unwrap_or(1),
            selector,
            honor_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

impl PortDoc {
    fn host_port(&self) -> Option<HostPort> {
        let port = self.host_port.filter(|port| *port > 0)?;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Some(HostPort::new(&text(&self.host_ip), &text(&self.protocol), port))
    }
}

fn node_affinity(selector: Option<BTreeMap<String, String>>, affinity: Option<AffinityDoc>) -> NodeAffinity {
    let nodes = affinity.and_then(|a| a.node_affinity).unwrap_or_default();
    NodeAffinity::new(
        selector.unwrap_or_default(),
        nodes.required_during_scheduling_ignored_during_execution.map(|r| r.node_selector_terms),
        nodes.preferred_during_scheduling_ignored_during_execution.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_informer::Revision;

    fn requests(spec: serde_json::Value) -> (i64, i64, NonZero) {
        let json = serde_json::json!({ "metadata": { "name": "p" }, "spec": spec });
        let pod = decode(json.to_string().as_bytes()).unwrap();
        (pod.requests.milli_cpu, pod.requests.memory, pod.nonzero)
    }

    fn container(cpu: &str) -> serde_json::Value {
        serde_json::json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } })
    }

    fn sidecar(cpu: &str) -> serde_json::Value {
        let mut sidecar = container(cpu);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    }

    #[test]
    fn requests_are_the_maximum_over_the_lifetime_of_the_pod() {
        let nonzero = |milli_cpu, containers: i128| NonZero {
            milli_cpu,
            memory: containers * i128::from(DEFAULT_MEMORY),
        };
        let cases = [
            (
                serde_json::json!({ "containers": [container("100m"), container("1")] }),
                1100,
                nonzero(1100, 2),
            ),
            (
                serde_json::json!({ "containers": [container("1")], "initContainers": [container("3")] }),
                3000,
                nonzero(3000, 1),
            ),
            (
                serde_json::json!({ "containers": [container("1")], "initContainers": [sidecar("1"), container("3")] }),
                4000,
                nonzero(4000, 2),
            ),
            (
                serde_json::json!({ "containers": [container("5")], "initContainers": [container("3"), sidecar("1")] }),
                6000,
                nonzero(6000, 2),
            ),
            (
                serde_json::json!({ "containers": [container("1")], "overhead": { "cpu": "250m" } }),
                1250,
                nonzero(1250, 1),
            ),
            (
                serde_json::json!({
                    "containers": [container("1")], "resources": { "requests": { "cpu": "2" } }
                }),
                2000,
                nonzero(2000, 1),
            ),
            (serde_json::json!({ "containers": [{ "name": "c" }] }), 0, nonzero(100, 1)),
            (serde_json::json!({ "containers": [container("0")] }), 0, nonzero(0, 1)),
        ];
        for (spec, cpu, expected) in cases {
            assert_eq!(requests(spec.clone()), (cpu, 0, expected), "{spec}");
        }
    }

    #[test]
    fn a_pod_is_decoded_and_unknown_fields_are_ignored() {
        let json = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u1", "resourceVersion": "42", "generation": 2,
                "creationTimestamp": null, "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": { "a": "b" }
            },
            "spec": {
                "schedulerName": "default-scheduler", "nodeName": "n1", "priority": 7, "preemptionPolicy": "Never",
                "schedulingGates": [{ "name": "g" }], "nodeSelector": { "disk": "ssd" },
                "containers": [{
                    "name": "c", "image": "i", "resources": { "requests": { "example.com/gpu": "2", "memory": "1Gi" } },
                    "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 8081, "hostIP": "10.0.0.1" }]
                }],
                "tolerations": [{ "key": "k", "operator": "Exists", "tolerationSeconds": 300 }],
                "affinity": { "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }
                    ] },
                    "preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 5,
                        "preference": { "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }
                    }]
                } }
            },
            "status": { "phase": "Failed", "startTime": "2026-01-01T00:00:01Z", "nominatedNodeName": "n2", "conditions": [
                { "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" },
                { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "why" }
            ] }
        });
        let pod = decode(json.to_string().as_bytes()).unwrap();
        assert_eq!((pod.key.as_str(), &*pod.uid), ("default/web", "u1"));
        assert_eq!((pod.revision, pod.generation, pod.priority), (Revision(42), 2, 7));
        assert!(pod.deleting && pod.ended && pod.gated && pod.never_preempts);
        assert_eq!(pod.node_name.as_deref(), Some("n1"));
        assert_eq!((pod.requests.memory, pod.requests.extended("example.com/gpu")), (1 << 30, 2));
        assert_eq!(pod.ports, [HostPort::new("10.0.0.1", "TCP", 8081)]);
        assert_eq!(pod.affinity.pinned, Some(vec!["n1".to_owned()]));
        assert_eq!(pod.affinity.preferred[0].weight, 5);
        let started = pod.started.map(|started| started.to_string());
        assert_eq!(
            (started.as_deref(), pod.nominated_node.as_deref()),
            (Some("2026-01-01T00:00:01Z"), Some("n2"))
        );
        assert!(pod.preempted);
        assert_eq!(pod.scheduled.unwrap().message, "why");
    }
}
