//! Ephemeral volume controller: creates a PersistentVolumeClaim for each ephemeral volume of a pod; the
//! garbage collector deletes the claim with the pod. `plan` decides; this file reads the caches and the
//! template of a pod without its claim, and executes the plan.
//!
//! Follows `handleVolume`.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::caches::Pods;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::view::Pod;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use plan::ExistingClaim;
use std::sync::Arc;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let claims: Informer<Obj<PersistentVolumeClaim>> = cluster.caches.get();
    let pods: Pods = cluster.caches.get();
    let controller = cluster
        .controller("ephemeral-volume")
        .watch_deltas(&pods, |delta: &Delta<Pod>| {
            let pod = delta.object();
            let is_new = matches!(delta, Delta::Added(_) | Delta::Resync(_));
            (is_new && plan::wants_claims(pod)).then(|| pod.key())
        })
        .watch_deltas(&claims, |delta: &Delta<Obj<PersistentVolumeClaim>>| {
            matches!(delta, Delta::Deleted(_)).then(|| plan::owner(delta.object())).flatten()
        })
        .workers(WORKERS);
    let executor = cluster.executor("ephemeral_volume");
    work(controller, cluster.stop.clone(), Volumes { claims, pods, executor })
}

struct Volumes {
    claims: Informer<Obj<PersistentVolumeClaim>>,
    pods: Pods,
    executor: Executor,
}

impl Reconcile for Volumes {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(pod) = self.pods.get(&cx.key).filter(|pod| plan::wants_claims(pod)) else {
            return Ok(Next::Done);
        };
        let namespace = cx.key.namespace();
        let find =
            |claim: &str| self.claims.get(&Key::new(namespace, claim)).map(|found| ExistingClaim::of(&found));
        let missing = match plan::missing(&pod, find) {
            Ok(missing) if missing.is_empty() => return Ok(Next::Done),
            Ok(missing) => missing,
            Err(conflict) => {
                self.executor.execute(&cx, &[conflict.event(&pod)]).await.result()?;
                return Err(ReconcileError::Failed(conflict.to_string()));
            }
        };
        let whole = match self.executor.client.api::<core::Pod>().get(namespace, cx.key.name()).await {
            Ok(whole) => whole,
            Err(error) if error.is_not_found() => return Ok(Next::Done),
            Err(error) => return Err(error.into()),
        };
        let made: Vec<Action> = plan::claims(&whole, &missing);
        match self.executor.execute(&cx, &made).await.result() {
            // The cache will show the owner of the existing claim soon.
            Err(error) if error.is_already_exists() => Err(ReconcileError::Failed(error.to_string())),
            done => Ok(done.map(|()| Next::Done)?),
        }
    }
}
