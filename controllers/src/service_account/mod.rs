//! Gives every namespace its ServiceAccount `default`. `plan` judges; this file reads the caches and has the plan carried out.

mod plan;
#[cfg(test)]
mod tests;

pub(crate) use plan::DEFAULT;

use crate::apply::Hands;
use crate::runner::{Cluster, Reconcile, Trouble, work};
use crate::view::Plain;
use k8s_openapi::api::core::v1::Namespace;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Key};
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let caches = &cluster.caches;
    let controller = cluster
        .controller("service-account")
        .watch(&caches.namespaces, |ns: &Obj<Namespace>| [kstore_informer::Object::key(ns)])
        .watch(&caches.accounts, |account: &Plain| [Key::new("", &account.metadata.namespace)])
        .workers(WORKERS);
    let hands = cluster.hands("service-account-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Accounts { cluster, hands }).await;
}

struct Accounts {
    cluster: Arc<Cluster>,
    hands: Hands,
}

impl Reconcile for Accounts {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let caches = &self.cluster.caches;
        let Some(namespace) = caches.namespaces.get(&cx.key) else { return Ok(Next::Done) };
        let has_account = caches.accounts.get(&Key::new(cx.key.name(), DEFAULT)).is_some();
        let Some(action) = plan::plan(&namespace, has_account) else { return Ok(Next::Done) };
        match self.hands.carry_out(&cx, &[action]).await.result() {
            // Another client made it; the cache will show it.
            Err(error) if error.is_already_exists() => Ok(Next::Done),
            other => Ok(other.map(|()| Next::Done)?),
        }
    }
}
