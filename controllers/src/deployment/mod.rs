//! Deployment controller: keeps one ReplicaSet per template and moves pods from the old ones to the new one.
//! `plan` decides; `arith` counts, `revision` names and numbers, `status` reports. This file reads the caches
//! and executes the plan.
//!
//! Follows `syncDeployment`.

mod arith;
mod plan;
mod revision;
mod status;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::adoption::settle;
use crate::apply::{Executor, Failed};
use crate::caches::{Caches, LookupKey, Pods, ReplicaSets, candidates};
use crate::claim::{Claim, ControlledObject, claim, controller_of};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::selector;
use crate::view::Pod;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kstore_client::{ApiError, Obj};
use kstore_informer::{Action as Next, Context, CutError, Delta, Informer, Key};
use plan::{Collision, Observed};
use std::sync::Arc;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (deployments, sets) = (caches.deployments.clone(), caches.sets.clone());
    let all = caches.deployments.clone();
    let controller = cluster
        .controller("deployment")
        .watch(&caches.deployments, |d: &Obj<Deployment>| [kstore_informer::Object::key(d)])
        .watch(&caches.sets, move |set: &Obj<ReplicaSet>| deployments_of(&all, set))
        .watch_deltas(&caches.pods, move |delta| waiting_for(&deployments, &sets, delta))
        .workers(WORKERS);
    let executor = cluster.executor("deployment-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Deployments { cluster, caches, executor })
}

impl ControlledObject for Obj<ReplicaSet> {
    fn labels(&self) -> &std::collections::BTreeMap<String, String> {
        (**self).labels()
    }
    fn owners(&self) -> &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference] {
        (**self).owners()
    }
    fn deleting(&self) -> bool {
        (**self).deleting()
    }
    fn at_version(&self) -> crate::action::Target {
        (**self).at_version()
    }
}

/// The Deployment that controls a ReplicaSet; for an orphan, every Deployment that would adopt it.
fn deployments_of(all: &Informer<Obj<Deployment>>, set: &Obj<ReplicaSet>) -> Vec<Key> {
    let ns = set.metadata.namespace.as_deref().unwrap_or_default();
    match controller_of(set.owners()) {
        Some(owner) if owner.kind == "Deployment" => vec![Key::new(ns, &owner.name)],
        Some(_) => vec![],
        None => {
            let fits = |d: &Arc<Obj<Deployment>>| {
                d.spec.as_ref().is_some_and(|spec| selector::matches(&spec.selector, set.labels()))
            };
            all.namespace(ns).iter().filter(|d| fits(d)).map(kstore_informer::Object::key).collect()
        }
    }
}

/// The Deployment with strategy Recreate that may wait for the end of a pod.
fn waiting_for(
    all: &Informer<Obj<Deployment>>,
    sets: &Informer<Obj<ReplicaSet>>,
    delta: &Delta<Pod>,
) -> Option<Key> {
    let pod = match delta {
        Delta::Deleted(pod) => pod,
        Delta::Updated { old, new } if new.status.phase.is_terminal() && !old.status.phase.is_terminal() => {
            new
        }
        Delta::Updated { .. } | Delta::Added(_) | Delta::Resync(_) => return None,
    };
    let set = controller_of(&pod.metadata.owner_references).filter(|o| o.kind == "ReplicaSet")?;
    let ns = pod.metadata.namespace.as_str();
    let set = sets.get(&Key::new(ns, &set.name))?;
    let owner = controller_of(set.owners()).filter(|o| o.kind == "Deployment")?;
    let key = Key::new(ns, &owner.name);
    let d = all.get(&key)?;
    recreates(&d).then_some(key)
}

fn recreates(d: &Deployment) -> bool {
    let strategy = d.spec.as_ref().and_then(|s| s.strategy.as_ref());
    strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate")
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    deployments: Informer<Obj<Deployment>>,
    sets: ReplicaSets,
    pods: Pods,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { deployments: caches.get(), sets: caches.get(), pods: caches.get() }
    }
}

struct Deployments {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
}

/// Input of one run.
struct RunInput {
    d: Arc<Obj<Deployment>>,
    sets: Claim<Arc<Obj<ReplicaSet>>>,
    /// Pods of all owned ReplicaSets; only for strategy Recreate.
    pods: Vec<Arc<Pod>>,
}

impl Reconcile for Deployments {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(RunInput { d, sets, pods }) = self.read_caches(&cx).await? else { return Ok(Next::Done) };
        if settle::<Deployment, _>(&self.executor, &cx, &d.metadata, &sets).await? {
            return Ok(Next::Done);
        }
        let sets: Vec<&ReplicaSet> = sets.owned.iter().map(|s| &***s).collect();
        let now = self.cluster.nondet.clock.now();
        let observed = Observed { deployment: &d, sets: &sets, pods: &pods };
        let plan = tracing::debug_span!("plan").in_scope(|| plan::plan(observed, now));
        let outcome = self.executor.execute(&cx, &plan.actions).await;
        if let Some(Failed { at, error }) = outcome.failure {
            let more = self.explain(&d, &plan.actions[at], &error).await?;
            self.executor.execute(&cx, &more).await.result()?;
            return Err(error.into());
        }
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}

impl Deployments {
    /// The Deployment and its owned objects at one revision.
    async fn read_caches(&self, cx: &Context) -> Result<Option<RunInput>, CutError> {
        let caches = &self.caches;
        let (all, sets, pods) = cx.cut((&caches.deployments, &*caches.sets, &*caches.pods)).await?;
        let Some(d) = all.get(&cx.key).cloned() else { return Ok(None) };
        let Some(spec) = d.spec.as_ref() else { return Ok(None) };
        let candidates = candidates(&sets, &caches.sets.by_lookup_key, &d.metadata, &spec.selector);
        let sets = claim(&d.metadata, &spec.selector, candidates);
        let mut of_sets = vec![];
        if recreates(&d) {
            for uid in sets.owned.iter().filter_map(|s| s.metadata.uid.clone()) {
                of_sets.extend(pods.by(&caches.pods.by_lookup_key, &LookupKey::Controller(uid)).cloned());
            }
        }
        Ok(Some(RunInput { d, sets, pods: of_sets }))
    }

    /// Handles a failed creation of a ReplicaSet.
    async fn explain(
        &self,
        d: &Deployment,
        action: &Action,
        error: &ApiError,
    ) -> Result<Vec<Action>, ApiError> {
        let Action::Create(set) = action else { return Ok(vec![]) };
        let name = set.name.as_str();
        if !error.is_already_exists() {
            let now = self.cluster.nondet.clock.now();
            return Ok(plan::creation_failed(d, name, &error.to_string(), now));
        }
        let ns = set.namespace.as_str();
        let holder = self.executor.client.api::<ReplicaSet>().get(ns, name).await?;
        Ok(match plan::collision(d, &holder) {
            Collision::Ours => vec![],
            Collision::Renamed(action) => vec![*action],
        })
    }
}
