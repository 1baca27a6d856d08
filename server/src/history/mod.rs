//! `kstore-server history KIND/NAME`: the retained revisions of an object, each with its writer, its cause and what it changed;
//! `kstore-server diff`: an object, or the whole cluster, at two revisions; `kstore-server undo`, which takes back a write; and
//! `kstore-server tag`, which names a revision. They read a running server with the permissions of their kubeconfig: `list` of the objects
//! suffices for all but writers, causes, and what happened to objects that are deleted.

mod change;
mod cluster;
mod compared;
mod differences;
mod entry;
mod object;
mod recorded;
mod states;
mod summary;
mod tag;
mod text;
mod undo;
mod writes;
mod written;

use crate::args::{AnswerOutput, HistoryArgs, HistoryDetail};
use crate::client_command::{Connection, print};
use crate::revision::resolve_with;
use crate::runtime;
use crate::served_kinds::KindFinder;
use anyhow::Context;
use change::{Change, changes, mask};
pub(crate) use differences::diff;
use entry::{HistoryEntry, folded};
use kstore_client::Client;
use object::{HistoryObject, revision};
use recorded::{ObjectHistory, Wanted, recorded};
use serde_json::{Value, json};
use states::{ObjectState, sized_state, state};
use std::process::ExitCode;
pub(crate) use tag::tag;
use text::Detail;
pub(crate) use undo::undo;

/// Bytes of the states of an object that one history compares: the changes in memory are at most as large.
const READ_BYTES: usize = 256 << 20;
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
        // What a field's writer is asked for may be far back.
        let limit = args.limit.filter(|_| args.field.is_none());
        let mut found = recorded(&connection.client, &object, Wanted { from, to, limit }).await?;
        let newest = read_changes(&connection.client, &object, &mut found, &args).await?;
        let ObjectHistory { mut entries, older, notes } = found;
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
        let older = older + args.limit.map_or(0, |limit| entries.len().saturating_sub(limit));
        entries.truncate(args.limit.unwrap_or(usize::MAX));
        print(&shown(&object, &Shown { entries: &entries, older, notes: &notes }, newest.as_ref(), &args)?)?;
        if args.output == AnswerOutput::Text {
            notes.iter().for_each(|note| eprintln!("kstore-server: {note}"));
            if older > 0 {
                eprintln!("kstore-server: {older} older revisions are not shown; --limit 0 shows all");
            }
        }
        Ok(if entries.is_empty() { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
    })
}

/// What is printed, the newest change first.
struct Shown<'h> {
    entries: &'h [HistoryEntry],
    /// Number of older changes.
    older: usize,
    notes: &'h [String],
}

fn shown(
    object: &HistoryObject,
    &Shown { entries, older, notes }: &Shown<'_>,
    newest: Option<&Value>,
    args: &HistoryArgs,
) -> anyhow::Result<String> {
    let uid = newest.and_then(|object| object["metadata"]["uid"].as_str());
    let answer = || {
        json!({"apiVersion": "kstore/v1", "kind": "History", "resource": object.kind.qualified(),
        "namespace": object.namespace, "name": object.name, "exists": newest.is_some(), "entries": entries,
        "older": older, "notes": notes})
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

/// Adds to changes of one object, the oldest first, what each changed. Removes the oldest ones if the states are more than [`READ_BYTES`].
/// Returns the object as it is now.
async fn read_changes(
    client: &Client,
    object: &HistoryObject,
    found: &mut ObjectHistory,
    args: &HistoryArgs,
) -> anyhow::Result<Option<Value>> {
    let hides = object.is_secret() && !args.secrets;
    let (mut after, mut read) = (None, 0);
    for at in (0..found.entries.len()).rev() {
        let own = match after.take() {
            Some(state) => state,
            None => result_of(client, object, &found.entries[at], &mut read).await?,
        };
        let entry = &found.entries[at];
        let before = match at.checked_sub(1) {
            Some(older) => result_of(client, object, &found.entries[older], &mut read).await?,
            None if entry.effect == "created" => ObjectState::Absent,
            None => state(client, object, Some(entry.revision - 1)).await?,
        };
        let entry = &mut found.entries[at];
        if let ObjectState::Present(state) = &own {
            entry.uid = state["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        }
        entry.changes = match (&before, &own) {
            (ObjectState::Present(old), ObjectState::Present(new)) => {
                Some(compared(old, new, hides, args.fields))
            }
            (ObjectState::Absent, ObjectState::Present(new)) => Some(created(new)),
            _ => None,
        };
        after = Some(before);
        if read > READ_BYTES && at > 0 {
            found.entries.drain(..at);
            found.older += at;
            found.notes.push(format!(
                "the states of the {at} revisions before #{} are too large to be compared at once; narrow them with --to",
                found.entries[0].revision
            ));
            break;
        }
    }
    match state(client, object, None).await? {
        ObjectState::Present(now) => Ok(Some(*now)),
        ObjectState::Absent | ObjectState::NotRetained => Ok(None),
    }
}

/// The object after a change. Adds the bytes of the answer to `read`.
async fn result_of(
    client: &Client,
    object: &HistoryObject,
    entry: &HistoryEntry,
    read: &mut usize,
) -> anyhow::Result<ObjectState> {
    match entry.read_at {
        None => Ok(ObjectState::NotRetained),
        Some(_) if entry.effect == "deleted" => Ok(ObjectState::Absent),
        Some(at) => {
            let (state, bytes) = sized_state(client, object, Some(at)).await?;
            *read += bytes;
            Ok(state)
        }
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
    resolve_with(client, text, Some(object.selected(&resource)), &[object.collection()]).await.map(Some)
}
