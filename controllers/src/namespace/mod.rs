//! Namespace controller: deletes the content of terminating namespaces and then finalizes them. `plan`
//! decides; this file lists the remaining content and executes first the deletions, then the plan. It runs
//! when an object of such a namespace disappears, but seldom while pods remain, and at the plan's deadline.
//!
//! Follows `syncNamespaceFromKey` and `deleteAllContent`.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::aggregated::AggregatedKinds;
use crate::apply::Executor;
use crate::caches::{Caches, Pods};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::garbage_collector::member::{OwnershipRecord, kinds};
use crate::limits::{EVENTS_COUNTED, LONGEST_NAMESPACE_INTERVAL, NAMESPACE_INTERVAL, NAMESPACE_LISTS};
use crate::optional_api;
use crate::resource::{DEFINITIONS, EVENTS, Resource, gvr};
use crate::resource_api::{ResourceApi, decode};
use crate::view::{Plain, Pod, elapsed};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kstore_client::{ListParams, Obj};
use kstore_informer::{Action as Next, Context, Delta, Informer, Key};
use parking_lot::Mutex;
use plan::{Content, Observed, is_terminating};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

const WORKERS: usize = 10;

/// Kinds that are listed concurrently.
const LISTS: usize = 8;

/// Whether objects may be created in the namespace: it is not terminating.
pub(crate) fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (of_objects, of_pods) = (caches.namespaces.clone(), caches.namespaces.clone());
    let controller = cluster
        .controller("namespace")
        .watch(&caches.namespaces, |ns: &Obj<Namespace>| {
            is_terminating(ns).then(|| kstore_informer::Object::key(ns))
        })
        .watch_deltas(&caches.everything, move |delta: &Delta<OwnershipRecord>| {
            let Delta::Deleted(member) = delta else { return None };
            emptied(&of_objects, member.namespace())
        })
        // The rest between two lists ends when this cache shows no pod: perhaps later than the other one.
        .watch_deltas(&caches.pods, move |delta: &Delta<Pod>| {
            let Delta::Deleted(pod) = delta else { return None };
            emptied(&of_pods, &pod.metadata.namespace)
        })
        .workers(WORKERS);
    let executor = cluster.executor("namespace-controller");
    let stop = cluster.stop.clone();
    let namespaced = kinds().values().filter(|k| k.namespaced).map(|k| k.resource.clone());
    let resources = namespaced.chain([EVENTS]).collect();
    let (optional, listed) = (OnceCell::new(), Mutex::default());
    work(controller, stop, Namespaces { cluster, caches, executor, resources, optional, listed })
}

/// The terminating namespace of a deleted object.
fn emptied(namespaces: &Informer<Obj<Namespace>>, namespace: &str) -> Option<Key> {
    let key = Key::new("", Some(namespace).filter(|name| !name.is_empty())?);
    namespaces.get(&key).is_some_and(|ns| is_terminating(&ns)).then_some(key)
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    namespaces: Informer<Obj<Namespace>>,
    pods: Pods,
    everything: Informer<OwnershipRecord>,
    services: Informer<Obj<APIService>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self {
            namespaces: caches.get(),
            pods: caches.get(),
            everything: caches.get(),
            services: caches.get(),
        }
    }
}

struct Namespaces {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
    resources: Vec<Resource>,
    /// The namespaced built-in kinds that not every server has and that this one serves, from the first terminating namespace on.
    optional: OnceCell<Vec<Resource>>,
    /// The last list of each terminating namespace.
    listed: Mutex<BTreeMap<Key, LastList>>,
}

/// When a namespace was listed, and how long that took.
#[derive(Clone, Copy)]
struct LastList {
    ended: Timestamp,
    took: Duration,
}

impl Reconcile for Namespaces {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let Some(ns) = caches.namespaces.get(&cx.key).filter(|ns| is_terminating(ns)) else {
            self.listed.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        let name = cx.key.name();
        let began = self.cluster.nondet.clock.now();
        if let Some(rest) = self.rest(&cx.key, began) {
            return Ok(Next::Again(rest));
        }
        let (custom, unknown) = self.custom_resources().await;
        let (aggregated, undiscovered) = self.aggregated_resources().await;
        let optional = self.optional.get_or_init(|| self.optional_resources()).await;
        let built_in = self.resources.iter().chain(optional).cloned();
        let resources: Vec<_> = built_in.chain(custom).chain(aggregated).collect();
        let (mut contents, mut failures) = self.list(name, &resources).await;
        let ended = self.cluster.nondet.clock.now();
        self.listed.lock().insert(cx.key.clone(), LastList { ended, took: elapsed(began, ended) });
        failures.extend(unknown);
        failures.extend(self.delete(&cx, &contents).await);
        if plan::are_events(&contents) {
            let (events, unread) = self.list(name, &[EVENTS]).await;
            contents = events;
            failures.extend(unread);
        }
        let undiscovered = undiscovered.as_deref();
        let seen = Observed { namespace: &ns, contents: &contents, failures: &failures, undiscovered };
        let plan = plan::plan(seen, self.cluster.nondet.clock.now());
        self.executor.execute(&cx, &plan.actions).await.result()?;
        match undiscovered.or(failures.first().map(String::as_str)) {
            Some(failure) => Err(ReconcileError::Failed(format!(
                "unexpected items still remain in the namespace: {failure}"
            ))),
            None => Ok(plan.wake.map_or(Next::Done, Next::Again)),
        }
    }
}

