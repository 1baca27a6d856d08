//! Volume provisioner: creates requested volumes and deletes released ones, like an external provisioner and
//! resizer in a real cluster. The volumes store no data: simulated nodes treat a claim like an empty
//! directory. `plan` decides; this file reads the caches and executes the plans. It handles only classes with
//! the provisioner [`plan::PROVISIONER`].

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::Caches;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use std::sync::Arc;

const WORKERS: usize = 2;

/// Sets the controller up; the future runs until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let of_classes = caches.claims.clone();
    let controller = cluster
        .controller("volume-provisioner")
        // A claim's key has a namespace, a volume's has none.
        .watch(&caches.claims, |claim: &Obj<PersistentVolumeClaim>| [claim.key()])
        .watch(&caches.volumes, |volume: &Obj<PersistentVolume>| [volume.key()])
        .watch(&caches.classes, move |class: &Obj<StorageClass>| {
            let name = class.metadata.name.as_deref();
            let of_class = |claim: &&Arc<Obj<PersistentVolumeClaim>>| {
                claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) == name
            };
            of_classes.list().iter().filter(of_class).map(|claim| claim.key()).collect::<Vec<_>>()
        })
        .workers(WORKERS);
    let executor = cluster.executor("volume-provisioner");
    let stop = cluster.stop.clone();
    async move {
        if stop.run_until_cancelled(offer(&caches.classes, &executor)).await.is_some() {
            work(controller, stop, Provisioner { caches, executor }).await;
        }
    }
}

/// Creates a default class in a cluster without any class, so that claims without a class get a volume.
async fn offer(classes: &Informer<Obj<StorageClass>>, executor: &Executor) {
    if classes.synced().await.is_err() || !classes.list().is_empty() {
        return;
    }
    match executor.client.api::<StorageClass>().create("", &plan::default_class()).await {
        Ok(_) => {}
        Err(error) if error.is_already_exists() => {}
        Err(error) => {
            tracing::warn!(%error, "cannot create the default StorageClass: claims without a class stay pending");
        }
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    claims: Informer<Obj<PersistentVolumeClaim>>,
    volumes: Informer<Obj<PersistentVolume>>,
    classes: Informer<Obj<StorageClass>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { claims: caches.get(), volumes: caches.get(), classes: caches.get() }
    }
}

struct Provisioner {
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Provisioner {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let ControllerCaches { claims, volumes, classes } = &self.caches;
        let (claims, volumes, classes) = cx.cut((claims, volumes, classes)).await?;
        let actions = if cx.key.namespace().is_empty() {
            let Some(volume) = volumes.get(&cx.key) else { return Ok(Next::Done) };
            plan::remove(volume)
        } else {
            let Some(claim) = claims.get(&cx.key) else { return Ok(Next::Done) };
            let spec = claim.spec.as_ref();
            let class = spec.and_then(|spec| spec.storage_class_name.as_deref());
            let class = class.and_then(|name| classes.get(&Key::new("", name)));
            let volume = spec.and_then(|spec| spec.volume_name.as_deref());
            let volume = volume.and_then(|name| volumes.get(&Key::new("", name)));
            let made = volumes.get(&Key::new("", &plan::name_for(claim)));
            match (class, volume) {
                (Some(class), Some(volume)) => plan::expand(claim, class, volume),
                (Some(class), None) if made.is_none() => plan::provision(claim, class),
                _ => Vec::new(),
            }
        };
        // If the volume exists and the cache does not show it yet, the key runs again: the volume may be gone before that.
        self.executor.execute(&cx, &actions).await.result()?;
        Ok(Next::Done)
    }
}
