//! Disruption controller: computes for each PodDisruptionBudget how many of its pods may be evicted now. An
//! eviction decrements the budget in the commit that deletes the pod; this controller raises it again when
//! pods become healthy. `plan` decides, `scale` finds the desired number of pods; this file reads the caches, and
//! the scales of controllers that are in no cache, and executes the plan. It also removes stale DisruptionTarget conditions (`stale`
//! decides).
//!
//! Follows `trySync` and `getExpectedPodCount`.

mod plan;
mod scale;
mod stale;
#[cfg(test)]
mod tests;

use crate::action::Plan;
use crate::apply::Executor;
use crate::caches::{Caches, Pods, ReplicaSets, Sources, Watched, selected};
use crate::claim::controller_of;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::disruption_target::{marked_since, unmark};
use crate::resource::resource_of;
use crate::scale_target::{self, ReadScale};
use crate::selector;
use crate::view::{self, Pod, Scaled};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kstore_client::{ApiError, Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, CutError, Delta, Informer, Key, Object};
use plan::Observed;
use scale::{Kind, ReadScales, Workload, Workloads};
use std::collections::BTreeMap;
use std::sync::Arc;

const WORKERS: usize = 2;
const COMPONENT: &str = "disruption-controller";

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let executor = cluster.executor(COMPONENT);
    let (budgets, marks) = (budgets(Arc::clone(&cluster), executor.clone()), marks(cluster, executor));
    async move {
        futures::join!(budgets, marks);
    }
}

type Budgets = Informer<Obj<PodDisruptionBudget>>;

fn budgets(cluster: Arc<Cluster>, executor: Executor) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let of = || caches.budgets.clone();
    let (of_pods, of_deployments, of_sets, of_stateful, of_controllers) = (of(), of(), of(), of(), of());
    let controller = cluster
        .controller("disruption")
        .watch(&caches.budgets, |budget: &Obj<PodDisruptionBudget>| [budget.key()])
        .watch_deltas(&caches.pods, move |delta| guarding(&of_pods, delta))
        .watch_deltas(&caches.deployments, move |delta: &Delta<Obj<Deployment>>| {
            scaled(&of_deployments, delta, |deployment| Workload::from(&**deployment))
        })
        .watch_deltas(&caches.sets, move |delta: &Delta<Obj<ReplicaSet>>| {
            scaled(&of_sets, delta, |set| Workload::from(&**set))
        })
        .watch_deltas(&caches.stateful_sets.0, move |delta: &Delta<Scaled>| {
            scaled(&of_stateful, delta, |set| Workload::from(set))
        })
        .watch_deltas(&caches.replication_controllers.0, move |delta: &Delta<Scaled>| {
            scaled(&of_controllers, delta, |controller| Workload::from(controller))
        })
        .workers(WORKERS);
    let stop = cluster.stop.clone();
    work(controller, stop, Disruptions { cluster, caches, executor })
}

/// The budgets that select a pod in its old or new state.
fn guarding(budgets: &Budgets, delta: &Delta<Pod>) -> Vec<Key> {
    let (old, new) = match delta {
        Delta::Added(pod) | Delta::Resync(pod) => (None, pod),
        Delta::Updated { old, new } if counts_the_same(old, new) => return vec![],
        Delta::Updated { old, new } => (Some(old), new),
        Delta::Deleted(pod) => (None, pod),
    };
    let guards = |budget: &&Arc<Obj<PodDisruptionBudget>>| {
        old.into_iter().chain([new]).any(|pod| selects(budget, pod))
    };
    budgets.namespace(&new.metadata.namespace).iter().filter(guards).map(Object::key).collect()
}

/// Whether a budget selects a pod. A missing selector selects nothing, an empty one everything.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    wanted.is_some_and(|wanted| selector::matches(wanted, &pod.metadata.labels))
}

