//! ReplicaSet and ReplicationController controller: keeps the desired number of pods. `plan` decides,
//! `victims` selects pods to delete, `kind` has the differences between the two kinds; this file reads the
//! caches and executes the plan.
//!
//! Follows `syncReplicaSet` and `manageReplicas`.

pub(crate) mod plan;
#[cfg(test)]
mod tests;
mod victims;

use crate::action::Action;
use crate::adoption::settle;
use crate::apply::{Executor, Outcome};
use crate::caches::{LookupKey, Pods, ReplicaSets, ReplicationControllers, candidates};
use crate::claim::{Claim, claim, controller_of};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::selector;
use crate::set_kind::SetKind;
use crate::view::Pod;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use kstore_client::{ApiError, Obj};
use kstore_informer::{Action as Next, Context, CutError, Informer, Key, Reference};
use parking_lot::Mutex;
use plan::{Change, Failure, Observed};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use victims::PodsPerNode;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let sets = cluster.caches.get();
    start(cluster, SetKind::ReplicaSet, "replicaset", "replicaset-controller", sets)
}

/// Runs the controller of ReplicationControllers until the cluster stops.
pub(crate) fn run_replication_controllers(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let ReplicationControllers(sets) = cluster.caches.get();
    start(cluster, SetKind::ReplicationController, "replicationcontroller", "replication-controller", sets)
}

/// Sets up a controller with its queue name and component name.
fn start(
    cluster: Arc<Cluster>,
    kind: SetKind,
    name: &str,
    component: &str,
    sets: ReplicaSets,
) -> impl Future<Output = ()> + use<> {
    let caches = ControllerCaches { sets, pods: cluster.caches.get() };
    let all = caches.sets.clone();
    let controller = cluster
        .controller(name)
        .watch(&caches.sets, |set: &Obj<ReplicaSet>| [kstore_informer::Object::key(set)])
        .watch(&caches.pods, move |pod: &Pod| sets_of(kind, &all, pod))
        .workers(WORKERS);
    let executor = cluster.executor(component);
    let stop = cluster.stop.clone();
    work(controller, stop, ReplicaSetReconciler { cluster, kind, caches, executor, memory: Mutex::default() })
}

