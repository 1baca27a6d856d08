//! CertificateSigningRequest cleaner: deletes answered requests after an hour and unanswered ones after a
//! day. `plan` decides; this file reads the cache and executes the plan when a request expires.
//!
//! Follows `isIssuedPastDeadline` and `isPendingPastDeadline`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Object};
use std::sync::Arc;

const WORKERS: usize = 1;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let requests: Informer<Obj<CertificateSigningRequest>> = cluster.caches.get();
    let controller = cluster
        .controller("csr-cleaner")
        .watch(&requests, |request: &Obj<CertificateSigningRequest>| [request.key()])
        .workers(WORKERS);
    let executor = cluster.executor("certificate-controller");
    work(controller, cluster.stop.clone(), Cleaner { cluster, requests, executor })
}

struct Cleaner {
    cluster: Arc<Cluster>,
    requests: Informer<Obj<CertificateSigningRequest>>,
    executor: Executor,
}

impl Reconcile for Cleaner {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(request) = self.requests.get(&cx.key) else { return Ok(Next::Done) };
        let plan = plan::plan(&request, self.cluster.nondet.clock.now());
        self.executor.execute(&cx, &plan.actions).await.result()?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}
