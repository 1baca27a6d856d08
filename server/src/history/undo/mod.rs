//! `kstore-server undo`: takes back a write, or what happened to an object, by new writes. It reads the states before and after the write
//! and the newest one, merges them, and writes the result in transactions, with the permissions of its kubeconfig. Nothing leaves the
//! history.

mod addresses;
mod carried;
mod merge;
mod plan;
mod text;

use super::DIFFERS;
use super::entry::HistoryEntry;
use super::object::HistoryObject;
use super::recorded::{is_component_manager, newest};
use super::states::viewed;
use super::writes::{self, Authors, RecordedWrite, WriteOrigin, WrittenObject};
use crate::args::{AnswerOutput, ConflictPolicy, UndoArgs};
use crate::client_command::{Connection, print};
use crate::revision::{common_collections, expression, resolve_with};
use crate::runtime;
use crate::served_kinds::{FoundKind, KindFinder};
use anyhow::{Context as _, bail};
use carried::{Carried, PlannedWrite, carry_out};
use futures::{StreamExt as _, TryStreamExt as _};
use kstore_client::{Client, Gvr};
use kstore_informer::{Causes, Revision};
use kstore_registry::provenance::is_component;
use plan::{UndoPlan, UndoStep, is_terminating, notes_of_creation, plan_each};
use serde_json::{Value, json};
use std::process::ExitCode;
use text::PlannedObject;

/// Most objects of one undo: all their states are in memory until they are written.
const OBJECTS: usize = 5_000;

/// Objects that are read at once for a plan.
const READERS: usize = 16;

/// Writes to an object between the begin of its deletion and its end that are looked through: finalizers and statuses of a long one.
const DELETION_STEPS: usize = 256;

/// Writes of unknown writers that a note names.
const UNKNOWN_SHOWN: usize = 8;

/// What is undone.
struct Undone {
    objects: Vec<UndoneObject>,
    /// The undone revisions, the oldest first.
    causes: Vec<i64>,
    /// What is undone, in words.
    title: String,
    /// What is not known, for the user.
    notes: Vec<String>,
}

/// The undone writes to an object: the revisions before and after each, the newest first.
struct UndoneObject {
    object: HistoryObject,
    writes: Vec<(i64, i64)>,
}

/// Prints the plan of an undo, and carries it out if the arguments say so.
pub(crate) fn undo(args: UndoArgs) -> anyhow::Result<ExitCode> {
    check(&args)?;
    runtime::block_on(async {
        let connection =
            Connection::open(args.kubeconfig.clone(), args.namespace.as_deref(), "kstore-undo").await?;
        let client = &connection.client;
        let now = now(&connection, &args).await?;
        let undone = what(&connection, &args, now).await?;
        if undone.objects.len() > OBJECTS {
            bail!(
                "{} objects are more than one undo takes ({OBJECTS}): narrow it with -n, --kind or --by, or a later revision",
                undone.objects.len()
            );
        }
        let plans = undone.objects.iter().map(|object| planned_object(client, object, now, &args));
        let planned: Vec<_> = futures::stream::iter(plans).buffered(READERS).try_collect().await?;
        if let Some(at) = args.planned_at {
            check_unchanged(client, &undone.objects, at, now).await?;
        }
        undone.notes.iter().for_each(|note| eprintln!("kstore-server: {note}"));
        let title = format!("undo of {}, as of #{now}", undone.title);
        let conflicts: usize = planned.iter().map(|(_, object)| object.plan.conflicts.len()).sum();
        let blocks = conflicts > 0 && args.conflicts == ConflictPolicy::Fail;
        let writes: Vec<PlannedWrite<'_>> = undone
            .objects
            .iter()
            .zip(planned.iter().map(|(plan, _)| plan))
            .filter(|(_, plan)| !matches!(plan.step, UndoStep::Nothing(_)))
            .collect();
        let (steps, mut carried) = (writes.len(), Carried::default());
        if steps > 0 && !blocks {
            let causes: Causes = undone.causes.iter().map(|cause| Revision(cause.unsigned_abs())).collect();
            carried = carry_out(&client.causes(&causes), &writes, !args.yes).await?;
        }
        let shown: Vec<PlannedObject> = planned.into_iter().map(|(_, object)| object).collect();
        let outcome = Outcome { steps, conflicts, blocks, carried, now };
        print(&answer(&title, &shown, &outcome, &args)?)?;
        let is_done = outcome.carried.refusal.is_none() && !blocks;
        Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
    })
}