/// Whether no counted field changed.
fn counts_the_same(a: &Pod, b: &Pod) -> bool {
    a.ready() == b.ready()
        && a.metadata.is_deleting() == b.metadata.is_deleting()
        && a.metadata.labels == b.metadata.labels
        && controller_of(&a.metadata.owner_references) == controller_of(&b.metadata.owner_references)
}

/// The budgets that may depend on a workload's desired size, if the size changed.
fn scaled<T: Object>(budgets: &Budgets, delta: &Delta<T>, size: fn(&T) -> Workload) -> Vec<Key> {
    let changed = match delta {
        Delta::Added(_) | Delta::Deleted(_) | Delta::Resync(_) => true,
        Delta::Updated { old, new } => size(old) != size(new),
    };
    if !changed {
        return vec![];
    }
    let depends =
        |budget: &&Arc<Obj<PodDisruptionBudget>>| budget.spec.as_ref().is_some_and(plan::depends_on_scale);
    budgets.namespace(delta.object().key().namespace()).iter().filter(depends).map(Object::key).collect()
}

/// Informer of the StatefulSets.
#[derive(Clone)]
struct StatefulSets(Informer<Scaled>);

impl Watched for StatefulSets {
    fn start(from: &Sources<'_>) -> Self {
        let source = from.multi.project::<StatefulSet, _, _>(WatchParams::default(), view::decode::<Scaled>);
        Self(from.start("statefulset-scales", Some(resource_of::<StatefulSet>()), Builder::new(source)))
    }
}

/// Informer of the ReplicationControllers.
#[derive(Clone)]
struct ReplicationControllers(Informer<Scaled>);

impl Watched for ReplicationControllers {
    fn start(from: &Sources<'_>) -> Self {
        let all = WatchParams::default();
        let source = from.multi.project::<ReplicationController, _, _>(all, view::decode::<Scaled>);
        let resource = Some(resource_of::<ReplicationController>());
        Self(from.start("replicationcontroller-scales", resource, Builder::new(source)))
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    budgets: Budgets,
    pods: Pods,
    deployments: Informer<Obj<Deployment>>,
    sets: ReplicaSets,
    stateful_sets: StatefulSets,
    replication_controllers: ReplicationControllers,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self {
            budgets: caches.get(),
            pods: caches.get(),
            deployments: caches.get(),
            sets: caches.get(),
            stateful_sets: caches.get(),
            replication_controllers: caches.get(),
        }
    }
}

struct Disruptions {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Disruptions {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some((plan, unread)) = self.plan(&cx).await? else { return Ok(Next::Done) };
        // A conflict means an eviction happened meanwhile; the next run counts again.
        ignore_not_found(self.executor.execute(&cx, &plan.actions).await.result())?;
        unread.map_or_else(|| Ok(plan.wake.map_or(Next::Done, Next::Again)), |error| Err(error.into()))
    }
}

impl Disruptions {
    /// The plan for a budget, if it exists, from one revision of the caches. Beside it the error of a scale
    /// that could not be read now; the budget allows nothing until a later run reads it.
    async fn plan(&self, cx: &Context) -> Result<Option<(Plan, Option<ApiError>)>, CutError> {
        let caches = &self.caches;
        let informers = (
            &caches.budgets,
            &*caches.pods,
            &caches.deployments,
            &*caches.sets,
            &caches.stateful_sets.0,
            &caches.replication_controllers.0,
        );
        let (budgets, pods, deployments, sets, stateful_sets, controllers) = cx.cut(informers).await?;
        let Some(budget) = budgets.get(&cx.key) else { return Ok(None) };
        let namespace = cx.key.namespace();
        let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let guarded = wanted.map(|wanted| selected(&pods, &caches.pods.by_lookup_key, namespace, wanted));
        let guarded: Vec<Arc<Pod>> = guarded.unwrap_or_default();
        let (read, unread) = match budget.spec.as_ref().is_some_and(plan::depends_on_scale) {
            true => self.read_scales(namespace, &guarded).await,
            false => (ReadScales::new(), None),
        };
        let cached = |kind, name: &str| {
            let key = Key::new(namespace, name);
            match kind {
                Kind::Deployment => deployments.get(&key).map(|found| Workload::from(&***found)),
                Kind::ReplicaSet => sets.get(&key).map(|found| Workload::from(&***found)),
                Kind::StatefulSet => stateful_sets.get(&key).map(|found| Workload::from(&**found)),
                Kind::ReplicationController => controllers.get(&key).map(|found| Workload::from(&**found)),
            }
        };
        let now = self.cluster.nondet.clock.now();
        let span = tracing::debug_span!("plan");
        let workloads = Workloads { cached, read: &read };
        let plan = span.in_scope(|| plan::plan(Observed { budget, pods: &guarded }, &workloads, now));
        Ok(Some((plan, unread)))
    }

