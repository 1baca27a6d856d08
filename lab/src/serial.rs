//! Gives turns in the serial order of a cluster: waits until all counted clients are quiet but for what waits, by facts and not by time,
//! then takes one request or event, and so on. While no order is in force this is a task that sleeps.

use crate::advance::{glance, idle, is_whole, look};
use crate::client::quiet::Busy;
use crate::client::{Clients, process};
use crate::host::{Ended, Running};
use crate::limits;
use crate::order::SerialOrder;
use crate::perturb::Perturbations;
use crate::plan::matching::Observation;
use jiff::Timestamp;
use kstore_nondet::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the order of a cluster needs.
#[derive(Clone, Debug)]
pub struct SerialTurns {
    /// The cluster.
    pub running: Arc<Running>,
    /// Its clients.
    pub clients: Arc<Clients>,
    /// Its plans, which observe quiet moments, and its watches.
    pub perturbations: Arc<Perturbations>,
}

/// Gives turns until the cluster ends. Runs in real time.
pub async fn run(turns: SerialTurns) {
    // Whether the clients did not become quiet before the turn before.
    let mut is_restless = false;
    loop {
        turns.order().underway().await;
        let Ok(unquiet) = turns.until_quiet(is_restless).await else { return };
        if turns.give(&unquiet).await.is_err() {
            return;
        }
        is_restless = !unquiet.is_empty();
    }
}

impl SerialTurns {
    fn order(&self) -> &Arc<SerialOrder> {
        &self.perturbations.order
    }

    /// Gives the next turn. If nothing waits, plans observe the quiet.
    async fn give(&self, unquiet: &[Busy]) -> Result<(), Ended> {
        let (order, hub) = (self.order(), &self.perturbations);
        order.call_roll();
        hub.changed.notify_waiters();
        idle(&self.running).await?;
        if let Some(turn) = order.take() {
            if !unquiet.is_empty() {
                self.note_unquiet(turn.position, unquiet);
            }
            hub.changed.notify_waiters();
        } else if !order.is_paused() {
            if unquiet.is_empty() && order.take_moved() {
                let now = self.running.time();
                for client in self.clients.counted() {
                    hub.plans.observe(&Observation::Quiet(&client), now);
                }
                hub.plans.observe(&Observation::Quiet(""), now);
            }
            // What plans began because of it comes first.
            if hub.plans.operations_underway() == 0 {
                order.rest();
            }
        }
        Ok(())
    }

    /// Notes that a turn was given although clients were not quiet: what follows may differ from run to run.
    fn note_unquiet(&self, position: u64, unquiet: &[Busy]) {
        let reasons: Vec<String> = unquiet.iter().map(Busy::line).collect();
        let what = format!("turn {position} was given although {}", reasons.join("; "));
        self.order().note_unquiet(&what);
        tracing::warn!(what, "the serial order of the lab");
        if let Some((plan, action)) = self.order().owner() {
            self.perturbations.plans.note(&plan, action, what, self.running.time());
        }
    }

    /// Waits until all counted clients are quiet but for what waits. Returns who is not when the patience has run out.
    async fn until_quiet(&self, is_restless: bool) -> Result<Vec<Busy>, Ended> {
        let [mut pause, longest] = limits::LOOKS;
        let patience = self.order().patience();
        let patience = if is_restless { patience.min(limits::ORDER_RESTLESS) } else { patience };
        let clock = Clock::real();
        let (begin, mut before, mut calls_since) = (clock.now(), None, None);
        let passed = || Duration::try_from(clock.now().duration_since(begin)).unwrap_or_default();
        let mut nth = 0_u32;
        loop {
            nth = nth.wrapping_add(1);
            idle(&self.running).await?;
            let (mut busy, mut now) = self.restless(before.as_ref());
            if is_whole(nth, &busy, passed() >= patience) {
                (busy, now) = self.unquiet(before.as_ref());
            }
            if busy.is_empty() {
                busy.extend(self.outside(&mut calls_since, clock.now()));
            } else {
                calls_since = None;
            }
            if busy.is_empty() || passed() >= patience || !self.order().is_on() {
                return Ok(busy);
            }
            before = Some(now);
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }

    /// Why clients are not quiet, as far as a glance tells.
    fn restless(
        &self,
        before: Option<&BTreeMap<u32, process::ProcessSample>>,
    ) -> (Vec<Busy>, BTreeMap<u32, process::ProcessSample>) {
        let looks = glance(&self.clients, before);
        (self.clients.busy_in_order(&looks, self.running.driver.calls() > 0), looks.now)
    }

    /// Why clients are not quiet. A request moves from a socket through its connection to its stages, and an answer back to the process:
    /// looks follow that way, so that nothing is missed between two places.
    fn unquiet(
        &self,
        before: Option<&BTreeMap<u32, process::ProcessSample>>,
    ) -> (Vec<Busy>, BTreeMap<u32, process::ProcessSample>) {
        let part = |what: &str| Busy {
            part: "serial order".to_owned(),
            what: what.to_owned(),
            client: String::new(),
        };
        let (clients, is_calling) = (&self.clients, self.running.driver.calls() > 0);
        let has_unread = clients.has_unread();
        let was_served = clients.edge().is_busy();
        let is_moving = clients.is_moving(is_calling);
        let is_served = was_served || clients.edge().is_busy();
        let looks = look(clients, before);
        let mut busy = clients.busy_in_order(&looks, is_calling);
        let facts = [
            (has_unread, "a request is being read"),
            (is_served, "a connection is being served"),
            (is_moving, "an answer is being taken"),
        ];
        busy.extend(facts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| part(what)));
        if self.perturbations.plans.operations_underway() > 0 {
            busy.push(part("an operation of a plan is under way"));
        }
        (busy, looks.now)
    }

    /// The reason if the cluster waits for another server, which may ask for something itself: once everything else was quiet for a while
    /// it keeps no turn from being given.
    fn outside(&self, since: &mut Option<Timestamp>, now: Timestamp) -> Option<Busy> {
        if self.running.driver.calls() == 0 {
            *since = None;
            return None;
        }
        let passed = now.duration_since(*since.get_or_insert(now));
        let is_over = Duration::try_from(passed).unwrap_or_default() >= limits::ORDER_CALLS;
        (!is_over).then(|| Busy {
            part: "webhooks and other servers".to_owned(),
            what: "a call waits for an answer".to_owned(),
            client: String::new(),
        })
    }
}
