//! StatefulSet controller: keeps pods with stable names, in order, and their storage. `plan` decides;
//! `identity` names and builds pods and claims, `retention` decides the owners of claims, `step` has the
//! writes for one pod, `status` reports. This file reads the caches and executes the plan.
//!
//! Follows `UpdateStatefulSet` and `performUpdate`.

mod identity;
mod plan;
mod retention;
mod status;
mod step;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::adoption::settle;
use crate::apply::Executor;
use crate::caches::{Caches, Pods, candidates};
use crate::claim::{Claim, ControlledObject, claim, controller_of};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{SLOW_START, WRITES_IN_FLIGHT};
use crate::revision::{ControllerRevisions, RevisionCollision, clash, owner_of};
use crate::selector;
use crate::view::Pod;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kstore_client::{ApiError, Obj};
use kstore_informer::{Action as Next, Context, CutError, Informer, Key, View, slow_start};
use plan::{Observed, PlannedWrites, owner, plan};
use std::sync::Arc;
use std::time::Duration;
use step::Step;

const WORKERS: usize = 5;

type Sets = Informer<Obj<StatefulSet>>;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (of_pods, of_revisions, of_claims) = (caches.sets.clone(), caches.sets.clone(), caches.sets.clone());
    let controller = cluster
        .controller("statefulset")
        .watch(&caches.sets, |set: &Obj<StatefulSet>| [kstore_informer::Object::key(set)])
        .watch(&caches.pods, move |pod: &Pod| sets_of(&of_pods, pod))
        .watch(&caches.revisions, move |revision: &Obj<ControllerRevision>| {
            sets_of_revision(&of_revisions, revision)
        })
        .watch(&caches.claims, move |claim: &Obj<PersistentVolumeClaim>| sets_of_claim(&of_claims, claim))
        .workers(WORKERS);
    let executor = cluster.executor("statefulset-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, StatefulSets { cluster, caches, executor })
}

/// The StatefulSets of a namespace whose selectors match an object.
fn adopters(sets: &Sets, object: &impl ControlledObject, namespace: &str) -> Vec<Key> {
    let fits = |set: &&Arc<Obj<StatefulSet>>| {
        set.spec.as_ref().is_some_and(|spec| selector::matches(&spec.selector, object.labels()))
    };
    sets.namespace(namespace).iter().filter(fits).map(kstore_informer::Object::key).collect()
}

/// The StatefulSet that controls a pod; for an orphan, every StatefulSet that may adopt it.
fn sets_of(sets: &Sets, pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_str();
    match controller_of(&pod.metadata.owner_references) {
        Some(owner) if owner.kind == "StatefulSet" => vec![Key::new(namespace, &owner.name)],
        Some(_) => vec![],
        None => adopters(sets, pod, namespace),
    }
}

fn sets_of_revision(sets: &Sets, revision: &ControllerRevision) -> Vec<Key> {
    match controller_of(revision.owners()) {
        Some(_) => owner_of(revision, "StatefulSet").into_iter().collect(),
        None => adopters(sets, revision, revision.metadata.namespace.as_deref().unwrap_or_default()),
    }
}

/// The StatefulSets with a pod for this claim name: they may wait for its deletion.
fn sets_of_claim(sets: &Sets, claim: &PersistentVolumeClaim) -> Vec<Key> {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let all = sets.namespace(claim.metadata.namespace.as_deref().unwrap_or_default());
    all.iter().filter(|set| identity::owns_claim(set, name)).map(kstore_informer::Object::key).collect()
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    sets: Sets,
    pods: Pods,
    revisions: ControllerRevisions,
    claims: Informer<Obj<PersistentVolumeClaim>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { sets: caches.get(), pods: caches.get(), revisions: caches.get(), claims: caches.get() }
    }
}

struct StatefulSets {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
}

/// Input of one run, at one revision of the store.
struct RunInput {
    set: Arc<Obj<StatefulSet>>,
    pods: Claim<Arc<Pod>>,
    revisions: Claim<Arc<Obj<ControllerRevision>>>,
    claims: View<Obj<PersistentVolumeClaim>>,
}

impl Reconcile for StatefulSets {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.stale {
            // Pods of earlier runs may not be visible.
            return Ok(Next::Again(Duration::ZERO));
        }
        let Some(RunInput { set, pods, revisions, claims }) = self.read_caches(&cx).await? else {
            return Ok(Next::Done);
        };
        let settled = settle::<StatefulSet, _>(&self.executor, &cx, &set.metadata, &revisions).await?;
        if settle::<StatefulSet, _>(&self.executor, &cx, &set.metadata, &pods).await? || settled {
            return Ok(Next::Done);
        }
        let now = self.cluster.nondet.clock.now();
        let work = tracing::debug_span!("plan").in_scope(|| {
            let revisions: Vec<&ControllerRevision> = revisions.owned.iter().map(|r| &***r).collect();
            let find = |name: &str| claims.get(&Key::new(cx.key.namespace(), name)).map(|claim| &***claim);
            plan(Observed { set: &set, pods: &pods.owned, revisions: &revisions, claims: &find }, now)
        });
        self.execute(&cx, &set, work).await
    }
}

