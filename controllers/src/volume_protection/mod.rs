//! Volume protection: finalizers keep claims that pods use, and volumes that are bound, from being deleted.
//! `plan` decides; this file reads the caches and executes the plans. Two controllers, one for claims and one
//! for volumes.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::caches::Pods;
use crate::runner::{Cluster, Reconcile, ReconcileError, work};
use crate::view::Pod;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use std::sync::Arc;

const WORKERS: usize = 2;

/// Sets up the controller of claims; the future runs until the cluster stops.
pub(crate) fn run_claims(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let claims: Informer<Obj<PersistentVolumeClaim>> = cluster.caches.get();
    let pods: Pods = cluster.caches.get();
    let controller = cluster
        .controller("pvc-protection")
        .watch(&claims, |claim: &Obj<PersistentVolumeClaim>| [claim.key()])
        .watch_deltas(&pods, |delta: &Delta<Pod>| {
            let pod = delta.object();
            // A running pod releases no claim.
            let lets_go = matches!(delta, Delta::Deleted(_)) || pod.status.phase.is_terminal();
            let claims = pod.claims().filter(|_| lets_go);
            claims.map(|claim| Key::new(&pod.metadata.namespace, &claim)).collect::<Vec<_>>()
        })
        .workers(WORKERS);
    let executor = cluster.executor("pvc-protection-controller");
    work(controller, cluster.stop.clone(), Claims { claims, pods, executor })
}

struct Claims {
    claims: Informer<Obj<PersistentVolumeClaim>>,
    pods: Pods,
    executor: Executor,
}

impl Reconcile for Claims {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let (claims, pods) = cx.cut((&self.claims, &*self.pods)).await?;
        let Some(claim) = claims.get(&cx.key) else { return Ok(Next::Done) };
        let is_used = || {
            let mut of_namespace = pods.namespace(cx.key.namespace());
            of_namespace.any(|pod| plan::uses(pod, cx.key.name()))
        };
        finish(&self.executor, &cx, plan::claim(claim, is_used)).await
    }
}

/// Sets up the controller of volumes; the future runs until the cluster stops.
pub(crate) fn run_volumes(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let volumes: Informer<Obj<PersistentVolume>> = cluster.caches.get();
    let controller = cluster
        .controller("pv-protection")
        .watch(&volumes, |volume: &Obj<PersistentVolume>| [volume.key()])
        .workers(WORKERS);
    let executor = cluster.executor("pv-protection-controller");
    work(controller, cluster.stop.clone(), Volumes { volumes, executor })
}

struct Volumes {
    volumes: Informer<Obj<PersistentVolume>>,
    executor: Executor,
}

impl Reconcile for Volumes {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(volume) = self.volumes.get(&cx.key) else { return Ok(Next::Done) };
        finish(&self.executor, &cx, plan::volume(&volume)).await
    }
}

async fn finish(executor: &Executor, cx: &Context, action: Option<Action>) -> Result<Next, ReconcileError> {
    executor.execute(cx, action.as_slice()).await.result()?;
    Ok(Next::Done)
}
