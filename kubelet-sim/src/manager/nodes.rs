//! One node in the manager: its state, its newest object and its writes, one at a time. Synchronous.

use super::devices::DeviceState;
use super::node_faults::FaultState;
use super::pods::retry_wait;
use super::write::{Failure, Write, Written};
use super::write_delay::WriteDelay;
use crate::amounts::Amounts;
use crate::config::Config;
use crate::group::plan::InstanceState;
use crate::limits::WRITE_RETRY_MAX;
use crate::node::admission::{Ledger, NodeProperties};
use crate::node::health::Health;
use crate::node::object::{self, Identity};
use crate::node::{Input, NodeState, Output, step};
use crate::record::NodeRecord;
use crate::runtime::sim::SimRuntime;
use crate::shape::NodeShape;
use crate::status::KubeletFacts;
use crate::time::NodeClock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use kstore_api::version::Minor;
use kstore_container_sim::time::later;
use kstore_informer::{Key, Object, Revision};
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Different offsets of the heartbeats of groups' nodes, whose number is not known from the start: one for each tick of an interval.
const GROUP_PHASES: usize = 40;

/// The place of a node in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    pub(super) group: Arc<str>,
    pub(super) index: u32,
    /// When the group asked for the instance.
    pub(super) since: Timestamp,
    /// The state and the UID of the Node with which the group was last asked to look at it.
    pub(super) shown: Option<(InstanceState, Box<str>)>,
}

/// The end of a node whose machine is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Removal {
    /// The machine is there.
    #[default]
    None,
    /// Its pods end, and its machine at this time at the latest.
    Draining(Timestamp),
    /// The Node object is deleted at this time.
    At(Timestamp),
    /// The Node object is to be deleted now.
    Due,
    /// It was deleted; the informer has not shown it yet.
    Sent,
    /// There is no such object.
    Done,
}

/// A simulated node.
pub(super) struct NodeEntry {
    pub(super) identity: Identity,
    /// What it reports about itself.
    pub(super) shape: Arc<NodeShape>,
    pub(super) health: Health,
    /// What keeps its container runtime from running pods.
    pub(super) runtime_problem: Option<String>,
    /// Whether another client created it: what that client set stays.
    pub(super) is_adopted: bool,
    /// Whether its Node follows stages, which then write the status.
    pub(super) follows_stages: bool,
    /// The group that made it, if one did.
    pub(super) member: Option<Membership>,
    /// When its start is over; `None`: it is.
    pub(super) ready_at: Option<Timestamp>,
    /// When its startup taints go away; `None`: they have, or are to go now.
    pub(super) untaint_at: Option<Timestamp>,
    /// Whether startup taints are to be removed.
    untaint: bool,
    pub(super) faults: FaultState,
    /// What its clock shows.
    pub(super) clock: NodeClock,
    /// The wait of its next write, while it is slow.
    delay: WriteDelay,
    pub(super) devices: DeviceState,
    pub(super) removal: Removal,
    /// Whether it is to be cordoned.
    pub(super) is_cordoning: bool,
    /// The number by which it got its networks.
    pub(super) slot: usize,
    /// What the admitted pods occupy.
    pub(super) ledger: Ledger,
    /// The pods whose resizes wait for room.
    pub(super) resizes: BTreeSet<Key>,
    /// What decides about pods, by `record`; `None` until it is needed.
    pub(super) properties: Option<Box<NodeProperties>>,
    pub(super) state: NodeState,
    pub(super) record: Option<Arc<NodeRecord>>,
    /// Whether `record` differs from the node's current status; `None` until it is compared.
    pub(super) stale: Option<bool>,
    leased: bool,
    /// The revision of the lease after its last renewal by this process; `None` before, and when the outcome is unknown.
    lease_revision: Option<Revision>,
    /// Pending writes, in order, without duplicates.
    pending: VecDeque<Output>,
    in_flight: bool,
    failures: u32,
    retry_at: Option<Timestamp>,
}

impl NodeEntry {
    /// The state of the node as an instance of its group.
    pub(super) fn instance_state(&self) -> InstanceState {
        let is_ready = self.is_registered() && self.health.not_ready.is_none() && self.is_linked();
        match (self.removal, is_ready) {
            (Removal::None, true) => InstanceState::Ready,
            (Removal::None, false) => InstanceState::Registered,
            (_, _) => InstanceState::Terminating,
        }
    }