/// Checks what can be checked without a server.
fn check(args: &UndoArgs) -> anyhow::Result<()> {
    if let Some(since) = &args.since {
        if !args.what.is_empty() {
            bail!(
                "--since undoes all writes since a revision: {:?} cannot be undone together with it",
                args.what
            );
        }
        expression(since).context("--since")?;
    } else if !args.what.contains('/') {
        expression(&args.what)?;
        if args.to.is_some() {
            bail!("--to is for an object: kstore-server undo KIND/NAME --to REVISION");
        }
    }
    if args.since.is_none() && (!args.kinds.is_empty() || !args.by.is_empty()) {
        bail!("--kind and --by select writes of --since REVISION");
    }
    args.to.as_deref().map(expression).transpose().context("--to")?;
    Ok(())
}

/// What came of an undo.
struct Outcome {
    /// Objects that are written.
    steps: usize,
    conflicts: usize,
    /// Whether the conflicts keep everything from being written.
    blocks: bool,
    carried: Carried,
    /// The revision of the plan.
    now: i64,
}

/// What the arguments undo.
async fn what(connection: &Connection, args: &UndoArgs, now: i64) -> anyhow::Result<Undone> {
    let client = &connection.client;
    let finder = KindFinder::new(client);
    if let Some(since) = &args.since {
        let since = resolve_with(client, since, None, &[]).await.context("--since")?;
        return undone_since(client, &finder, since, now, args).await;
    }
    if !args.what.contains('/') {
        let revision = resolve_with(client, &args.what, None, &[]).await?;
        let write = writes::at(client, revision).await?;
        let objects = written(&finder, &write).await?;
        let of_write = |object| UndoneObject { object, writes: vec![(revision - 1, revision)] };
        let objects = objects.into_iter().map(of_write).collect();
        let notes = notes_of_authors(write.authors);
        return Ok(Undone { objects, causes: vec![revision], title: write.title(), notes });
    }
    let object = HistoryObject::find(&finder, &args.what, &connection.namespace).await?;
    if let Some(to) = &args.to {
        let resource = object.kind.qualified();
        let selected = Some(object.selected(&resource));
        let before = resolve_with(client, to, selected, &[object.collection()]).await.context("--to")?;
        let title = format!("everything since #{before} to {}", object.title());
        let objects = vec![UndoneObject { object, writes: vec![(before, now)] }];
        return Ok(Undone { objects, causes: vec![now], title, notes: Vec::new() });
    }
    let write = newest(client, &object, is_outside).await?.with_context(|| {
        let title = object.title();
        format!("no write to {title} from outside of the control plane is known: name a revision with --to")
    })?;
    let revision = write.revision;
    let title = RecordedWrite::of(write).title();
    let objects = vec![UndoneObject { object, writes: vec![(revision - 1, revision)] }];
    Ok(Undone { objects, causes: vec![revision], title, notes: Vec::new() })
}

/// The newest revision.
async fn now(connection: &Connection, args: &UndoArgs) -> anyhow::Result<i64> {
    let client = &connection.client;
    let namespace = args.namespace.as_deref().unwrap_or(&connection.namespace);
    let mut collections = Vec::new();
    if args.what.contains('/') {
        collections
            .push(HistoryObject::find(&KindFinder::new(client), &args.what, namespace).await?.collection());
    }
    collections.extend(common_collections(namespace));
    resolve_with(client, "now", None, &collections).await
}

/// Whether a write came from outside of the control plane, and not to a status.
fn is_outside(write: &HistoryEntry) -> bool {
    // Where the user is not known, the field manager says more.
    let is_component =
        if write.user.is_empty() { is_component_manager(&write.agent) } else { is_component(&write.user) };
    write.causes.is_empty() && !is_component && !write.verb.ends_with("/status")
}

/// All writes from outside of the control plane since a revision that the arguments select.
async fn undone_since(
    client: &Client,
    finder: &KindFinder<'_>,
    since: i64,
    now: i64,
    args: &UndoArgs,
) -> anyhow::Result<Undone> {
    let mut kinds = Vec::new();
    for kind in &args.kinds {
        kinds.push(finder.find(kind).await.context("--kind")?.qualified());
    }
    let is_by = |write: &RecordedWrite, object: &WrittenObject| {
        args.by.is_empty() || args.by.iter().any(|part| write.is_by(object, part))
    };
    let is_selected = |object: &WrittenObject| {
        let is_of_kind = kinds.is_empty() || kinds.contains(&object.resource);
        let is_there = args.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace);
        is_of_kind && is_there && !is_heartbeat(&object.resource)
    };
    let mut undone =
        Undone { objects: Vec::new(), causes: Vec::new(), title: String::new(), notes: Vec::new() };
    let (mut authors, mut unknown) = (Authors::Notes, Vec::new());
    for mut write in writes::between(client, since, now).await? {
        authors = write.authors;
        let mut objects = std::mem::take(&mut write.objects);
        objects.retain(|object| is_selected(object));
        if objects.iter().any(|object| write.origin(object) == WriteOrigin::Unknown) {
            unknown.push(write.revision);
        }
        objects.retain(|object| write.origin(object) == WriteOrigin::Outside && is_by(&write, object));
        write.objects = objects;
        if write.objects.is_empty() {
            continue;
        }
        undone.causes.push(write.revision);
        for object in written(finder, &write).await? {
            let pair = (write.revision - 1, write.revision);
            match undone.objects.iter_mut().find(|known| known.object == object) {
                Some(known) => known.writes.insert(0, pair),
                None => undone.objects.push(UndoneObject { object, writes: vec![pair] }),
            }
        }
    }
    undone.objects.sort_by_key(|undone| rank(&undone.object));
    let (writes, objects) = (count(undone.causes.len(), "write"), count(undone.objects.len(), "object"));
    undone.title = format!("{writes} to {objects} since #{since}");
    undone.notes = notes_of_authors(authors);
    if !unknown.is_empty() {
        let shown: Vec<String> =
            unknown.iter().take(UNKNOWN_SHOWN).map(|revision| format!("#{revision}")).collect();
        let more = if unknown.len() > UNKNOWN_SHOWN { ", …" } else { "" };
        undone.notes.push(format!(
            "no managed field says who made {}, which is left alone: {}{more}",
            count(unknown.len(), "write"),
            shown.join(", ")
        ));
    }
    Ok(undone)
}

