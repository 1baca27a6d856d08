//! Removes the tracking finalizer of pods that no Job will count: the Job is deleted, has finished, or no
//! longer controls them. Otherwise these pods could never be deleted.

use super::pods::is_tracked;
use super::status::finished;
use super::{COMPONENT, ControllerCaches, Jobs, is_job, managed_elsewhere, writes};
use crate::apply::Executor;
use crate::caches::{LookupKey, Pods};
use crate::claim::controller_of;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::view::Pod;
use k8s_openapi::api::batch::v1::Job;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Key, Object};
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs the controller until the cluster stops.
pub(crate) fn run(
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
) -> impl Future<Output = ()> {
    let (jobs, pods) = (caches.jobs.clone(), caches.pods.clone());
    let controller = cluster
        .controller(&format!("{COMPONENT}-orphans"))
        .watch(&caches.pods, move |pod: &Pod| waits_in_vain(&jobs, pod).then(|| pod.key()))
        .watch_deltas(&caches.jobs, move |delta| left_by(&pods, delta))
        .workers(WORKERS);
    work(controller, cluster.stop.clone(), Orphans { caches, executor })
}

/// Whether the pod has the tracking finalizer and no cached Job will count it.
fn waits_in_vain(jobs: &Jobs, pod: &Pod) -> bool {
    is_tracked(pod) && is_orphan(pod, |key| jobs.get(key))
}

fn is_orphan(pod: &Pod, find: impl FnOnce(&Key) -> Option<Arc<Obj<Job>>>) -> bool {
    let Some(owner) = controller_of(&pod.metadata.owner_references) else { return true };
    if !is_job(owner) {
        return false;
    }
    let Some(job) = find(&Key::new(&pod.metadata.namespace, &owner.name)) else { return true };
    if job.metadata.uid.as_ref() != Some(&owner.uid) {
        return true;
    }
    !managed_elsewhere(&job) && finished(&job).is_some()
}

/// The pods of a deleted or finished Job.
fn left_by(pods: &Pods, delta: &Delta<Obj<Job>>) -> Vec<Key> {
    let job = match delta {
        Delta::Deleted(job) => job,
        Delta::Updated { new, .. } if finished(new).is_some() => new,
        Delta::Added(_) | Delta::Updated { .. } | Delta::Resync(_) => return vec![],
    };
    let uid = job.metadata.uid.clone().unwrap_or_default();
    pods.by(&pods.by_lookup_key, &LookupKey::Controller(uid))
        .iter()
        .filter(|pod| is_tracked(pod))
        .map(|pod| pod.key())
        .collect()
}

struct Orphans {
    caches: ControllerCaches,
    executor: Executor,
}

impl Reconcile for Orphans {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let (jobs, pods) = cx.cut((&*self.caches.jobs, &*self.caches.pods)).await?;
        let Some(pod) = pods.get(&cx.key).filter(|pod| is_tracked(pod)) else { return Ok(Next::Done) };
        if is_orphan(pod, |key| jobs.get(key).cloned()) {
            self.executor.execute(&cx, &[writes::untrack(pod)]).await.result()?;
        }
        Ok(Next::Done)
    }
}