impl Namespaces {
    /// Time until a namespace with pods may be listed again.
    fn rest(&self, key: &Key, now: Timestamp) -> Option<Duration> {
        let LastList { ended, took } = *self.listed.lock().get(key)?;
        self.caches.pods.view().namespace(key.name()).next()?;
        let interval = (took * NAMESPACE_LISTS).clamp(NAMESPACE_INTERVAL, LONGEST_NAMESPACE_INTERVAL);
        interval.checked_sub(elapsed(ended, now)).filter(|rest| !rest.is_zero())
    }

    /// Deletes what is due of every kind, even if another kind fails. Returns the failures in a fixed order
    /// of kinds.
    async fn delete(&self, cx: &Context, contents: &[Content]) -> Vec<String> {
        let due = plan::deletions(cx.key.name(), contents);
        let lists: Vec<_> = due.iter().map(|(_, list)| vec![Action::Together(list.clone())]).collect();
        let failures = self.executor.execute_lists(cx, lists.iter()).await;
        failures.iter().map(|(index, error)| plan::failure_of(due[*index].0, error)).collect()
    }

    /// The namespaced built-in kinds that not every server has and that this one serves.
    async fn optional_resources(&self) -> Vec<Resource> {
        let served = optional_api::served_kinds(&self.cluster).await.into_iter();
        let namespaced = served.filter(|row| row.namespaced);
        namespaced.map(|row| Resource::named(row.group, row.version, row.plural)).collect()
    }

    /// The namespaced kinds of CustomResourceDefinitions, in their storage versions, and the error if they
    /// are unknown.
    async fn custom_resources(&self) -> (Vec<Resource>, Option<String>) {
        let listed = self.executor.client.dynamic(gvr(&DEFINITIONS)).list("", &ListParams::default()).await;
        match listed {
            Ok((definitions, _)) => (definitions.iter().filter_map(plan::custom_resource).collect(), None),
            Err(error) => (Vec::new(), Some(plan::failure_of(&DEFINITIONS, &error.to_string()))),
        }
    }

    /// The namespaced kinds of aggregated API servers whose objects can be listed and deleted, and the error if
    /// the kinds of a server are unknown.
    async fn aggregated_resources(&self) -> (Vec<Resource>, Option<String>) {
        match AggregatedKinds::discover(&self.executor.client, &self.caches.services).await {
            Ok(found) => {
                let failure = found.failure();
                let kinds = found.kinds.into_iter().filter(|kind| kind.namespaced);
                let kinds = kinds.filter(|kind| kind.supports(&["delete", "list"]));
                (kinds.map(|kind| kind.resource).collect(), failure)
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        }
    }

    /// Remaining content in the order of `resources`, and the list failures.
    async fn list(&self, namespace: &str, resources: &[Resource]) -> (Vec<Content>, Vec<String>) {
        let list = |resource: &Resource| {
            let (client, resource) = (self.executor.client.clone(), resource.clone());
            async move {
                let items: Result<Vec<Plain>, _> = match resource == EVENTS {
                    true => {
                        let all = ListParams::default().include_uninitialized();
                        let api = client.dynamic(gvr(&EVENTS));
                        let first = api.list_first(namespace, &all, EVENTS_COUNTED).await;
                        first.and_then(|first| decode(&first))
                    }
                    false => ResourceApi::of(&client, &resource).list(namespace).await,
                };
                (resource, items)
            }
            .boxed()
        };
        let lists: Vec<_> = resources.iter().map(list).collect();
        let mut results = futures::stream::iter(lists).buffered(LISTS);
        let (mut contents, mut failures) = (vec![], vec![]);
        while let Some((resource, result)) = results.next().await {
            match result {
                Ok(items) if items.is_empty() => {}
                Ok(items) => {
                    let items = items.into_iter().map(|item| item.metadata).collect();
                    contents.push(Content { resource, items });
                }
                Err(error) => failures.push(plan::failure_of(&resource, &error)),
            }
        }
        (contents, failures)
    }
}
