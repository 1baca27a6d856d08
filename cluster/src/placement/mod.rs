//! [`explain_placement`]: why a pod is pending, or why it is on its node. The scheduler's own record of its attempts says what it decided,
//! if the scheduler runs in the server's process; the verdicts of all filters and scores on all nodes are computed here, from the state of
//! the cluster at the decision, by the scheduler's own code. So it answers for schedulers of other processes, too.

mod answer;
mod state;

use crate::api_path::escape;
pub use answer::{PlacementAnswer, PodState};
use futures::future::BoxFuture;
use kstore_client::{ApiError, Client};
use kstore_scheduler::pod::{self, PodInfo};
use kstore_scheduler::reconstruct::DecisionKind;
use kstore_scheduler::suggest::suggest;
use kstore_scheduler::{Profile, Profiles, Registry};
use serde_json::Value;
use state::{State, read_state};

/// The pod that is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodName<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// Why the place of a pod is not explained.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// There is no such pod, or the server refuses to show it.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// There was no pod of this name at a revision.
    #[error("pods {name:?} not found at revision {revision}")]
    NoPodThen {
        /// The name.
        name: String,
        /// The revision.
        revision: i64,
    },
    /// The server's answer is no pod.
    #[error("the server's answer is not a pod: {0}")]
    Answer(String),
}

/// The moment about which is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementMoment {
    /// The revision; `None`: now.
    pub at: Option<i64>,
    /// The revision of the write that bound the pod, and its writer, if they are known: a pod with a node is explained by the state before
    /// this write.
    pub bind: Option<(i64, String)>,
}

/// The pod as the API has it.
struct FoundPod {
    object: Value,
    info: PodInfo,
}

/// Explains where a pod is, or why it is nowhere.
///
/// # Errors
/// There is no such pod, or the server refuses to show it.
pub fn explain_placement<'a>(
    client: &'a Client,
    pod: PodName<'a>,
    profiles: &'a Profiles,
    moment: PlacementMoment,
) -> BoxFuture<'a, Result<PlacementAnswer, PlacementError>> {
    Box::pin(async move {
        let PlacementMoment { at, bind } = moment;
        let found = find(client, pod, at).await?;
        let records = records(client, pod, &found.info.uid).await;
        let mut answer = PlacementAnswer::of(pod, &found.object, &found.info, records);
        // A pod that waits may have the name of one that was bound before.
        answer.bound = bind.filter(|_| answer.state == PodState::Placed);
        let default = Profile::default();
        let registry = &profile(profiles, &found, &default, &mut answer).plugins;
        match answer.state {
            PodState::Ended | PodState::Gated => {}
            PodState::Pending | PodState::Placed => {
                let moment = answer.bound.as_ref().map(|(revision, _)| revision - 1).or(at);
                match compute(client, &mut answer, registry, &found, moment).await {
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
    })
}

/// Explains why pods are not placed at a revision, as data with at most `nodes` nodes each. The state of the cluster is read once for all
/// of them. A pod that cannot be read is left out.
///
/// # Errors
/// Nodes or pods cannot be listed, or the revision is not retained.
pub fn explain_pending<'a>(
    client: &'a Client,
    pods: &'a [PodName<'a>],
    at: i64,
    nodes: usize,
) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
    Box::pin(async move {
        let mut state = read_state(client, Some(at)).await?;
        let (profiles, default) = (Profiles::default(), Profile::default());
        let mut answers = Vec::new();
        for pod in pods {
            let Ok(found) = find(client, *pod, Some(state.revision)).await else { continue };
            let records = records(client, *pod, &found.info.uid).await;
            let mut answer = PlacementAnswer::of(*pod, &found.object, &found.info, records);
            if answer.state == PodState::Pending {
                let registry = &profile(&profiles, &found, &default, &mut answer).plugins;
                state.judge(&mut answer, registry, &found);
                // Later pods are judged beside this one's nomination.
                let _ = state.cluster.add(DecisionKind::Pod, found.object.to_string().as_bytes());
            }
            answers.push(answer.data_of(nodes));
        }
        Ok(answers)
    })
}

