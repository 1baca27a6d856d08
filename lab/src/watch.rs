//! [`WatchControl`]: what the lab decides about one open watch. The API server asks it before each event, in whatever form the client
//! reads them; so a cache holds events, a plan observes them, and a fault ends the watch between two of them.

use crate::order::EventId;
use crate::order::choose::{OrderKey, WaitingKind};
use crate::perturb::Perturbations;
use crate::plan::matching::{Observation, ObservedEvent};
use crate::plan::run::Verdicts;
use crate::request::{CutForm, EventPhase, EventType, RequestTarget, Verb, WatchEnding};
use crate::select::ClientIdentity;
use jiff::Timestamp;
use kstore_nondet::Clock;
use kstore_registry::cache::{self, Delivery, ReadBound, Verdict, WatchEnd};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Notify;

/// Who reads a watch, and what.
#[derive(Clone, Debug)]
pub struct WatchIdentity {
    /// Position in the request log.
    pub number: u64,
    /// Name of the client.
    pub client: String,
    /// User.
    pub user: String,
    /// Whole user agent.
    pub agent: String,
    /// What is watched; of a gRPC call the kinds are known with the first event.
    pub target: RequestTarget,
    /// Whether the clock waits for the client, so that its events have turns in the serial order.
    pub is_counted: bool,
}

/// How a watch begins.
#[derive(Clone, Debug, Default)]
pub struct WatchBegin {
    /// Revision of the initial state; `None`: the newest.
    pub state: Option<i64>,
    /// Why it ends at once.
    pub refusal: Option<WatchEnd>,
    /// How it ends early.
    pub ending: Option<WatchEnding>,
}

/// The lab's control over one watch, or the bound of one read.
#[derive(Debug)]
pub struct WatchControl {
    hub: Arc<Perturbations>,
    identity: WatchIdentity,
    begin: WatchBegin,
    clock: Clock,
    state: Mutex<WatchProgress>,
}

#[derive(Debug, Default)]
struct WatchProgress {
    /// Events that were let pass.
    shown: u64,
    /// Revision of the last one.
    last: i64,
    /// The event that has had its turn in the serial order.
    turn: Option<EventId>,
    /// The event that was observed last, by revision and name, so that plans observe each once.
    observed: Option<EventId>,
    /// The hold of that event.
    hold: Option<u64>,
    ending: Option<WatchEnding>,
    /// How the body is to end.
    cut: Option<CutForm>,
}

impl WatchControl {
    /// Control of a watch that begins.
    pub fn new(hub: Arc<Perturbations>, identity: WatchIdentity, begin: WatchBegin, clock: Clock) -> Self {
        let state = WatchProgress { ending: begin.ending, ..WatchProgress::default() };
        Self { hub, identity, begin, clock, state: Mutex::new(state) }
    }

    /// How the body of the watch is to end, once the lab has ended it.
    pub fn cut(&self) -> Option<CutForm> {
        self.state.lock().cut
    }

