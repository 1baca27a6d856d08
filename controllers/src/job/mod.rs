//! Job controller: runs the pods of a Job to completion. `plan` decides, `status` counts ended pods, `writes`
//! converts both to actions; `orphans` releases pods that their Job left. This file reads the caches and
//! executes the actions.
//!
//! Follows `syncJob` and `manageJob`.

mod backoff;
mod indexes;
mod orphans;
mod plan;
mod pods;
mod policy;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod writes;

use crate::action::Action;
use crate::adoption::lives;
use crate::apply::{Executor, Outcome};
use crate::caches::{Caches, Pods, Sources, Watched, candidates};
use crate::claim::{Claim, claim, controller_of};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{LONGEST_REST, REST_PER_POD};
use crate::namespace::is_active;
use crate::resource::resource_of;
use crate::selector;
use crate::view::{Pod, elapsed};
use backoff::JobFailures;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kstore_client::{ApiError, Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, CutError, Delta, Index, Informer, Key, Object};
use parking_lot::Mutex;
use plan::{Change, JobDecisions, Observed};
use status::{ChangeOutcome, Report};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

const WORKERS: usize = 5;
const COMPONENT: &str = "job-controller";
/// Value of `spec.managedBy` that means this controller.
const OWN_NAME: &str = "kubernetes.io/job-controller";

/// Cache of all Jobs.
#[derive(Clone)]
pub(crate) struct Jobs {
    informer: Informer<Obj<Job>>,
    /// Index by the uid of their controller.
    pub owned: Index<Obj<Job>, String>,
}

impl Watched for Jobs {
    fn start(from: &Sources<'_>) -> Self {
        let owned = Index::new(|job: &Obj<Job>, emit: &mut dyn FnMut(String)| {
            let owners = job.metadata.owner_references.as_deref().unwrap_or_default();
            controller_of(owners).into_iter().for_each(|owner| emit(owner.uid.clone()));
        });
        let builder = Builder::new(from.multi.trimmed::<Job>(WatchParams::default())).index(&owned);
        Self { informer: from.start("jobs", Some(resource_of::<Job>()), builder), owned }
    }
}

impl Deref for Jobs {
    type Target = Informer<Obj<Job>>;
    fn deref(&self) -> &Informer<Obj<Job>> {
        &self.informer
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    jobs: Jobs,
    pods: Pods,
    namespaces: Informer<Obj<Namespace>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { jobs: caches.get(), pods: caches.get(), namespaces: caches.get() }
    }
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let executor = cluster.executor(COMPONENT);
    let orphans = orphans::run(Arc::clone(&cluster), caches.clone(), executor.clone());
    let (jobs, of_namespaces) = (caches.jobs.clone(), caches.jobs.clone());
    let controller = cluster
        .controller("job")
        .watch(&caches.jobs, |job: &Obj<Job>| [job.key()])
        .watch(&caches.pods, move |pod: &Pod| jobs_of(&jobs, pod))
        .watch_deltas(&caches.namespaces, move |delta| ended_with(&of_namespaces, delta))
        .workers(WORKERS);
    let stop = cluster.stop.clone();
    let runs = work(controller, stop, Runs { cluster, caches, executor, memory: Mutex::default() });
    async move {
        futures::join!(runs, orphans);
    }
}

/// The Jobs of a namespace whose deletion has begun.
fn ended_with(jobs: &Jobs, delta: &Delta<Obj<Namespace>>) -> Vec<Key> {
    let begins = matches!(delta, Delta::Updated { old, new } if is_active(old) && !is_active(new));
    let name = delta.object().metadata.name.as_deref().filter(|_| begins);
    name.map_or_else(Vec::new, |name| jobs.namespace(name).iter().map(Object::key).collect())
}

fn is_job(owner: &OwnerReference) -> bool {
    owner.kind == "Job" && owner.api_version == "batch/v1"
}

/// Whether another controller manages this Job.
fn managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|name| name != OWN_NAME)
}

