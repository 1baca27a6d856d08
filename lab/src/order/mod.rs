//! [`SerialOrder`]: the serial order of a cluster (§6.6). While it is in force, requests of counted clients and watch events to them wait
//! for their turns, and [`crate::serial`] gives one turn at a time, whenever all clients are quiet. `choose` says whose turn it is.

pub mod choose;

use choose::{Candidate, Chooser, OrderKey, OrderRule};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// A watch event, by its revision and its object.
pub type EventId = (i64, String);

/// The serial order of a cluster, in force or not.
#[derive(Debug, Default)]
pub struct SerialOrder {
    is_on: AtomicBool,
    state: Mutex<OrderState>,
    /// Notified when something begins to wait, or the order begins or ends.
    changed: Notify,
}

#[derive(Debug, Default)]
struct OrderState {
    /// Who set the order: a plan and its action.
    owner: Option<(String, usize)>,
    chooser: Chooser,
    patience: Duration,
    requests: BTreeMap<u64, WaitingRequest>,
    /// By the position of the watch: the next event of each.
    deliveries: BTreeMap<u64, WaitingDelivery>,
    /// The event that has its turn, until its watch claims it.
    granted: Option<(u64, EventId)>,
    /// Number of turns that were given.
    position: u64,
    next_request: u64,
    /// Number of the newest roll call: watches that still wait answer it.
    roll_call: u64,
    /// Whether something was taken or came since all clients were quiet with nothing waiting.
    is_underway: bool,
    /// Whether plans have not observed the quiet after the last turn.
    has_moved: bool,
    /// The first turn that was given although clients were not quiet, with the reasons.
    unquiet: Option<String>,
    /// Number of those that want no turn to be given meanwhile.
    pauses: usize,
}

#[derive(Debug)]
struct WaitingRequest {
    key: OrderKey,
    since: u64,
    turn: oneshot::Sender<()>,
}

#[derive(Debug)]
struct WaitingDelivery {
    key: OrderKey,
    event: EventId,
    since: u64,
    roll_call: u64,
}

/// What got its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its position, from 1.
    pub position: u64,
    /// What it is.
    pub key: OrderKey,
}

/// No turn is given while this exists.
#[derive(Debug)]
pub struct OrderPause(Arc<SerialOrder>);

impl Drop for OrderPause {
    fn drop(&mut self) {
        self.0.state.lock().pauses -= 1;
        self.0.changed.notify_one();
    }
}

/// Removes a request that no longer waits.
struct RequestEntry<'o> {
    order: &'o SerialOrder,
    id: u64,
}

impl Drop for RequestEntry<'_> {
    fn drop(&mut self) {
        self.order.state.lock().requests.remove(&self.id);
    }
}