    fn client(&self) -> ClientIdentity<'_> {
        let WatchIdentity { client, user, agent, .. } = &self.identity;
        ClientIdentity { name: client, user, agent }
    }

    /// Applies an ending that is due before an event.
    fn end(&self, state: &mut WatchProgress, delivery: &Delivery) -> Option<Verdict> {
        match state.ending? {
            WatchEnding::Cut { after, .. } if state.shown < after => None,
            WatchEnding::Cut { how: CutForm::Frame, .. } => {
                // This event goes to the body, which breaks within it.
                let is_first = state.cut.replace(CutForm::Frame).is_none();
                Some(if is_first { Verdict::Show } else { Verdict::End(WatchEnd::Closed) })
            }
            WatchEnding::Cut { how, .. } => {
                state.cut = Some(how);
                Some(Verdict::End(WatchEnd::Closed))
            }
            WatchEnding::Expired => {
                let oldest = delivery.change.revision;
                let after = if state.last == 0 { oldest - 1 } else { state.last };
                let WatchIdentity { client, target, .. } = &self.identity;
                self.hub.expire(client, &target.resource, after);
                Some(Verdict::End(WatchEnd::Expired { after, oldest }))
            }
        }
    }

    /// Lets plans observe an event once. Returns the hold.
    fn observe(&self, state: &mut WatchProgress, delivery: &Delivery, now: Timestamp) -> Option<u64> {
        let key = event_id(delivery);
        if state.observed.as_ref() == Some(&key) {
            return state.hold;
        }
        state.observed = Some(key);
        let verdicts = self.tell(delivery, EventPhase::Due, now);
        if let Some(fault) = verdicts.faults.first() {
            let ending =
                crate::fault::answer::intervention(fault, &self.identity.user, &self.identity.target);
            state.ending = match ending.ending {
                Some(WatchEnding::Cut { how, after }) => {
                    Some(WatchEnding::Cut { how, after: after + state.shown })
                }
                ending => ending,
            };
        }
        state.hold = verdicts.hold;
        state.hold
    }

    /// Whether an event has its turn in the serial order. An event has one turn, also if a plan or a cache holds it afterwards.
    fn has_turn(&self, state: &mut WatchProgress, delivery: &Delivery) -> bool {
        if !self.identity.is_counted || !self.hub.order.is_on() {
            return true;
        }
        let event = event_id(delivery);
        if state.turn.as_ref() == Some(&event) {
            return true;
        }
        let key = || OrderKey {
            kind: WaitingKind::Delivery,
            client: self.identity.client.clone(),
            verb: Verb::Watch.as_str(),
            resource: resource_of(delivery),
            object: event.1.clone(),
            digest: 0,
            n: self.identity.number,
        };
        let has_turn = self.hub.order.claims(self.identity.number, &event, key);
        if has_turn {
            state.turn = Some(event);
        }
        has_turn
    }

    /// Tells plans of an event.
    fn tell(&self, delivery: &Delivery, phase: EventPhase, now: Timestamp) -> Verdicts {
        let change = &delivery.change;
        let entry = change.any();
        let resource = resource_of(delivery);
        let old = || change.old.as_ref().map_or(Value::Null, |entry| entry.parse());
        let new = || change.new.as_ref().map_or(Value::Null, |entry| entry.parse());
        let event = ObservedEvent {
            watch: self.identity.number,
            phase,
            client: &self.identity.client,
            resource: &resource,
            namespace: entry.namespace(),
            name: entry.name(),
            kind: event_type(delivery.seen),
            revision: change.revision,
            old: &old,
            new: &new,
        };
        self.hub.plans.observe(&Observation::Event(&event), now)
    }
}

impl ReadBound for WatchControl {
    fn state(&self) -> Option<i64> {
        self.begin.state
    }

    fn refusal(&self) -> Option<WatchEnd> {
        self.begin.refusal.clone()
    }

    fn limit(&self) -> i64 {
        let routed = self.hub.caches.of(&self.client(), &self.identity.target);
        routed.and_then(|routed| routed.stands_at).unwrap_or(i64::MAX)
    }

    fn due(&self, delivery: &Delivery) -> Verdict {
        let revision = delivery.change.revision;
        // A plan that freezes a cache at a write has done so before the write is delivered.
        if !self.hub.plans.has_observed(revision) {
            return Verdict::Hold;
        }
        let mut state = self.state.lock();
        if self.hub.is_cut(self.identity.number) {
            state.cut = Some(CutForm::Reset);
            return Verdict::End(WatchEnd::Closed);
        }
        if !self.has_turn(&mut state, delivery) {
            return Verdict::Hold;
        }
        let now = self.clock.now();
        if self.hub.plans.is_running() || state.hold.is_some() {
            if let Some(hold) = self.observe(&mut state, delivery, now)
                && self.hub.plans.is_held(hold)
            {
                return Verdict::Hold;
            }
            // While it was held, a cache may have been frozen, or its kind hidden.
            if self.hub.is_cut(self.identity.number) {
                state.cut = Some(CutForm::Reset);
                return Verdict::End(WatchEnd::Closed);
            }
            if revision > self.limit() {
                return Verdict::Hold;
            }
        }
        if let Some(verdict) = self.end(&mut state, delivery) {
            return verdict;
        }
        (state.shown, state.last) = (state.shown + 1, revision);
        drop(state);
        if let Some(routed) = self.hub.caches.of(&self.client(), &self.identity.target) {
            self.hub.caches.showed(&routed.cache, &resource_of(delivery), revision);
        }
        if self.hub.plans.is_running() {
            self.tell(delivery, EventPhase::Delivered, now);
        }
        Verdict::Show
    }

    fn changed(&self) -> &Notify {
        &self.hub.changed
    }
}

impl Drop for WatchControl {
    fn drop(&mut self) {
        self.hub.watch_ended(self.identity.number);
    }
}

fn resource_of(delivery: &Delivery) -> String {
    let row = delivery.change.any().resource;
    match row.group {
        "" => row.plural.to_owned(),
        group => format!("{}.{group}", row.plural),
    }
}

/// An event of a watch.
fn event_id(delivery: &Delivery) -> EventId {
    let entry = delivery.change.any();
    (delivery.change.revision, format!("{}/{}", entry.namespace(), entry.name()))
}

fn event_type(seen: cache::EventType) -> EventType {
    match seen {
        cache::EventType::Added => EventType::Added,
        cache::EventType::Modified => EventType::Modified,
        cache::EventType::Deleted => EventType::Deleted,
    }
}
