//! All simulated nodes and their pods: takes changes from the informers and yields writes. Synchronous, with
//! time as an argument. `run` is the asynchronous edge around it; `apply` executes the writes.

mod admission;
mod adopted;
pub(crate) mod apply;
mod behaviors;
mod certificates;
mod devices;
mod drain;
mod evictions;
mod faults;
mod follow;
mod group_status;
mod groups;
mod loads;
mod node_fault_objects;
mod node_faults;
mod nodes;
mod pods;
mod real;
pub(crate) mod run;
mod secrets;
mod slots;
pub(crate) mod sources;
pub(crate) mod stages;
mod subnets;
#[cfg(test)]
mod tests;
mod timers;
mod watched;
pub(crate) mod write;
mod write_delay;

use crate::behavior::{self, BadAnnotation};
use crate::config::Config;
use crate::limits::{NODE_WRITES, POD_WRITES};
use crate::pod::{Input, PodEvent};
use crate::pod_object::{Kind, PodObject, kind_of};
use crate::record::{NodeRecord, PodRecord};
use crate::runtime::route::Runtimes;
use crate::runtime::{DueEvent, Event, Runtime};
use crate::stream::{Feed, Launch, PodExecution};
use behaviors::Behaviors;
use groups::{Groups, SimKind};
use jiff::Timestamp;
use kstore_informer::{Delta, Key, Object, Revision};
use kstore_nondet::Rng;
use loads::Loads;
use node_fault_objects::FaultObjects;
use nodes::{NodeEntry, Removal};
use pods::PodEntry;
use sources::References;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use subnets::Subnets;
use timers::Timers;
use write::{Failure, Write, Written};

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Regarding {
    /// A pod, or the container that the field path names.
    Pod { key: Key, uid: Arc<str>, field_path: String },
    /// A node.
    Node,
    /// An object of the API of simulations.
    Simulated { kind: SimKind, name: String, uid: Arc<str> },
}

/// An event to record, from the kubelet of `node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) node: String,
    pub(crate) regarding: Regarding,
    pub(crate) warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    /// The revision of the object that caused the event; zero for none.
    pub(crate) cause: Revision,
}

/// The state of the whole simulation, without clock and connections.
pub(crate) struct Manager {
    config: Config,
    nodes: BTreeMap<String, NodeEntry>,
    pods: BTreeMap<Key, PodEntry>,
    keys: BTreeMap<Arc<str>, Key>,
    runtime: Runtimes,
    pod_timers: Timers<Key>,
    node_timers: Timers<String>,
    /// Pods and nodes that may have something to write, each once.
    dirty_pods: Queue<Key>,
    dirty_nodes: Queue<String>,
    pod_writes: usize,
    node_writes: usize,
    notices: Vec<Notice>,
    /// Commands of containers that are to be run.
    launches: Vec<Launch>,
    /// Commands that kubelets run in containers.
    executions: Vec<PodExecution>,
    /// Pods whose volumes may show something old.
    refreshes: BTreeSet<Key>,
    references: References,
    /// Nodes with resizes that an earlier process left, to be judged when all pods that it knew are admitted.
    resizes_due: BTreeSet<String>,
    /// When another process with the same nodes was last reported.
    twin_reported: Option<Timestamp>,
    /// Pods that streams follow, by uid.
    watched: BTreeMap<Arc<str>, Feed>,
    /// The pods of each node.
    by_node: BTreeMap<String, BTreeSet<Key>>,
    /// The Node objects that this process does not simulate.
    others: BTreeMap<String, Arc<NodeRecord>>,
    groups: Groups,
    /// The pod networks of all nodes.
    subnets: Subnets,
    fault_objects: FaultObjects,
    loads: Loads,
    behaviors: Behaviors,
    /// DeviceClasses that exist.
    device_classes: BTreeSet<String>,
    /// Seed of what groups and faults draw.
    seed: u64,
    /// Whether the nodes that streams reach may have changed.
    is_serving_changed: bool,
}