/// The Job that controls a pod; for an orphan, every Job that would adopt it.
fn jobs_of(jobs: &Jobs, pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_str();
    match controller_of(&pod.metadata.owner_references) {
        Some(owner) if is_job(owner) => vec![Key::new(namespace, &owner.name)],
        Some(_) => vec![],
        None => {
            let fits = |job: &&Arc<Obj<Job>>| {
                let wanted = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                wanted.is_some_and(|wanted| selector::matches(wanted, &pod.metadata.labels))
            };
            jobs.namespace(namespace).iter().filter(fits).map(Object::key).collect()
        }
    }
}

struct Runs {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
    memory: Mutex<BTreeMap<Key, JobMemory>>,
}

/// Remembered data of a Job between runs.
#[derive(Clone, Default)]
struct JobMemory {
    /// Uid of the Job: another Job may have the name later.
    uid: Option<String>,
    /// Failures since its last success.
    backoff: JobFailures,
    /// Time of the last status update.
    reported: Option<Timestamp>,
    /// Whether the last run reached the bound on created or removed pods.
    unfinished: bool,
}

impl Reconcile for Runs {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.stale {
            // Pods of earlier runs may not be visible: the run would create them again.
            return Ok(Next::Again(Duration::ZERO));
        }
        let job = self.caches.jobs.get(&cx.key);
        let Some(job) = job.filter(|job| status::finished(job).is_none() && !managed_elsewhere(job)) else {
            self.memory.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        if let Some(rest) = rest(&job, &self.remembered(&cx, &job), self.now()) {
            return Ok(Next::Again(rest));
        }
        let Some((job, claim)) = self.read_caches(&cx).await? else { return Ok(Next::Done) };
        if self.settle(&cx, &job, &claim).await? {
            return Ok(Next::Done);
        }
        let Some(spec) = job.spec.as_ref() else { return Ok(Next::Done) };
        if let Some(event) = unknown_mode(&job, spec) {
            self.executor.execute(&cx, &[event]).await.result()?;
            return Ok(Next::Done);
        }
        let memory = self.remembered(&cx, &job);
        let namespace = self.caches.namespaces.get(&Key::new("", cx.key.namespace()));
        let is_namespace_ending = namespace.is_some_and(|namespace| !is_active(&namespace));
        let (pods, backoff) = (&*claim.owned, memory.backoff);
        self.sync(&cx, Observed { job: &job, spec, pods, backoff, is_namespace_ending }).await
    }
}

/// Delay of a Job after a status update: a run costs time in proportion to its pods, and each pod changes
/// several times.
fn rest(job: &Job, memory: &JobMemory, now: Timestamp) -> Option<Duration> {
    let active = job.status.as_ref().and_then(|status| status.active).unwrap_or(0);
    let rest = REST_PER_POD.saturating_mul(active.unsigned_abs()).min(LONGEST_REST);
    let left = rest.saturating_sub(elapsed(memory.reported?, now));
    (!left.is_zero() && !memory.unfinished).then_some(left)
}

/// An event for an unknown completion mode. Validation refuses it; a newer server may allow it.
fn unknown_mode(job: &Job, spec: &JobSpec) -> Option<Action> {
    let mode = spec.completion_mode.as_deref();
    let message = "Skipped Job sync because completion mode is unknown";
    let is_known = matches!(mode, None | Some("NonIndexed" | "Indexed"));
    (!is_known).then(|| Action::warning(writes::about(job), "UnknownCompletionMode", message.into()))
}

impl Runs {
    fn now(&self) -> Timestamp {
        self.cluster.nondet.clock.now()
    }

    fn remembered(&self, cx: &Context, job: &Job) -> JobMemory {
        let memory = self.memory.lock().get(&cx.key).cloned();
        memory.filter(|memory| memory.uid == job.metadata.uid).unwrap_or_default()
    }

    /// The Job with its owned and adoptable pods, at one revision.
    async fn read_caches(&self, cx: &Context) -> Result<Option<(Arc<Obj<Job>>, Claim<Arc<Pod>>)>, CutError> {
        let (jobs, pods) = cx.cut((&*self.caches.jobs, &*self.caches.pods)).await?;
        let Some(job) = jobs.get(&cx.key).cloned() else { return Ok(None) };
        let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else {
            return Ok(None);
        };
        let candidates = candidates(&pods, &self.caches.pods.by_lookup_key, &job.metadata, selector);
        let claim = claim(&job.metadata, selector, candidates);
        Ok(Some((job, claim)))
    }

