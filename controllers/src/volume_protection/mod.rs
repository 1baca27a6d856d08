//! Volume protection: finalizers keep claims that pods use, volumes that are bound, and classes of volume
//! attributes that claims or volumes name from being deleted. `plan` decides; this file reads the caches and
//! executes the plans. Three controllers, one for each kind.
//!
//! Follows `processPVC` and `processPV`.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::caches::{LookupKey, Pods};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::view::Pod;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use kstore_nondet::Clock;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Sets up the controller of claims; the future runs until the cluster stops.
pub(crate) fn run_claims(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let claims: Informer<Obj<PersistentVolumeClaim>> = cluster.caches.get();
    let pods: Pods = cluster.caches.get();
    let shows_unused = cluster.config.unused_claims;
    let controller = cluster
        .controller("pvc-protection")
        .watch(&claims, |claim: &Obj<PersistentVolumeClaim>| [claim.key()])
        .watch_deltas(&pods, move |delta: &Delta<Pod>| {
            let pod = delta.object();
            // A running pod releases no claim.
            let lets_go = matches!(delta, Delta::Deleted(_)) || pod.status.phase.is_terminal();
            let begins = shows_unused && matches!(delta, Delta::Added(_));
            let claims = pod.claims().filter(|_| lets_go || begins);
            claims.map(|claim| Key::new(&pod.metadata.namespace, &claim)).collect::<Vec<_>>()
        })
        .workers(WORKERS);
    let executor = cluster.executor("pvc-protection-controller");
    let clock = cluster.nondet.clock;
    work(controller, cluster.stop.clone(), Claims { claims, pods, executor, shows_unused, clock })
}

struct Claims {
    claims: Informer<Obj<PersistentVolumeClaim>>,
    pods: Pods,
    executor: Executor,
    /// Whether claims show that no pod refers to them.
    shows_unused: bool,
    clock: Clock,
}

impl Reconcile for Claims {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let (claims, pods) = cx.cut((&self.claims, &*self.pods)).await?;
        let Some(claim) = claims.get(&cx.key) else { return Ok(Next::Done) };
        let of_claim = LookupKey::VolumeClaim(cx.key.to_string());
        let any = |test: fn(&Pod, &str) -> bool| {
            pods.by(&self.pods.by_lookup_key, &of_claim).any(|pod| test(pod, cx.key.name()))
        };
        if let Some(action) = plan::claim(claim, || any(plan::uses)) {
            // The condition follows with the next state of the claim.
            return finish(&self.executor, &cx, Some(action)).await;
        }
        let unused = || plan::unused(claim, any(plan::refers), self.clock.now());
        finish(&self.executor, &cx, self.shows_unused.then(unused).flatten()).await
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

/// Sets up the controller of classes of volume attributes; the future runs until the cluster stops.
pub(crate) fn run_classes(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let classes: Informer<Obj<VolumeAttributesClass>> = cluster.caches.get();
    let claims: Informer<Obj<PersistentVolumeClaim>> = cluster.caches.get();
    let volumes: Informer<Obj<PersistentVolume>> = cluster.caches.get();
    let key = |name: &str| Key::new("", name);
    let controller = cluster
        .controller("vac-protection")
        .watch(&classes, |class: &Obj<VolumeAttributesClass>| [class.key()])
        .watch_deltas(&claims, move |delta: &Delta<Obj<PersistentVolumeClaim>>| {
            let released = released(delta);
            released.into_iter().flat_map(|claim| plan::classes_of_claim(claim)).map(key).collect::<Vec<_>>()
        })
        .watch_deltas(&volumes, move |delta: &Delta<Obj<PersistentVolume>>| {
            let released = released(delta);
            released.and_then(|volume| plan::class_of_volume(volume)).map(key)
        })
        .workers(WORKERS);
    let executor = cluster.executor("volumeattributesclass-protection-controller");
    work(controller, cluster.stop.clone(), Classes { classes, claims, volumes, executor })
}

/// The state of an object before a change, which may have named a class that the object names no longer.
fn released<T>(delta: &Delta<T>) -> Option<&T> {
    match delta {
        Delta::Updated { old, .. } => Some(old),
        Delta::Deleted(last) => Some(last),
        Delta::Added(_) | Delta::Resync(_) => None,
    }
}

struct Classes {
    classes: Informer<Obj<VolumeAttributesClass>>,
    claims: Informer<Obj<PersistentVolumeClaim>>,
    volumes: Informer<Obj<PersistentVolume>>,
    executor: Executor,
}

impl Reconcile for Classes {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let (classes, claims, volumes) = cx.cut((&self.classes, &self.claims, &self.volumes)).await?;
        let Some(class) = classes.get(&cx.key) else { return Ok(Next::Done) };
        let own = cx.key.name();
        let is_used = || {
            claims.iter().any(|claim| plan::classes_of_claim(claim).any(|name| name == own))
                || volumes.iter().any(|volume| plan::class_of_volume(volume) == Some(own))
        };
        finish(&self.executor, &cx, plan::class(class, is_used)).await
    }
}

async fn finish(executor: &Executor, cx: &Context, action: Option<Action>) -> Result<Next, ReconcileError> {
    executor.execute(cx, action.as_slice()).await.result()?;
    Ok(Next::Done)
}
