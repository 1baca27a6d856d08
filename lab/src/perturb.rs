//! [`Perturbations`]: everything of a cluster that changes what its clients see: fault rules, lagging caches, plans, and the kinds that a
//! plan hides from a client. While there is none of it, a request costs a few loads from memory.

use crate::cache::Caches;
use crate::fault::FaultRules;
use crate::limits;
use crate::order::SerialOrder;
use crate::plan::run::{Job, Plans};
use crate::plan::step::Cause;
use crate::programs::ProgramControl;
use crate::request::{RequestTarget, Verb};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, mpsc};

/// What changes what the clients of a cluster see.
pub struct Perturbations {
    /// Seeded rules.
    pub faults: FaultRules,
    /// Lagging caches and routes.
    pub caches: Caches,
    /// Plans.
    pub plans: Plans,
    /// The serial order of requests and deliveries.
    pub order: Arc<SerialOrder>,
    /// Notified, for all waiting, when a cache, a route, a plan or a block changes.
    pub changed: Arc<Notify>,
    /// Notified when a request arrives or an event is delivered.
    pub traffic: Notify,
    programs: Mutex<Option<Arc<dyn ProgramControl>>>,
    /// Open watches by their position in the request log: client and kind.
    watches: Mutex<BTreeMap<u64, (String, String)>>,
    blocks: Mutex<Vec<Block>>,
    /// Whether there are blocks, so that requests and watches have to look for them.
    is_blocking: AtomicBool,
    /// By client and kind, the newest revision from which a fault has expired a watch: what is too old once stays so.
    expired: Mutex<BTreeMap<(String, String), i64>>,
}

impl std::fmt::Debug for Perturbations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Perturbations").field("faults", &self.faults).finish_non_exhaustive()
    }
}

/// A kind that a plan hides from a client: see [`crate::plan::Operation::Skip`].
#[derive(Clone, Debug)]
struct Block {
    plan: String,
    action: usize,
    client: String,
    resource: String,
    /// Position of the watch that is cut.
    watch: u64,
    /// Revision of the event before which it is cut.
    revision: i64,
    /// Whether the client may read again, and its next watch from a revision gets 410.
    is_over: bool,
}

impl Perturbations {
    /// None, and the operations of plans for their executor. Requests and events wait in `order`.
    pub fn new(order: Arc<SerialOrder>) -> (Arc<Self>, mpsc::Receiver<Job>) {
        let changed = Arc::new(Notify::new());
        let (plans, jobs) = Plans::new(changed.clone());
        let caches = Caches::new(changed.clone());
        let perturbations = Self {
            faults: FaultRules::default(),
            caches,
            plans,
            order,
            changed,
            traffic: Notify::new(),
            programs: Mutex::default(),
            watches: Mutex::default(),
            blocks: Mutex::default(),
            is_blocking: AtomicBool::new(false),
            expired: Mutex::default(),
        };
        (Arc::new(perturbations), jobs)
    }

    /// Whether anything may change a request. Watches are controlled from their beginning, since a plan may begin while they are open.
    pub fn concerns(&self, target: Option<&RequestTarget>) -> bool {
        let Some(target) = target else { return false };
        target.verb == Verb::Watch
            || self.faults.is_set()
            || self.caches.is_routed()
            || self.plans.is_running()
            || self.is_blocking.load(Ordering::Acquire)
    }

    /// A request has arrived, or an event was delivered: running plans may wait for clients to become quiet.
    pub fn note_traffic(&self) {
        if self.plans.is_running() {
            self.traffic.notify_waiters();
        }
    }

    /// Sets the programs that plans may kill and start.
    pub fn set_programs(&self, programs: Arc<dyn ProgramControl>) {
        *self.programs.lock() = Some(programs);
    }

    /// The programs that plans may kill and start.
    pub fn programs(&self) -> Option<Arc<dyn ProgramControl>> {
        self.programs.lock().clone()
    }

    /// A client's watch has begun.
    pub fn watch_began(&self, number: u64, client: &str, resource: &str) {
        self.watches.lock().insert(number, (client.to_owned(), resource.to_owned()));
    }

    /// A client's watch has ended.
    pub fn watch_ended(&self, number: u64) {
        self.watches.lock().remove(&number);
    }