    /// A node that has not begun. `record` is its object, if it existed before this process.
    pub(super) fn new(
        identity: Identity,
        slot: usize,
        shape: Arc<NodeShape>,
        record: Option<Arc<NodeRecord>>,
    ) -> Self {
        let (state, pending) = (NodeState::Unregistered, VecDeque::new());
        Self {
            identity,
            shape,
            health: Health::default(),
            runtime_problem: None,
            is_adopted: false,
            follows_stages: false,
            member: None,
            ready_at: None,
            untaint_at: None,
            untaint: false,
            faults: FaultState::default(),
            clock: NodeClock::default(),
            delay: WriteDelay::default(),
            devices: DeviceState::default(),
            removal: Removal::None,
            is_cordoning: false,
            slot,
            ledger: Ledger::default(),
            resizes: BTreeSet::new(),
            properties: None,
            state,
            // Its lease most likely exists too; if not, the renewal creates it.
            leased: record.is_some(),
            record,
            stale: None,
            lease_revision: None,
            pending,
            in_flight: false,
            failures: 0,
            retry_at: None,
        }
    }

    /// Whether a fault stopped the node: its writes and its pods' steps are held back.
    pub(super) fn stopped(&self) -> bool {
        matches!(self.state, NodeState::Stopped { .. })
    }

