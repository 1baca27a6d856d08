//! One node in the manager: its state, its newest object and its writes, one at a time. Synchronous.

use super::pods::retry_wait;
use super::write::{Failure, Write, Written};
use crate::amounts::Amounts;
use crate::config::Config;
use crate::limits::{LEASE_INTERVAL, WRITE_RETRY_MAX};
use crate::node::admission::{Ledger, NodeProperties};
use crate::node::object::{self, Identity};
use crate::node::{Input, NodeState, Output, step};
use crate::record::NodeRecord;
use crate::runtime::sim::SimRuntime;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::{Key, Object, Revision};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A simulated node.
pub(super) struct NodeEntry {
    pub(super) identity: Identity,
    /// What the admitted pods occupy.
    pub(super) ledger: Ledger,
    /// The pods whose resizes wait for room.
    pub(super) resizes: BTreeSet<Key>,
    /// What decides about pods, by `record`; `None` until it is needed.
    properties: Option<Box<NodeProperties>>,
    index: usize,
    state: NodeState,
    record: Option<Arc<NodeRecord>>,
    /// Whether `record` differs from the node's current status; `None` until it is compared.
    stale: Option<bool>,
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
    /// A node that has not begun. `record` is its object, if it existed before this process.
    pub(super) fn new(identity: Identity, index: usize, record: Option<Arc<NodeRecord>>) -> Self {
        let (state, pending) = (NodeState::Unregistered, VecDeque::new());
        Self {
            identity,
            ledger: Ledger::default(),
            resizes: BTreeSet::new(),
            properties: None,
            index,
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
    pub(super) fn room(&mut self, config: &Config) -> (&NodeProperties, &Ledger) {
        let (record, identity) = (&self.record, &self.identity);
        let properties = self.properties.get_or_insert_with(|| {
            let shown = record.as_ref().and_then(|record| record.properties());
            Box::new(shown.unwrap_or_else(|| NodeProperties {
                name: identity.name.clone(),
                labels: object::labels(config, &identity.name),
                taints: Vec::new(),
                allocatable: Amounts::of(Some(&object::resources(config))),
            }))
        });
        (properties, &self.ledger)
    }

    /// Makes the first step: registers, or adopts the existing object.
    pub(super) fn begin(&mut self, config: &Config, now: Timestamp) {
        match self.record {
            Some(_) => self.registered(true, config, now),
            None => self.step(Input::Begin, now),
        }
    }

    pub(super) fn step(&mut self, input: Input, now: Timestamp) {
        let (state, outputs) = step(self.state, input, now);
        self.state = state;
        if self.stopped() {
            self.pending.clear();
            self.retry_at = None;
        }
        for output in outputs {
            if !self.pending.contains(&output) {
                self.pending.push_back(output);
            }
        }
    }

    /// Processes the deadline that [`Self::deadline`] returned.
    pub(super) fn expire(&mut self, config: &Config, now: Timestamp) {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        if self.state.deadline().is_some_and(|at| at <= now) {
            let stale = self.is_stale(config, now);
            self.step(Input::Deadline { stale }, now);
        }
    }

    /// Compares once per version of the object: the compared fields do not change with time.
    fn is_stale(&mut self, config: &Config, now: Timestamp) -> bool {
        let (identity, record) = (&self.identity, &self.record);
        *self.stale.get_or_insert_with(|| {
            let shown = record.as_ref().map(|record| record.status());
            shown.is_some_and(|shown| {
                object::stale(&object::status(config, identity, &[], None, now), Some(shown))
            })
        })
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        if self.stopped() {
            return None;
        }
        self.state.deadline().into_iter().chain(self.retry_at).min()
    }

    /// The next write, if one is due. At most one is in flight.
    pub(super) fn next_write(
        &mut self,
        config: &Config,
        runtime: &SimRuntime,
        now: Timestamp,
    ) -> Option<Write> {
        if self.in_flight || self.retry_at.is_some() {
            return None;
        }
        let node = self.identity.name.clone();
        let write = match self.pending.front()? {
            Output::Register => Write::CreateNode(Box::new(object::node(config, &self.identity, now))),
            Output::PostStatus => {
                let previous = self.record.as_ref().map(|record| record.status());
                let status = object::status(config, &self.identity, &runtime.images(&node), previous, now);
                Write::NodeStatus { node, status: Box::new(status) }
            }
            // The lease names the Node's uid as its owner, so a new lease waits until the informer shows the
            // Node.
            Output::RenewLease if !self.leased && self.record.is_none() => return None,
            Output::RenewLease => {
                let uid = self.record.as_ref().map(|record| record.uid());
                let lease = Box::new(object::lease(&node, uid, now));
                Write::Lease { exists: self.leased, base: self.lease_revision, lease, node }
            }
        };
        self.in_flight = true;
        Some(write)
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
            (Ok(written), Write::CreateNode(_)) => {
                self.settled(Output::Register);
                self.registered(!written.with_status, config, now);
                return true;
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
            (Ok(_), Write::PodStatus { .. } | Write::RemovePod { .. }) => {}
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
        let share = self.index as f64 / config.nodes.max(1) as f64;
        let offset = Duration::from_millis(LEASE_INTERVAL.mul_f64(share).as_millis() as u64);
        self.step(Input::Registered { adopted, offset }, now);
    }
}
