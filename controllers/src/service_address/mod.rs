//! Holds services and the records of their addresses to each other, should somebody have changed the one without the other. `plan`
//! judges; this file reads the caches and has the plan carried out. Servers give and take back addresses by themselves, in the
//! commits of services; in a cluster that nobody tampers with there is nothing to do here.

mod plan;
#[cfg(test)]
mod tests;

pub(crate) use plan::{MANAGED_BY, MANAGER, addresses_of};

use crate::apply::Hands;
use crate::runner::{Cluster, Reconcile, Trouble, work};
use crate::service_cidr::blocks;
use crate::view::Address;
use k8s_openapi::api::core::v1::Service;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Key, Object};
use plan::Observed;
use std::net::IpAddr;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let caches = &cluster.caches;
    let controller = cluster
        .controller("service-address")
        .watch(&caches.services, |service: &Obj<Service>| {
            addresses_of(service).map(|address| Key::new("", &address.to_string())).collect::<Vec<_>>()
        })
        .watch(&caches.addresses, |record: &Address| [record.key()])
        .workers(WORKERS);
    let hands = cluster.hands("ipallocator-repair-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Addresses { cluster, hands }).await;
}

struct Addresses {
    cluster: Arc<Cluster>,
    hands: Hands,
}

impl Reconcile for Addresses {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let caches = &self.cluster.caches;
        let name = cx.key.name();
        let Ok(address) = name.parse::<IpAddr>() else { return Ok(Next::Done) };
        let (services, records, cidrs) =
            cx.cut((&caches.services, &caches.addresses, &caches.service_cidrs)).await?;
        let holders: Vec<&Service> = services.by(&caches.services_at, &address).map(|s| &***s).collect();
        let record = records.get(&cx.key).map(|record| &**record);
        let owner = record.map(|record| &record.spec.parent_ref).map(|p| Key::new(&p.namespace, &p.name));
        let seen = Observed {
            address,
            record,
            holders: &holders,
            owner_is_there: owner.is_some_and(|owner| services.get(&owner).is_some()),
            in_range: cidrs.iter().any(|cidr| blocks(cidr).any(|block| block.gives(address))),
        };
        let plan = plan::plan(seen, self.cluster.nondet.clock.now());
        match self.hands.carry_out(&cx, &plan.actions).await.result() {
            // Somebody else was faster.
            Err(error) if !error.is_not_found() && !error.is_already_exists() => Err(error.into()),
            Err(_) | Ok(()) => Ok(plan.wake.map_or(Next::Done, Next::Again)),
        }
    }
}