/// What a user should know about the authors of writes.
fn notes_of_authors(authors: Authors) -> Vec<String> {
    let note = match authors {
        Authors::Notes => None,
        Authors::ManagedFields => Some(
            "your user may not read who wrote (ClusterRole kstore:see): only objects that you may list are looked at, writers are those \
             that managed fields name, and deletions of objects that no controller owns count as writes from outside"
                .to_owned(),
        ),
    };
    note.into_iter().collect()
}

/// Whether objects of a kind change all the time, and are not worth an undo.
fn is_heartbeat(resource: &str) -> bool {
    matches!(resource, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io")
}

/// Namespaces are written before definitions, and these before all others.
fn rank(object: &HistoryObject) -> u8 {
    match &*object.kind.qualified() {
        "namespaces" => 0,
        "customresourcedefinitions.apiextensions.k8s.io" => 1,
        _ => 2,
    }
}

fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The objects of a write that can be undone: definitions before others, namespaces before all.
async fn written(finder: &KindFinder<'_>, write: &RecordedWrite) -> anyhow::Result<Vec<HistoryObject>> {
    if write.objects.is_empty() {
        bail!("revision {} has no object that you may read", write.revision);
    }
    let mut objects = Vec::new();
    for written in write.objects.iter().filter(|written| !is_heartbeat(&written.resource)) {
        let kind = finder.find(&written.resource).await?;
        let (namespace, name) = (written.namespace.clone(), written.name.clone());
        objects.push(HistoryObject { kind, namespace, name });
    }
    if objects.is_empty() {
        bail!("revision {} wrote Events and Leases only, which are not undone", write.revision);
    }
    objects.sort_by_key(rank);
    Ok(objects)
}

/// The plan for an object: as it is carried out, and as it is shown.
async fn planned_object(
    client: &Client,
    undone @ UndoneObject { object, writes }: &UndoneObject,
    now: i64,
    args: &UndoArgs,
) -> anyhow::Result<(UndoPlan, PlannedObject)> {
    let present = viewed(client, object, now).await?;
    let mut states = Vec::new();
    for (before, after) in writes {
        let mut before = viewed(client, object, *before).await?;
        if present.is_none() {
            before = before_deletion(client, object, before).await;
        }
        states.push((before, viewed(client, object, *after).await?));
    }
    let mut plan = plan_each(&states, present.as_ref(), args.conflicts);
    let mut notes = addresses::release_taken(client, undone, &mut plan).await;
    if let UndoStep::Create(made) = &plan.step {
        notes.extend(states.iter().rev().find_map(|(before, _)| notes_of_creation(before.as_ref()?, made)));
        notes.extend(lost_references(client, made, object, now).await?);
    }
    let shown = if object.is_secret() && !args.secrets { plan.clone().masked() } else { plan.clone() };
    Ok((plan, PlannedObject { title: object.title(), plan: shown, notes }))
}

/// The object before its deletion began, if `state` is one of the steps of that; else, or if it is not retained, `state`.
async fn before_deletion(client: &Client, object: &HistoryObject, state: Option<Value>) -> Option<Value> {
    let mut earlier = state.clone();
    for _ in 0..DELETION_STEPS {
        let Some(known) = earlier.filter(is_terminating) else { break };
        let metadata = &known["metadata"];
        let version: i64 = metadata["resourceVersion"].as_str()?.parse().ok()?;
        let before = viewed(client, object, version - 1).await.ok().flatten();
        earlier = before.filter(|before| before["metadata"]["uid"] == metadata["uid"]);
        if earlier.as_ref().is_some_and(|earlier| !is_terminating(earlier)) {
            return earlier;
        }
    }
    state
}

/// Owners of an object that do not live any more: the garbage collector would delete it at once.
async fn lost_references(
    client: &Client,
    made: &Value,
    object: &HistoryObject,
    now: i64,
) -> anyhow::Result<Vec<String>> {
    let finder = KindFinder::new(client);
    let mut lost = Vec::new();
    for owner in made["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        let text = |member: &str| owner[member].as_str().unwrap_or_default();
        let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
        let kind =
            if group.is_empty() { text("kind").to_owned() } else { format!("{}.{group}", text("kind")) };
        let Ok(kind) = finder.find(&kind).await else { continue };
        let namespace = if kind.namespaced { object.namespace.clone() } else { String::new() };
        let owner = HistoryObject { kind, namespace, name: text("name").to_owned() };
        // Nothing is known of an owner that the user may not read.
        let Ok(found) = viewed(client, &owner, now).await else { continue };
        let is_alive = found.is_some_and(|found| found["metadata"]["uid"] == text("uid"));
        if !is_alive {
            lost.push(format!(
                "its owner {} is gone, so the garbage collector deletes it again; undo the owner's deletion, which makes it anew",
                owner.title()
            ));
        }
    }
    Ok(lost)
}

/// Checks that the objects are as they were when the undo was planned.
async fn check_unchanged(
    client: &Client,
    objects: &[UndoneObject],
    planned_at: i64,
    now: i64,
) -> anyhow::Result<()> {
    let version = |object: Option<Value>| object.map(|object| object["metadata"]["resourceVersion"].clone());
    let compared = objects.iter().map(async |UndoneObject { object, .. }| {
        let then = version(viewed(client, object, planned_at).await?);
        let is_changed = then != version(viewed(client, object, now).await?);
        anyhow::Ok(is_changed.then(|| object.title()))
    });
    let compared: Vec<_> = futures::stream::iter(compared).buffered(READERS).try_collect().await?;
    let changed: Vec<String> = compared.into_iter().flatten().collect();
    if !changed.is_empty() {
        bail!("changed since #{planned_at}, so nothing was written: {}", changed.join(", "));
    }
    Ok(())
}

fn resource(kind: &FoundKind) -> Gvr {
    Gvr::new(kind.group.clone(), kind.version.clone(), kind.plural.clone())
}

fn answer(
    title: &str,
    objects: &[PlannedObject],
    outcome: &Outcome,
    args: &UndoArgs,
) -> anyhow::Result<String> {
    let value = || {
        let plan: Vec<Value> = objects
            .iter()
            .map(|object| {
                let reason = match &object.plan.step {
                    UndoStep::Nothing(reason) => Some(reason),
                    _ => None,
                };
                json!({"object": object.title, "operation": object.plan.operation(), "changes": object.plan.changes,
                    "conflicts": object.plan.conflicts, "notes": object.notes, "reason": reason})
            })
            .collect();
        json!({"apiVersion": "kstore/v1", "kind": "Undo", "title": title, "plannedAt": outcome.now, "plan": plan,
            "revision": outcome.carried.revisions.last(), "revisions": outcome.carried.revisions,
            "refusal": outcome.carried.refusal, "unchecked": outcome.carried.unchecked})
    };
    Ok(match args.output {
        AnswerOutput::Json => serde_json::to_string_pretty(&value())? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&value())?,
        AnswerOutput::Text => format!("{}{}\n", text::planned(title, objects), last_line(outcome)),
    })
}

fn last_line(outcome: &Outcome) -> String {
    let Outcome { steps, conflicts, blocks, carried, now } = outcome;
    let objects = count(*steps, "object");
    match (&carried.revisions[..], &carried.refusal) {
        ([_, ..], _) => {
            let revisions: Vec<String> =
                carried.revisions.iter().map(|revision| format!("#{revision}")).collect();
            format!("{objects} written at {}", revisions.join(", "))
        }
        ([], Some(refusal)) => format!("nothing was written: the server would refuse it: {refusal}"),
        ([], None) if *blocks => {
            let conflicts = count(*conflicts, "conflict");
            format!(
                "{conflicts}, so nothing was written: --conflicts skip leaves those members, overwrite restores them"
            )
        }
        ([], None) if *steps == 0 => "nothing to do".to_owned(),
        ([], None) => {
            let unchecked = match carried.unchecked {
                0 => String::new(),
                _ => format!(
                    " The server has not checked the last {}, since namespaces or definitions would be made before.",
                    carried.unchecked
                ),
            };
            format!(
                "{objects} would be written. Nothing was; to do it: the same command with --as-planned-at {now} --yes{unchecked}"
            )
        }
    }
}
