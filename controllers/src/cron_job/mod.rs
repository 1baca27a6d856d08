//! CronJob controller: creates Jobs by a schedule and deletes old ones. `plan` decides, `missed`
//! computes times; this file reads the caches and executes the plan. The controller sleeps until
//! the next time of a schedule and does not poll.
//!
//! Follows `syncCronJob` and `cleanupFinishedJobs`.

mod missed;
mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::claim::controller_of;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::job::Jobs;
use crate::view::subject;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use parking_lot::Mutex;
use plan::{Observed, decide};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let crons = cluster.caches.whole::<CronJob>();
    let jobs: Jobs = cluster.caches.get();
    let controller = cluster
        .controller("cronjob")
        .watch(&crons, |cron: &Obj<CronJob>| [cron.key()])
        .watch(&jobs, |job: &Obj<Job>| cron_of(job))
        .workers(WORKERS);
    let executor = cluster.executor("cronjob-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Schedules { cluster, crons, jobs, executor, memory: Mutex::default() })
}

fn cron_of(job: &Job) -> Option<Key> {
    let owner = controller_of(job.metadata.owner_references.as_deref().unwrap_or_default())?;
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    (owner.kind == "CronJob" && owner.api_version == "batch/v1").then(|| Key::new(namespace, &owner.name))
}

struct Schedules {
    cluster: Arc<Cluster>,
    crons: Informer<Obj<CronJob>>,
    jobs: Jobs,
    executor: Executor,
    /// For each CronJob its uid and the last time for which it created a Job. A Job that is deleted before it
    /// was listed is not created again.
    memory: Mutex<BTreeMap<Key, (Option<String>, Timestamp)>>,
}

impl Reconcile for Schedules {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.stale {
            return Ok(Next::Again(Duration::ZERO));
        }
        let (crons, jobs) = cx.cut((&self.crons, &*self.jobs)).await?;
        let Some(cron) = crons.get(&cx.key) else {
            self.memory.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        let uid = cron.metadata.uid.clone();
        let created = self.memory.lock().get(&cx.key).filter(|(of, _)| *of == uid).map(|(_, at)| *at);
        let decision = tracing::debug_span!("plan").in_scope(|| {
            let own = jobs.by(&self.jobs.owned, uid.as_ref()?);
            let own: Vec<&Job> = own.map(|job| &***job).collect();
            let exists = |name: &str| jobs.get(&Key::new(cx.key.namespace(), name)).is_some();
            let seen = Observed { cron, jobs: &own, created, exists: &exists };
            Some(decide(seen, self.cluster.nondet.clock.now()))
        });
        let Some(decision) = decision else { return Ok(Next::Done) };
        let outcome = self.executor.execute(&cx, &decision.plan.actions).await;
        if let Some(failed) = outcome.failure {
            self.record_failure(&cx, cron, &decision.plan.actions, &failed).await;
            return Err(failed.error.into());
        }
        if let Some(at) = decision.creates {
            self.memory.lock().insert(cx.key.clone(), (uid, at));
        }
        Ok(decision.plan.wake.map_or(Next::Done, Next::Again))
    }
}

impl Schedules {
    /// Records an event about a Job that could not be created or deleted.
    async fn record_failure(
        &self,
        cx: &Context,
        cron: &CronJob,
        actions: &[Action],
        failed: &crate::apply::Failed,
    ) {
        let error = &failed.error;
        let (reason, message) = match actions.get(failed.at) {
            Some(Action::Create(_)) => ("FailedCreate", format!("Error creating job: {error}")),
            Some(Action::Delete { .. }) => ("FailedDelete", format!("Deleted job: {error}")),
            _ => return,
        };
        let about = subject("batch/v1", "CronJob", &cron.metadata);
        self.executor.execute(cx, &[Action::warning(about, reason, message)]).await;
    }
}
