//! Root CA publisher: publishes the cluster's root certificate in every namespace. `plan` decides; this file
//! reads the caches and executes the plan.
//!
//! Follows `syncNamespace`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Caches, Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::resource::resource_of;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Informer, Key};
pub(crate) use plan::ROOT_CA;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let controller = cluster
        .controller("root-ca")
        .watch(&caches.namespaces, |ns: &Obj<Namespace>| [kstore_informer::Object::key(ns)])
        .watch(&caches.root_cas.0, |map: &Obj<ConfigMap>| {
            map.metadata.namespace.as_ref().map(|ns| Key::new("", ns))
        })
        .workers(WORKERS);
    let executor = cluster.executor("root-ca-cert-publisher");
    let stop = cluster.stop.clone();
    work(controller, stop, Publisher { cluster, caches, executor })
}

/// Informer of the ConfigMaps with the root certificate.
#[derive(Clone)]
struct RootCas(Informer<Obj<ConfigMap>>);

impl Watched for RootCas {
    fn start(from: &Sources<'_>) -> Self {
        let named = WatchParams::default().fields(&format!("metadata.name={ROOT_CA}"));
        let builder = Builder::new(from.multi.trimmed::<ConfigMap>(named));
        Self(from.start("configmaps", Some(resource_of::<ConfigMap>()), builder))
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    namespaces: Informer<Obj<Namespace>>,
    root_cas: RootCas,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { namespaces: caches.get(), root_cas: caches.get() }
    }
}

struct Publisher {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Publisher {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let Some(namespace) = caches.namespaces.get(&cx.key) else { return Ok(Next::Done) };
        let published = caches.root_cas.0.get(&Key::new(cx.key.name(), ROOT_CA));
        let published = published.as_ref().map(|map| &***map);
        let Some(action) = plan::plan(&namespace, published, &self.cluster.config.root_ca) else {
            return Ok(Next::Done);
        };
        // If another client created it first, the key runs again until the cache shows it: the object may be gone before that.
        self.executor.execute(&cx, &[action]).await.result()?;
        Ok(Next::Done)
    }
}
