//! ServiceCIDR controller: sets the Ready condition, and keeps deleted ServiceCIDRs while allocated addresses
//! are in no other one. `plan` decides; this file reads the caches and executes the plan.
//!
//! Follows `canDeleteCIDR`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::Caches;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::view::Address;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
pub(crate) use plan::blocks;
use plan::{Observed, is_deleting};
use std::net::IpAddr;
use std::sync::Arc;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (all, of_addresses) = (caches.service_cidrs.clone(), caches.service_cidrs.clone());
    let controller = cluster
        .controller("service-cidr")
        .watch_deltas(&caches.service_cidrs, move |delta: &Delta<Obj<ServiceCIDR>>| {
            let cidr = delta.object();
            // Other deleted ServiceCIDRs may have waited for this one, or must wait now if it is deleted.
            let others = all.list().into_iter().filter(|other| is_deleting(other) && overlap(other, cidr));
            let mut keys: Vec<Key> = others.map(|other| other.key()).collect();
            keys.push(cidr.key());
            keys
        })
        .watch_deltas(&caches.addresses, move |delta: &Delta<Address>| {
            let moved = matches!(delta, Delta::Added(_) | Delta::Deleted(_));
            let address = address_of(delta.object()).filter(|_| moved);
            let Some(address) = address else { return Vec::new() };
            let holds =
                |cidr: &Arc<Obj<ServiceCIDR>>| is_deleting(cidr) && blocks(cidr).any(|b| b.gives(address));
            of_addresses.list().iter().filter(|cidr| holds(cidr)).map(|cidr| cidr.key()).collect()
        })
        .workers(1);
    let executor = cluster.executor("service-cidr-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Networks { cluster, caches, executor })
}

fn overlap(a: &ServiceCIDR, b: &ServiceCIDR) -> bool {
    blocks(a).any(|a| blocks(b).any(|b| a.overlaps(b)))
}

/// The address of an IPAddress that a server allocated for a Service.
fn address_of(record: &Address) -> Option<IpAddr> {
    let labels = &record.metadata.labels;
    let given =
        labels.get(crate::service_ips::MANAGED_BY).is_some_and(|by| by == crate::service_ips::MANAGER);
    record.metadata.name.parse().ok().filter(|_| given)
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    service_cidrs: Informer<Obj<ServiceCIDR>>,
    addresses: Informer<Address>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { service_cidrs: caches.get(), addresses: caches.get() }
    }
}

struct Networks {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Networks {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let (cidrs, addresses) = cx.cut((&caches.service_cidrs, &caches.addresses)).await?;
        let Some(cidr) = cidrs.get(&cx.key) else { return Ok(Next::Done) };
        let all: Vec<&ServiceCIDR> = cidrs.iter().map(|cidr| &***cidr).collect();
        let taken: Vec<IpAddr> = match is_deleting(cidr) {
            true => addresses.iter().filter_map(|address| address_of(address)).collect(),
            false => Vec::new(),
        };
        let seen = Observed { cidr, all: &all, taken: &taken };
        let plan = plan::plan(seen, self.cluster.nondet.clock.now());
        match self.executor.execute(&cx, &plan.actions).await.result() {
            Err(error) if !error.is_not_found() => Err(error.into()),
            Err(_) | Ok(()) => Ok(plan.wake.map_or(Next::Done, Next::Again)),
        }
    }
}