/// What the scheduler of the server's process recorded about a pod: the newest attempt first; empty if the scheduler is elsewhere, or the
/// caller may not ask. Without `uid` of all pods of the name.
pub(crate) async fn attempts(
    client: &Client,
    pod: PodName<'_>,
    uid: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let PodName { namespace, name } = pod;
    let uid = uid.map(|uid| format!("&uid={}", escape(uid))).unwrap_or_default();
    let path = format!("/kstore/v1/attempts?pod={}{uid}", escape(&format!("{namespace}/{name}")));
    let answer = client.get_path(&path).await?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    Ok(answer["records"].as_array().cloned().unwrap_or_default())
}

async fn records(client: &Client, pod: PodName<'_>, uid: &str) -> Vec<Value> {
    attempts(client, pod, Some(uid)).await.unwrap_or_default()
}

/// The profile of the pod's scheduler; the default one, with a note, if it is not known.
fn profile<'p>(
    profiles: &'p Profiles,
    found: &FoundPod,
    default: &'p Profile,
    answer: &mut PlacementAnswer,
) -> &'p Profile {
    let known = profiles.iter().find(|profile| profile.scheduler_name == found.info.scheduler_name);
    if known.is_none() {
        answer.notes.push(format!(
            "the scheduler {:?} is not known here: computed with the default profile; --scheduler-config names another",
            found.info.scheduler_name
        ));
    }
    known.unwrap_or(default)
}

/// Computes the verdicts at `moment`, or now; a pod that has a node is judged as if it had none.
async fn compute(
    client: &Client,
    answer: &mut PlacementAnswer,
    registry: &Registry,
    found: &FoundPod,
    moment: Option<i64>,
) -> Result<(), ApiError> {
    let mut state = match read_state(client, moment).await {
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
    state.judge(answer, registry, found);
    Ok(())
}

impl State {
    /// Judges the nodes for a pod, which is taken out of the state.
    fn judge(&mut self, answer: &mut PlacementAnswer, registry: &Registry, found: &FoundPod) {
        let Self { cluster, revision, is_present, unread } = self;
        answer.computed_at = Some(*revision);
        answer.is_present = *is_present;
        answer.unread.clone_from(unread);
        cluster.remove_pod(&found.info.uid);
        let (object, info) = unplaced(found);
        answer.table = cluster.table(registry, &info);
        if answer.state != PodState::Placed {
            answer.suggestions = suggest(cluster, registry, (&object, &info), &answer.table);
        }
        answer.take_result(cluster.decide(registry, &info));
    }
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

async fn find(client: &Client, pod: PodName<'_>, at: Option<i64>) -> Result<FoundPod, PlacementError> {
    let PodName { namespace, name } = pod;
    let path = format!("/api/v1/namespaces/{}/pods", escape(namespace));
    let not_json = |error: serde_json::Error| PlacementError::Answer(error.to_string());
    let object = match at {
        None => {
            let answer = client.get_path(&format!("{path}/{}", escape(name))).await?;
            serde_json::from_slice(&answer).map_err(not_json)?
        }
        Some(revision) => {
            let query = format!(
                "fieldSelector=metadata.name%3D{}&resourceVersion={revision}&resourceVersionMatch=Exact",
                escape(name)
            );
            let answer = client.get_path(&format!("{path}?{query}")).await?;
            let list: Value = serde_json::from_slice(&answer).map_err(not_json)?;
            let found = list["items"].get(0).cloned();
            found.ok_or_else(|| PlacementError::NoPodThen { name: name.to_owned(), revision })?
        }
    };
    let info = pod::decode(object.to_string().as_bytes())
        .map_err(|error| PlacementError::Answer(error.to_string()))?;
    Ok(FoundPod { object, info })
}

#[cfg(test)]
mod tests;
