//! `kstore-server explain pod/NAME`: why a pod is pending, or why it is on its node. The scheduler's own record of its attempts says what
//! it decided, if the scheduler runs in the server's process; the verdicts of all filters and scores on all nodes are computed here, from
//! the state of the cluster at the decision, by the scheduler's own code. So it answers for schedulers of other processes, too.

mod answer;
mod state;
mod text;

use super::trace::{Node, Trace};
use crate::client_command::escape;
pub(crate) use answer::PlacementAnswer;
use answer::PodState;
use anyhow::{Context as _, anyhow};
use kstore_client::{ApiError, Client};
use kstore_scheduler::pod::{self, PodInfo};
use kstore_scheduler::suggest::suggest;
use kstore_scheduler::{Configuration, Profile, Profiles, Registry};
use serde_json::Value;
use state::{State, read_state};
use std::path::Path;

/// The pod that is explained.
#[derive(Clone, Copy)]
pub(super) struct PodName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// The pod as the API has it.
struct FoundPod {
    object: Value,
    info: PodInfo,
}

/// There was no pod of this name at a revision.
#[derive(Debug, thiserror::Error)]
#[error("pods {name:?} not found at revision {revision}")]
pub(crate) struct NoPodThen {
    name: String,
    revision: i64,
}

/// Explains where a pod is, or why it is nowhere. `at` is a revision of the past; `trace` has the writes to the pod, if they are known.
///
/// # Errors
/// There is no such pod, the server refuses to show it, or the file of `scheduler_config` cannot be used. Refusals are an [`ApiError`],
/// a pod that was not there at the revision is a [`NoPodThen`].
pub(super) async fn placement(
    client: &Client,
    pod: PodName<'_>,
    scheduler_config: Option<&Path>,
    (at, trace): (Option<i64>, Option<&Trace>),
) -> anyhow::Result<PlacementAnswer> {
    let found = find(client, pod, at).await?;
    let records = records(client, pod, &found.info.uid).await;
    let profiles = profiles(scheduler_config)?;
    let profile = profiles.iter().find(|profile| profile.scheduler_name == found.info.scheduler_name);
    let mut answer = PlacementAnswer::of(pod, &found.object, &found.info, records);
    // A pod that waits may have the name of one that was bound before.
    let writes = trace.filter(|_| answer.state == PodState::Placed).map(|trace| &trace.writes);
    let bound = writes.and_then(|writes| binding(writes, pod, at.unwrap_or(i64::MAX)));
    answer.bound = bound.map(|node| (node.revision, node.actor()));
    if profile.is_none() {
        answer.notes.push(format!(
            "the scheduler {:?} is not known here: computed with the default profile; --scheduler-config names another",
            found.info.scheduler_name
        ));
    }
    let default = Profile::default();
    let registry = &profile.unwrap_or(&default).plugins;
    match answer.state {
        PodState::Ended | PodState::Gated => {}
        PodState::Pending | PodState::Placed => {
            let moment = bound.map(|node| node.revision - 1).or(at);
            let is_placed = answer.state == PodState::Placed;
            match compute(client, &mut answer, registry, &found, (moment, is_placed)).await {
                Ok(()) => {}
                Err(ApiError::Status(status)) => answer.notes.push(format!(
                    "no verdicts on nodes: the server refuses to show the state of the cluster: {}",
                    status.message
                )),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(answer)
}

/// Computes the verdicts at `moment`, or now; a pod that has a node is judged as if it had none.
async fn compute(
    client: &Client,
    answer: &mut PlacementAnswer,
    registry: &Registry,
    found: &FoundPod,
    (moment, is_placed): (Option<i64>, bool),
) -> Result<(), ApiError> {
    let State { mut cluster, revision, is_present, unread } = match read_state(client, moment).await {
        Err(error) if moment.is_some() && error.is_gone() => {
            answer.notes.push(
                    "the state at the decision is not retained: computed from the present one; a longer --history \
                     of the server keeps more"
                        .to_owned(),
                );
            read_state(client, None).await?
        }
        other => other?,
    };
    answer.computed_at = Some(revision);
    answer.is_present = is_present;
    answer.unread = unread;
    cluster.remove_pod(&found.info.uid);
    let (object, info) = unplaced(found);
    answer.table = cluster.table(registry, &info);
    if !is_placed {
        answer.suggestions = suggest(&mut cluster, registry, (&object, &info), &answer.table);
    }
    answer.take_result(cluster.decide(registry, &info));
    Ok(())
}

/// The pod without its node.
fn unplaced(found: &FoundPod) -> (Value, PodInfo) {
    let mut object = found.object.clone();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|name, _| name == "nominatedNodeName");
    }
    // Scores read what a pod with a node does not have in the scheduler's memory.
    let info = pod::decode(object.to_string().as_bytes()).unwrap_or_else(|_| found.info.clone());
    (object, info)
}

async fn find(client: &Client, pod: PodName<'_>, at: Option<i64>) -> anyhow::Result<FoundPod> {
    let PodName { namespace, name } = pod;
    let path = format!("/api/v1/namespaces/{}/pods", escape(namespace));
    let object = match at {
        None => {
            let answer = client.get_path(&format!("{path}/{}", escape(name))).await;
            serde_json::from_slice(&answer?)?
        }
        Some(revision) => {
            let query = format!(
                "fieldSelector=metadata.name%3D{}&resourceVersion={revision}&resourceVersionMatch=Exact",
                escape(name)
            );
            let answer = client.get_path(&format!("{path}?{query}")).await;
            let list: Value = serde_json::from_slice(&answer?)?;
            list["items"].get(0).cloned().ok_or_else(|| NoPodThen { name: name.to_owned(), revision })?
        }
    };
    let info = pod::decode(object.to_string().as_bytes()).context("the server's answer is not a pod")?;
    Ok(FoundPod { object, info })
}

/// What the scheduler of the server's process says; empty if it is elsewhere, or the caller may not ask.
async fn records(client: &Client, pod: PodName<'_>, uid: &str) -> Vec<Value> {
    let PodName { namespace, name } = pod;
    let pod = escape(&format!("{namespace}/{name}"));
    let path = format!("/kstore/v1/attempts?pod={pod}&uid={}", escape(uid));
    let Ok(answer) = client.get_path(&path).await else { return Vec::new() };
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    answer["records"].as_array().cloned().unwrap_or_default()
}

/// The write that bound the pod: the newest one up to a revision, if several pods had the name.
fn binding<'t>(writes: &'t [Node], pod: PodName<'_>, until: i64) -> Option<&'t Node> {
    let object = format!("pods/{}/{}", pod.namespace, pod.name);
    let own = |node: &'t Node| {
        let is_bind = node.object == object && node.subresource() == "binding" && node.revision <= until;
        let below = binding(&node.children, pod, until);
        [below, is_bind.then_some(node)].into_iter().flatten().max_by_key(|node| node.revision)
    };
    writes.iter().filter_map(own).max_by_key(|node| node.revision)
}

fn profiles(scheduler_config: Option<&Path>) -> anyhow::Result<Profiles> {
    let Some(path) = scheduler_config else { return Ok(Profiles::default()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = Configuration::parse(&text, &Registry::in_tree());
    Ok(read.map_err(|error| anyhow!("--scheduler-config: {error}"))?.profiles)
}

#[cfg(test)]
mod tests;
