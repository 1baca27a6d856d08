//! Converts the decisions of a run to actions. Pure.

use super::plan::{Change, Observed};
use super::pods::TRACKING;
use crate::action::{Action, PatchKind, Propagation};
use crate::claim::{self, Claim, controller_ref};
use crate::object::Object;
use crate::view::{Pod, subject};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_informer::Reference;
use serde_json::{Value, json};
use std::sync::Arc;

/// Event reference to the Job.
pub(crate) fn about(job: &Job) -> Reference {
    subject("batch/v1", "Job", &job.metadata)
}

/// The writes of a change.
pub(crate) fn change(change: &Change) -> Vec<Action> {
    match change {
        Change::None => vec![],
        Change::Create(pod, count) => vec![Action::CreateBatch(vec![Object::of(&**pod); *count])],
        Change::CreateIndexed(pods) => vec![Action::CreateBatch(pods.iter().map(Object::of).collect())],
        Change::Remove(pods) => vec![Action::Together(pods.iter().map(|pod| remove(pod)).collect())],
        Change::End(pods) => vec![Action::Together(pods.iter().map(|pod| delete(pod)).collect())],
    }
}

/// Removes a pod that must not be counted. Both writes are one transaction: a pod left without the finalizer
/// would never be counted, and one deleted with it would count as failed. A pod that changed meanwhile stays,
/// because it may have ended.
fn remove(pod: &Pod) -> Action {
    let mut untrack = untrack(pod);
    if let Action::Patch { patch, .. } = &mut untrack {
        patch["metadata"]["resourceVersion"] = json!(pod.metadata.resource_version);
    }
    Action::Transaction(vec![untrack, delete(pod)])
}

fn delete(pod: &Pod) -> Action {
    Action::Delete { target: pod.target(), propagation: Propagation::Default, force: false }
}

/// Removes the finalizer of a pod that is counted, or that no Job will count.
pub(crate) fn untrack(pod: &Pod) -> Action {
    let metadata = json!({"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]});
    let patch = json!({ "metadata": metadata });
    Action::Patch { target: pod.target(), status: false, kind: PatchKind::Strategic, patch }
}

/// The status update.
pub(crate) fn status(seen: Observed<'_>, status: JobStatus) -> Action {
    let job = Job { status: Some(status), ..seen.job.clone() };
    Action::UpdateStatus(Object::of(&job))
}

/// Adopts pods and adds the tracking finalizer.
pub(crate) fn adopt(job: &ObjectMeta, claim: &Claim<Arc<Pod>>) -> Vec<Action> {
    let owner = controller_ref("batch/v1", "Job", job);
    let adopt = |pod: &Arc<Pod>| {
        let finalizers = untracked_finalizers(pod).chain([TRACKING]).collect();
        with_finalizers(claim::adopt(pod, &owner), finalizers)
    };
    claim.adopt.iter().map(adopt).collect()
}

/// Releases pods that no longer match and removes their tracking finalizer.
pub(crate) fn release(job: &ObjectMeta, claim: &Claim<Arc<Pod>>) -> Vec<Action> {
    let uid = job.uid.as_deref().unwrap_or_default();
    let release =
        |pod: &Arc<Pod>| with_finalizers(claim::release(pod, uid), untracked_finalizers(pod).collect());
    claim.release.iter().map(release).collect()
}

fn untracked_finalizers(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.metadata.finalizers.iter().map(String::as_str).filter(|finalizer| *finalizer != TRACKING)
}

/// Extends an owner patch by the finalizers. The patch contains the resourceVersion, so the list is the pod's
/// own.
fn with_finalizers(mut action: Action, finalizers: Vec<&str>) -> Action {
    if let Action::Patch { patch: Value::Object(patch), .. } = &mut action {
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    action
}
