//! Garbage collector: deletes objects without owners, and completes foreground and orphaning deletions.
//! `graph` stores the ownership, `plan` decides about one object, `known` feeds both from watch streams and
//! tracks the kinds; `custom` opens the streams of custom kinds, `aggregated` those of the kinds of aggregated
//! API servers, `optional` that of built-in kinds that not every server has. This file asks the server about
//! unknown owners and executes the plan.
//!
//! Follows `attemptToDeleteItem` and `attemptToOrphan`.

mod aggregated;
mod custom;
mod graph;
mod known;
pub(crate) mod latest;
pub(crate) mod member;
mod optional;
mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::UNSEEN_OWNER;
use crate::resource::{DEFINITIONS, Resource, gvr};
use crate::resource_api::ResourceApi;
use graph::WorkItem;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use known::{KnownObjects, Shared};
use kstore_client::ApiError;
use kstore_informer::{Action as Next, Causes, Context, Informer, Key, Queue};
use member::OwnershipRecord;
use plan::{CollectDecision, OwnerRead, Presence};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of objects processed concurrently. Each costs about one write, so this bounds the speed of a
/// cascade.
const WORKERS: usize = 32;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let shared = Arc::new(Shared::new(&member::owners()));
    let fed = Arc::clone(&shared);
    let controller = cluster
        .controller("garbage-collector")
        .watch_deltas(&cluster.caches.get::<Informer<OwnershipRecord>>(), move |delta| fed.take(delta))
        .workers(WORKERS);
    let executor = cluster.executor("generic-garbage-collector");
    let queue = controller.queue();
    cluster.spawn(custom::run(Arc::clone(&cluster), Arc::clone(&shared), queue.clone()));
    cluster.spawn(optional::run(Arc::clone(&cluster), Arc::clone(&shared), queue.clone()));
    let services = cluster.caches.whole::<APIService>();
    cluster.spawn(aggregated::run(Arc::clone(&cluster), Arc::clone(&shared), queue.clone(), services));
    work(controller, cluster.stop.clone(), Collector { shared, queue, executor })
}

struct Collector {
    shared: Arc<Shared>,
    queue: Queue<Key>,
    executor: Executor,
}

impl Reconcile for Collector {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let mut next = Next::Done;
        let actions = match WorkItem::of(&cx.key) {
            Some(WorkItem::Orphan(uid)) => {
                let KnownObjects { graph, kinds, .. } = &*self.shared.lock();
                plan::orphan(graph, kinds, &uid)
            }
            Some(WorkItem::Collect(uid)) => {
                let (actions, has_unseen_owner) = self.collect(&uid, &cx.causes).await?;
                if has_unseen_owner {
                    next = Next::Again(UNSEEN_OWNER);
                }
                actions
            }
            None => self.review(),
        };
        self.executor.execute(&cx, &[Action::Together(actions)]).await.result()?;
        Ok(next)
    }
}

impl Collector {
    /// Queues all work items of the initial state.
    fn review(&self) -> Vec<Action> {
        let work = self.shared.lock().review();
        work.iter().for_each(|work| self.queue.add(work.key(), Causes::none()));
        vec![]
    }

    /// The actions for an object, and whether it has an owner that exists and that no stream shows.
    async fn collect(&self, uid: &graph::Uid, causes: &Causes) -> Result<(Vec<Action>, bool), ApiError> {
        let mut answers = BTreeMap::new();
        loop {
            let verdict = {
                let KnownObjects { graph, kinds, absent, .. } = &*self.shared.lock();
                if let Some(item) = graph.get(uid) {
                    let gone = item.owners.iter().filter(|o| absent.knows(&o.uid));
                    answers.extend(gone.map(|o| (o.uid.clone(), Presence::Absent)));
                }
                plan::collect(graph, kinds, &answers, uid)
            };
            match verdict {
                CollectDecision::Act(actions, work) => {
                    work.iter().for_each(|work| self.queue.add(work.key(), causes.clone()));
                    let has_unseen_owner = answers.values().any(|answer| *answer == Presence::Present);
                    return Ok((actions, has_unseen_owner));
                }
                CollectDecision::Ask(questions) => {
                    for question in questions {
                        let answer = self.read_owner(&question).await?;
                        answers.insert(question.uid, answer);
                    }
                }
            }
        }
    }

    async fn read_owner(&self, question: &OwnerRead) -> Result<Presence, ApiError> {
        let OwnerRead { resource, namespace, name, uid } = question;
        let present = match ResourceApi::of(&self.executor.client, resource).get(namespace, name).await {
            Ok(object) => object["metadata"]["uid"] == **uid,
            Err(error) if names(&error, name) => false,
            // The objects of an aggregated API server exist even while it is not registered.
            Err(error) if resource.is_aggregated => return Err(error),
            Err(error) if error.is_not_found() && self.is_withdrawn(resource).await? => false,
            Err(error) => return Err(error),
        };
        if present {
            return Ok(Presence::Present);
        }
        self.shared.lock().absent.add(&question.uid);
        Ok(Presence::Absent)
    }

    /// Whether a custom kind no longer exists, and so its objects. A kind that continues in other versions is
    /// served under another path, and the server does not know the old path either.
    async fn is_withdrawn(&self, resource: &Resource) -> Result<bool, ApiError> {
        let definition = format!("{}.{}", resource.plural, resource.group);
        match self.executor.client.dynamic(gvr(&DEFINITIONS)).get("", &definition).await {
            Ok(_) => Ok(false),
            Err(error) if names(&error, &definition) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Whether the server serves the kind and has no object of this name.
fn names(error: &ApiError, name: &str) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    error.is_not_found() && details.is_some_and(|details| details.name == name)
}