    /// What it gives the status of its pods.
    pub(super) fn facts(&self, minor: Minor) -> KubeletFacts<'_> {
        KubeletFacts { ip: &self.identity.ip, minor, clock: &self.clock }
    }

    /// Whether its Node object exists and its lease is renewed.
    pub(super) fn is_registered(&self) -> bool {
        matches!(self.state, NodeState::Alive { .. }) && self.leased && self.record.is_some()
    }

    pub(super) fn observe(&mut self, record: Option<Arc<NodeRecord>>) {
        self.record = record;
        self.stale = None;
        self.properties = None;
    }

    /// What decides about pods: the properties of the Node object, or before there is one the node's own, and what is occupied.
    pub(super) fn room(&mut self) -> (&NodeProperties, &Ledger) {
        let (record, identity, shape, health) = (&self.record, &self.identity, &self.shape, &self.health);
        let properties = self.properties.get_or_insert_with(|| {
            let shown = record.as_ref().and_then(|record| record.properties());
            let properties = shown.unwrap_or_else(|| NodeProperties {
                name: identity.name.clone(),
                labels: object::labels(shape, &identity.name),
                taints: shape.first_taints(),
                allocatable: Amounts::of(Some(&shape.allocatable)),
                pressures: Vec::new(),
            });
            Box::new(NodeProperties { pressures: health.pressures(), ..properties })
        });
        (properties, &self.ledger)
    }

    /// Makes the first step: registers, or adopts the existing object.
    pub(super) fn begin(&mut self, config: &Config, now: Timestamp) {
        self.follows_stages = config.stages.has_nodes();
        match self.record {
            Some(_) => self.registered(true, config, now),
            None => self.step(Input::Begin, now),
        }
    }

    pub(super) fn step(&mut self, input: Input, now: Timestamp) {
        let (state, outputs) = step(self.state, input, self.shape.lease.interval, now);
        self.state = state;
        if self.stopped() {
            self.pending.clear();
            self.retry_at = None;
        }
        for output in outputs {
            let is_for_stages = self.follows_stages && output == Output::PostStatus;
            if !is_for_stages && !self.pending.contains(&output) {
                self.pending.push_back(output);
            }
        }
    }

    /// Posts the status soon, because it has changed. A node that is not registered posts it then.
    pub(super) fn post_status(&mut self) {
        (self.stale, self.properties) = (None, None);
        let is_posted = matches!(self.state, NodeState::Alive { .. }) && !self.follows_stages;
        if is_posted && !self.pending.contains(&Output::PostStatus) {
            self.pending.push_back(Output::PostStatus);
        }
    }

    /// Processes the deadline that [`Self::deadline`] returned.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        self.delay.elapse(now);
        if self.untaint_at.is_some_and(|at| at <= now) {
            (self.untaint_at, self.untaint) = (None, true);
        }
        if matches!(self.removal, Removal::At(at) if at <= now) {
            self.removal = Removal::Due;
        }
        if self.state.deadline().is_some_and(|at| at <= now) {
            let stale = self.is_stale(now);
            self.step(Input::Deadline { stale }, now);
        }
    }

    /// Compares once per version of the object: the compared fields do not change with time.
    fn is_stale(&mut self, now: Timestamp) -> bool {
        let (identity, record, shape, health) = (&self.identity, &self.record, &self.shape, &self.health);
        let is_adopted = self.is_adopted;
        *self.stale.get_or_insert_with(|| {
            let shown = record.as_ref().map(|record| record.status());
            shown.is_some_and(|shown| {
                let ours = object::status(shape, identity, health, &[], None, now);
                let ours = if is_adopted { object::keeping(ours, shown) } else { ours };
                object::stale(&ours, Some(shown))
            })
        })
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let removal = match self.removal {
            Removal::At(at) | Removal::Draining(at) => Some(at),
            Removal::None | Removal::Due | Removal::Sent | Removal::Done => None,
        };
        let own = self.state.deadline().into_iter().chain(self.retry_at).chain(self.delay.deadline());
        let own = own.chain(self.ready_at).chain(self.untaint_at);
        let own = own.chain(self.faults.eviction).min().filter(|_| !self.stopped());
        own.into_iter().chain(removal).chain(self.faults.deadline()).min()
    }

    /// The next write, if one is due. At most one is in flight.
    pub(super) fn next_write(
        &mut self,
        runtime: &SimRuntime,
        classes: &BTreeSet<String>,
        now: Timestamp,
    ) -> Option<Write> {
        let node = self.identity.name.clone();
        if self.removal == Removal::Due && !self.in_flight {
            self.in_flight = true;
            let uid = self.record.as_ref().map(|record| record.uid().to_owned()).unwrap_or_default();
            return Some(Write::DeleteNode { node, uid });
        }
        if self.in_flight || self.retry_at.is_some() {
            return None;
        }
        if let Some(write) = self.fault_times_write() {
            self.in_flight = true;
            return Some(write);
        }
        if self.faults.effects.is_cut {
            return None;
        }
        let write = self.reclaim_write().or_else(|| self.untaint_write()).or_else(|| self.cordon_write());
        if let Some(write) = write.or_else(|| self.device_write(classes)) {
            self.in_flight = true;
            return Some(write);
        }
        let Some(output) = self.pending.front() else {
            self.delay.withdraw();
            return None;
        };
        if !self.delay.admits(self.faults.effects.starts.write_delay(), now) {
            return None;
        }
        let (shape, health, now) = (&self.shape, &self.health, self.clock.show(now));
        let write = match output {
            Output::Register => {
                let mut node = object::node(shape, &self.identity, health, now);
                if self.follows_stages
                    && let Some(status) = &mut node.status
                {
                    status.conditions = None;
                }
                Write::CreateNode(Box::new(node))
            }
            Output::PostStatus => {
                let previous = self.record.as_ref().map(|record| record.status());
                let images = runtime.images(&node);
                let status = object::status(shape, &self.identity, health, &images, previous, now);
                let status = match previous.filter(|_| self.is_adopted) {
                    Some(previous) => object::keeping(status, previous),
                    None => status,
                };
                Write::NodeStatus { node, status: Box::new(status) }
            }
            // The lease names the Node's uid as its owner, so a new lease waits until the informer shows the
            // Node.
            Output::RenewLease if !self.leased && self.record.is_none() => return None,
            Output::RenewLease => {
                let uid = self.record.as_ref().map(|record| record.uid());
                let lease = Box::new(object::lease(&node, uid, shape.lease.seconds, now));
                Write::Lease { exists: self.leased, base: self.lease_revision, lease, node }
            }
        };
        self.in_flight = true;
        Some(write)
    }

    /// The write that removes the startup taints, if their time is over and the Node shows some.
    fn untaint_write(&self) -> Option<Write> {
        let record = self.record.as_ref().filter(|_| self.untaint && !self.stopped())?;
        let startup = &self.shape.startup_taints;
        let is_startup =
            |taint: &&Taint| startup.iter().any(|one| (&one.key, &one.effect) == (&taint.key, &taint.effect));
        let shown = record.taints();
        if !shown.iter().any(|taint| is_startup(&taint)) {
            return None;
        }
        let rest: Vec<&Taint> = shown.iter().filter(|taint| !is_startup(taint)).collect();
        let metadata = json!({ "resourceVersion": record.revision().to_string() });
        let patch = Box::new(json!({ "metadata": metadata, "spec": { "taints": rest } }));
        Some(Write::NodeSpec { node: self.identity.name.clone(), patch })
    }

    /// Takes the result of the write in flight. True if the node has just registered.
    pub(super) fn written(
        &mut self,
        write: &Write,
        result: Result<Written, Failure>,
        config: &Config,
        now: Timestamp,
    ) -> bool {
        self.in_flight = false;
        if matches!((&result, write), (Err(_), Write::Lease { .. })) {
            self.lease_revision = None;
        }
        match (result, write) {
            (Ok(_), Write::DeleteNode { .. }) => self.removal = Removal::Sent,
            (Err(Failure::NotFound), Write::DeleteNode { .. }) => self.removal = Removal::Done,
            (Err(_), Write::DeleteNode { .. }) => self.removal = Removal::At(later(now, WRITE_RETRY_MAX)),
            (Ok(written), Write::CreateNode(node)) => {
                self.settled(Output::Register);
                self.registered(!written.with_status, config, now);
                // What changed while the object was under way is not in it.
                let ours = object::status(&self.shape, &self.identity, &self.health, &[], None, now);
                if object::differs(&ours, node.status.as_ref()) {
                    self.post_status();
                }
                return self.health.not_ready.is_none();
            }
            (Err(Failure::AlreadyExists), Write::CreateNode(_)) => {
                self.settled(Output::Register);
                self.registered(true, config, now);
            }
            (Ok(written), Write::Lease { .. }) => {
                self.leased = true;
                self.lease_revision = Some(written.revision).filter(|revision| *revision > Revision(0));
                self.settled(Output::RenewLease);
            }
            // As in Kubernetes, a deleted Node is not registered again while its kubelet runs.
            (Ok(_) | Err(Failure::NotFound), Write::NodeStatus { .. }) => self.settled(Output::PostStatus),
            // A cordon has no taints, and both are not under way at once.
            (Ok(_) | Err(Failure::NotFound), Write::NodeSpec { patch, .. }) => {
                match patch["spec"].get("taints") {
                    Some(_) => self.untaint = false,
                    None => self.is_cordoning = false,
                }
            }
            (Ok(_) | Err(Failure::NotFound), Write::ReclaimNotice { .. }) => self.faults.reclaim_shown(),
            // Without the right to annotate Nodes the times begin anew if the simulation restarts.
            (Ok(_) | Err(Failure::NotFound | Failure::Refused(_)), Write::FaultTimes { patch, .. }) => {
                self.faults.times_shown(patch);
            }
            (Ok(_), Write::Devices { version, .. }) => {
                self.failures = 0;
                self.devices.written(*version);
            }
            (Ok(_), Write::PodStatus { .. } | Write::RemovePod { .. }) => {}
            (Ok(_), Write::GroupStatus { .. } | Write::GroupSize { .. }) => {}
            (Ok(_), Write::FaultStatus { .. } | Write::LoadStatus { .. }) => {}
            (Err(Failure::Refused(why)), _) => {
                tracing::warn!(node = self.identity.name, why, "the server refuses a write");
                self.retry_at = Some(later(now, WRITE_RETRY_MAX));
            }
            (Err(_), _) => {
                self.failures += 1;
                self.retry_at = Some(later(now, retry_wait(self.failures)));
            }
        }
        false
    }

    fn settled(&mut self, output: Output) {
        self.failures = 0;
        self.pending.retain(|pending| *pending != output);
    }

    fn registered(&mut self, adopted: bool, config: &Config, now: Timestamp) {
        // Spread over one interval, so that the leases of thousands of nodes are not renewed in one burst.
        let share = match self.slot < config.nodes {
            true => self.slot as f64 / config.nodes as f64,
            false => (self.slot % GROUP_PHASES) as f64 / GROUP_PHASES as f64,
        };
        let offset = Duration::from_millis(self.shape.lease.interval.mul_f64(share).as_millis() as u64);
        self.step(Input::Registered { adopted, offset }, now);
    }
}
