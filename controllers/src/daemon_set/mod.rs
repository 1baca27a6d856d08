//! DaemonSet controller: keeps one pod of a template on every eligible node. `plan` decides; `placement`
//! selects nodes, `pod` builds pods, `rolling` updates them, `backoff` delays failures, `status` reports.
//! This file reads the caches and executes the plan.
//!
//! Follows `syncDaemonSet`, `updateDaemonSet` and `podsShouldBeOnNode`.

mod backoff;
mod placement;
mod plan;
mod pod;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use crate::action::{Action, Propagation};
use crate::adoption::settle;
use crate::apply::{Executor, Outcome};
use crate::caches::{Caches, Pods, candidates};
use crate::claim::{Claim, ControlledObject, claim, controller_of};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::revision::{ControllerRevisions, RevisionCollision, clash, owner_of};
use crate::selector;
use crate::view::Pod;
use backoff::Backoff;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use kstore_client::{ApiError, Obj};
use kstore_informer::{Action as Next, Context, CutError, Delta, Informer, Key};
use parking_lot::Mutex;
use placement::{Eligibility, Placement};
use plan::{Observed, PlannedWrites, about, owner, plan};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const WORKERS: usize = 2;

type Sets = Informer<Obj<DaemonSet>>;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (of_pods, of_revisions, of_nodes) = (caches.sets.clone(), caches.sets.clone(), caches.sets.clone());
    let controller = cluster
        .controller("daemonset")
        .watch(&caches.sets, |set: &Obj<DaemonSet>| [kstore_informer::Object::key(set)])
        .watch(&caches.pods, move |pod: &Pod| sets_of(&of_pods, pod))
        .watch_deltas(&caches.revisions, move |delta: &Delta<Obj<ControllerRevision>>| {
            sets_of_revision(&of_revisions, delta)
        })
        .watch_deltas(&caches.nodes, move |delta: &Delta<Obj<Node>>| concerned(&of_nodes, delta))
        .workers(WORKERS);
    let executor = cluster.executor("daemonset-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, DaemonSets { cluster, caches, executor, backoffs: Mutex::default() })
}

/// The DaemonSets of a namespace whose selectors match an object.
fn adopters(sets: &Sets, object: &impl ControlledObject, namespace: &str) -> Vec<Key> {
    let fits = |set: &&Arc<Obj<DaemonSet>>| {
        set.spec.as_ref().is_some_and(|spec| selector::matches(&spec.selector, object.labels()))
    };
    sets.namespace(namespace).iter().filter(fits).map(kstore_informer::Object::key).collect()
}

/// The DaemonSet that controls a pod; for an orphan, every DaemonSet that may adopt it.
fn sets_of(sets: &Sets, pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_str();
    match controller_of(&pod.metadata.owner_references) {
        Some(owner) if owner.kind == "DaemonSet" => vec![Key::new(namespace, &owner.name)],
        Some(_) => vec![],
        None => adopters(sets, pod, namespace),
    }
}

/// The DaemonSets that a revision concerns. A new one that has an owner concerns none: who made it may be about to delete the older one,
/// which the controller would take for its duplicate. Follows `addHistory`, `updateHistory` and `deleteHistory`.
fn sets_of_revision(sets: &Sets, delta: &Delta<Obj<ControllerRevision>>) -> Vec<Key> {
    let (revision, is_new) = match delta {
        Delta::Added(new) => (new, true),
        Delta::Updated { new, .. } | Delta::Resync(new) => (new, false),
        Delta::Deleted(old) => (old, false),
    };
    match controller_of(revision.owners()) {
        Some(_) if is_new => vec![],
        Some(_) => owner_of(revision, "DaemonSet").into_iter().collect(),
        None => adopters(sets, revision, revision.metadata.namespace.as_deref().unwrap_or_default()),
    }
}

/// The DaemonSets whose eligibility for a node changed. Filters heartbeats, which rarely matter.
fn concerned(sets: &Sets, delta: &Delta<Obj<Node>>) -> Vec<Key> {
    let (before, after) = match delta {
        Delta::Added(new) => (None, Some(new)),
        Delta::Updated { old, new } => {
            let taints =
                |node: &Obj<Node>| node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
            if old.metadata.labels == new.metadata.labels && taints(old) == taints(new) {
                return vec![];
            }
            (Some(old), Some(new))
        }
        Delta::Deleted(old) => (Some(old), None),
        Delta::Resync(_) => return vec![],
    };
    let empty = PodSpec::default();
    let is_concerned = |set: &&Arc<Obj<DaemonSet>>| {
        let spec = set.spec.as_ref().and_then(|s| s.template.spec.as_ref()).unwrap_or(&empty);
        let placement = Placement::of(spec);
        let evaluate =
            |node: Option<&Arc<Obj<Node>>>| node.map_or(Eligibility::Leave, |node| placement.evaluate(node));
        evaluate(before) != evaluate(after)
    };
    sets.list().iter().filter(is_concerned).map(kstore_informer::Object::key).collect()
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    sets: Sets,
    pods: Pods,
    revisions: ControllerRevisions,
    nodes: Informer<Obj<Node>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { sets: caches.get(), pods: caches.get(), revisions: caches.get(), nodes: caches.get() }
    }
}

struct DaemonSets {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
    /// Recent failures by DaemonSet. In memory only, as upstream.
    backoffs: Mutex<BTreeMap<Key, Backoff>>,
}

/// Input of one run, at one revision of the store.
struct RunInput {
    set: Arc<Obj<DaemonSet>>,
    pods: Claim<Arc<Pod>>,
    revisions: Claim<Arc<Obj<ControllerRevision>>>,
    nodes: Vec<Arc<Obj<Node>>>,
}