impl StatefulSets {
    /// The StatefulSet with its owned and adoptable objects.
    async fn read_caches(&self, cx: &Context) -> Result<Option<RunInput>, CutError> {
        let caches = &self.caches;
        let parts = (&caches.sets, &*caches.pods, &*caches.revisions, &caches.claims);
        let (sets, pods, revisions, claims) = cx.cut(parts).await?;
        let Some(set) = sets.get(&cx.key).cloned() else { return Ok(None) };
        // An empty selector would adopt everything; validation refuses it.
        let Some(spec) = set.spec.as_ref().filter(|s| !selector::selects_everything(&s.selector)) else {
            return Ok(None);
        };
        let pods = candidates(&pods, &caches.pods.by_lookup_key, &set.metadata, &spec.selector);
        let pods = only_members(&set, claim(&set.metadata, &spec.selector, pods));
        let revisions = caches.revisions.candidates(&revisions, &set.metadata, &spec.selector);
        let revisions = claim(&set.metadata, &spec.selector, revisions);
        Ok(Some(RunInput { set, pods, revisions, claims }))
    }

    async fn execute(
        &self,
        cx: &Context,
        set: &StatefulSet,
        work: PlannedWrites,
    ) -> Result<Next, ReconcileError> {
        if let Some(revision) = &work.revision {
            self.write_revision(cx, set, revision).await?;
            return Ok(Next::Done);
        }
        let steps = self.take(cx, set, &work).await;
        let status = self.executor.execute(cx, work.status.as_slice()).await.result();
        steps?;
        status?;
        self.executor.execute(cx, &work.history).await.result()?;
        Ok(work.wake.map_or(Next::Done, Next::Again))
    }

    /// Executes the steps: in order up to the first failure, or concurrently with a slow start.
    async fn take(&self, cx: &Context, set: &StatefulSet, work: &PlannedWrites) -> Result<(), ApiError> {
        if !work.is_parallel {
            for step in &work.steps {
                self.take_one(cx, set, step).await?;
            }
            return Ok(());
        }
        let indices: Vec<usize> = (0..work.steps.len()).collect();
        let take = |index: usize| self.take_one(cx, set, &work.steps[index]);
        let started = slow_start(indices, SLOW_START, WRITES_IN_FLIGHT, take).await;
        started.results.into_iter().collect()
    }

    async fn take_one(&self, cx: &Context, set: &StatefulSet, step: &Step) -> Result<(), ApiError> {
        let Some(failed) = self.executor.execute(cx, &step.actions).await.failure else { return Ok(()) };
        let exists = failed.error.is_already_exists();
        let events = step.failure(set, failed.at, &failed.error.to_string(), exists);
        self.executor.execute(cx, &events).await;
        Err(failed.error)
    }

    /// Writes the newest revision. If its name is permanently taken, increments the collision count.
    async fn write_revision(
        &self,
        cx: &Context,
        set: &StatefulSet,
        revision: &Action,
    ) -> Result<(), ReconcileError> {
        let Err(error) = self.executor.execute(cx, std::slice::from_ref(revision)).await.result() else {
            return Ok(());
        };
        let (Action::Create(object), Some(spec)) = (revision, set.spec.as_ref()) else {
            return Err(error.into());
        };
        if error.is_already_exists() {
            let holder =
                self.executor.client.api::<ControllerRevision>().get(&object.namespace, &object.name).await?;
            let owner = owner(set, spec);
            if clash(owner, &holder) == RevisionCollision::Permanent {
                self.executor.execute(cx, &[plan::rename_revision(set)]).await.result()?;
                return Ok(());
            }
        }
        Err(error.into())
    }
}

/// Pods with other names do not belong to the StatefulSet, even if their labels match: they are released and
/// not adopted.
fn only_members(set: &StatefulSet, pods: Claim<Arc<Pod>>) -> Claim<Arc<Pod>> {
    let is_member = |pod: &Arc<Pod>| identity::ordinal(set, &pod.metadata.name).is_some();
    let (owned, strangers): (Vec<_>, Vec<_>) = pods.owned.into_iter().partition(is_member);
    let mut release = pods.release;
    if set.metadata.deletion_timestamp.is_none() {
        release.extend(strangers);
    }
    Claim { owned, adopt: pods.adopt.into_iter().filter(is_member).collect(), release }
}
