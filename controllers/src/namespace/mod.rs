//! Empties namespaces that are being deleted, and lets them go. `plan` judges; this file lists what is left and has the plan
//! carried out. It runs when something vanishes from such a namespace, and at the plan's deadline.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::{Hands, gvr};
use crate::garbage_collector::member::{Member, kinds};
use crate::resource::Resource;
use crate::runner::{Cluster, Reconcile, Trouble, work};
use crate::view::Plain;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kstore_api::lenient;
use kstore_client::{ListParams, Obj};
use kstore_informer::{Action as Next, Context, Delta, Informer, Key};
use plan::{Content, Observed, is_terminating};
use std::sync::Arc;

const WORKERS: usize = 10;

/// Kinds that are listed at the same time.
const LISTS: usize = 8;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let caches = &cluster.caches;
    let namespaces = caches.namespaces.clone();
    let controller = cluster
        .controller("namespace")
        .watch(&caches.namespaces, |ns: &Obj<Namespace>| {
            is_terminating(ns).then(|| kstore_informer::Object::key(ns))
        })
        .watch_deltas(&caches.everything, move |delta| emptied(&namespaces, delta))
        .workers(WORKERS);
    let hands = cluster.hands("namespace-controller");
    let stop = cluster.stop.clone();
    let resources = kinds().values().filter(|k| k.namespaced).map(|k| k.resource.clone()).collect();
    work(controller, stop, Namespaces { cluster, hands, resources }).await;
}

/// The namespace that has one object less and is to have none.
fn emptied(namespaces: &Informer<Obj<Namespace>>, delta: &Delta<Member>) -> Option<Key> {
    let Delta::Deleted(member) = delta else { return None };
    let key = Key::new("", member.namespace().filter(|ns| !ns.is_empty())?);
    namespaces.get(&key).is_some_and(|ns| is_terminating(&ns)).then_some(key)
}

struct Namespaces {
    cluster: Arc<Cluster>,
    hands: Hands,
    resources: Vec<Resource>,
}

impl Reconcile for Namespaces {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let caches = &self.cluster.caches;
        let Some(ns) = caches.namespaces.get(&cx.key).filter(|ns| is_terminating(ns)) else {
            return Ok(Next::Done);
        };
        let (contents, failures) = self.list(cx.key.name()).await;
        let seen = Observed { namespace: &ns, contents: &contents, failures: &failures };
        let plan = plan::plan(seen, self.cluster.nondet.clock.now());
        self.hands.carry_out(&cx, &plan.actions).await.result()?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}

impl Namespaces {
    /// What is left, in a fixed order of kinds, and what could not be listed.
    async fn list(&self, namespace: &str) -> (Vec<Content>, Vec<String>) {
        let list = |resource| {
            let api = self.hands.client.dynamic(gvr(resource));
            async move { (resource, api.list(namespace, &ListParams::default()).await) }.boxed()
        };
        let lists: Vec<_> = self.resources.iter().map(list).collect();
        let mut results = futures::stream::iter(lists).buffered(LISTS);
        let (mut contents, mut failures) = (vec![], vec![]);
        while let Some((resource, result)) = results.next().await {
            let items = result.map_err(|e| e.to_string()).and_then(|(items, _)| {
                let read = |item: serde_json::Value| {
                    lenient::from_value::<Plain>(&item).map(|p| p.metadata).map_err(|e| e.to_string())
                };
                items.into_iter().map(read).collect::<Result<Vec<_>, _>>()
            });
            match items {
                Ok(items) if items.is_empty() => {}
                Ok(items) => contents.push(Content { resource: resource.clone(), items }),
                Err(error) => failures.push(format!("{}.{}: {error}", resource.plural, resource.group)),
            }
        }
        (contents, failures)
    }
}
