//! [`Observed`]: what a simulation counts, from the changes of objects in their order. Pure.

use jiff::Timestamp;
use kstore_api::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The label of a group's nodes.
const GROUP_LABEL: &str = "sim.kstore.io/group";

/// A change of an object: its plural resource, its key, and its new state, if it has one.
pub(super) struct Change<'a> {
    pub(super) plural: &'a str,
    pub(super) key: &'a str,
    pub(super) object: Option<&'a Value>,
    /// Who made it.
    pub(super) writer: &'a str,
}

/// Amounts of processor and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) milli_cpu: i128,
    pub(super) memory: i128,
}

#[derive(Clone, Debug, Default)]
struct PodState {
    uid: String,
    node: String,
    requests: Amount,
    /// Whether it occupies its node.
    is_bound: bool,
    is_running: bool,
    is_over: bool,
    /// Whether it is being ended before its time.
    is_disrupted: bool,
}

#[derive(Clone, Debug, Default)]
struct NodeState {
    group: String,
    is_ready: bool,
    allocatable: Amount,
}

/// What is counted of one group of nodes; of `--nodes` under the empty name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupCount {
    /// Seconds of nodes.
    pub(super) node_nanos: u128,
    /// Allocatable amounts over time, in nanoseconds.
    pub(super) offered: Amount,
    /// Requests of bound pods over time, in nanoseconds.
    pub(super) used: Amount,
    /// Price over time, in millionths an hour times nanoseconds.
    pub(super) cost: u128,
    pub(super) most_nodes: usize,
}

/// A moment of the simulation, for the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) nodes: usize,
    pub(super) ready: usize,
    pub(super) running: usize,
    pub(super) pending: usize,
    /// The used share of the processors.
    pub(super) used: f64,
}

/// The counts of a simulation.
#[derive(Debug)]
pub(super) struct Observed {
    now: Timestamp,
    begun: Timestamp,
    pods: BTreeMap<String, PodState>,
    nodes: BTreeMap<String, NodeState>,
    /// Instances of each group, and their price an hour in millionths.
    priced: BTreeMap<String, (u64, u64)>,
    pub(super) groups: BTreeMap<String, GroupCount>,
    pub(super) created: u64,
    pub(super) failed: u64,
    pub(super) starts: Vec<Duration>,
    /// Evictions by reason.
    pub(super) evictions: BTreeMap<String, u64>,
    /// Writes by writer.
    pub(super) writes: BTreeMap<String, u64>,
    pub(super) samples: Vec<Sample>,
}

