//! Groups of nodes in the manager: executes what `group::plan` decides, and reports it in the status of NodeGroups. Synchronous.

use super::devices::DeviceState;
use super::nodes::{Membership, NodeEntry, Removal};
use super::slots::Slots;
use super::timers::Timers;
use super::{Manager, Notice, Queue, Regarding};
use crate::device::spec::DeviceSpec;
use crate::group::cost::Spent;
use crate::group::names::Placeholders;
use crate::group::plan::{Action, Instance, InstanceState, plan, scheduled};
use crate::group::record::GroupRecord;
use crate::group::spec::{GroupSpec, OnNodeDelete};
use crate::group::template::{shape, zone};
use crate::group::{GROUP_LABEL, INDEX_ANNOTATION};
use crate::image::hash;
use crate::limits::{COST_INTERVAL, INSTANCE_CHANGES, INSTANCE_RETRY};
use crate::node;
use crate::record::NodeRecord;
use crate::shape::NodeShape;
use jiff::Timestamp;
use kstore_api::version::Minor;
use kstore_container_sim::time::later;
use kstore_informer::{Delta, Object, Revision};
use kstore_nondet::Rng;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A kind of the API of simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimKind {
    /// A group of nodes.
    NodeGroup,
    /// A fault of nodes.
    NodeFault,
    /// Annotations of pods from outside.
    PodBehavior,
    /// Requests to a Service; its name has its namespace and a slash before it.
    ServiceLoad,
}

/// The groups of this process.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) entries: BTreeMap<String, GroupEntry>,
    /// When a group has something to do next.
    pub(super) timers: Timers<String>,
    /// Groups that may have something to do, each once.
    pub(super) dirty: Queue<String>,
    /// The numbers by which nodes of groups have their networks, after those of the configuration's nodes.
    pub(super) slots: Slots,
    /// How often a group has looked at its nodes.
    #[cfg(test)]
    pub(super) turns: usize,
}

/// An instance that has no Node yet.
struct CreatingInstance {
    index: u32,
    since: Timestamp,
    /// When it registers, or fails.
    due: Timestamp,
    fails: bool,
    shape: NodeShape,
    devices: Arc<[DeviceSpec]>,
    /// From its registration until it is ready.
    starts: std::time::Duration,
    /// From then until its startup taints go away.
    tainted: std::time::Duration,
}

/// A group.
pub(super) struct GroupEntry {
    pub(super) record: Arc<GroupRecord>,
    /// The last valid spec.
    pub(super) spec: Option<GroupSpec>,
    pub(super) invalid: Option<String>,
    creating: BTreeMap<String, CreatingInstance>,
    /// Nodes of the group, those that go away among them.
    members: BTreeSet<String>,
    /// Instances that this process has asked for.
    created: u64,
    pub(super) failed: u32,
    /// Code and message of the last instance that never came, until another one comes.
    pub(super) failure: Option<(String, String)>,
    /// No instance is created before this time.
    not_before: Option<Timestamp>,
    pub(super) spent: Spent,
    /// Up to which time the schedule was followed.
    followed: Option<Timestamp>,
    /// A size to write.
    pub(super) resize: Option<u32>,
    /// The status that the server accepted last, and when.
    pub(super) sent: Option<(Value, Timestamp)>,
    pub(super) in_flight: bool,
    /// Whether the status is to be compared with what was sent.
    pub(super) is_changed: bool,
    /// The revision of the last write; older objects do not show it.
    pub(super) fence: Revision,
    pub(super) retry_at: Option<Timestamp>,
}

impl GroupEntry {
    fn new(record: Arc<GroupRecord>, now: Timestamp) -> Self {
        let status = &record.object.status;
        let since = status.spent_time.as_ref().map(|time| time.0);
        Self {
            spec: None,
            invalid: None,
            creating: BTreeMap::new(),
            members: BTreeSet::new(),
            created: 0,
            failed: 0,
            failure: None,
            not_before: None,
            spent: Spent::restored(&status.spent, since.unwrap_or(now)),
            followed: since,
            resize: None,
            sent: None,
            in_flight: false,
            is_changed: true,
            fence: Revision(0),
            retry_at: None,
            record,
        }
    }

    fn accrue(&mut self, now: Timestamp) {
        let price = self.spec.as_ref().map_or(0, |spec| spec.micros_per_hour);
        self.spent.advance(now, self.members.len() + self.creating.len(), price);
    }