    /// The scales of the pods' controllers whose kinds have no cache, one read for each controller, and the
    /// error of a read that may succeed later.
    async fn read_scales(&self, namespace: &str, pods: &[Arc<Pod>]) -> (ReadScales, Option<ApiError>) {
        let owners = pods.iter().filter_map(|pod| controller_of(&pod.metadata.owner_references));
        let owners = owners.filter(|owner| Kind::of(owner).is_none());
        let owners: BTreeMap<&str, &OwnerReference> =
            owners.map(|owner| (owner.uid.as_str(), owner)).collect();
        let (mut scales, mut unread) = (ReadScales::new(), None);
        for (uid, owner) in owners {
            let read = self.read_scale(namespace, owner).await.unwrap_or_else(|error| {
                let why = error.to_string();
                unread = Some(error);
                Err(why)
            });
            scales.insert(uid.to_owned(), read);
        }
        (scales, unread)
    }

    /// The desired number of pods of a controller of any kind, `None` if it does not exist, or why its kind has
    /// none. Follows upstream's `getScaleController`.
    ///
    /// # Errors
    /// The scale cannot be read now.
    async fn read_scale(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Result<Option<i32>, String>, ApiError> {
        let client = &self.executor.client;
        let found = scale_target::resource_in_version(client, &owner.api_version, &owner.kind).await?;
        let Some(resource) = found else { return Ok(Err(scale::no_kind(owner))) };
        match ReadScale::read(client, &resource, (namespace, &owner.name)).await {
            Ok(read) => Ok(Ok(Some(read.replicas()).filter(|_| read.uid() == owner.uid))),
            // The object is missing, or its kind has no scale.
            Err(error) if error.is_not_found() => {
                match scale_target::serves_scale(client, &resource).await? {
                    true => Ok(Ok(None)),
                    false => Ok(Err(scale::no_scale(&resource))),
                }
            }
            Err(error) => Err(error),
        }
    }
}

fn marks(cluster: Arc<Cluster>, executor: Executor) -> impl Future<Output = ()> {
    let pods: Pods = cluster.caches.get();
    let controller = cluster
        .controller("stale-disruption")
        .watch(&pods, |pod: &Pod| marked_since(pod).map(|_| pod.key()))
        .workers(1);
    let stop = cluster.stop.clone();
    work(controller, stop, StaleDisruptionReconciler { cluster, pods, executor })
}

struct StaleDisruptionReconciler {
    cluster: Arc<Cluster>,
    pods: Pods,
    executor: Executor,
}

impl Reconcile for StaleDisruptionReconciler {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(pod) = self.pods.get(&cx.key) else { return Ok(Next::Done) };
        let now = self.cluster.nondet.clock.now();
        match stale::expires_in(&pod, now) {
            None => Ok(Next::Done),
            Some(wait) if !wait.is_zero() => Ok(Next::Again(wait)),
            Some(_) => {
                ignore_not_found(self.executor.execute(&cx, &[unmark(&pod, now)]).await.result())?;
                Ok(Next::Done)
            }
        }
    }
}

/// A missing object needs no write.
fn ignore_not_found(result: Result<(), ApiError>) -> Result<(), ApiError> {
    result.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
}
