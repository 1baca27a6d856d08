//! Fake cloud load balancers: Services of type LoadBalancer get addresses from a pool, without a listener.
//! `plan` decides; this file reads the caches and executes the plan. Without a pool it does nothing: such
//! Services stay pending, or another program handles them.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::Services;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::networks::Blocks;
use k8s_openapi::api::core::v1::Service;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Key, Object};
use parking_lot::Mutex;
use plan::{Observed, Planned};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// One worker, so that an address is assigned to one Service at a time.
const WORKERS: usize = 1;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let pool = cluster.config.networks.load_balancers.clone();
    let work = (!pool.is_empty()).then(|| {
        let services: Services = cluster.caches.get();
        let waiting: Arc<Mutex<BTreeSet<Key>>> = Arc::default();
        let of_feed = Arc::clone(&waiting);
        let controller = cluster
            .controller("service-lb")
            .watch_deltas(&services, move |delta| concerned(&of_feed, delta))
            .workers(WORKERS);
        let executor = cluster.executor("service-controller");
        let given = Mutex::default();
        work(controller, cluster.stop.clone(), LoadBalancers { services, executor, pool, given, waiting })
    });
    let stop = cluster.stop.clone();
    async move {
        match work {
            Some(work) => work.await,
            None => stop.cancelled().await,
        }
    }
}

/// The Service, if it needs or needed a load balancer, and waiting Services when an address may be free.
fn concerned(waiting: &Mutex<BTreeSet<Key>>, delta: &Delta<Obj<Service>>) -> Vec<Key> {
    let service = delta.object();
    let before = if let Delta::Updated { old, .. } = delta { old } else { service };
    if !plan::concerns(service) && !plan::concerns(before) {
        return vec![];
    }
    let frees = matches!(delta, Delta::Deleted(_))
        || plan::addresses(before).any(|ip| !plan::addresses(service).any(|own| own == ip));
    let others = if frees { std::mem::take(&mut *waiting.lock()) } else { BTreeSet::new() };
    std::iter::once(service.key()).chain(others).collect()
}

struct LoadBalancers {
    services: Services,
    executor: Executor,
    pool: Blocks,
    /// Recently assigned addresses, which the cache may not show yet.
    given: Mutex<BTreeMap<IpAddr, Key>>,
    /// Services that found no free address.
    waiting: Arc<Mutex<BTreeSet<Key>>>,
}

impl Reconcile for LoadBalancers {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(service) = self.services.get(&cx.key) else {
            self.given.lock().retain(|_, holder| *holder != cx.key);
            self.waiting.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        let taken = self.taken(&cx.key);
        let plan = plan::plan(Observed { service: &service, pool: &self.pool, taken: &taken });
        self.remember(&cx.key, &plan);
        match self.executor.execute(&cx, &plan.actions).await.result() {
            Err(error) if !error.is_not_found() => Err(error.into()),
            Err(_) | Ok(()) => Ok(Next::Done),
        }
    }
}

impl LoadBalancers {
    /// Records the assigned addresses of a Service, and whether it waits for one.
    fn remember(&self, own: &Key, plan: &Planned) {
        let mut given = self.given.lock();
        given.retain(|_, holder| holder != own);
        given.extend(plan.addresses.iter().map(|address| (*address, own.clone())));
        match plan.is_short {
            true => drop(self.waiting.lock().insert(own.clone())),
            false => drop(self.waiting.lock().remove(own)),
        }
    }

    /// The addresses of other Services.
    fn taken(&self, own: &Key) -> BTreeSet<IpAddr> {
        let services = self.services.list();
        let others = services.iter().filter(|service| service.key() != *own);
        let given = self.given.lock();
        let lately = given.iter().filter(|(_, holder)| *holder != own).map(|(address, _)| *address);
        others.flat_map(|service| plan::addresses(service).collect::<Vec<_>>()).chain(lately).collect()
    }
}