impl Manager {
    /// The nodes of `config`, as many as its networks have space for; `existing` are the Node objects that
    /// already exist.
    pub(crate) fn new(config: Config, rng: &Rng, existing: &[Arc<NodeRecord>], now: Timestamp) -> Self {
        let config = config.with_addresses_for_pods();
        let mut manager = Self {
            subnets: Subnets::new(config.pod_network),
            runtime: Runtimes::new(&config, rng),
            config,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            keys: BTreeMap::new(),
            pod_timers: Timers::new(),
            node_timers: Timers::new(),
            dirty_pods: Queue::default(),
            dirty_nodes: Queue::default(),
            pod_writes: 0,
            node_writes: 0,
            notices: Vec::new(),
            launches: Vec::new(),
            executions: Vec::new(),
            refreshes: BTreeSet::new(),
            references: References::default(),
            resizes_due: BTreeSet::new(),
            twin_reported: None,
            watched: BTreeMap::new(),
            by_node: BTreeMap::new(),
            others: BTreeMap::new(),
            groups: Groups::default(),
            fault_objects: FaultObjects::default(),
            loads: Loads::default(),
            behaviors: Behaviors::default(),
            device_classes: BTreeSet::new(),
            seed: rng.next_u64(),
            is_serving_changed: false,
        };
        manager.add_configured_nodes(existing, now);
        manager.add_runtime_node(existing, now);
        manager.adopt_existing(now);
        manager
    }

    fn add_node(&mut self, mut entry: NodeEntry, now: Timestamp) {
        let name = entry.identity.name.clone();
        self.runtime.simulated.add_node(&name, entry.identity.network);
        self.runtime.simulated.add_images(&name, &entry.shape.images);
        entry.begin(&self.config, now);
        entry.refresh_health(now);
        self.others.remove(&name);
        self.nodes.insert(name.clone(), entry);
        self.is_serving_changed = true;
        self.touch_node(&name);
        self.read_fault_annotation(&name, now);
        self.node_notice(&name, "Starting", "Starting kubelet.".to_owned());
    }

    /// Takes changes from the pod informer.
    pub(crate) fn observe_pods(&mut self, mut deltas: Vec<Delta<PodRecord>>, now: Timestamp) {
        if self.config.stages.has_pods() {
            return;
        }
        let are_new = |a: &_, b: &_| matches!((a, b), (Delta::Added(_), Delta::Added(_)));
        for new in deltas.chunk_by_mut(are_new) {
            new.sort_by_key(order_of_admission);
        }
        for delta in deltas {
            match delta {
                Delta::Added(record) | Delta::Updated { new: record, .. } | Delta::Resync(record) => {
                    self.observe_pod(record, now);
                }
                Delta::Deleted(record) => self.forget_pod(&record.key(), record.uid(), now),
            }
        }
        for node in std::mem::take(&mut self.resizes_due) {
            self.retry_resizes(&node, now);
        }
    }

    fn observe_pod(&mut self, record: Arc<PodRecord>, now: Timestamp) {
        let record = self.with_runtime(record);
        let key = record.key();
        let _span = tracing::debug_span!("manager", pod = %key).entered();
        let Some(node) = self.nodes.get(&record.pod.spec.node_name) else { return };
        let record = self.with_behaviors(record);
        let (stopped, is_cut, starts) =
            (node.stopped(), node.faults.effects.is_cut, node.faults.effects.starts);
        let same = self.pods.get(&key).is_some_and(|entry| *entry.uid == *record.uid());
        if !same {
            if let Some(old) = self.pods.get(&key).map(|entry| Arc::clone(&entry.uid)) {
                self.forget_pod(&key, &old, now);
            }
            self.complain(&record, None);
            let mut entry = PodEntry::new(Arc::clone(&record), &mut self.runtime, now);
            entry.change(|machine, _| machine.faults = starts);
            self.keys.insert(Arc::clone(&entry.uid), key.clone());
            self.by_node.entry(entry.node().to_owned()).or_default().insert(key.clone());
            self.pods.insert(key.clone(), entry);
        } else if let Some(entry) = self.pods.get_mut(&key).filter(|_| is_cut) {
            entry.held = Some(record);
            return;
        }
        let entry = self.pods.get(&key).expect("the entry exists or was just made");
        let before = entry.record();
        if before.revision() < record.revision()
            && before.pod.metadata.annotations != record.pod.metadata.annotations
        {
            self.complain(&record, Some(&before.pod));
        }
        let entry = self.pods.get_mut(&key).expect("the entry exists or was just made");
        let observed = entry.observe(record);
        let news = !same | observed.is_news;
        // The volumes of a pod that ends stay as they are: the pod may be gone before they could be read.
        let ends = entry.object().metadata.deletion_timestamp.is_some();
        if observed.is_news && same && !ends && entry.shows_objects() {
            self.refreshes.insert(key.clone());
        }
        if news {
            self.record_references(&key);
        }
        if stopped || is_cut || !news {
            return;
        }
        if let Some(entry) = self.pods.get_mut(&key) {
            entry.retry_now();
        }
        if observed.is_resize {
            self.observe_resize(&key, now);
        }
        self.step_pod(&key, Input::Observed, now);
    }