    /// Takes the spec of the newest object. Returns why it is not valid, if that is news.
    fn read_spec(&mut self) -> Option<String> {
        let before = self.invalid.take();
        match GroupSpec::check(&self.record.object.spec) {
            Ok(spec) => {
                self.spec = Some(spec);
                None
            }
            Err(problem) => {
                self.invalid = Some(problem.clone());
                Some(problem).filter(|_| self.invalid != before)
            }
        }
    }
}

impl Manager {
    /// Takes changes from the informer of groups.
    pub(crate) fn observe_groups(&mut self, deltas: Vec<Delta<GroupRecord>>, now: Timestamp) {
        for delta in deltas {
            match delta {
                Delta::Added(record) | Delta::Updated { new: record, .. } | Delta::Resync(record) => {
                    self.observe_group(record, now);
                }
                Delta::Deleted(record) => self.end_group(record.name(), now),
            }
        }
    }

    fn observe_group(&mut self, record: Arc<GroupRecord>, now: Timestamp) {
        let name = record.name().to_owned();
        if self.groups.entries.get(&name).is_some_and(|entry| entry.record.uid() != record.uid()) {
            self.end_group(&name, now);
        }
        let is_new = !self.groups.entries.contains_key(&name);
        let entry = self
            .groups
            .entries
            .entry(name.clone())
            .or_insert_with(|| GroupEntry::new(Arc::clone(&record), now));
        if record.revision() < entry.record.revision() {
            return;
        }
        entry.accrue(now);
        entry.record = record;
        let problem = entry.read_spec();
        if let Some(problem) = problem {
            self.group_event(&name, true, "InvalidSimulation", problem);
        }
        if is_new {
            self.adopt_members(&name, now);
        }
        self.groups.dirty.push(&name);
    }

    /// Takes over the nodes that an earlier process made for the group.
    fn adopt_members(&mut self, group: &str, now: Timestamp) {
        let is_member = |record: &&Arc<NodeRecord>| record.label(GROUP_LABEL) == Some(group);
        let records: Vec<_> = self.others.values().filter(is_member).cloned().collect();
        for record in records {
            let index = record.annotation(INDEX_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(0);
            let name = record.key().name().to_owned();
            let Some(entry) = self.groups.entries.get(group) else { return };
            let doc = &entry.record.object.spec;
            let devices = entry.spec.as_ref().map(|spec| Arc::clone(&spec.devices)).unwrap_or_default();
            let draw = (self.seed, entry.created);
            let of = Placeholders { group, index, zone: zone(doc, index), draw };
            let shape = shape(&self.config, doc, &of, &name);
            let since = record.created().unwrap_or(now);
            let spec = entry.spec.as_ref().filter(|_| !shape.startup_taints.is_empty());
            let rng = Rng::seeded(hash(self.seed, &["taints", &name]));
            let tainted = spec.map(|spec| spec.startup_taints.draw(&rng));
            let pods = shape.pods();
            let Some((mut identity, slot)) = self.identity(&name, pods, Some(&record)) else { return };
            if let Some(ip) = record.internal_ip() {
                ip.clone_into(&mut identity.ip);
            }
            let mut node = NodeEntry::new(identity, slot, Arc::new(shape), Some(record));
            node.member = Some(Membership { group: group.into(), index, since, shown: None });
            node.devices = self.devices_of(devices);
            // How long the earlier process would have kept the taints is not known: they go away as after a new start.
            node.untaint_at = tainted.map(|tainted| later(now, tainted));
            self.join(group, &name);
            self.add_node(node, now);
        }
    }

    /// The devices of a new node. Kubernetes 1.33 serves no version of their API that is simulated: its nodes have none.
    fn devices_of(&self, specs: Arc<[DeviceSpec]>) -> DeviceState {
        DeviceState::new(if self.config.minor >= Minor::V34 { specs } else { Arc::default() })
    }

    fn join(&mut self, group: &str, node: &str) {
        if let Some(entry) = self.groups.entries.get_mut(group) {
            entry.members.insert(node.to_owned());
        }
    }

    /// The group is deleted: its instances are given up.
    fn end_group(&mut self, name: &str, now: Timestamp) {
        let Some(entry) = self.groups.entries.remove(name) else { return };
        self.groups.timers.set(&name.to_owned(), None);
        let drain = entry.spec.as_ref().and_then(|spec| spec.drain);
        for node in entry.members {
            self.terminate_instance(&node, drain, now);
        }
    }

    /// Notes that a node of a group may be another instance to its group than before: a group looks at all of its nodes, so it does not for
    /// each renewal of a Lease.
    pub(super) fn touch_group_of(&mut self, node: &str) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        let state = node.instance_state();
        let Some(member) = &mut node.member else { return };
        let uid = node.record.as_ref().map_or("", |record| record.uid());
        if member.shown.as_ref().is_some_and(|shown| shown.0 == state && *shown.1 == *uid) {
            return;
        }
        member.shown = Some((state, uid.into()));
        self.groups.dirty.push(&member.group.to_string());
    }

