//! EndpointSlice mirroring: copies user-written Endpoints of Services without a selector into EndpointSlices.
//! `plan` decides; this file reads the caches and executes the plan. Slices of pods belong to
//! `endpoint_slice`.
//!
//! Follows `syncEndpoints`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Caches, Services};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::endpoint_slice::{EndpointSlices, SERVICE_LABEL};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use plan::{Observed, is_mirrored, is_ours};
use std::sync::Arc;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let controller = cluster
        .controller("endpointslice-mirroring")
        .watch(&caches.endpoints, |endpoints: &Obj<Endpoints>| {
            is_mirrored(endpoints).then(|| endpoints.key())
        })
        .watch(&caches.services, |service: &Obj<Service>| [service.key()])
        .watch(&caches.slices.informer, |slice: &Obj<EndpointSlice>| {
            let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL))?;
            is_ours(slice).then(|| Key::new(slice.metadata.namespace.as_deref().unwrap_or_default(), service))
        })
        .workers(WORKERS);
    let executor = cluster.executor("endpointslice-mirroring-controller");
    work(controller, cluster.stop.clone(), Mirror { caches, executor })
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    services: Services,
    endpoints: Informer<Obj<Endpoints>>,
    slices: EndpointSlices,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { services: caches.get(), endpoints: caches.get(), slices: caches.get() }
    }
}

struct Mirror {
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Mirror {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let of = (cx.key.namespace().to_owned(), cx.key.name().to_owned());
        let slices = caches.slices.informer.by(&caches.slices.of, &of);
        let slices: Vec<&EndpointSlice> =
            slices.iter().map(|slice| &***slice).filter(|slice| is_ours(slice)).collect();
        let (service, endpoints) = (caches.services.get(&cx.key), caches.endpoints.get(&cx.key));
        let seen = Observed {
            service: service.as_ref().map(|service| &***service),
            endpoints: endpoints.as_ref().map(|endpoints| &***endpoints),
            slices: &slices,
        };
        self.executor.execute(&cx, &plan::plan(seen)).await.result()?;
        Ok(Next::Done)
    }
}