    /// Records warnings about invalid annotations of a pod, as far as `before`, its older object, does not have them.
    fn complain(&mut self, record: &PodRecord, before: Option<&PodObject>) {
        let known = before.map(invalid_annotations).unwrap_or_default();
        let bad = invalid_annotations(&record.pod);
        for message in bad.iter().filter(|bad| !known.contains(bad)).map(ToString::to_string) {
            self.notices.push(Notice {
                node: record.pod.spec.node_name.clone(),
                regarding: Regarding::Pod {
                    key: record.key(),
                    uid: record.uid().into(),
                    field_path: String::new(),
                },
                warning: true,
                reason: "InvalidSimulation".into(),
                message,
                cause: record.revision(),
            });
        }
    }

    fn forget_pod(&mut self, key: &Key, uid: &str, now: Timestamp) {
        if self.pods.get(key).is_some_and(|entry| *entry.uid == *uid) {
            self.show_gone(key);
            self.drop_references(key);
            self.release(key, true, now);
            if let Some(entry) = self.pods.remove(key)
                && let Some(keys) = self.by_node.get_mut(entry.node())
            {
                keys.remove(key);
            }
            self.keys.remove(uid);
            self.pod_timers.set(key, None);
            self.runtime.forget(uid);
            if let Some(programs) = &self.config.programs {
                programs.forget(uid);
            }
        }
    }

    /// Takes changes from the node informer.
    pub(crate) fn observe_nodes(&mut self, deltas: Vec<Delta<NodeRecord>>, now: Timestamp) {
        for delta in deltas {
            let (key, record) = match delta {
                Delta::Added(record) | Delta::Updated { new: record, .. } | Delta::Resync(record) => {
                    (record.key(), Some(record))
                }
                Delta::Deleted(record) => (record.key(), None),
            };
            let is_simulated = self.nodes.contains_key(key.name());
            match record {
                Some(record) if !is_simulated => self.observe_foreign_node(key.name(), record, now),
                None if !is_simulated => self.forget_other_node(key.name()),
                record => self.observe_node(key.name(), record, now),
            }
        }
    }

    fn observe_node(&mut self, name: &str, record: Option<Arc<NodeRecord>>, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let is_gone = record.is_none();
        node.observe(record);
        if self.end_adoption(name, now) || (is_gone && self.forget_instance(name, now)) {
            return;
        }
        let Some(node) = self.nodes.get_mut(name) else { return };
        let waits = !node.resizes.is_empty() && !node.stopped();
        self.touch_node(name);
        self.touch_group_of(name);
        if waits {
            self.retry_resizes(name, now);
        }
        self.read_fault_annotation(name, now);
    }