impl SerialOrder {
    /// Whether the order is in force.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Puts an order in force. `owner` is a plan and its action; `patience` is the real time for which a turn waits for a client that does
    /// not become quiet.
    ///
    /// # Errors
    /// Another order is in force.
    pub fn begin(&self, owner: (&str, usize), rule: OrderRule, patience: Duration) -> Result<(), String> {
        let mut state = self.state.lock();
        if let Some((plan, _)) = &state.owner {
            return Err(format!("plan {plan:?} has put another order in force"));
        }
        let (pauses, next_request) = (state.pauses, state.next_request);
        *state = OrderState {
            owner: Some((owner.0.to_owned(), owner.1)),
            chooser: Chooser::new(rule),
            patience,
            is_underway: true,
            has_moved: true,
            pauses,
            next_request,
            ..OrderState::default()
        };
        self.is_on.store(true, Ordering::Release);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Ends the order of a plan: everything that waits goes on. Watches are to be woken by the caller.
    pub fn end(&self, owner: (&str, usize)) {
        let mut state = self.state.lock();
        if state.owner.as_ref().is_none_or(|(plan, action)| (&**plan, *action) != owner) {
            return;
        }
        self.is_on.store(false, Ordering::Release);
        state.owner = None;
        let requests = std::mem::take(&mut state.requests);
        (state.deliveries, state.granted, state.is_underway) = (BTreeMap::new(), None, false);
        drop(state);
        for waiting in requests.into_values() {
            // A client that has left meanwhile does not get it.
            let _ = waiting.turn.send(());
        }
        self.changed.notify_one();
    }

    /// Who set the order: the plan and its action.
    pub fn owner(&self) -> Option<(String, usize)> {
        self.state.lock().owner.clone()
    }

    /// Real time for which a turn waits for a client that does not become quiet.
    pub fn patience(&self) -> Duration {
        self.state.lock().patience
    }

    /// Number of turns that were given.
    pub fn position(&self) -> u64 {
        self.state.lock().position
    }

    /// The first turn that was given although clients were not quiet, with the reasons: what followed may differ from run to run.
    pub fn unquiet(&self) -> Option<String> {
        self.state.lock().unquiet.clone()
    }

    pub(crate) fn note_unquiet(&self, what: &str) {
        self.state.lock().unquiet.get_or_insert_with(|| what.to_owned());
    }

    /// Keeps turns from being given until the guard is dropped, for example while the steps of one change of a user are made.
    pub fn pause(self: &Arc<Self>) -> OrderPause {
        self.state.lock().pauses += 1;
        OrderPause(self.clone())
    }

    /// Whether turns are kept from being given.
    pub fn is_paused(&self) -> bool {
        self.state.lock().pauses > 0
    }

    /// Waits for the turn of a request. Returns at once while no order is in force.
    pub async fn request(&self, mut key: OrderKey) {
        let (id, turn) = {
            let mut state = self.state.lock();
            if state.owner.is_none() {
                return;
            }
            state.next_request += 1;
            key.n = state.next_request;
            let (send, turn) = oneshot::channel();
            let (id, since) = (key.n, state.position);
            state.requests.insert(id, WaitingRequest { key, since, turn: send });
            state.is_underway = true;
            (id, turn)
        };
        let _entry = RequestEntry { order: self, id };
        self.changed.notify_one();
        // The sender is dropped only with its turn.
        let _ = turn.await;
    }

    /// Whether an event of a watch has its turn. If not it waits, and the watch is to ask again when it is woken.
    pub fn claims(&self, watch: u64, event: &EventId, key: impl FnOnce() -> OrderKey) -> bool {
        let mut state = self.state.lock();
        if state.owner.is_none() {
            return true;
        }
        let is_granted = |granted: &(u64, EventId)| granted.0 == watch && granted.1 == *event;
        if state.granted.as_ref().is_some_and(is_granted) {
            state.granted = None;
            return true;
        }
        let (roll_call, since) = (state.roll_call, state.position);
        match state.deliveries.get_mut(&watch).filter(|waiting| waiting.event == *event) {
            Some(waiting) => waiting.roll_call = roll_call,
            None => {
                let key = OrderKey { n: watch, ..key() };
                let waiting = WaitingDelivery { key, event: event.clone(), since, roll_call };
                state.deliveries.insert(watch, waiting);
            }
        }
        let was_underway = std::mem::replace(&mut state.is_underway, true);
        drop(state);
        if !was_underway {
            self.changed.notify_one();
        }
        false
    }

    /// Waits until there is something to do: something waits, or the effects of a turn are not over. One waiter at a time.
    pub async fn underway(&self) {
        loop {
            {
                let state = self.state.lock();
                if state.owner.is_some() && state.is_underway && state.pauses == 0 {
                    return;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Begins a roll call: watches that are woken now and still wait say so by [`SerialOrder::claims`].
    pub fn call_roll(&self) {
        let mut state = self.state.lock();
        state.roll_call += 1;
        state.granted = None;
    }

    /// Gives a turn; `None` if nothing waits, or turns are kept from being given. A watch that did not answer the roll call does not wait
    /// any more.
    pub fn take(&self) -> Option<Turn> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.pauses > 0 {
            return None;
        }
        let roll_call = state.roll_call;
        state.deliveries.retain(|_, waiting| waiting.roll_call == roll_call);
        let position = state.position;
        let deliveries = state.deliveries.values().map(|waiting| (&waiting.key, waiting.since));
        let requests = state.requests.values().map(|waiting| (&waiting.key, waiting.since));
        let waiting: Vec<Candidate<'_>> = deliveries
            .chain(requests)
            .map(|(key, since)| Candidate { key, passed_over: position - since })
            .collect();
        let place = state.chooser.choose(&waiting, position + 1)?;
        let key = waiting[place].key.clone();
        (state.position, state.has_moved) = (position + 1, true);
        match key.kind {
            choose::WaitingKind::Delivery => {
                let taken = state.deliveries.remove(&key.n);
                state.granted = taken.map(|taken| (key.n, taken.event));
            }
            choose::WaitingKind::Request => {
                if let Some(taken) = state.requests.remove(&key.n) {
                    // A client that has left meanwhile does not get it.
                    let _ = taken.turn.send(());
                }
            }
        }
        Some(Turn { position: position + 1, key })
    }

    /// Whether plans have not observed the quiet after the last turn. They do now.
    pub fn take_moved(&self) -> bool {
        std::mem::take(&mut self.state.lock().has_moved)
    }

    /// All clients are quiet and nothing waits, unless something came meanwhile.
    pub fn rest(&self) {
        let mut state = self.state.lock();
        let waits = !state.requests.is_empty() || !state.deliveries.is_empty();
        state.is_underway = waits || state.has_moved;
    }

    /// What is under way, for reports; `None`: all clients were quiet after the last turn, and nothing waits.
    pub fn busy(&self) -> Option<String> {
        if !self.is_on() {
            return None;
        }
        let state = self.state.lock();
        let counted = |count: usize, noun: &str| match count {
            1 => format!("1 {noun}"),
            count => format!("{count} {noun}s"),
        };
        let waiting = [(state.requests.len(), "request"), (state.deliveries.len(), "event")];
        let waiting: Vec<String> = waiting
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, noun)| counted(*count, noun))
            .collect();
        match (state.is_underway, waiting.is_empty()) {
            (false, _) => None,
            (true, true) => Some(format!("clients react to turn {}", state.position)),
            (true, false) => Some(format!("waiting after turn {}: {}", state.position, waiting.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests;
