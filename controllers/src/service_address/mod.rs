//! Repair of Services and IPAddress objects that do not match, for example after a client changed one of
//! them. `plan` decides; this file reads the caches and executes the plan. Servers allocate and release
//! addresses in the commits of Services, so normally there is nothing to repair.
//!
//! Follows `repairService` and `repairIPAddress`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Caches, Services};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::service_cidr::blocks;
use crate::service_ips::addresses_of;
use crate::view::Address;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use plan::Observed;
use std::net::IpAddr;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let controller = cluster
        .controller("service-address")
        .watch(&caches.services, |service: &Obj<Service>| {
            addresses_of(service).map(|address| Key::new("", &address.to_string())).collect::<Vec<_>>()
        })
        .watch(&caches.addresses, |record: &Address| [record.key()])
        .workers(WORKERS);
    let executor = cluster.executor("ipallocator-repair-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Addresses { cluster, caches, executor })
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    services: Services,
    addresses: Informer<Address>,
    service_cidrs: Informer<Obj<ServiceCIDR>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { services: caches.get(), addresses: caches.get(), service_cidrs: caches.get() }
    }
}

struct Addresses {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Addresses {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let name = cx.key.name();
        let Ok(address) = name.parse::<IpAddr>() else { return Ok(Next::Done) };
        let (services, records, cidrs) =
            cx.cut((&*caches.services, &caches.addresses, &caches.service_cidrs)).await?;
        let holders: Vec<&Service> = services.by(&caches.services.at, &address).map(|s| &***s).collect();
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
        match self.executor.execute(&cx, &plan.actions).await.result() {
            // The cache will show that the record is gone. It need not show one that another client created: that may be gone before.
            Err(error) if !error.is_not_found() => Err(error.into()),
            Err(_) | Ok(()) => Ok(plan.wake.map_or(Next::Done, Next::Again)),
        }
    }
}