    /// Lets all groups act that may have something to do. A group whose turn ended early comes again in the next call.
    pub(super) fn turn_groups(&mut self, now: Timestamp) {
        let mut names = BTreeSet::new();
        while let Some(name) = self.groups.dirty.pop() {
            names.insert(name);
        }
        for name in &names {
            self.turn_group(name, now);
        }
    }

    fn turn_group(&mut self, name: &str, now: Timestamp) {
        #[cfg(test)]
        {
            self.groups.turns += 1;
        }
        self.register_due(name, now);
        self.follow_schedule(name, now);
        let instances = self.instances(name);
        let Some(entry) = self.groups.entries.get_mut(name) else { return };
        entry.accrue(now);
        entry.not_before = entry.not_before.filter(|at| *at > now);
        entry.retry_at = entry.retry_at.filter(|at| *at > now);
        let is_waiting = entry.not_before.is_some();
        entry.is_changed = true;
        let actions = entry.spec.as_ref().map(|spec| plan(spec, &instances)).unwrap_or_default();
        let is_more = actions.len() == INSTANCE_CHANGES;
        for action in actions {
            match action {
                Action::Create(_) if is_waiting => {}
                Action::Create(index) => self.create_instance(name, index, now),
                Action::Cancel(instance) => {
                    if let Some(entry) = self.groups.entries.get_mut(name) {
                        entry.creating.remove(&instance);
                    }
                }
                Action::Terminate(instance) => {
                    self.group_event(
                        name,
                        false,
                        "InstanceTerminated",
                        format!("node {instance} is given up"),
                    );
                    let spec = self.groups.entries.get(name).and_then(|entry| entry.spec.as_ref());
                    self.terminate_instance(&instance, spec.and_then(|spec| spec.drain), now);
                }
            }
        }
        self.register_due(name, now);
        self.set_group_timer(name, is_more, now);
    }

    /// Sets when the group has something to do next.
    fn set_group_timer(&mut self, name: &str, is_more: bool, now: Timestamp) {
        let Some(entry) = self.groups.entries.get(name) else { return };
        let created = entry.record.object.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let schedule = entry.spec.as_ref().and_then(|spec| scheduled(&spec.schedule, created, now).1);
        let due = entry.creating.values().map(|one| one.due).min();
        let report = entry.sent.as_ref().map(|(_, at)| later(*at, COST_INTERVAL)).filter(|at| *at > now);
        let more = is_more.then_some(now);
        let next =
            [schedule, due, entry.retry_at, entry.not_before, report, more].into_iter().flatten().min();
        self.groups.timers.set(&name.to_owned(), next);
    }

    /// The instances of a group.
    pub(super) fn instances(&self, name: &str) -> Vec<Instance> {
        let Some(entry) = self.groups.entries.get(name) else { return Vec::new() };
        let creating = entry.creating.iter().map(|(name, one)| Instance {
            name: name.clone(),
            index: one.index,
            state: InstanceState::Creating,
            since: one.since,
            pods: 0,
            is_unwanted: false,
        });
        let members = entry.members.iter().filter_map(|name| {
            let node = self.nodes.get(name)?;
            let member = node.member.as_ref()?;
            let state = node.instance_state();
            let pods = self.by_node.get(name).map_or(0, BTreeSet::len);
            let is_unwanted =
                node.record.as_ref().is_some_and(|record| entry.record.is_removing(record.uid()));
            let (name, index, since) = (name.clone(), member.index, member.since);
            Some(Instance { name, index, state, since, pods, is_unwanted })
        });
        creating.chain(members).collect()
    }