/// The set that controls a pod; for an orphan, every set that would adopt it.
fn sets_of(kind: SetKind, sets: &Informer<Obj<ReplicaSet>>, pod: &Pod) -> Vec<Key> {
    let ns = pod.metadata.namespace.as_str();
    match controller_of(&pod.metadata.owner_references) {
        Some(owner) if owner.kind == kind.name() => vec![Key::new(ns, &owner.name)],
        Some(_) => vec![],
        None => {
            let fits = |set: &Arc<Obj<ReplicaSet>>| {
                let spec = set.spec.as_ref();
                spec.is_some_and(|spec| selector::matches(&spec.selector, &pod.metadata.labels))
            };
            sets.namespace(ns).iter().filter(|s| fits(s)).map(kstore_informer::Object::key).collect()
        }
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    sets: ReplicaSets,
    pods: Pods,
}

struct ReplicaSetReconciler {
    cluster: Arc<Cluster>,
    kind: SetKind,
    caches: ControllerCaches,
    executor: Executor,
    memory: Mutex<BTreeMap<Key, ReplicaSetMemory>>,
}

/// Remembered data of a set between runs.
#[derive(Clone, Copy, Default)]
struct ReplicaSetMemory {
    /// Time of the last status update.
    reported: Option<Timestamp>,
    /// Whether the last run reached the bound on created or deleted pods.
    unfinished: bool,
}

impl Reconcile for ReplicaSetReconciler {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.stale {
            // Pods of earlier runs may not be visible: the run would create them again.
            return Ok(Next::Again(Duration::ZERO));
        }
        let caches = &self.caches;
        let Some(set) = caches.sets.get(&cx.key) else {
            self.memory.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        let ReplicaSetMemory { reported, unfinished } =
            self.memory.lock().get(&cx.key).copied().unwrap_or_default();
        // With a delay between bursts, a large set could grow by at most five thousand pods a second.
        if let Some(rest) = plan::rest(&set, reported, self.now()).filter(|_| !unfinished) {
            return Ok(Next::Again(rest));
        }
        let Some((set, claim)) = self.read_caches(&cx).await? else { return Ok(Next::Done) };
        let is_unsettled = match self.kind {
            SetKind::ReplicaSet => {
                settle::<ReplicaSet, _>(&self.executor, &cx, &set.metadata, &claim).await?
            }
            SetKind::ReplicationController => {
                settle::<ReplicationController, _>(&self.executor, &cx, &set.metadata, &claim).await?
            }
        };
        if is_unsettled {
            return Ok(Next::Done);
        }
        let seen = Observed { kind: self.kind, set: &set, pods: &claim.owned };
        let ScaleResult { failure, error, unfinished } = self.resize(&cx, seen).await;
        self.memory.lock().entry(cx.key.clone()).or_default().unfinished = unfinished;
        let plan = plan::report(seen, failure.as_ref(), self.now());
        if !plan.actions.is_empty() {
            self.executor.execute(&cx, &plan.actions).await.result()?;
            self.memory.lock().entry(cx.key.clone()).or_default().reported = Some(self.now());
        }
        match error {
            Some(error) => Err(error.into()),
            None if unfinished => Ok(Next::Again(Duration::ZERO)),
            None => Ok(plan.wake.map_or(Next::Done, Next::Again)),
        }
    }
}

/// Result of a change of the number of pods.
#[derive(Default)]
struct ScaleResult {
    failure: Option<Failure>,
    error: Option<ApiError>,
    /// Whether the change succeeded and reached the bound of one run.
    unfinished: bool,
}

impl ReplicaSetReconciler {
    /// The set with its owned and adoptable pods, at one revision.
    async fn read_caches(
        &self,
        cx: &Context,
    ) -> Result<Option<(Arc<Obj<ReplicaSet>>, Claim<Arc<Pod>>)>, CutError> {
        let caches = &self.caches;
        let (sets, pods) = cx.cut((&*caches.sets, &*caches.pods)).await?;
        let Some(set) = sets.get(&cx.key).cloned() else { return Ok(None) };
        let Some(spec) = set.spec.as_ref() else { return Ok(None) };
        let candidates = candidates(&pods, &caches.pods.by_lookup_key, &set.metadata, &spec.selector);
        let claim = claim(&set.metadata, &spec.selector, candidates);
        Ok(Some((set, claim)))
    }

    fn now(&self) -> Timestamp {
        self.cluster.nondet.clock.now()
    }

    /// Creates or deletes pods, and records an event for each.
    async fn resize(&self, cx: &Context, seen: Observed<'_>) -> ScaleResult {
        let caches = &self.caches;
        let (change, actions) = tracing::debug_span!("plan").in_scope(|| {
            let change = plan::change(seen, self.now(), || neighbours(caches, seen.set));
            let actions = plan::actions(seen.kind, seen.set, &change);
            (change, actions)
        });
        if actions.is_empty() {
            return ScaleResult::default();
        }
        let outcome = self.executor.execute(cx, &actions).await;
        let notices = notices(seen.kind.about(seen.set), &change, &outcome);
        self.executor.execute(cx, &notices).await;
        let reason = match change {
            Change::Delete(_) => "FailedDelete",
            Change::Create(_) | Change::None => "FailedCreate",
        };
        let error = outcome.failure.map(|f| f.error);
        let failure = error.as_ref().map(|e| Failure { reason, message: e.to_string() });
        ScaleResult { failure, unfinished: error.is_none() && change.is_full_burst(), error }
    }
}

/// One event per pod; the recorder merges floods.
fn notices(about: Reference, change: &Change, outcome: &Outcome) -> Vec<Action> {
    let tell = |reason, message| Action::normal(about.clone(), reason, message);
    let mut all: Vec<Action> = match (change, &outcome.failure) {
        (Change::Delete(victims), None) => victims
            .iter()
            .map(|pod| tell("SuccessfulDelete", format!("Deleted pod: {}", pod.metadata.name)))
            .collect(),
        (Change::Delete(_) | Change::Create(_) | Change::None, _) => outcome
            .created
            .iter()
            .map(|name| tell("SuccessfulCreate", format!("Created pod: {name}")))
            .collect(),
    };
    if let Some(failed) = &outcome.failure {
        let (reason, what) = match change {
            Change::Delete(_) => ("FailedDelete", "deleting"),
            Change::Create(_) | Change::None => ("FailedCreate", "creating"),
        };
        all.push(Action::warning(about, reason, format!("Error {what}: {}", failed.error)));
    }
    all
}

/// Active pods per node, over all sets with the same owner.
fn neighbours(caches: &ControllerCaches, set: &ReplicaSet) -> PodsPerNode {
    let owner = controller_of(set.metadata.owner_references.as_deref().unwrap_or_default());
    let sets: Vec<String> = match owner {
        Some(owner) => caches
            .sets
            .by(&caches.sets.by_lookup_key, &LookupKey::Controller(owner.uid.clone()))
            .iter()
            .filter_map(|s| s.metadata.uid.clone())
            .collect(),
        None => set.metadata.uid.clone().into_iter().collect(),
    };
    let mut count = PodsPerNode::new();
    for pod in sets
        .into_iter()
        .flat_map(|uid| caches.pods.by(&caches.pods.by_lookup_key, &LookupKey::Controller(uid)))
    {
        if pod.active() && !pod.spec.node_name.is_empty() {
            *count.entry(pod.spec.node_name.clone()).or_default() += 1;
        }
    }
    count
}
