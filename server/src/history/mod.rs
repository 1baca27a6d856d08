//! `kstore-server history KIND/NAME`: the retained revisions of an object, each with its writer, its cause and what it changed;
//! `kstore-server diff`: an object, or the whole cluster, at two revisions; `kstore-server undo`, which takes back a write; and
//! `kstore-server tag`, which names a revision. They read a running server with the permissions of their kubeconfig: who may not list the
//! objects sees writers and times, and no values.

mod change;
mod cluster;
mod compared;
mod differences;
mod entry;
mod object;
mod states;
mod summary;
mod tag;
mod text;
mod undo;
mod writes;

use crate::args::{AnswerOutput, HistoryArgs, HistoryDetail};
use crate::client_command::{Connection, print};
use crate::explain::trace::Trace;
use crate::revision::resolve;
use crate::runtime;
use crate::served_kinds::KindFinder;
use anyhow::{Context, anyhow};
use change::{Change, changes, mask};
pub(crate) use differences::diff;
use entry::{HistoryEntry, folded, writes};
use kstore_client::Client;
use kstore_cluster::escape;
use object::{HistoryObject, revision};
use serde_json::{Value, json};
use states::{ObjectState, state};
use std::process::ExitCode;
pub(crate) use tag::tag;
use text::Detail;
pub(crate) use undo::undo;

/// Exit code of a difference, as of `kubectl diff`.
const DIFFERS: u8 = 1;

/// Prints the history of an object, the newest write first.
pub(crate) fn history(args: HistoryArgs) -> anyhow::Result<ExitCode> {
    args.from.as_deref().map(revision).transpose().context("--from")?;
    let to = args.to.as_deref().map(revision).transpose().context("--to")?.flatten();
    runtime::block_on(async {
        let connection =
            Connection::open(args.kubeconfig.clone(), args.namespace.as_deref(), "kstore-history").await?;
        let finder = KindFinder::new(&connection.client);
        let object = HistoryObject::find(&finder, &args.object, &connection.namespace).await?;
        let from = resolved(&connection.client, &object, args.from.as_deref()).await.context("--from")?;
        let to = resolved(&connection.client, &object, to).await.context("--to")?;
        let mut entries = recorded(&connection.client, &object).await?;
        entries.retain(|entry| {
            from.is_none_or(|from| entry.revision >= from) && to.is_none_or(|to| entry.revision <= to)
        });
        // What a field's writer is asked for may be far back.
        let limit = args.limit.filter(|_| args.field.is_none()).unwrap_or(entries.len());
        let left_out = entries.len().saturating_sub(limit);
        entries.drain(..left_out);
        let newest = read_changes(&connection.client, &object, &mut entries, &args).await?;
        if let Some(field) = &args.field {
            let is_at = |entry: &HistoryEntry| {
                entry.changes.as_ref().is_some_and(|changes| changes.iter().any(|change| change.is_at(field)))
            };
            entries.retain(is_at);
        }
        if !args.all {
            entries = folded(entries);
        }
        entries.reverse();
        let left_out = left_out + args.limit.map_or(0, |limit| entries.len().saturating_sub(limit));
        entries.truncate(args.limit.unwrap_or(usize::MAX));
        print(&shown(&object, &entries, newest.as_ref(), &args)?)?;
        if left_out > 0 && args.output == AnswerOutput::Text {
            eprintln!("kstore-server: {left_out} older revisions are not shown; --limit 0 shows all");
        }
        Ok(if entries.is_empty() { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
    })
}

fn shown(
    object: &HistoryObject,
    entries: &[HistoryEntry],
    newest: Option<&Value>,
    args: &HistoryArgs,
) -> anyhow::Result<String> {
    let uid = newest.and_then(|object| object["metadata"]["uid"].as_str());
    let answer = || {
        json!({"apiVersion": "kstore/v1", "kind": "History", "resource": object.kind.qualified(),
        "namespace": object.namespace, "name": object.name, "exists": newest.is_some(), "entries": entries})
    };
    Ok(match args.output {
        AnswerOutput::Json => serde_json::to_string_pretty(&answer())? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&answer())?,
        AnswerOutput::Text if entries.is_empty() => format!("{}: no revision matches\n", object.title()),
        AnswerOutput::Text => {
            let detail = match args.detail {
                None => Detail::Short,
                Some(HistoryDetail::Paths) => Detail::All,
                Some(HistoryDetail::None) => Detail::None,
            };
            text::history(&object.title(), entries, uid, detail)
        }
    })
}

/// The writes that the server knows, the oldest first.
async fn recorded(client: &Client, object: &HistoryObject) -> anyhow::Result<Vec<HistoryEntry>> {
    let namespace = match object.namespace.as_str() {
        "" => String::new(),
        namespace => format!("&namespace={}", escape(namespace)),
    };
    let (resource, name) = (object.kind.qualified(), escape(&object.name));
    let path = format!("/kstore/v1/trace?resource={resource}{namespace}&name={name}");
    let answer = client.get_path(&path).await.map_err(|error| anyhow!("{error}"))?;
    let trace: Trace = serde_json::from_slice(&answer).context("the server's answer is not a trace")?;
    Ok(writes(&trace))
}

/// Adds to neighbours of one object what each changed. Returns the object as it is now.
async fn read_changes(
    client: &Client,
    object: &HistoryObject,
    entries: &mut [HistoryEntry],
    args: &HistoryArgs,
) -> anyhow::Result<Option<Value>> {
    let hides = object.is_secret() && !args.secrets;
    let mut before = match entries.first() {
        Some(first) => state(client, object, Some(first.revision - 1)).await?,
        None => ObjectState::NotRetained,
    };
    for entry in entries {
        let after = match &*entry.effect {
            "deleted" => ObjectState::Absent,
            _ => state(client, object, Some(entry.revision)).await?,
        };
        if let ObjectState::Present(state) = &after {
            entry.uid = state["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        }
        entry.changes = match (&before, &after) {
            (ObjectState::Present(old), ObjectState::Present(new)) => {
                Some(compared(old, new, hides, args.fields))
            }
            (ObjectState::Absent, ObjectState::Present(new)) => Some(created(new)),
            _ => None,
        };
        before = after;
    }
    match state(client, object, None).await? {
        ObjectState::Present(now) => Ok(Some(*now)),
        ObjectState::Absent | ObjectState::NotRetained => Ok(None),
    }
}

fn compared(old: &Value, new: &Value, hides_values: bool, all_fields: bool) -> Vec<Change> {
    let mut found = changes(old, new, all_fields);
    if hides_values {
        mask(&mut found);
    }
    found
}

/// The members that say most about a new object.
fn created(new: &Value) -> Vec<Change> {
    let path =
        |path: &str, value: &Value| Change { path: path.to_owned(), from: None, to: Some(value.clone()) };
    let mut found = Vec::new();
    let spec = &new["spec"];
    if !spec["replicas"].is_null() {
        found.push(path("spec.replicas", &spec["replicas"]));
    }
    let pod = if spec["template"].is_object() { &spec["template"]["spec"] } else { spec };
    for container in pod["containers"].as_array().into_iter().flatten() {
        let name = container["name"].as_str().unwrap_or_default();
        found.push(path(&format!("containers[{name}].image"), &container["image"]));
    }
    found
}

/// The revision that a text names for an object, if there is a text.
async fn resolved(
    client: &Client,
    object: &HistoryObject,
    text: Option<&str>,
) -> anyhow::Result<Option<i64>> {
    let Some(text) = text else { return Ok(None) };
    let resource = object.kind.qualified();
    resolve(client, text, Some(object.selected(&resource))).await.map(Some)
}