    /// Processes everything that is due by `now`.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        loop {
            if let Some(DueEvent { at, uid, event }) = self.runtime.take_due(now) {
                self.report(&uid, event, at);
            } else if let Some(key) = self.pod_timers.take_due(now) {
                if let Some(entry) = self.pods.get_mut(&key) {
                    entry.elapse(now);
                }
                self.step_pod(&key, Input::Deadline, now);
            } else if let Some(name) = self.node_timers.take_due(now) {
                self.expire_node(&name, now);
            } else if let Some(group) = self.groups.timers.take_due(now) {
                self.groups.dirty.push(&group);
            } else if let Some(fault) = self.fault_objects.timers.take_due(now) {
                self.turn_fault(&fault, now);
            } else if let Some(load) = self.loads.timers.take_due(now) {
                self.retry_load(load);
            } else {
                return;
            }
        }
    }

    fn expire_node(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.expire(now);
        let is_evicting = node.faults.eviction.is_some_and(|at| at <= now) && !node.stopped();
        let has_faults = !node.faults.asked.is_empty() && node.removal == Removal::None;
        if is_evicting {
            self.evict(name, now);
        }
        match has_faults {
            true => self.apply_faults(name, now),
            false => self.refresh_node(name, now),
        }
        self.touch_node(name);
    }

    fn report(&mut self, uid: &str, event: Event, at: Timestamp) {
        let Some(key) = self.keys.get(uid).cloned() else { return };
        let Some(entry) = self.pods.get_mut(&key) else { return };
        match self.nodes.get(entry.node()) {
            Some(node) if node.stopped() => entry.hold(event, at),
            Some(_) | None => self.step_pod(&key, Input::Runtime(event), at),
        }
    }

    fn step_pod(&mut self, key: &Key, input: Input, now: Timestamp) {
        self.step_pod_late(key, input, now, now);
    }

    /// Steps a pod with an input that happened at `at`, and that its kubelet receives only now.
    fn step_pod_late(&mut self, key: &Key, input: Input, at: Timestamp, now: Timestamp) {
        let begun = match &input {
            Input::Runtime(Event::Started { container, .. } | Event::Adopted(container, _)) => {
                Some(*container)
            }
            Input::Runtime(_) | Input::Observed | Input::Deadline => None,
        };
        if !self.admit(key, now) {
            return;
        }
        let Some(entry) = self.pods.get_mut(key) else { return };
        let effects = entry.step(input, &self.references.sources, &mut self.runtime, (at, now));
        for event in effects.events {
            self.pod_notice(key, event);
        }
        if let Some(container) = begun {
            self.launch(key, container);
        }
        let uid = self.pods.get(key).map(|entry| Arc::clone(&entry.uid)).unwrap_or_default();
        let of_pod = |execution| PodExecution { pod: key.clone(), uid: Arc::clone(&uid), execution };
        self.executions.extend(effects.executions.into_iter().map(of_pod));
        self.touch_pod(key);
        self.release(key, false, now);
    }

    /// Schedules the pod for the next writes, and for its deadline.
    fn touch_pod(&mut self, key: &Key) {
        self.show(key);
        let Some(entry) = self.pods.get(key) else { return };
        if self.nodes.get(entry.node()).is_some_and(|node| !node.stopped()) {
            self.pod_timers.set(key, entry.deadline());
            self.dirty_pods.push(key);
        }
    }

    fn touch_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.get(name) {
            let name = name.to_owned();
            self.node_timers.set(&name, node.deadline());
            self.dirty_nodes.push(&name);
        }
    }

    /// The writes to begin now, within the limits. The status of a pod is computed here, so that one write
    /// has everything that happened so far.
    pub(crate) fn next_writes(&mut self, now: Timestamp) -> Vec<Write> {
        self.turn_groups(now);
        let mut writes = self.group_writes(now);
        while self.node_writes < NODE_WRITES {
            let Some(name) = self.dirty_nodes.pop() else { break };
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            if let Some(write) = node.next_write(&self.runtime.simulated, &self.device_classes, now) {
                self.node_writes += 1;
                writes.push(write);
            }
        }
        while self.pod_writes < POD_WRITES {
            let Some(key) = self.dirty_pods.pop() else { break };
            let Some(entry) = self.pods.get_mut(&key) else { continue };
            let Some(node) = self.nodes.get(entry.node()).filter(|node| node.is_linked()) else { continue };
            let (host, late) = (node.facts(self.config.minor), node.faults.effects.starts.write_delay());
            if let Some(write) = entry.next_write(host, late, now) {
                self.pod_writes += 1;
                writes.push(write);
            }
            self.pod_timers.set(&key, entry.deadline());
        }
        writes
    }

    /// Takes the result of a write from [`Self::next_writes`].
    pub(crate) fn written(&mut self, write: &Write, result: Result<Written, Failure>, now: Timestamp) {
        let node = match write {
            Write::PodStatus { key, uid, .. } | Write::RemovePod { key, uid, .. } => {
                self.pod_writes -= 1;
                if let Some(entry) = self.pods.get_mut(key).filter(|entry| entry.uid == *uid) {
                    entry.written(write, result, now);
                    self.touch_pod(key);
                }
                return;
            }
            Write::GroupStatus { .. }
            | Write::GroupSize { .. }
            | Write::FaultStatus { .. }
            | Write::LoadStatus { .. } => {
                return self.written_by_simulation(write, result, now);
            }
            Write::CreateNode(node) => node.metadata.name.clone().unwrap_or_default(),
            Write::NodeStatus { node, .. } | Write::Lease { node, .. } | Write::DeleteNode { node, .. } => {
                node.clone()
            }
            Write::ReclaimNotice { node, .. }
            | Write::FaultTimes { node, .. }
            | Write::NodeSpec { node, .. } => node.clone(),
            Write::Devices { node, pools, .. } => {
                let names = pools.classes.iter().filter_map(|class| class.metadata.name.clone());
                self.device_classes.extend(names.filter(|_| result.is_ok()));
                node.clone()
            }
        };
        self.node_writes -= 1;
        if matches!((write, &result), (Write::Lease { base: Some(_), .. }, Err(Failure::Conflict))) {
            self.suspect_twin(&node, now);
        }
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        if entry.written(write, result, &self.config, now) {
            self.node_notice(&node, "NodeReady", format!("Node {node} status is now: NodeReady"));
        }
        self.touch_node(&node);
        self.touch_group_of(&node);
        if self.nodes.get(&node).is_some_and(|entry| entry.removal == Removal::Done) {
            self.remove_node(&node, now);
        }
    }

    /// The time of the next deadline.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let own = [self.runtime.next_due(), self.pod_timers.next(), self.node_timers.next()];
        let simulation =
            [self.groups.timers.next(), self.fault_objects.timers.next(), self.loads.timers.next()];
        own.into_iter().chain(simulation).flatten().min()
    }

    /// The events since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn pod_notice(&mut self, key: &Key, event: PodEvent) {
        if !event.warning && !self.config.events {
            return;
        }
        let Some(entry) = self.pods.get(key) else { return };
        let PodEvent { warning, reason, message, container } = event;
        let field_path = container.and_then(|index| {
            let spec = entry.object().container(index)?;
            let field = match kind_of(entry.object(), index, spec) {
                Kind::Init | Kind::Sidecar => "initContainers",
                Kind::Regular => "containers",
                Kind::Ephemeral => "ephemeralContainers",
            };
            Some(format!("spec.{field}{{{}}}", spec.name))
        });
        self.notices.push(Notice {
            node: entry.node().to_owned(),
            regarding: Regarding::Pod {
                key: entry.key(),
                uid: Arc::clone(&entry.uid),
                field_path: field_path.unwrap_or_default(),
            },
            warning,
            reason,
            message,
            cause: entry.revision(),
        });
    }

    fn node_notice(&mut self, node: &str, reason: &'static str, message: String) {
        if self.config.events {
            let (node, regarding, cause) = (node.to_owned(), Regarding::Node, Revision(0));
            let reason = reason.into();
            self.notices.push(Notice { node, regarding, warning: false, reason, message, cause });
        }
    }
}

/// The annotations of this crate that have no effect on the pod.
fn invalid_annotations(pod: &PodObject) -> Vec<BadAnnotation> {
    let annotations = &pod.metadata.annotations;
    if !annotations.keys().any(|key| key.starts_with(behavior::ANNOTATION_PREFIX)) {
        return Vec::new();
    }
    let names: Vec<&str> = pod.containers().map(|spec| spec.name.as_str()).collect();
    behavior::check(annotations, &names)
}

/// The place of a new pod in the order in which its node admits pods.
fn order_of_admission(delta: &Delta<PodRecord>) -> (bool, Option<Timestamp>) {
    let (Delta::Added(record)
    | Delta::Updated { new: record, .. }
    | Delta::Resync(record)
    | Delta::Deleted(record)) = delta;
    record.pod.order_of_admission()
}

/// A queue of keys in the order of arrival, each at most once.
struct Queue<K> {
    order: VecDeque<K>,
    members: BTreeSet<K>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { order: VecDeque::new(), members: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Queue<K> {
    fn push(&mut self, key: &K) {
        if self.members.insert(key.clone()) {
            self.order.push_back(key.clone());
        }
    }

    fn pop(&mut self) -> Option<K> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        Some(key)
    }
}
