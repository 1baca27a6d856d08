//! [`Script`]: random operations on what a cluster has. A seed and the answers of the schedulers determine it.

use crate::beside::NAMESPACES;
use crate::{devices, pods};
use kstore_nondet::Rng;
use kstore_scheduler::reconstruct::DecisionKind as Kind;
use kstore_scheduler::shadow::recording::ObjectName;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Random choices.
pub(crate) struct Dice(Rng);

impl Dice {
    /// True with this probability in per cent.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// One of these.
    pub(crate) fn pick<T: Clone>(&self, values: &[T]) -> T {
        values[self.0.below(values.len() as u64) as usize].clone()
    }
}

/// What a script is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Resources, taints, images.
    Plain,
    /// Affinity of pods to nodes.
    NodeAffinity,
    /// Affinity of pods to pods.
    PodAffinity,
    /// Topology spread.
    Spread,
    /// Ports of hosts.
    Ports,
    /// Large pods of several priorities, and disruption budgets.
    Preemption,
    /// Volumes.
    Volumes,
    /// Devices.
    Devices,
    /// Everything but volumes and devices.
    All,
}

const FLAVOURS: [Flavour; 9] = [
    Flavour::Plain,
    Flavour::NodeAffinity,
    Flavour::PodAffinity,
    Flavour::Spread,
    Flavour::Ports,
    Flavour::Preemption,
    Flavour::Volumes,
    Flavour::Devices,
    Flavour::All,
];

/// An operation on the API.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Creates an object.
    Create(Kind, Value),
    /// Applies a merge patch to an object, or to its subresource (`/status`).
    Patch(ObjectName, &'static str, Value),
    /// Deletes an object with this grace period.
    Delete(ObjectName, u32),
    /// Binds a claim and a volume to each other.
    Bind(ObjectName, ObjectName),
}

/// The volume that a provisioner makes for a claim.
pub(crate) fn provisioned(claim: &Value) -> Value {
    let meta = &claim["metadata"];
    let name = format!("pv-{}", meta["name"].as_str().unwrap_or_default());
    let node = &meta["annotations"]["volume.kubernetes.io/selected-node"];
    let host = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] });
    json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "csi": { "driver": devices::DRIVERS.0, "volumeHandle": name },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [host] }] } },
            "claimRef": { "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"] },
        },
    })
}

type Objects = BTreeMap<ObjectName, Value>;

/// The objects of a kind.
fn all<'a>(objects: &'a Objects, kind: &str) -> Vec<(&'a ObjectName, &'a Value)> {
    objects.iter().filter(|(name, _)| name.0 == kind).collect()
}

fn is_pending(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null() && pod["spec"]["schedulingGates"].as_array().is_none_or(Vec::is_empty)
}

