//! TTL controller: deletes finished Jobs after their `spec.ttlSecondsAfterFinished`. `plan` decides.
//!
//! Follows `processJob`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::job::Jobs;
use k8s_openapi::api::batch::v1::Job;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Object};
use std::sync::Arc;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let jobs: Jobs = cluster.caches.get();
    let controller = cluster
        .controller("ttl-after-finished")
        .watch(&jobs, |job: &Obj<Job>| plan::expires(job).then(|| job.key()))
        .workers(WORKERS);
    let executor = cluster.executor("ttl-after-finished-controller");
    work(controller, cluster.stop.clone(), Expiry { cluster, jobs, executor })
}

struct Expiry {
    cluster: Arc<Cluster>,
    jobs: Jobs,
    executor: Executor,
}

impl Reconcile for Expiry {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(job) = self.jobs.get(&cx.key) else { return Ok(Next::Done) };
        let plan = plan::plan(&job, self.cluster.nondet.clock.now());
        self.executor.execute(&cx, &plan.actions).await.result()?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}