    fn create_instance(&mut self, group: &str, index: u32, now: Timestamp) {
        let Some(entry) = self.groups.entries.get_mut(group) else { return };
        let Some(spec) = &entry.spec else { return };
        let seed = hash(self.seed, &[entry.record.uid()]);
        let of = Placeholders { group, index, zone: zone(&spec.doc, index), draw: (seed, entry.created) };
        let name = spec.names.name(&of);
        let rng = Rng::seeded(hash(seed, &["startup", &entry.created.to_string()]));
        let (provision, register, starts) =
            (spec.provision.draw(&rng), spec.register.draw(&rng), spec.ready.draw(&rng));
        let fail = spec.doc.startup.fail.as_ref();
        let fails = fail.is_some_and(|fail| {
            fail.times.is_none_or(|times| entry.failed < times) && rng.unit() < fail.probability
        });
        let instance = CreatingInstance {
            index,
            since: now,
            due: later(later(now, provision), if fails { std::time::Duration::ZERO } else { register }),
            fails,
            shape: shape(&self.config, &spec.doc, &of, &name),
            devices: Arc::clone(&spec.devices),
            starts,
            tainted: spec.startup_taints.draw(&rng),
        };
        let taken =
            self.nodes.get(&name).map(|node| node.member.as_ref().map(|member| Arc::clone(&member.group)));
        let problem = match taken {
            Some(Some(other)) => {
                Some(format!("node {name:?} belongs to group {:?}; change namePattern", &*other))
            }
            Some(None) => Some(format!("node {name:?} is one of --nodes; change namePattern")),
            None if self.others.contains_key(&name) => {
                Some(format!("node {name:?} exists and is not simulated by this process; not touched"))
            }
            None => None,
        };
        entry.created += 1;
        if let Some(problem) = problem {
            entry.not_before = Some(later(now, INSTANCE_RETRY));
            if entry.invalid.as_ref() != Some(&problem) {
                entry.invalid = Some(problem.clone());
                self.group_event(group, true, "InvalidSimulation", problem);
            }
            return;
        }
        entry.creating.insert(name, instance);
    }

    /// Registers the instances of a group whose time has come.
    fn register_due(&mut self, group: &str, now: Timestamp) {
        let Some(entry) = self.groups.entries.get_mut(group) else { return };
        entry.accrue(now);
        let due: Vec<String> =
            entry.creating.iter().filter(|(_, one)| one.due <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            let Some(entry) = self.groups.entries.get_mut(group) else { return };
            let Some(instance) = entry.creating.remove(&name) else { continue };
            if instance.fails {
                self.instance_failed(group, &name, now);
                continue;
            }
            let (network, pods) = (self.config.pod_network, instance.shape.pods());
            let Some((identity, slot)) = self.identity(&name, pods, None) else {
                let text = format!(
                    "node {name:?} gets no pod network: {network} has no further subnet for {pods} pods"
                );
                self.group_event(group, true, "InvalidSimulation", text);
                if let Some(entry) = self.groups.entries.get_mut(group) {
                    entry.not_before = Some(later(now, INSTANCE_RETRY));
                }
                continue;
            };
            let has_startup_taints = !instance.shape.startup_taints.is_empty();
            let mut node = NodeEntry::new(identity, slot, Arc::new(instance.shape), None);
            let (index, since) = (instance.index, instance.since);
            let member = Membership { group: group.into(), index, since, shown: None };
            node.member = Some(member);
            node.devices = self.devices_of(instance.devices);
            let ready_at = later(now, instance.starts);
            node.ready_at = Some(ready_at).filter(|at| *at > now);
            node.untaint_at = Some(later(ready_at, instance.tainted)).filter(|_| has_startup_taints);
            self.join(group, &name);
            self.add_node(node, now);
            if let Some(entry) = self.groups.entries.get_mut(group) {
                entry.failure = None;
            }
            self.group_event(group, false, "InstanceCreated", format!("node {name} registers"));
        }
    }

    fn instance_failed(&mut self, group: &str, name: &str, now: Timestamp) {
        let Some(entry) = self.groups.entries.get_mut(group) else { return };
        entry.failed += 1;
        entry.not_before = Some(later(now, INSTANCE_RETRY));
        let fail = entry.spec.as_ref().and_then(|spec| spec.doc.startup.fail.clone()).unwrap_or_default();
        let code = if fail.code.is_empty() { "InstanceFailed" } else { &fail.code };
        entry.failure = Some((code.to_owned(), fail.message.clone()));
        self.group_event(
            group,
            true,
            "InstanceFailed",
            format!("node {name} does not come: {code} {}", fail.message),
        );
    }