fn is_deleting(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// A script.
pub(crate) struct Script {
    dice: Dice,
    seed: usize,
    flavour: Flavour,
    /// The number of objects that were made, for their names.
    made: usize,
    /// Operations to begin with.
    opening: Vec<(String, Vec<Op>)>,
}

impl Script {
    /// The script of a seed.
    pub(crate) fn new(rng: Rng, seed: usize) -> Self {
        let mut script = Self {
            dice: Dice(rng),
            seed,
            flavour: FLAVOURS[seed % FLAVOURS.len()],
            made: 0,
            opening: Vec::new(),
        };
        for _ in 0..3 + script.dice.below(6) {
            let ops = script.create_node();
            script.opening.push(("create node".to_owned(), ops));
        }
        let mut shared = Vec::new();
        match script.flavour {
            Flavour::Volumes => {
                shared.extend(
                    devices::storage_classes().into_iter().map(|class| Op::Create(Kind::StorageClass, class)),
                );
            }
            Flavour::Devices => {
                shared.extend(
                    devices::device_classes().into_iter().map(|class| Op::Create(Kind::DeviceClass, class)),
                );
            }
            _ => {}
        }
        if script.dice.percent(40) {
            shared.push(Op::Create(
                Kind::Service,
                json!({
                    "metadata": { "name": "web", "namespace": "a" },
                    "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
                }),
            ));
            shared.push(Op::Create(Kind::ReplicaSet, json!({
                "metadata": { "name": "set", "namespace": "a" },
                "spec": { "replicas": 0, "selector": { "matchLabels": { "tier": "x" } }, "template": {
                    "metadata": { "labels": { "tier": "x" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
                } },
            })));
        }
        script.opening.insert(0, (format!("{:?}", script.flavour), shared));
        script.opening.reverse();
        script
    }

    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}{}-{}", self.seed, self.made)
    }

    /// The next operations, which are one step.
    pub(crate) fn next(&mut self, objects: &Objects) -> (String, Vec<Op>) {
        if let Some(step) = self.opening.pop() {
            return step;
        }
        let pods = all(objects, "Pod");
        let pending: Vec<_> = pods.iter().filter(|(_, pod)| is_pending(pod)).collect();
        if pending.len() > 3 || pods.len() > 40 {
            let (name, _) =
                if pending.is_empty() { self.dice.pick(&pods) } else { *self.dice.pick(&pending) };
            return ("delete pod".to_owned(), vec![Op::Delete(name.clone(), 0)]);
        }
        let roll = self.dice.below(100);
        let step = match roll {
            0..50 => ("create pod", self.create_pod(objects)),
            50..64 => ("delete pod", self.delete_pod(&pods)),
            64..78 => ("change node", self.change_node(objects)),
            78..81 => ("create node", self.create_node()),
            81..83 => ("delete node", self.delete_node(objects)),
            83..86 => ("lift gates", self.lift_gates(&pods)),
            86..89 => ("label pod", self.label_pod(&pods)),
            89..90 => ("label namespace", self.label_namespace()),
            _ => ("other", self.change_other(objects)),
        };
        match step.1.is_empty() {
            true => ("create pod".to_owned(), self.create_pod(objects)),
            false => (step.0.to_owned(), step.1),
        }
    }

    fn create_node(&mut self) -> Vec<Op> {
        let name = self.name("n");
        let named = ObjectName("Node".to_owned(), String::new(), name.clone());
        let taints = pods::taints(&self.dice);
        let mut ops = vec![
            Op::Create(Kind::Node, pods::node(&self.dice, &name)),
            // The API server has tainted the new node as not ready.
            Op::Patch(named, "", json!({ "spec": { "taints": taints } })),
        ];
        match self.flavour {
            Flavour::Volumes => {
                ops.insert(0, Op::Create(Kind::CsiNode, devices::csi_node(&self.dice, &name)));
            }
            Flavour::Devices => ops.push(Op::Create(Kind::ResourceSlice, devices::slice(&self.dice, &name))),
            _ => {}
        }
        ops
    }

    fn create_pod(&mut self, objects: &Objects) -> Vec<Op> {
        let nodes: Vec<_> = all(objects, "Node").iter().map(|(name, _)| name.2.clone()).collect();
        let (namespace, name) = (self.dice.pick(&NAMESPACES), self.name("p"));
        let mut pod = pods::pod(&self.dice, (namespace, &name), self.flavour, &nodes);
        let mut ops = Vec::new();
        let is_plain = pod["spec"]["nodeName"].is_null();
        if self.flavour == Flavour::Volumes && is_plain && self.dice.percent(70) {
            ops = self.add_volume(&mut pod, (namespace, &name), objects);
        }
        if self.flavour == Flavour::Devices && is_plain && self.dice.percent(75) {
            ops = self.add_device(&mut pod, (namespace, &name), objects);
        }
        ops.push(Op::Create(Kind::Pod, pod));
        ops
    }

    fn add_volume(&mut self, pod: &mut Value, (namespace, name): (&str, &str), objects: &Objects) -> Vec<Op> {
        let claims: Vec<_> =
            all(objects, "PersistentVolumeClaim").into_iter().filter(|(own, _)| own.1 == namespace).collect();
        let mut ops = Vec::new();
        let claim = match claims.is_empty() || self.dice.percent(75) {
            false => self.dice.pick(&claims).0.2.clone(),
            true => {
                let claim = format!("{name}-data");
                let class = self.dice.pick(&["waits", "waits", "made", "soon", "bound"]);
                let stored = if class == "bound" { "soon" } else { class };
                if class == "waits" || class == "bound" {
                    let volume = self.name("v");
                    ops.push(Op::Create(
                        Kind::PersistentVolume,
                        devices::volume(&self.dice, &volume, stored),
                    ));
                }
                let object = devices::volume_claim(&self.dice, (namespace, &claim), stored);
                if class == "bound"
                    && let Some(Op::Create(_, volume)) = ops.first()
                {
                    let volume = ObjectName::of(Kind::PersistentVolume, volume);
                    let claim = ObjectName::of(Kind::PersistentVolumeClaim, &object);
                    ops.push(Op::Create(Kind::PersistentVolumeClaim, object));
                    ops.push(Op::Bind(claim, volume));
                } else {
                    ops.push(Op::Create(Kind::PersistentVolumeClaim, object));
                }
                claim
            }
        };
        pod["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
        ops
    }

    fn add_device(&mut self, pod: &mut Value, (namespace, name): (&str, &str), objects: &Objects) -> Vec<Op> {
        let claims: Vec<_> =
            all(objects, "ResourceClaim").into_iter().filter(|(own, _)| own.1 == namespace).collect();
        let mut ops = Vec::new();
        let claim = match claims.is_empty() || self.dice.percent(75) {
            false => self.dice.pick(&claims).0.2.clone(),
            true => {
                let claim = format!("{name}-device");
                ops.push(Op::Create(
                    Kind::ResourceClaim,
                    devices::device_claim(&self.dice, (namespace, &claim)),
                ));
                claim
            }
        };
        pod["spec"]["resourceClaims"] = json!([{ "name": "device", "resourceClaimName": claim }]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{ "name": "device" }]);
        ops
    }

    fn delete_pod(&self, pods: &[(&ObjectName, &Value)]) -> Vec<Op> {
        let (leaving, alive): (Vec<&(&ObjectName, &Value)>, Vec<_>) =
            pods.iter().partition(|(_, pod)| is_deleting(pod));
        let from = if leaving.is_empty() || self.dice.percent(50) { alive } else { leaving };
        if from.is_empty() {
            return Vec::new();
        }
        let (name, pod) = *self.dice.pick(&from);
        let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or_default();
        let grace = if is_deleting(pod) { 0 } else { u32::try_from(grace).unwrap_or_default() };
        vec![Op::Delete(name.clone(), grace)]
    }

    fn change_node(&self, objects: &Objects) -> Vec<Op> {
        let nodes = all(objects, "Node");
        if nodes.is_empty() {
            return Vec::new();
        }
        let (name, node) = self.dice.pick(&nodes);
        let patch = match self.dice.below(4) {
            0 => {
                // Labels that are not there any more are removed.
                let mut labels = pods::node_labels(&self.dice, &name.2);
                for old in node["metadata"]["labels"].as_object().into_iter().flatten().map(|(key, _)| key) {
                    if labels.get(old).is_none() {
                        labels[old] = Value::Null;
                    }
                }
                json!({ "metadata": { "labels": labels } })
            }
            1 => json!({ "spec": { "taints": pods::taints(&self.dice) } }),
            2 => {
                let is_cordoned = node["spec"]["unschedulable"] == true;
                // The controller of nodes would add and remove the taint.
                let taints = if is_cordoned {
                    json!([])
                } else {
                    json!([{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }])
                };
                let taints = if self.dice.percent(50) { taints } else { json!([]) };
                json!({ "spec": { "unschedulable": !is_cordoned, "taints": taints } })
            }
            _ => {
                let capacity = pods::allocatable(&self.dice);
                let patch = json!({ "status": { "capacity": capacity, "allocatable": capacity } });
                return vec![Op::Patch(name.clone(), "/status", patch)];
            }
        };
        vec![Op::Patch(name.clone(), "", patch)]
    }

    fn delete_node(&self, objects: &Objects) -> Vec<Op> {
        let nodes = all(objects, "Node");
        if nodes.len() < 3 {
            return Vec::new();
        }
        let (name, _) = self.dice.pick(&nodes);
        let mut ops = Vec::new();
        let on = |pod: &Value| pod["spec"]["nodeName"] == *name.2;
        if self.dice.percent(60) {
            let pods = all(objects, "Pod").into_iter().filter(|(_, pod)| on(pod));
            ops.extend(pods.map(|(name, _)| Op::Delete(name.clone(), 0)));
        }
        for kind in ["ResourceSlice", "CsiNode"] {
            let of = all(objects, kind)
                .into_iter()
                .filter(|(own, _)| own.2 == name.2 || own.2 == format!("slice-{}", name.2));
            ops.extend(of.map(|(own, _)| Op::Delete(own.clone(), 0)));
        }
        ops.push(Op::Delete(name.clone(), 0));
        ops
    }

    fn lift_gates(&self, pods: &[(&ObjectName, &Value)]) -> Vec<Op> {
        let is_gated =
            |pod: &Value| pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        let gated: Vec<_> = pods.iter().filter(|(_, pod)| is_gated(pod) && !is_deleting(pod)).collect();
        if gated.is_empty() {
            return Vec::new();
        }
        vec![Op::Patch(self.dice.pick(&gated).0.clone(), "", json!({ "spec": { "schedulingGates": null } }))]
    }

    fn label_pod(&self, pods: &[(&ObjectName, &Value)]) -> Vec<Op> {
        if pods.is_empty() {
            return Vec::new();
        }
        let labels =
            json!({ "app": self.dice.pick(&["web", "db", "job"]), "tier": self.dice.pick(&["x", "y"]) });
        vec![Op::Patch(self.dice.pick(pods).0.clone(), "", json!({ "metadata": { "labels": labels } }))]
    }

    fn label_namespace(&self) -> Vec<Op> {
        let name = ObjectName("Namespace".to_owned(), String::new(), self.dice.pick(&NAMESPACES).to_owned());
        vec![Op::Patch(
            name,
            "",
            json!({ "metadata": { "labels": { "team": self.dice.pick(&["a", "b", "c"]) } } }),
        )]
    }

    fn change_other(&mut self, objects: &Objects) -> Vec<Op> {
        match self.flavour {
            Flavour::Preemption => self.change_budget(objects),
            Flavour::Volumes => {
                let volume = self.name("v");
                vec![Op::Create(Kind::PersistentVolume, devices::volume(&self.dice, &volume, "waits"))]
            }
            Flavour::Devices => self.release(objects),
            _ => Vec::new(),
        }
    }

    fn change_budget(&mut self, objects: &Objects) -> Vec<Op> {
        let budgets = all(objects, "PodDisruptionBudget");
        if budgets.len() < 2 {
            let (namespace, name) = (self.dice.pick(&NAMESPACES), self.name("b"));
            let selector = json!({ "matchLabels": { "app": self.dice.pick(&["web", "db", "job"]) } });
            let budget = json!({
                "metadata": { "name": name, "namespace": namespace }, "spec": { "maxUnavailable": 1, "selector": selector },
            });
            return vec![Op::Create(Kind::PodDisruptionBudget, budget)];
        }
        let (name, _) = self.dice.pick(&budgets);
        if self.dice.percent(25) {
            return vec![Op::Delete(name.clone(), 0)];
        }
        let status = json!({
            "disruptionsAllowed": self.dice.below(3), "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3, "observedGeneration": 1,
        });
        vec![Op::Patch(name.clone(), "/status", json!({ "status": status }))]
    }

    /// Releases a claim whose pods are gone, as the controller of claims does, or replaces the devices of a node.
    fn release(&self, objects: &Objects) -> Vec<Op> {
        let pods = objects.iter().filter(|(name, _)| name.0 == "Pod");
        let used: Vec<_> = pods
            .filter_map(|(name, pod)| {
                Some((name.1.clone(), pod["spec"]["resourceClaims"][0]["resourceClaimName"].as_str()?))
            })
            .collect();
        let is_unused = |name: &ObjectName| {
            !used.iter().any(|(namespace, claim)| name.1 == *namespace && name.2 == *claim)
        };
        let unused: Vec<_> =
            all(objects, "ResourceClaim").into_iter().filter(|(name, _)| is_unused(name)).collect();
        if unused.is_empty() {
            return Vec::new();
        }
        let (name, claim) = self.dice.pick(&unused);
        if claim["status"]["allocation"].is_null() {
            return vec![Op::Delete(name.clone(), 0)];
        }
        vec![Op::Patch(
            name.clone(),
            "/status",
            json!({ "status": { "allocation": null, "reservedFor": null } }),
        )]
    }
}