    /// Hides the kind of a watch from its client: the watch is cut, and the client's next read of the kind waits.
    ///
    /// # Errors
    /// The watch has ended, or too much is hidden.
    pub fn block(&self, plan: &str, action: usize, cause: Cause) -> Result<(), String> {
        let watch = cause.watch;
        let found = self.watches.lock().get(&watch).cloned();
        let (client, resource) = found.ok_or("the watch of the event has ended")?;
        let mut blocks = self.blocks.lock();
        if blocks.len() >= limits::BLOCKED {
            return Err("too many kinds are hidden from clients".to_owned());
        }
        let plan = plan.to_owned();
        let revision = cause.revision + 1;
        blocks.push(Block { plan, action, client, resource, watch, revision, is_over: false });
        self.is_blocking.store(true, Ordering::Release);
        drop(blocks);
        self.changed.notify_waiters();
        Ok(())
    }

    /// A watch of a client from a revision was expired by a fault: the revision is too old for it from now on.
    pub fn expire(&self, client: &str, resource: &str, from: i64) {
        let mut expired = self.expired.lock();
        // Beyond the bound a watch is expired once only.
        if expired.len() < limits::CLIENTS {
            let known = expired.entry((client.to_owned(), resource.to_owned())).or_insert(from);
            *known = from.max(*known);
        }
    }

    /// Whether a watch from a revision is too old because an earlier one was.
    pub fn is_expired(&self, client: &str, resource: &str, from: i64) -> bool {
        let expired = self.expired.lock();
        expired.get(&(client.to_owned(), resource.to_owned())).is_some_and(|known| from <= *known)
    }

    /// Ends what [`Perturbations::block`] began: the client's next watch from a revision gets 410.
    pub fn unblock(&self, plan: &str, action: usize) {
        let mut blocks = self.blocks.lock();
        blocks.iter_mut().filter(|block| block.plan == plan && block.action == action).for_each(|block| {
            block.is_over = true;
        });
        drop(blocks);
        self.changed.notify_waiters();
    }

    /// Whether an open watch is cut because its kind is hidden.
    pub fn is_cut(&self, watch: u64) -> bool {
        self.is_blocking.load(Ordering::Acquire)
            && self.blocks.lock().iter().any(|block| block.watch == watch)
    }

    /// Waits while a kind is hidden from a client. `from` is the revision from which a watch begins. Returns whether the watch is expired:
    /// if it begins before what was hidden.
    pub async fn unblocked(&self, client: &str, resource: &str, from: Option<i64>) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut blocks = self.blocks.lock();
                let is_of = |block: &Block| block.client == client && block.resource == resource;
                let Some(place) = blocks.iter().position(is_of) else { return false };
                if blocks[place].is_over {
                    // A list shows the newest state, which leaves nothing to hide.
                    let revision = blocks.remove(place).revision;
                    self.is_blocking.store(!blocks.is_empty(), Ordering::Release);
                    return from.is_some_and(|from| from < revision);
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{CacheSpec, Route};
    use crate::fault::{Fault, Rule, RuleSet};
    use crate::select::{ClientSelector, RequestSelector};
    use http::Method;

    #[test]
    fn what_is_too_old_once_stays_so_for_its_client_and_kind() {
        let (hub, _jobs) = Perturbations::new(Arc::default());
        assert!(!hub.is_expired("a", "pods", 5));
        hub.expire("a", "pods", 7);
        hub.expire("a", "pods", 6);
        assert!(hub.is_expired("a", "pods", 5) && hub.is_expired("a", "pods", 7));
        assert!(!hub.is_expired("a", "pods", 8) && !hub.is_expired("b", "pods", 5));
        assert!(!hub.is_expired("a", "secrets", 5));
    }

    #[test]
    fn requests_are_perturbed_only_while_a_rule_or_a_route_may_change_them() {
        let (hub, _jobs) = Perturbations::new(Arc::default());
        let target = |uri: &str| RequestTarget::of(&Method::GET, &uri.parse().unwrap());
        let (get, watch) = (target("/api/v1/namespaces/a/pods/b"), target("/api/v1/pods?watch=true"));
        assert!(!hub.concerns(get.as_ref()) && !hub.concerns(None));
        assert!(hub.concerns(watch.as_ref()), "a plan may begin while it is open");
        hub.faults.set(RuleSet { seed: 1, rules: vec![Rule::always(Fault::Expire {})] });
        assert!(hub.concerns(get.as_ref()));
        hub.faults.set(RuleSet::default());
        assert!(!hub.concerns(get.as_ref()));
        hub.caches.put("b", CacheSpec::default()).unwrap();
        assert!(!hub.concerns(get.as_ref()), "nothing is routed to it");
        let (client, request) = (ClientSelector::default(), RequestSelector::default());
        hub.caches.route(vec![Route { client, request, cache: "b".to_owned() }]).unwrap();
        assert!(hub.concerns(get.as_ref()));
        hub.caches.delete("b");
        assert!(!hub.concerns(get.as_ref()));
    }
}
