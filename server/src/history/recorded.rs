//! The changes of one object, the newest first: as the server tells them with writers and causes, or, to a user who may not read
//! `/kstore/v1/history`, found by exact lists of the object, with the authors that its managed fields name.

use super::entry::HistoryEntry;
use super::object::HistoryObject;
use super::states::{ObjectState, state};
use crate::explain::trace::actor;
use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use kstore_client::{ApiError, Client};
use kstore_cluster::escape;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Most changes that one command looks at.
const CHANGES: usize = 20_000;
/// Changes of one page.
const PAGE: usize = 500;
/// Changes that are looked at, one by one, where the server does not list them.
const WALKED: usize = 1_000;

/// Which changes are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// The oldest revision.
    pub from: Option<i64>,
    /// The newest revision.
    pub to: Option<i64>,
    /// Most changes; `None`: all.
    pub limit: Option<usize>,
}

/// Changes of an object.
#[derive(Debug, Default)]
pub(super) struct ObjectHistory {
    /// The changes, the oldest first.
    pub entries: Vec<HistoryEntry>,
    /// Number of older ones that were wanted and that are left out.
    pub older: usize,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

/// An answer of `/kstore/v1/history`.
#[derive(Deserialize)]
struct Page {
    /// The oldest revision that can be read.
    oldest: i64,
    entries: Vec<ToldChange>,
    remaining: usize,
    #[serde(rename = "continue")]
    next: Option<i64>,
}

#[derive(Deserialize)]
struct ToldChange {
    revision: i64,
    time: Option<Timestamp>,
    effect: String,
    effects: usize,
    #[serde(default)]
    user: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    verb: String,
    #[serde(default)]
    causes: Vec<i64>,
    #[serde(default = "yes")]
    retained: bool,
}

fn yes() -> bool {
    true
}

impl ToldChange {
    fn entry(self, oldest: i64) -> HistoryEntry {
        let actor = match self.user.is_empty() && self.agent.is_empty() {
            true => "unknown".to_owned(),
            false => actor(&self.user, &self.agent),
        };
        HistoryEntry {
            revision: self.revision,
            read_at: self.retained.then(|| self.revision.max(oldest)),
            time: self.time,
            effect: self.effect,
            verb: self.verb,
            user: self.user,
            agent: self.agent,
            actor,
            causes: self.causes,
            effects: self.effects,
            uid: String::new(),
            changes: None,
            count: 1,
            first: None,
            between: BTreeMap::new(),
        }
    }
}

/// The wanted changes of an object.
///
/// # Errors
/// No change of it is known, or the server refuses.
pub(super) async fn recorded(
    client: &Client,
    object: &HistoryObject,
    wanted: Wanted,
) -> anyhow::Result<ObjectHistory> {
    let mut found = ObjectHistory::default();
    let mut before = wanted.to.map(|to| to.saturating_add(1));
    let most = wanted.limit.unwrap_or(usize::MAX).min(CHANGES);
    loop {
        let size = if wanted.from.is_some() { PAGE } else { PAGE.min(most - found.entries.len()).max(1) };
        let page = match page(client, object, before, size).await {
            Err(error) if error.is_forbidden() => return walked(client, object, wanted).await,
            page => page.map_err(|error| anyhow!("{error}"))?,
        };
        let Page { oldest, entries, remaining, next } = page;
        let told = entries.len();
        let is_wanted = |change: &ToldChange| wanted.from.is_none_or(|from| change.revision >= from);
        let kept = entries.into_iter().filter(is_wanted).map(|change| change.entry(oldest));
        let known = found.entries.len();
        found.entries.extend(kept);
        let reaches_from = found.entries.len() - known < told;
        found.older = if reaches_from || wanted.from.is_some() { 0 } else { remaining };
        before = next.filter(|_| !reaches_from);
        let enough = if wanted.from.is_some() { CHANGES } else { most };
        if before.is_none() || found.entries.len() >= enough {
            break;
        }
    }
    if found.entries.len() >= CHANGES && before.is_some() {
        found.notes.push(format!(
            "changes before #{} are not looked at: {CHANGES} are the most; narrow them with --from and --to",
            before.unwrap_or_default()
        ));
    }
    found.older += found.entries.len().saturating_sub(most);
    found.entries.truncate(most);
    found.entries.reverse();
    Ok(found)
}

/// The newest change of an object that `matches`; `None` if none of those does that the server has.
///
/// # Errors
/// No change of the object is known, or the server refuses.
pub(super) async fn newest(
    client: &Client,
    object: &HistoryObject,
    matches: impl Fn(&HistoryEntry) -> bool,
) -> anyhow::Result<Option<HistoryEntry>> {
    let (mut before, mut seen) = (None, 0);
    loop {
        let Page { oldest, entries, next, .. } = match page(client, object, before, PAGE).await {
            Err(error) if error.is_forbidden() => {
                let found = walked(client, object, Wanted::default()).await?;
                return Ok(found.entries.into_iter().rev().find(matches));
            }
            page => page.map_err(|error| anyhow!("{error}"))?,
        };
        seen += entries.len();
        let found = entries.into_iter().map(|change| change.entry(oldest)).find(&matches);
        if found.is_some() || next.is_none() || seen >= CHANGES {
            return Ok(found);
        }
        before = next;
    }
}

async fn page(
    client: &Client,
    object: &HistoryObject,
    before: Option<i64>,
    limit: usize,
) -> Result<Page, ApiError> {
    let namespace = match object.namespace.as_str() {
        "" => String::new(),
        namespace => format!("&namespace={}", escape(namespace)),
    };
    let (resource, name) = (escape(&object.kind.qualified()), escape(&object.name));
    let before = before.map(|before| format!("&before={before}")).unwrap_or_default();
    let path = format!("/kstore/v1/history?resource={resource}{namespace}&name={name}&limit={limit}{before}");
    let answer = client.get_path(&path).await?;
    serde_json::from_slice(&answer)
        .map_err(|error| ApiError::Transport(format!("the server's answer is not a history: {error}")))
}

/// The changes of the object's present life, by exact lists from the newest to the oldest.
async fn walked(client: &Client, object: &HistoryObject, wanted: Wanted) -> anyhow::Result<ObjectHistory> {
    const WHY: &str = "your user may not read /kstore/v1/history (ClusterRole kstore:see)";
    let most = wanted.limit.unwrap_or(usize::MAX).min(WALKED);
    let (mut at, mut states) = (wanted.to, Vec::new());
    let mut is_whole = false;
    while states.len() <= most {
        match state(client, object, at).await? {
            ObjectState::Present(value) => {
                let revision: i64 = value["metadata"]["resourceVersion"]
                    .as_str()
                    .and_then(|version| version.parse().ok())
                    .context("the server's answer has no resourceVersion")?;
                if wanted.from.is_some_and(|from| revision < from) {
                    break;
                }
                states.push(of_managed_fields(revision, at.unwrap_or(revision), &value));
                at = Some(revision - 1);
            }
            ObjectState::Absent => {
                is_whole = true;
                break;
            }
            ObjectState::NotRetained => break,
        }
    }
    if states.is_empty() && is_whole {
        bail!("{} does not exist, and {WHY}, which has the history of deleted objects", object.title());
    }
    let mut found = ObjectHistory { older: states.len().saturating_sub(most), ..ObjectHistory::default() };
    if let Some(first) = states.last_mut().filter(|_| is_whole) {
        "created".clone_into(&mut first.effect);
    }
    if found.older > 0 && wanted.limit.is_none_or(|limit| limit > WALKED) {
        found.notes.push(format!("{WALKED} changes are the most that are read one by one"));
    }
    found.notes.push(format!(
        "authors are those that managed fields name, and causes, deletions and earlier objects of this name are not known: {WHY}"
    ));
    states.truncate(most);
    states.reverse();
    found.entries = states;
    Ok(found)
}

/// A change by the newest entry of the managed fields that it left.
fn of_managed_fields(revision: i64, read_at: i64, object: &Value) -> HistoryEntry {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let time = |entry: &Value| entry["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let newest = entries.iter().max_by_key(|entry| time(entry));
    let text = |member: &str| newest.and_then(|entry| entry[member].as_str()).unwrap_or_default();
    let verb = text("operation").to_ascii_lowercase();
    let verb = if text("subresource").is_empty() { verb } else { format!("{verb}/{}", text("subresource")) };
    let manager = text("manager");
    HistoryEntry {
        revision,
        read_at: Some(read_at),
        time: newest.and_then(time),
        effect: "updated".to_owned(),
        verb,
        user: String::new(),
        agent: manager.to_owned(),
        actor: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
        causes: Vec::new(),
        effects: 0,
        uid: String::new(),
        changes: None,
        count: 1,
        first: None,
        between: BTreeMap::new(),
    }
}

/// Whether a field manager is a component of the control plane, by its name: all that is known without the user.
pub(super) fn is_component_manager(manager: &str) -> bool {
    let named =
        ["kube-scheduler", "kube-controller-manager", "kubelet", "kube-apiserver", "volume-provisioner"];
    named.contains(&manager) || manager.ends_with("-controller")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use serde_json::json;
    use std::convert::Infallible;

    /// A server that answers GETs by their path and query.
    fn server(answer: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static) -> Client {
        let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| {
            let (code, body) = answer(&request.uri().to_string());
            let body = Full::new(Bytes::from(body.to_string()));
            async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap()) }
        });
        Client::over(service, "test")
    }

    fn object() -> HistoryObject {
        let kind = crate::served_kinds::built_in("cm").unwrap();
        HistoryObject { kind, namespace: "ns".to_owned(), name: "a".to_owned() }
    }

    fn parameter(path: &str, name: &str) -> Option<i64> {
        path.split(['?', '&']).find_map(|part| part.strip_prefix(&format!("{name}="))?.parse().ok())
    }

    /// Answers as a server whose object changed at the revisions 2, 4, … 2,400. The oldest revision that it can read is 1,001.
    fn told(path: &str) -> (u16, Value) {
        let before = parameter(path, "before").unwrap_or(i64::MAX);
        let limit = usize::try_from(parameter(path, "limit").unwrap()).unwrap();
        let all: Vec<i64> = (1..=1_200).map(|nth| nth * 2).filter(|revision| *revision < before).collect();
        let shown: Vec<i64> = all.iter().rev().take(limit).copied().collect();
        let entries: Vec<Value> = shown
            .iter()
            .map(|revision| {
                json!({"revision": revision, "effect": "updated", "effects": 0, "retained": *revision >= 1_000})
            })
            .collect();
        let remaining = all.len() - shown.len();
        let next = shown.last().filter(|_| remaining > 0);
        (200, json!({"oldest": 1_001, "entries": entries, "remaining": remaining, "continue": next}))
    }

    #[tokio::test]
    async fn pages_are_put_together_and_what_is_left_out_is_counted() {
        let client = server(told);
        let of = async |from: Option<i64>, to: Option<i64>, limit: Option<usize>| {
            let found = recorded(&client, &object(), Wanted { from, to, limit }).await.unwrap();
            let revisions: Vec<i64> = found.entries.iter().map(|entry| entry.revision).collect();
            (revisions, found.older)
        };
        let range = |from: i64, to: i64| (from..=to).step_by(2).collect::<Vec<i64>>();
        assert_eq!(of(None, None, None).await, (range(2, 2_400), 0));
        assert_eq!(of(None, None, Some(50)).await, (range(2_302, 2_400), 1_150));
        assert_eq!(of(None, None, Some(700)).await, (range(1_002, 2_400), 500));
        assert_eq!(of(Some(1_999), Some(2_100), None).await, (range(2_000, 2_100), 0));
        assert_eq!(of(Some(1_999), None, Some(10)).await, (range(2_382, 2_400), 191));
        assert_eq!(of(None, Some(5), Some(50)).await, (vec![2, 4], 0));
        let all = recorded(&client, &object(), Wanted::default()).await.unwrap();
        let read_at: Vec<Option<i64>> = all.entries[498..501].iter().map(|entry| entry.read_at).collect();
        assert_eq!(read_at, [None, Some(1_001), Some(1_002)], "the oldest is read where it can be read");
        let odd = newest(&client, &object(), |entry| entry.revision % 700 == 0).await.unwrap();
        assert_eq!(odd.map(|entry| entry.revision), Some(2_100));
        assert!(newest(&client, &object(), |_| false).await.unwrap().is_none());
    }

    /// A server that forbids its own paths, with the object at the revisions 3, 5 and 9.
    fn forbidding(path: &str) -> (u16, Value) {
        if path.starts_with("/kstore") {
            return (403, json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}));
        }
        let at = parameter(path, "resourceVersion").unwrap_or(9);
        let version = [9, 5, 3].into_iter().find(|version| *version <= at);
        let entry = |time: &str, manager: &str, subresource: &str| json!({"manager": manager, "operation": "Update", "time": time, "subresource": subresource});
        let fields = json!([
            entry("2026-01-01T00:00:09Z", "kubelet", "status"),
            entry("2026-01-01T00:00:01Z", "kubectl", "")
        ]);
        let item = |version: i64| json!({"metadata": {"name": "a", "resourceVersion": version.to_string(), "managedFields": fields}});
        (200, json!({"items": version.map(item).into_iter().collect::<Vec<_>>()}))
    }

    #[tokio::test]
    async fn a_user_who_may_not_read_the_history_has_that_of_the_objects_life_with_its_field_managers() {
        let client = server(forbidding);
        let found = recorded(&client, &object(), Wanted::default()).await.unwrap();
        let shown: Vec<_> =
            found.entries.iter().map(|entry| (entry.revision, &*entry.effect, &*entry.verb)).collect();
        assert_eq!(
            shown,
            [
                (3, "created", "update/status"),
                (5, "updated", "update/status"),
                (9, "updated", "update/status")
            ]
        );
        assert_eq!(found.entries[0].actor, "kubelet");
        assert!(found.notes[0].contains("kstore:see"), "{:?}", found.notes);
        let some =
            recorded(&client, &object(), Wanted { limit: Some(1), ..Wanted::default() }).await.unwrap();
        assert_eq!((some.entries.len(), some.older), (1, 1));
        let late = Wanted { from: Some(4), to: Some(8), limit: None };
        let late = recorded(&client, &object(), late).await.unwrap();
        assert_eq!(late.entries.iter().map(|entry| entry.revision).collect::<Vec<_>>(), [5]);
        assert!(is_component_manager("deployment-controller") && !is_component_manager("kubectl-edit"));
    }
}