impl Reconcile for DaemonSets {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.stale {
            // Pods of earlier runs may not be visible: the run would create them again.
            return Ok(Next::Again(Duration::ZERO));
        }
        let Some(RunInput { set, pods, revisions, nodes }) = self.read_caches(&cx).await? else {
            self.backoffs.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        let settled = settle::<DaemonSet, _>(&self.executor, &cx, &set.metadata, &revisions).await?;
        if settle::<DaemonSet, _>(&self.executor, &cx, &set.metadata, &pods).await? || settled {
            return Ok(Next::Done);
        }
        let now = self.cluster.nondet.clock.now();
        let backoff = self.backoffs.lock().get(&cx.key).cloned().unwrap_or_default();
        let work = tracing::debug_span!("plan").in_scope(|| {
            let revisions: Vec<&ControllerRevision> = revisions.owned.iter().map(|r| &***r).collect();
            let nodes: Vec<&Node> = nodes.iter().map(|node| &***node).collect();
            let (set, pods) = (&**set, &pods.owned);
            plan(Observed { set, pods, nodes: &nodes, revisions: &revisions, backoff: &backoff }, now)
        });
        self.backoffs.lock().insert(cx.key.clone(), work.backoff.clone());
        self.execute(&cx, &set, work).await
    }
}

impl DaemonSets {
    /// The DaemonSet, its owned and adoptable objects, and the nodes.
    async fn read_caches(&self, cx: &Context) -> Result<Option<RunInput>, CutError> {
        let caches = &self.caches;
        let parts = (&caches.sets, &*caches.pods, &*caches.revisions, &caches.nodes);
        let (sets, pods, revisions, nodes) = cx.cut(parts).await?;
        let Some(set) = sets.get(&cx.key).cloned() else { return Ok(None) };
        let Some(spec) = set.spec.as_ref() else { return Ok(None) };
        let pods = candidates(&pods, &caches.pods.by_lookup_key, &set.metadata, &spec.selector);
        let mut revisions = caches.revisions.candidates(&revisions, &set.metadata, &spec.selector);
        if selector::selects_everything(&spec.selector) {
            revisions.clear();
        }
        let pods = claim(&set.metadata, &spec.selector, pods);
        let revisions = claim(&set.metadata, &spec.selector, revisions);
        Ok(Some(RunInput { set, pods, revisions, nodes: nodes.iter().cloned().collect() }))
    }

    async fn execute(
        &self,
        cx: &Context,
        set: &DaemonSet,
        work: PlannedWrites,
    ) -> Result<Next, ReconcileError> {
        self.executor.execute(cx, &work.events).await;
        if !work.revisions.is_empty() {
            self.write_revisions(cx, set, &work.revisions).await?;
            // The informer of ControllerRevisions does not enqueue the DaemonSet for a new revision.
            return Ok(Next::Again(Duration::ZERO));
        }
        let created = if work.create.is_empty() {
            Outcome::default()
        } else {
            self.executor.execute(cx, &[Action::CreateBatch(work.create.clone())]).await
        };
        self.executor.execute(cx, &notices_of_creation(set, &created)).await;
        let deleted = self.delete(cx, set, &work.delete).await;
        let status = self.executor.execute(cx, work.status.as_slice()).await.result();
        created.result()?;
        deleted?;
        status?;
        self.executor.execute(cx, &work.history).await.result()?;
        Ok(work.wake.map_or(Next::Done, Next::Again))
    }

    /// Deletes pods and records an event for each.
    async fn delete(&self, cx: &Context, set: &DaemonSet, pods: &[Arc<Pod>]) -> Result<(), ApiError> {
        if pods.is_empty() {
            return Ok(());
        }
        let delete = |pod: &Arc<Pod>| Action::Delete {
            target: pod.target(),
            propagation: Propagation::Default,
            force: false,
        };
        let outcome = self.executor.execute(cx, &[Action::Together(pods.iter().map(delete).collect())]).await;
        let notices: Vec<Action> = match &outcome.failure {
            Some(failed) => {
                vec![Action::warning(about(set), "FailedDelete", format!("Error deleting: {}", failed.error))]
            }
            None => pods
                .iter()
                .map(|pod| format!("Deleted pod: {}", pod.metadata.name))
                .map(|message| Action::normal(about(set), "SuccessfulDelete", message))
                .collect(),
        };
        self.executor.execute(cx, &notices).await;
        outcome.result()
    }

    /// Writes the revision history. If the name of a new revision is taken, increments the collision count.
    async fn write_revisions(
        &self,
        cx: &Context,
        set: &DaemonSet,
        writes: &[Action],
    ) -> Result<(), ReconcileError> {
        let Err(error) = self.executor.execute(cx, writes).await.result() else { return Ok(()) };
        let ([Action::Create(object)], Some(spec)) = (writes, set.spec.as_ref()) else {
            return Err(error.into());
        };
        if error.is_already_exists() {
            let holder =
                self.executor.client.api::<ControllerRevision>().get(&object.namespace, &object.name).await?;
            if clash(owner(set, spec), &holder) == RevisionCollision::Permanent {
                self.executor.execute(cx, &[plan::rename_revision(set)]).await.result()?;
                return Ok(());
            }
        }
        Err(error.into())
    }
}

/// One event per created pod, and one for the first failed creation.
fn notices_of_creation(set: &DaemonSet, outcome: &Outcome) -> Vec<Action> {
    let created = outcome.created.iter().map(|name| format!("Created pod: {name}"));
    let created = created.map(|message| Action::normal(about(set), "SuccessfulCreate", message));
    let failed = outcome.failure.iter().map(|failed| format!("Error creating: {}", failed.error));
    created.chain(failed.map(|message| Action::warning(about(set), "FailedCreate", message))).collect()
}