impl Observed {
    /// Counts from `now` on.
    pub(super) fn from(now: Timestamp) -> Self {
        Self {
            now,
            begun: now,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            priced: BTreeMap::new(),
            groups: BTreeMap::new(),
            created: 0,
            failed: 0,
            starts: Vec::new(),
            evictions: BTreeMap::new(),
            writes: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Lets the time pass in which nothing changes.
    pub(super) fn advance(&mut self, now: Timestamp) {
        let nanos = u128::try_from(now.duration_since(self.now).as_nanos()).unwrap_or(0);
        if nanos == 0 {
            return;
        }
        self.now = now;
        let span = i128::try_from(nanos).unwrap_or(i128::MAX);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in self.nodes.values() {
            let group = self.groups.entry(node.group.clone()).or_default();
            group.node_nanos += nanos;
            group.offered.milli_cpu += node.allocatable.milli_cpu * span;
            group.offered.memory += node.allocatable.memory * span;
            *counts.entry(&node.group).or_default() += 1;
        }
        for pod in self.pods.values().filter(|pod| pod.is_bound) {
            let Some(node) = self.nodes.get(&pod.node) else { continue };
            let group = self.groups.entry(node.group.clone()).or_default();
            group.used.milli_cpu += pod.requests.milli_cpu * span;
            group.used.memory += pod.requests.memory * span;
        }
        for (group, count) in counts {
            let entry = self.groups.entry(group.to_owned()).or_default();
            entry.most_nodes = entry.most_nodes.max(count);
        }
        for (group, (instances, price)) in &self.priced {
            let entry = self.groups.entry(group.clone()).or_default();
            entry.cost += u128::from(*instances) * u128::from(*price) * nanos;
        }
    }

    /// Counts a change at `now`.
    pub(super) fn take(&mut self, change: &Change<'_>, now: Timestamp) {
        self.advance(now);
        *self.writes.entry(change.writer.to_owned()).or_default() += 1;
        match change.plural {
            "pods" => self.take_pod(change),
            "nodes" => match change.object {
                Some(object) => drop(self.nodes.insert(change.key.to_owned(), node(object))),
                None => drop(self.nodes.remove(change.key)),
            },
            "nodegroups" => match change.object {
                Some(object) => drop(self.priced.insert(change.key.to_owned(), price(object))),
                None => drop(self.priced.remove(change.key)),
            },
            _ => {}
        }
    }

    fn take_pod(&mut self, change: &Change<'_>) {
        let Some(object) = change.object else {
            self.pods.remove(change.key);
            return;
        };
        let (spec, status) = (&object["spec"], &object["status"]);
        let uid = text(&object["metadata"]["uid"]);
        let before = self.pods.get(change.key).filter(|pod| pod.uid == uid).cloned();
        if before.is_none() {
            self.created += 1;
        }
        let before = before.unwrap_or_default();
        let phase = text(&status["phase"]);
        let is_over = phase == "Failed" || phase == "Succeeded";
        if phase == "Failed" && !before.is_over {
            self.failed += 1;
        }
        let has_run = before.is_running || before.is_over;
        let is_running = phase == "Running" || (has_run && !is_over);
        if phase == "Running" && !has_run {
            let created = text(&object["metadata"]["creationTimestamp"]).parse().unwrap_or(self.now);
            self.starts.push(Duration::try_from(self.now.duration_since(created)).unwrap_or_default());
        }
        let disruption = disruption(status);
        let is_disrupted = disruption.is_some();
        if let Some(reason) = disruption.filter(|_| !before.is_disrupted) {
            *self.evictions.entry(reason).or_default() += 1;
        }
        let node = text(&spec["nodeName"]).to_owned();
        let is_bound = !node.is_empty() && !is_over;
        let (uid, requests) = (uid.to_owned(), requests(spec));
        let state = PodState { uid, node, requests, is_bound, is_running, is_over, is_disrupted };
        self.pods.insert(change.key.to_owned(), state);
    }

    /// Keeps the present moment for the picture.
    pub(super) fn sample(&mut self, now: Timestamp) {
        self.advance(now);
        let (mut offered, mut used) = (0, 0);
        for node in self.nodes.values() {
            offered += node.allocatable.milli_cpu;
        }
        for pod in self.pods.values().filter(|pod| pod.is_bound && self.nodes.contains_key(&pod.node)) {
            used += pod.requests.milli_cpu;
        }
        self.samples.push(Sample {
            at: Duration::try_from(now.duration_since(self.begun)).unwrap_or_default(),
            nodes: self.nodes.len(),
            ready: self.nodes.values().filter(|node| node.is_ready).count(),
            running: self.pods.values().filter(|pod| pod.is_running && !pod.is_over).count(),
            pending: self.pods.values().filter(|pod| !pod.is_running && !pod.is_over).count(),
            used: share(used, offered),
        });
    }
}

/// A part of a whole; of nothing nothing.
pub(super) fn share(part: i128, whole: i128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Why a pod is ended before its time, if it is.
fn disruption(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == "DisruptionTarget" && one["status"] == "True")?;
    Some(text(&found["reason"]).to_owned())
}

fn amount(list: &Value) -> Amount {
    let of = |name: &str| match &list[name] {
        Value::String(text) => Quantity::parse(text).ok(),
        _ => None,
    };
    Amount {
        milli_cpu: of("cpu").map_or(0, |quantity| quantity.milli().into()),
        memory: of("memory").map_or(0, |quantity| quantity.units().into()),
    }
}

/// What the containers of a pod request together; init containers, which run before, do not count.
fn requests(spec: &Value) -> Amount {
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    containers.iter().map(|one| amount(&one["resources"]["requests"])).fold(Amount::default(), |sum, one| {
        Amount { milli_cpu: sum.milli_cpu + one.milli_cpu, memory: sum.memory + one.memory }
    })
}

fn node(object: &Value) -> NodeState {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    NodeState {
        group: text(&object["metadata"]["labels"][GROUP_LABEL]).to_owned(),
        is_ready: conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"),
        allocatable: amount(&object["status"]["allocatable"]),
    }
}

/// The number of instances of a group, and the price of one an hour in millionths.
fn price(object: &Value) -> (u64, u64) {
    let (spec, status) = (&object["spec"], &object["status"]);
    let of =
        |name: &str| text(&spec["cost"][name]).parse::<f64>().ok().map(|price| (price * 1e6).round() as u64);
    let usual = of("perHour").unwrap_or(0);
    let price = of("spot").filter(|_| spec["capacityType"] == "spot").unwrap_or(usual);
    (status["replicas"].as_u64().unwrap_or(0), price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn starts_evictions_hours_and_use_are_counted_by_the_time_between_changes() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let mut observed = Observed::from(at(0));
        let take = |observed: &mut Observed, plural: &str, key: &str, object: Option<&Value>, second| {
            observed.take(&Change { plural, key, object, writer: "w" }, at(second));
        };
        let group = json!({"spec": {"cost": {"perHour": "3.6"}}, "status": {"replicas": 1}});
        take(&mut observed, "nodegroups", "web", Some(&group), 0);
        let node = json!({
            "metadata": {"labels": {"sim.kstore.io/group": "web"}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        take(&mut observed, "nodes", "web-0", Some(&node), 0);
        let pod = |uid: &str, phase: &str, more: Value| {
            let mut status = json!({"phase": phase});
            status["conditions"] = more;
            json!({
                "metadata": {"uid": uid, "creationTimestamp": "1970-01-01T00:00:10Z"},
                "spec": {"nodeName": "web-0", "containers": [{"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]},
                "status": status,
            })
        };
        let evicted =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]);
        take(&mut observed, "pods", "ns/a", Some(&pod("1", "Pending", json!([]))), 10);
        take(&mut observed, "pods", "ns/a", Some(&pod("1", "Running", json!([]))), 13);
        observed.sample(at(20));
        take(&mut observed, "pods", "ns/a", Some(&pod("1", "Running", evicted.clone())), 50);
        take(&mut observed, "pods", "ns/a", Some(&pod("1", "Failed", evicted)), 60);
        take(&mut observed, "pods", "ns/a", None, 70);
        take(&mut observed, "nodes", "web-0", None, 100);
        observed.advance(at(200));
        assert_eq!(
            (observed.created, observed.failed, observed.starts.clone()),
            (1, 1, vec![Duration::from_secs(3)])
        );
        assert_eq!(observed.evictions, BTreeMap::from([("TerminationByKubelet".to_owned(), 1)]));
        let web = &observed.groups["web"];
        assert_eq!((web.node_nanos, web.most_nodes), (100_000_000_000, 1));
        // One of four processors for 50 of 100 seconds, and a quarter of the memory.
        assert!((share(web.used.milli_cpu, web.offered.milli_cpu) - 0.125).abs() < 1e-9);
        assert!((share(web.used.memory, web.offered.memory) - 0.125).abs() < 1e-9);
        assert_eq!(web.cost / 3_600_000_000_000, 200_000, "0.001 a second");
        let sample = observed.samples[0];
        assert_eq!((sample.nodes, sample.ready, sample.running, sample.pending), (1, 1, 1, 0));
        assert!((sample.used - 0.25).abs() < 1e-9);
        assert_eq!(observed.writes["w"], 8);
    }
}