    /// The machine of an instance ends: its kubelet stops at once, and its Node is deleted after the group's delay.
    pub(super) fn end_machine(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if node.removal != Removal::None && !node.is_draining() {
            return;
        }
        let group = node.member.as_ref().map(|member| member.group.to_string()).unwrap_or_default();
        let entry = self.groups.entries.get(&group);
        let delay = entry.and_then(|entry| entry.spec.as_ref()).map(|spec| spec.shutdown).unwrap_or_default();
        node.faults = super::node_faults::FaultState::default();
        node.removal = if delay.is_zero() { Removal::Due } else { Removal::At(later(now, delay)) };
        node.step(node::Input::Stop, now);
        for key in self.pods_on(name) {
            self.pod_timers.set(&key, None);
        }
        self.is_serving_changed = true;
        self.groups.dirty.push(&group);
        self.touch_node(name);
    }

    /// Follows the deletion of the Node object of an instance. Returns whether the instance is gone, too.
    pub(super) fn forget_instance(&mut self, name: &str, now: Timestamp) -> bool {
        let Some(node) = self.nodes.get(name) else { return false };
        let Some(member) = &node.member else { return false };
        let group = member.group.to_string();
        let policy = self
            .groups
            .entries
            .get(&group)
            .and_then(|entry| entry.spec.as_ref())
            .map(|spec| spec.on_node_delete);
        match (node.removal, policy.unwrap_or_default()) {
            (Removal::None, OnNodeDelete::Stay) => return false,
            (Removal::None, OnNodeDelete::Shrink) => {
                if let Some(entry) = self.groups.entries.get_mut(&group) {
                    let size = entry.resize.unwrap_or(entry.record.object.spec.replicas);
                    entry.resize = Some(size.saturating_sub(1));
                }
            }
            _ => {}
        }
        self.remove_node(name, now);
        true
    }

    /// Forgets a node with its pods.
    pub(super) fn remove_node(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get(name) else { return };
        let (slot, group) = (node.slot, node.member.as_ref().map(|member| member.group.to_string()));
        self.forget_pods_of(name, now);
        self.nodes.remove(name);
        self.by_node.remove(name);
        self.node_timers.set(&name.to_owned(), None);
        self.runtime.simulated.remove_node(name);
        self.subnets.give_back(name);
        if let Some(number) = slot.checked_sub(self.config.nodes) {
            self.groups.slots.give_back(number);
        }
        self.is_serving_changed = true;
        if let Some(group) = group {
            if let Some(entry) = self.groups.entries.get_mut(&group) {
                entry.accrue(now);
                entry.members.remove(name);
            }
            self.groups.dirty.push(&group);
        }
    }

    /// Gives the group the size that its schedule says.
    fn follow_schedule(&mut self, name: &str, now: Timestamp) {
        let Some(entry) = self.groups.entries.get_mut(name) else { return };
        let Some(spec) = &entry.spec else { return };
        let created = entry.record.object.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        if let (Some((at, replicas)), _) = scheduled(&spec.schedule, created, now)
            && entry.followed.is_none_or(|followed| followed < at)
        {
            entry.followed = Some(at);
            entry.resize = Some(replicas).filter(|size| *size != spec.doc.replicas);
        }
    }

    pub(super) fn group_event(&mut self, group: &str, warning: bool, reason: &'static str, message: String) {
        let Some(entry) = self.groups.entries.get(group) else { return };
        let uid: Arc<str> = entry.record.uid().into();
        let cause = entry.record.revision();
        self.sim_event((SimKind::NodeGroup, group, uid), warning, (reason, message), cause);
    }

    /// Records an event about an object of the API of simulations.
    pub(super) fn sim_event(
        &mut self,
        (kind, name, uid): (SimKind, &str, Arc<str>),
        warning: bool,
        (reason, message): (&'static str, String),
        cause: Revision,
    ) {
        let regarding = Regarding::Simulated { kind, name: name.to_owned(), uid };
        let reason = Cow::Borrowed(reason);
        self.notices.push(Notice { node: String::new(), regarding, warning, reason, message, cause });
    }
}