    /// Adopts and releases pods. Returns whether it wrote: the Job then runs again when the caches show the
    /// writes.
    async fn settle(&self, cx: &Context, job: &Job, claim: &Claim<Arc<Pod>>) -> Result<bool, ApiError> {
        let mut actions = writes::release(&job.metadata, claim);
        if !claim.adopt.is_empty() && lives::<Job>(&self.executor, &job.metadata).await? {
            actions.extend(writes::adopt(&job.metadata, claim));
        }
        let is_work = !actions.is_empty();
        if is_work {
            self.executor.execute(cx, &[Action::Together(actions)]).await.result()?;
        }
        Ok(is_work)
    }

    async fn sync(&self, cx: &Context, seen: Observed<'_>) -> Result<Next, ReconcileError> {
        let (evaluated, actions) = tracing::debug_span!("plan").in_scope(|| {
            let evaluated = plan::evaluate(seen, self.now());
            let actions = writes::change(&evaluated.change);
            (evaluated, actions)
        });
        let outcome = self.executor.execute(cx, &actions).await;
        self.executor.execute(cx, &notices(seen.job, &evaluated.change, &outcome)).await;
        let carried = ChangeOutcome { created: outcome.created.len(), is_deleted: outcome.failure.is_none() };
        let report = status::report(seen, &evaluated, carried, self.now());
        let unfinished = evaluated.change.is_full_burst() && outcome.failure.is_none();
        self.report(cx, seen, &evaluated, report, unfinished).await?;
        match outcome.failure {
            Some(failed) => Err(failed.error.into()),
            None if unfinished => Ok(Next::Again(Duration::ZERO)),
            None => Ok(evaluated.wake.map_or(Next::Done, Next::Again)),
        }
    }

    async fn report(
        &self,
        cx: &Context,
        seen: Observed<'_>,
        evaluated: &JobDecisions,
        report: Report,
        unfinished: bool,
    ) -> Result<(), ApiError> {
        let mut reported = self.remembered(cx, seen.job).reported;
        if let Some(status) = report.status {
            self.executor.execute(cx, &[writes::status(seen, status)]).await.result()?;
            reported = Some(self.now());
        }
        let uid = seen.job.metadata.uid.clone();
        let memory = JobMemory { uid, backoff: evaluated.backoff, reported, unfinished };
        self.memory.lock().insert(cx.key.clone(), memory);
        let untrack = report.untracked.iter().map(|pod| writes::untrack(pod)).collect();
        let tell = |(is_warning, reason, message): (bool, String, String)| {
            let make = if is_warning { Action::warning } else { Action::normal };
            make(writes::about(seen.job), &reason, message)
        };
        let mut actions = vec![Action::Together(untrack)];
        actions.extend(report.events.into_iter().map(tell));
        self.executor.execute(cx, &actions).await.result()
    }
}

/// One event per pod; the recorder merges floods.
fn notices(job: &Job, change: &Change, outcome: &Outcome) -> Vec<Action> {
    let about = writes::about(job);
    let (deleted, doing): (&[Arc<Pod>], _) = match change {
        Change::Remove(pods) | Change::End(pods) => (pods, ("FailedDelete", "deleting")),
        Change::None | Change::Create(..) | Change::CreateIndexed(_) => (&[], ("FailedCreate", "creating")),
    };
    let made = outcome.created.iter().map(|name| ("SuccessfulCreate", format!("Created pod: {name}")));
    let gone = deleted.iter().filter(|_| outcome.failure.is_none());
    let gone = gone.map(|pod| ("SuccessfulDelete", format!("Deleted pod: {}", pod.metadata.name)));
    let mut all: Vec<Action> =
        made.chain(gone).map(|(reason, message)| Action::normal(about.clone(), reason, message)).collect();
    // A pod that changed or was deleted meanwhile is not reported as a failure: the next run decides again.
    let is_outdated = |error: &ApiError| error.is_not_found() || error.is_conflict();
    let is_reported = |error: &ApiError| deleted.is_empty() || !is_outdated(error);
    if let Some(failed) = outcome.failure.as_ref().filter(|failed| is_reported(&failed.error)) {
        let (reason, what) = doing;
        all.push(Action::warning(about, reason, format!("Error {what}: {}", failed.error)));
    }
    all
}
