//! PersistentVolume binder: binds PersistentVolumeClaims to PersistentVolumes. `claim` plans claims, `volume`
//! plans volumes, `fit` selects a volume for a claim; this file reads the caches and executes the plans.
//! Provisioners create and delete volumes.
//!
//! A claim and its volume are bound in one transaction, so that no reader sees half a binding, and no crash
//! leaves one. For a claim whose class waits for its first consumer the scheduler decides. It reserves a
//! volume for the claim, or selects the node for a new one (`volume.kubernetes.io/selected-node`), and binds
//! the pod when its claims are bound.
//!
//! Follows `syncClaim` and `syncVolume`.

mod bind;
mod claim;
mod fit;
#[cfg(test)]
mod tests;
mod volume;

use crate::apply::Executor;
use crate::caches::{Caches, LookupKey, Pods};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::view::Pod;
pub(crate) use bind::{SELECTED_NODE, is_bound, reference_to};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use std::sync::Arc;

const WORKERS: usize = 2;

/// Sets the controller up; the future runs until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let of_volumes = caches.clone();
    let of_classes = caches.clone();
    let controller = cluster
        .controller("volume-binder")
        // A claim's key has a namespace, a volume's has none.
        .watch(&caches.claims, |claim: &Obj<PersistentVolumeClaim>| {
            std::iter::once(claim.key()).chain(volume_of(claim)).collect::<Vec<_>>()
        })
        .watch(&caches.volumes, move |volume: &Obj<PersistentVolume>| {
            let mut keys = vec![volume.key()];
            match claim_of(volume) {
                Some(claim) => keys.push(claim),
                None => keys.extend(unbound(&of_volumes.claims)),
            }
            keys
        })
        .watch(&caches.classes, move |class: &Obj<StorageClass>| {
            let name = class.metadata.name.as_deref();
            let waits = |claim: &Arc<Obj<PersistentVolumeClaim>>| {
                let wanted = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
                !is_bound(claim) && (wanted.is_none() || wanted == name)
            };
            let claims = of_classes.claims.list();
            claims.iter().filter(|claim| waits(claim)).map(|claim| claim.key()).collect::<Vec<_>>()
        })
        .watch(&caches.pods, |pod: &Pod| {
            // A waiting claim's event names the pod.
            let waits = pod.spec.node_name.is_empty();
            let claims = pod.claims().filter(|_| waits);
            claims.map(|claim| Key::new(&pod.metadata.namespace, &claim)).collect::<Vec<_>>()
        })
        .workers(WORKERS);
    let executor = cluster.executor("persistentvolume-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Binder { caches, executor })
}

/// The claims without a completed binding.
fn unbound(claims: &Informer<Obj<PersistentVolumeClaim>>) -> Vec<Key> {
    claims.list().iter().filter(|claim| !is_bound(claim)).map(|claim| claim.key()).collect()
}

/// The volume that a claim names.
fn volume_of(claim: &PersistentVolumeClaim) -> Option<Key> {
    let name = claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())?;
    Some(Key::new("", name))
}

/// The claim that a volume names.
fn claim_of(volume: &PersistentVolume) -> Option<Key> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(Key::new(claim.namespace.as_deref().unwrap_or_default(), claim.name.as_deref()?))
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    claims: Informer<Obj<PersistentVolumeClaim>>,
    volumes: Informer<Obj<PersistentVolume>>,
    classes: Informer<Obj<StorageClass>>,
    pods: Pods,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { claims: caches.get(), volumes: caches.get(), classes: caches.get(), pods: caches.get() }
    }
}

struct Binder {
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Binder {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let ControllerCaches { claims, volumes, classes, pods } = &self.caches;
        let (claims, volumes, classes, pods) = cx.cut((claims, volumes, classes, &**pods)).await?;
        let actions = if cx.key.namespace().is_empty() {
            let Some(volume) = volumes.get(&cx.key) else { return Ok(Next::Done) };
            let claim = claim_of(volume).and_then(|key| claims.get(&key));
            volume::plan(volume, claim.map(|claim| &***claim))
        } else {
            let Some(claim) = claims.get(&cx.key) else { return Ok(Next::Done) };
            let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
            let class = class.and_then(|name| classes.get(&Key::new("", name)));
            let all: Vec<&PersistentVolume> = volumes.iter().map(|volume| &***volume).collect();
            let named = volume_of(claim).and_then(|key| volumes.get(&key));
            // Searched lazily: most claims are bound.
            let consumer = || {
                let of_claim = LookupKey::VolumeClaim(cx.key.to_string());
                let users = pods.by(&self.caches.pods.by_lookup_key, &of_claim);
                let waiting = users.filter(|pod| pod.spec.node_name.is_empty());
                waiting.min_by_key(|pod| &pod.metadata.name).cloned()
            };
            claim::plan(&claim::Observed {
                claim,
                named: named.map(|volume| &***volume),
                volumes: &all,
                class: class.map(|class| &***class),
                default: claim::default_class(classes.iter().map(|class| &***class)),
                consumer: &consumer,
            })
        };
        match self.executor.execute(&cx, &actions).await.result() {
            // The claim or volume changed meanwhile: the caches will show it, and the key runs again.
            Err(error) if error.is_not_found() => Ok(Next::Done),
            other => Ok(other.map(|()| Next::Done)?),
        }
    }
}
