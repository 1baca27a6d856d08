//! A model test of pods with claims against the true cluster: no two claims get one volume, and no pod gets a
//! node that cannot use its volumes.

use super::*;
use crate::storage::StorageChange;
use crate::testing::{claim, claiming_pod, class, near, volume};
use proptest::collection::vec;

const HOST: &str = "kubernetes.io/hostname";
const CLAIMS: usize = 6;

/// An operation of the model. Numbers select among the existing pods, claims and volumes.
#[derive(Clone, Debug)]
enum VolumeOp {
    /// Adds a volume of a size, on a node or (0) on all.
    AddVolume(u32, u32),
    /// Adds a pod with these claims.
    AddPod(Vec<usize>),
    DeletePod(usize),
    Decide,
    /// Ends a write of volumes, with success or not.
    WritesEnd(usize, bool),
    /// Runs the controllers: the binder binds volumes and claims that refer to each other, the provisioner
    /// makes requested volumes.
    Control,
    Pass(i64),
}

fn any_volume_op() -> impl Strategy<Value = VolumeOp> {
    prop_oneof![
        3 => (1u32..4, 0u32..3).prop_map(|(size, node)| VolumeOp::AddVolume(size, node)),
        5 => vec(0..CLAIMS, 1..3).prop_map(VolumeOp::AddPod),
        1 => (0usize..20).prop_map(VolumeOp::DeletePod),
        8 => Just(VolumeOp::Decide),
        4 => (0usize..20, proptest::bool::weighted(0.7)).prop_map(|(n, ok)| VolumeOp::WritesEnd(n, ok)),
        3 => Just(VolumeOp::Control),
        2 => (0i64..700).prop_map(VolumeOp::Pass),
    ]
}

#[derive(Clone, Debug, Default)]
struct TrueClaim {
    volume: Option<usize>,
    node: Option<String>,
}

#[derive(Clone, Debug)]
struct TrueVolume {
    size: u32,
    /// The only node that can use the volume.
    node: Option<String>,
    claim: Option<usize>,
}

/// The API's state, with a scheduler that receives each change at once. Claims with an even number take
/// existing volumes; claims with an odd number are provisioned.
struct VolumeRun {
    scheduler: Scheduler,
    claims: Vec<TrueClaim>,
    volumes: Vec<TrueVolume>,
    pods: BTreeMap<Uid, Arc<PodInfo>>,
    writing: Vec<VolumeWrites>,
    revision: u64,
    created: usize,
    now: i64,
}

