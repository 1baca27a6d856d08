//! ServiceAccount controller: creates the ServiceAccount `default` in every namespace. `plan` decides; this
//! file reads the caches and executes the plan.
//!
//! Follows `syncNamespace`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Caches, Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::resource::resource_of;
use crate::view::{self, Plain};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Informer, Key};
pub(crate) use plan::DEFAULT;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let controller = cluster
        .controller("service-account")
        .watch(&caches.namespaces, |ns: &Obj<Namespace>| [kstore_informer::Object::key(ns)])
        .watch(&caches.accounts, |account: &Plain| [Key::new("", &account.metadata.namespace)])
        .workers(WORKERS);
    let executor = cluster.executor("service-account-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Accounts { caches, executor })
}

/// Cache of the ServiceAccounts named `default`.
impl Watched for Informer<Plain> {
    fn start(from: &Sources<'_>) -> Self {
        let named = WatchParams::default().fields(&format!("metadata.name={DEFAULT}"));
        let source = from.multi.project::<ServiceAccount, _, _>(named, view::decode::<Plain>);
        from.start("serviceaccounts", Some(resource_of::<ServiceAccount>()), Builder::new(source))
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    namespaces: Informer<Obj<Namespace>>,
    accounts: Informer<Plain>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { namespaces: caches.get(), accounts: caches.get() }
    }
}

struct Accounts {
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Accounts {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let Some(namespace) = caches.namespaces.get(&cx.key) else { return Ok(Next::Done) };
        let has_account = caches.accounts.get(&Key::new(cx.key.name(), DEFAULT)).is_some();
        let Some(action) = plan::plan(&namespace, has_account) else { return Ok(Next::Done) };
        // If another client created it first, the key runs again until the cache shows it: the object may be gone before that.
        self.executor.execute(&cx, &[action]).await.result()?;
        Ok(Next::Done)
    }
}
