//! The writes of a cluster, from the store's history, each with its writer and, if the request log has it, the basis.

use crate::basis::{self, Basis, ObjectChange, ViewAt, Written};
use crate::client::identity::short_agent;
use crate::error;
use crate::host::Running;
use crate::log::{LoggedRequest, RequestLog, WrittenBy};
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_registry::provenance::Note;
use kstore_storage::storage_key::KeyPlace;
use kstore_store::{Batch, Event, EventKind, KeyRange, Revision, Store, WatchError, WatchRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Prefix of the keys of all objects.
const ROOT: &str = "/registry/";
/// Revisions before a write in which its basis and its causes are looked for.
const LOOK_BACK: i64 = 10_000;
/// Revisions between two yields to other tasks of the cluster.
const YIELD: usize = 64;

/// A write of one or several objects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// Revision.
    pub revision: i64,
    /// Time of the cluster, if the writer went through the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Client; for components of the cluster, their agent.
    pub client: String,
    /// User.
    pub user: String,
    /// Agent.
    pub agent: String,
    /// Verb, with the subresource after a slash.
    pub verb: String,
    /// Objects.
    pub objects: Vec<WrittenObject>,
    /// Revisions that the writer named as causes.
    pub causes: Vec<i64>,
    /// Revisions that probably caused it: a guess, for writers that name none. Only in the answer about one write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inferred: Vec<i64>,
    /// What the writer had been shown. Only in the answer about one write, and if its request is in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

impl Write {
    /// The request that made the write, if the log has it.
    fn request(&self, log: &RequestLog) -> Option<LoggedRequest> {
        let first = self.objects.first()?;
        log.write_of(&WrittenBy {
            revision: self.revision,
            resource: &first.resource,
            namespace: &first.namespace,
            name: &first.name,
            verb: &self.verb,
            user: &self.user,
            agent: short_agent(&self.agent),
        })
    }
}

/// An object of a write.
#[derive(Clone, Debug, Serialize)]
pub struct WrittenObject {
    /// Resource as `plural.group`.
    pub resource: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// `created`, `updated` or `deleted`.
    pub effect: &'static str,
    /// The object before. Only in the answer about one write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The object after. Only in the answer about one write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The members of a stored object that tell who it is.
#[derive(Default, Deserialize)]
struct StoredHead {
    #[serde(default)]
    metadata: MetadataHead,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetadataHead {
    uid: String,
    owner_references: Vec<OwnerHead>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnerHead {
    uid: String,
}

fn resource(place: &KeyPlace<'_>) -> String {
    match place.group {
        "" => place.plural.to_owned(),
        group => format!("{}.{group}", place.plural),
    }
}

/// An event as a change of an object; `None` for keys of others.
fn change(event: &Event) -> Option<ObjectChange> {
    let key = std::str::from_utf8(event.key()).ok()?;
    let place = KeyPlace::of(key)?;
    let stored = match event.kind {
        EventKind::Put => event.kv.value(),
        EventKind::Delete => event.prev_kv.as_ref().map_or(&b"{}"[..], |before| before.value()),
    };
    let head: StoredHead = serde_json::from_slice(stored).unwrap_or_default();
    let name = if place.namespace.is_empty() {
        place.name.to_owned()
    } else {
        format!("{}/{}", place.namespace, place.name)
    };
    Some(ObjectChange {
        revision: event.revision().0,
        resource: resource(&place),
        name,
        uid: head.metadata.uid,
        owners: head.metadata.owner_references.into_iter().map(|owner| owner.uid).collect(),
    })
}

/// The batches of the history from a revision to another, both included. Must run on the cluster's runtime.
async fn history(store: &Store, from: i64, to: i64) -> Result<Vec<Batch>, Status> {
    let mut batches = Vec::new();
    if from > to {
        return Ok(batches);
    }
    let request = WatchRequest::new(KeyRange::prefix(ROOT)).from(Revision(from.max(1))).with_prev_kv();
    let mut watcher = store.watch(request).map_err(|refused| match refused {
        WatchError::Compacted { compacted } => {
            error::gone(format!("the history begins at revision {}", compacted.0))
        }
        _ => error::ended(),
    })?;
    // The answer to the request for progress, a batch without events, is the end of the history.
    watcher.handle().request_progress();
    while let Some(next) = watcher.next().await {
        let batch = next.map_err(|_| error::gone("the history was compacted meanwhile"))?;
        if batch.revision.0 > to || batch.events.is_empty() {
            break;
        }
        batches.push(batch);
        if batches.len() % YIELD == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(batches)
}

/// The revisions from one to another at which objects of a kind changed, ascending. Must run on the cluster's runtime.
///
/// # Errors
/// 410: the history is compacted.
pub(crate) async fn revisions_of(
    store: &Store,
    resource: &str,
    from: i64,
    to: i64,
) -> Result<Vec<i64>, Status> {
    let batches = history(store, from, to).await?;
    let is_of_kind = |event: &Event| change(event).is_some_and(|change| change.resource == resource);
    let changed = batches.iter().filter(|batch| batch.events.iter().any(|event| is_of_kind(event)));
    Ok(changed.map(|batch| batch.revision.0).collect())
}

/// A batch as a write, without its basis.
fn write(batch: &Batch, log: &RequestLog, is_whole: bool) -> Option<Write> {
    let note = batch.events.iter().find_map(|event| Note::decode(event.note.as_deref()?));
    let objects: Vec<WrittenObject> =
        batch.events.iter().filter_map(|event| written(event, is_whole)).collect();
    objects.first()?;
    let note = note.unwrap_or_else(|| Note {
        user: String::new(),
        agent: "the store".to_owned(),
        verb: "write".to_owned(),
        causes: Vec::new(),
        time_us: 0,
    });
    let mut write = Write {
        revision: batch.revision.0,
        time: Timestamp::from_microsecond(note.time_us).ok().filter(|_| note.time_us > 0),
        client: note.agent.clone(),
        user: note.user,
        agent: note.agent,
        verb: note.verb,
        objects,
        causes: note.causes,
        inferred: Vec::new(),
        basis: None,
    };
    if let Some(logged) = write.request(log) {
        write.client = logged.client;
    }
    Some(write)
}

fn written(event: &Event, is_whole: bool) -> Option<WrittenObject> {
    let place = KeyPlace::of(std::str::from_utf8(event.key()).ok()?)?;
    let effect = match event.kind {
        EventKind::Delete => "deleted",
        EventKind::Put if event.is_create() => "created",
        EventKind::Put => "updated",
    };
    let json = |value: &[u8]| serde_json::from_slice::<Value>(value).ok().filter(|_| is_whole);
    Some(WrittenObject {
        resource: resource(&place),
        namespace: place.namespace.to_owned(),
        name: place.name.to_owned(),
        uid: change(event).map(|change| change.uid).unwrap_or_default(),
        effect,
        before: event.prev_kv.as_ref().and_then(|before| json(before.value())),
        after: if event.kind == EventKind::Put { json(event.kv.value()) } else { None },
    })
}

/// Up to `limit` writes after revision `since` that `filter` accepts, the oldest first, and the revision to go on from. Must run on the
/// cluster's runtime.
///
/// # Errors
/// 410: the history does not reach back to `since`.
pub async fn list(
    running: &Running,
    log: &RequestLog,
    (since, limit): (i64, usize),
    filter: impl Fn(&Write) -> bool,
) -> Result<(Vec<Write>, i64), Status> {
    let store = running.store();
    let (mut found, mut from, head) = (Vec::new(), since + 1, store.revision().0);
    while from <= head && found.len() < limit {
        let to = head.min(from + LOOK_BACK);
        for batch in history(store, from, to).await? {
            if let Some(write) = write(&batch, log, false).filter(&filter) {
                found.push(write);
                if found.len() == limit {
                    break;
                }
            }
        }
        from = to + 1;
    }
    let next = if found.len() == limit { found.last().map_or(head, |write| write.revision) } else { head };
    Ok((found, next))
}

/// All writes after revision `since`, the oldest first, each with its objects before and after and the views of its writer. Nothing is said
/// about changes that the writer had not been shown. Must run on the cluster's runtime.
///
/// # Errors
/// 410: the history does not reach back to `since`.
pub async fn whole(running: &Running, log: &RequestLog, since: i64) -> Result<Vec<Write>, Status> {
    let store = running.store();
    let mut found = Vec::new();
    for batch in history(store, since + 1, store.revision().0).await? {
        let Some(mut write) = write(&batch, log, true) else { continue };
        let views = write.request(log).and_then(|logged| logged.basis);
        write.basis = views.map(|views| Basis { views: views.to_vec(), unseen: Vec::new() });
        found.push(write);
    }
    Ok(found)
}

/// One write, with its objects before and after, its basis and its inferred causes. Must run on the cluster's runtime.
///
/// # Errors
/// 404: the revision wrote no object. 410: the history does not have it any more.
pub async fn get(running: &Running, log: &RequestLog, revision: i64) -> Result<Write, Status> {
    let store = running.store();
    let unknown = || error::not_found("write at revision", &revision.to_string());
    if revision < 1 || revision > store.revision().0 {
        return Err(unknown());
    }
    let batches = history(store, revision, revision).await?;
    let batch = batches.first().filter(|batch| batch.revision.0 == revision).ok_or_else(unknown)?;
    let mut found = write(batch, log, true).ok_or_else(unknown)?;
    let Some(LoggedRequest { basis: Some(views), previous_write, .. }) = found.request(log) else {
        return Ok(found);
    };
    let Some(first) = found.objects.first() else { return Ok(found) };
    let from = look_back(&views, revision).max(store.compacted().0 + 1);
    let before = history(store, from, revision - 1).await?;
    let changes: Vec<ObjectChange> =
        before.iter().flat_map(|batch| batch.events.iter()).filter_map(|event| change(event)).collect();
    let own = batch.events.iter().find_map(|event| change(event)).ok_or_else(unknown)?;
    let nothing = Value::Null;
    let object = first.after.as_ref().or(first.before.as_ref()).unwrap_or(&nothing);
    let own = Written { change: &own, object };
    let causes = basis::inferred(&views, previous_write, &changes, &own);
    let basis = basis::basis(&views, &changes, &own);
    if found.causes.is_empty() {
        found.inferred = causes;
    }
    found.basis = Some(basis);
    Ok(found)
}

/// The oldest revision that a basis may name.
fn look_back(views: &[ViewAt], revision: i64) -> i64 {
    let oldest = views.iter().map(|view| view.delivered).min().unwrap_or(revision);
    oldest.min(revision - 1_000).max(revision - LOOK_BACK).max(1)
}
