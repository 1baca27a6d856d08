//! Gives every namespace its ServiceAccount `default` and the cluster's root certificate. `plan` judges; this file reads the
//! caches and has the plan carried out.

mod plan;
#[cfg(test)]
mod tests;

pub(crate) use plan::{DEFAULT, ROOT_CA};

use crate::action::Action;
use crate::apply::Hands;
use crate::runner::{Cluster, Reconcile, Trouble, work};
use crate::view::Plain;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Key};
use plan::Observed;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let caches = &cluster.caches;
    let controller = cluster
        .controller("service-account")
        .watch(&caches.namespaces, |ns: &Obj<Namespace>| [kstore_informer::Object::key(ns)])
        .watch(&caches.accounts, |account: &Plain| [Key::new("", &account.metadata.namespace)])
        .watch(&caches.root_cas, |map: &Obj<ConfigMap>| {
            map.metadata.namespace.as_ref().map(|ns| Key::new("", ns))
        })
        .workers(WORKERS);
    let accounts = cluster.hands("service-account-controller");
    let publisher = cluster.hands("root-ca-cert-publisher");
    let stop = cluster.stop.clone();
    work(controller, stop, Accounts { cluster, accounts, publisher }).await;
}

struct Accounts {
    cluster: Arc<Cluster>,
    accounts: Hands,
    publisher: Hands,
}

impl Reconcile for Accounts {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let caches = &self.cluster.caches;
        let Some(namespace) = caches.namespaces.get(&cx.key) else { return Ok(Next::Done) };
        let name = cx.key.name();
        let root_ca = caches.root_cas.get(&Key::new(name, ROOT_CA));
        let actions = plan::plan(Observed {
            namespace: &namespace,
            has_account: caches.accounts.get(&Key::new(name, DEFAULT)).is_some(),
            root_ca: root_ca.as_ref().map(|m| &***m),
            ca: &self.cluster.config.root_ca,
        });
        for action in actions {
            let hands = match &action {
                Action::Create(crate::action::Object::ServiceAccount(_)) => &self.accounts,
                _ => &self.publisher,
            };
            match hands.carry_out(&cx, &[action]).await.result() {
                // Someone else made it; the cache will show it.
                Err(error) if error.is_already_exists() => {}
                other => other?,
            }
        }
        Ok(Next::Done)
    }
}