impl VolumeRun {
    fn new() -> Self {
        let mut run = Self {
            scheduler: scheduler(),
            claims: vec![TrueClaim::default(); CLAIMS],
            volumes: Vec::new(),
            pods: BTreeMap::new(),
            writing: Vec::new(),
            revision: 10,
            created: 0,
            now: 0,
        };
        for name in ["n1", "n2"] {
            run.scheduler.node(Change::Set(node(name, json!({}))), at(0));
        }
        for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "x")] {
            run.storage(class(name, provisioner, "WaitForFirstConsumer", json!({})));
        }
        (0..CLAIMS).for_each(|c| run.notify_claim(c));
        run
    }

    fn storage(&mut self, change: StorageChange) {
        self.scheduler.storage(change, at(self.now));
    }

    fn next_revision(&mut self) -> String {
        self.revision += 1;
        self.revision.to_string()
    }

    fn notify_claim(&mut self, c: usize) {
        let of = self.claims[c].clone();
        let mut value = json!({
            "metadata": { "resourceVersion": self.next_revision() },
            "spec": {
                "storageClassName": if c.is_multiple_of(2) { "local" } else { "made" },
                "resources": { "requests": { "storage": format!("{}Gi", c / 2 + 1) } },
            },
        });
        if let Some(node) = of.node {
            value["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node.into();
        }
        if let Some(v) = of.volume {
            value["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
            value["spec"]["volumeName"] = format!("v{v}").into();
        }
        self.storage(claim(&format!("c{c}"), value));
    }

    fn notify_volume(&mut self, v: usize) {
        let TrueVolume { size, node, claim } = self.volumes[v].clone();
        let mut value = node.map_or(json!({}), |node| near(HOST, &node));
        value["metadata"]["resourceVersion"] = self.next_revision().into();
        value["spec"]["storageClassName"] = "local".into();
        if let Some(c) = claim {
            let name = format!("c{c}");
            value["spec"]["claimRef"] = json!({ "namespace": "ns", "name": name, "uid": name });
            if self.claims[c].volume.is_some() {
                value["status"]["phase"] = "Bound".into();
            } else if c % 2 == 1 {
                value["spec"]["storageClassName"] = "made".into();
            }
        }
        self.storage(volume(&format!("v{v}"), &format!("{size}Gi"), value));
    }

    fn step(&mut self, op: VolumeOp) {
        match op {
            VolumeOp::AddVolume(size, node) => {
                let node = (node > 0).then(|| format!("n{node}"));
                self.volumes.push(TrueVolume { size, node, claim: None });
                self.notify_volume(self.volumes.len() - 1);
            }
            VolumeOp::AddPod(claims) => {
                self.created += 1;
                let names: Vec<String> = claims.into_iter().map(|c| format!("c{c}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let pod = claiming_pod(&format!("p{:03}", self.created), &names);
                self.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
                self.scheduler.pod(Change::Set(pod), at(self.now));
            }
            VolumeOp::DeletePod(n) => {
                if let Some(pod) = self.pods.values().nth(n % self.pods.len().max(1)).cloned() {
                    self.pods.remove(&pod.uid);
                    self.scheduler.pod(Change::Gone(pod), at(self.now));
                }
            }
            VolumeOp::Decide => self.decide(),
            VolumeOp::WritesEnd(n, success) => self.writes_end(n, success),
            VolumeOp::Control => self.control(),
            VolumeOp::Pass(seconds) => self.now += seconds,
        }
    }

    fn decide(&mut self) {
        match self.scheduler.next(at(self.now)) {
            Some(Action::Bind(binding)) => self.bind(&binding),
            Some(Action::BindVolumes(writes)) => self.writing.push(writes),
            Some(Action::Refuse(_)) | None => {}
            Some(Action::Preempt(_)) => panic!("all pods have the same priority"),
            Some(Action::Ask(_) | Action::ClaimDevices(_) | Action::ReportGang(_)) => {
                panic!("there are no extenders, devices and gangs")
            }
        }
    }

    /// Asserts that all claims of a pod are bound to volumes that its node can use, then binds the pod.
    fn bind(&mut self, binding: &Binding) {
        let node = &binding.choice.node;
        for claim in binding.pod.claims() {
            let c: usize = claim.name[1..].parse().unwrap();
            let v = self.claims[c].volume.expect("a pod is bound when its claims are");
            let reach = &self.volumes[v].node;
            assert!(reach.as_ref().is_none_or(|only| **only == **node), "{claim:?} is not on {node}");
        }
        self.scheduler.bound(&binding.pod.uid);
        let pod = on(&binding.pod, node);
        if self.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod)).is_some() {
            self.scheduler.pod(Change::Set(pod), at(self.now));
        }
    }

    /// Ends a transaction: the server applies all writes or none, and a volume must not belong to another
    /// claim.
    fn writes_end(&mut self, n: usize, success: bool) {
        if self.writing.is_empty() {
            return;
        }
        let writes = self.writing.remove(n % self.writing.len());
        let number = |name: &str| name[1..].parse::<usize>().unwrap();
        let is_free = |v: usize, c: usize| self.volumes[v].claim.is_none_or(|other| other == c);
        let pairs: Vec<(usize, usize)> =
            writes.bind.iter().map(|(v, c)| (number(v.key.name()), number(c.key.name()))).collect();
        if !success || !pairs.iter().all(|(v, c)| is_free(*v, *c)) {
            return self.scheduler.volumes_refused(&writes, "conflict");
        }
        for (v, c) in pairs {
            self.volumes[v].claim = Some(c);
            self.notify_volume(v);
        }
        for claim in &writes.provision {
            let c = number(claim.key.name());
            if self.claims[c].volume.is_none() {
                self.claims[c].node = Some(writes.binding.choice.node.to_string());
                self.notify_claim(c);
            }
        }
        // An annotation that already exists needs no write.
        self.scheduler.volumes_written(&writes, Revision(0), at(self.now));
    }

    fn control(&mut self) {
        for c in 0..CLAIMS {
            if self.claims[c].volume.is_some() {
                continue;
            }
            let kept = self.volumes.iter().position(|volume| volume.claim == Some(c));
            let v = match (kept, self.claims[c].node.clone()) {
                (Some(v), _) => v,
                (None, Some(node)) if c % 2 == 1 => {
                    self.volumes.push(TrueVolume { size: 9, node: Some(node), claim: Some(c) });
                    self.volumes.len() - 1
                }
                (None, _) => continue,
            };
            self.claims[c].volume = Some(v);
            self.notify_volume(v);
            self.notify_claim(c);
            // A pod was deleted while its volume was written, and another pod has the same claim: two volumes
            // may refer to the claim.
            for other in (0..self.volumes.len()).filter(|other| *other != v) {
                if self.volumes[other].claim == Some(c) {
                    self.volumes[other].claim = None;
                    self.notify_volume(other);
                }
            }
        }
    }

    /// Asserts that no volume is bound to two claims and no waiting pod is lost.
    fn check(&self) {
        for (c, claim) in self.claims.iter().enumerate() {
            assert!(claim.volume.is_none_or(|v| self.volumes[v].claim == Some(c)), "c{c} lost its volume");
        }
        for pod in self.pods.values().filter(|pod| pod.node_name.is_none()) {
            let assumed = self.scheduler.cache.is_assumed(&pod.uid);
            assert!(assumed != self.scheduler.queue.contains(&pod.uid), "{} waits or is assumed", pod.uid);
        }
    }

    /// Runs without failures from here; afterwards every pod that can have its volumes is on a node.
    fn settle(&mut self) {
        for _ in 0..4 {
            for _ in 0..200 {
                self.decide();
                self.writes_end(0, true);
                self.check();
            }
            self.control();
            self.now += 301;
        }
        for pod in self.pods.values().filter(|pod| pod.node_name.is_none()) {
            let is_waiting = self.scheduler.queue.unschedulable().any(|other| other.uid == pod.uid);
            let is_stuck = pod.claims().iter().any(|claim| {
                let c: usize = claim.name[1..].parse().unwrap();
                self.claims[c].volume.is_none()
            });
            let nodes = pod.claims().iter().filter_map(|claim| {
                let c: usize = claim.name[1..].parse().unwrap();
                self.volumes[self.claims[c].volume?].node.clone()
            });
            let mut nodes: Vec<String> = nodes.collect();
            nodes.sort();
            nodes.dedup();
            assert!(is_waiting && (is_stuck || nodes.len() > 1), "{} could be on a node", pod.uid);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn no_volume_is_assigned_twice_and_no_pod_runs_without_its_volumes(ops in vec(any_volume_op(), 1..80)) {
        let mut run = VolumeRun::new();
        for op in ops {
            run.step(op);
            run.check();
        }
        run.settle();
    }
}
