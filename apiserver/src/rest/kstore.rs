//! kstore's own endpoints about the history: which revisions are retained, which one a text names, and what writes changed. `trace` has
//! the causes of writes, `object_history` the history of an object. Objects are named only to callers who may read them. Each path needs
//! the permission `get` on it, but for [`WRITES`]: without it a caller is told no authors but those of managed fields.

use super::field_writer;
use super::object_history;
use super::page_data::first_of_changes;
use super::path::Paths;
use super::query::Query;
use super::trace::TRACE;
use crate::tags;
use crate::view::history::{future, next, not_retained, oldest, time_of};
use crate::view::resolve::Resolver;
use http::request::Parts;
use jiff::tz::Offset;
use kstore_api::status::Status;
use kstore_registry::error;
use kstore_registry::kinds::Kinds;
use kstore_registry::provenance::Note;
use kstore_registry::request::Target;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::{RawBatch, RawEvent, ReadError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The path of writes with their objects.
pub(super) const WRITES: &str = "/kstore/v1/writes";

/// Revisions of one answer about writes.
const WRITES_OF_ANSWER: i64 = 1_000;

/// Whether a caller may read a kind in a namespace, by (storage row, namespace), at one revision of an answer.
type Verdicts = BTreeMap<(String, String, i64), bool>;

impl Paths {
    /// Answers a path of kstore about the history; `None` for other paths. `may_see_authors` says whether the caller may `get` the path.
    pub(super) async fn history(
        &self,
        parts: &Parts,
        user: &UserInfo,
        may_see_authors: bool,
    ) -> Option<Result<Value, Status>> {
        let query = Query::parse(parts.uri.query());
        let allowed = |known: &[&str]| match query.other_than(known) {
            None => Ok(()),
            Some(other) => Err(Status::bad_request(format!(
                "unknown parameter {other:?}: known are {}",
                known.join(", ")
            ))),
        };
        Some(match parts.uri.path() {
            "/kstore/v1/revisions" => match allowed(&[]) {
                Ok(()) => self.revisions(user).await,
                Err(status) => Err(status),
            },
            "/kstore/v1/resolve" => match allowed(&["text", "zone", "resource", "namespace", "name"]) {
                Ok(()) => self.resolve(&query, user).await,
                Err(status) => Err(status),
            },
            "/kstore/v1/history" => match allowed(&object_history::PARAMETERS) {
                Ok(()) => self.object_history(&query, user).await,
                Err(status) => Err(status),
            },
            WRITES => match allowed(&["after", "until"]) {
                Ok(()) => self.writes(&query, user, may_see_authors).await,
                Err(status) => Err(status),
            },
            TRACE => self.trace(&query, user).await,
            _ => return None,
        })
    }

    /// The oldest and the newest revision that can be read, the first one from which `changes` answers, and who asks.
    async fn revisions(&self, user: &UserInfo) -> Result<Value, Status> {
        let cache = self.pipeline.cache();
        let newest_revision = cache.fresh().await.map_err(error::of_read)?;
        let oldest = oldest(cache.storage()).await?;
        let mut known = Vec::new();
        for revision in [oldest, newest_revision] {
            let time = time_of(cache.storage(), revision).await;
            known.push(match time {
                Some(time) => json!({"revision": revision, "time": format!("{time:.6}")}),
                None => json!({"revision": revision}),
            });
        }
        let clock = if self.pipeline.nondet().clock.is_simulated() { "virtual" } else { "real" };
        let newest = known.pop();
        let tags = tags::in_cache(cache).into_iter();
        let tags: Vec<Value> =
            tags.map(|(name, revision)| json!({"name": name, "revision": revision})).collect();
        Ok(json!({"kind": "Revisions", "apiVersion": "kstore/v1", "oldest": known.pop(), "newest": newest,
            "from": first_of_changes(oldest, newest_revision), "compacted": oldest, "clock": clock, "tags": tags,
            "user": user.username}))
    }

    /// The revision that the parameter `text` names. `zone` is the distance of the caller's clock from UTC in seconds; `resource`,
    /// `namespace` and `name` are the object whose outside writes `X~N` counts, which the caller must be allowed to list.
    async fn resolve(&self, query: &Query, user: &UserInfo) -> Result<Value, Status> {
        let seconds = query.number("zone")?.unwrap_or(0);
        let offset = i32::try_from(seconds).ok().and_then(|seconds| Offset::from_seconds(seconds).ok());
        let offset = offset.ok_or_else(|| {
            Status::bad_request(format!("zone {seconds} is no distance from UTC in seconds"))
        })?;
        let cache = self.pipeline.cache();
        let selected = match query.get("name") {
            "" => None,
            _ => Some(self.visible_object(query, user).await?),
        };
        let (history, provenance) = (&self.revision_times, self.pipeline.provenance());
        let now = self.pipeline.nondet().clock.now();
        let resolver = Resolver { cache, history, provenance, now, offset, selected };
        let revision = resolver.resolve(query.get("text")).await?;
        let time = time_of(cache.storage(), revision).await;
        Ok(json!({"kind": "Resolved", "apiVersion": "kstore/v1", "revision": revision,
            "time": time.map(|time| format!("{time:.6}"))}))
    }

    /// Writer, time and objects of the revisions after one and up to another; at most [`WRITES_OF_ANSWER`]. For a caller who may not see
    /// authors those with an object that it may list, without what their notes say.
    async fn writes(&self, query: &Query, user: &UserInfo, may_see_authors: bool) -> Result<Value, Status> {
        let bound = |name: &str| {
            let number = query.number(name)?.filter(|number| *number >= 0);
            number.ok_or_else(|| Status::bad_request(format!("the parameter {name} is missing: a revision")))
        };
        let (after, until) = (bound("after")?, bound("until")?);
        let cache = self.pipeline.cache();
        let newest = cache.fresh().await.map_err(error::of_read)?;
        if until > newest {
            return Err(future(until, newest));
        }
        let last = until.min(after.saturating_add(WRITES_OF_ANSWER));
        let (kinds, mut verdicts) = (cache.kinds(), Verdicts::new());
        let mut found = Vec::new();
        // No commit has the revision of an empty store.
        let mut revision = after.max(1);
        let now = self.pipeline.nondet().clock.now();
        let what = format!("revision {after}");
        let gone = || not_retained(cache.storage(), &what, now);
        let mut history = match cache.storage().watch("", revision).await {
            Ok(history) => history,
            Err(ReadError::Compacted { .. }) => return Err(gone().await),
            Err(error) => return Err(error::of_read(error)),
        };
        while revision < last {
            let batch = match next(&mut *history).await {
                Ok(batch) => batch,
                Err(ReadError::Compacted { .. }) => return Err(gone().await),
                Err(error) => return Err(error::of_read(error)),
            };
            revision = batch.revision;
            if revision <= last && !batch.events.is_empty() {
                let objects = self.objects(&batch, user, &kinds, &mut verdicts).await;
                if may_see_authors {
                    found.push(noted_write(&batch, objects.into_iter().map(|(object, _)| object).collect()));
                } else if !objects.is_empty() {
                    found.push(described_write(&batch, objects));
                }
            }
        }
        let authors = if may_see_authors { "notes" } else { "managedFields" };
        Ok(json!({"kind": "Writes", "apiVersion": "kstore/v1", "authors": authors, "writes": found,
            "until": last, "remaining": until - last}))
    }

    /// The objects of a write that the caller may read, each with its change.
    async fn objects<'b>(
        &self,
        batch: &'b RawBatch,
        user: &UserInfo,
        kinds: &Kinds,
        verdicts: &mut Verdicts,
    ) -> Vec<(Value, &'b RawEvent)> {
        let mut objects = Vec::new();
        for event in &batch.events {
            let object = self.written(batch.revision, event, user, kinds, verdicts).await;
            objects.extend(object.map(|object| (object, event)));
        }
        objects
    }

    /// A written object with what happened to it; `None` if it is not one of a served kind, or the caller may not read it.
    async fn written(
        &self,
        revision: i64,
        event: &RawEvent,
        user: &UserInfo,
        kinds: &Kinds,
        verdicts: &mut Verdicts,
    ) -> Option<Value> {
        let key = std::str::from_utf8(&event.key).ok()?;
        let resource = kinds.of_key(&event.key)?;
        let (namespace, name) = resource.parse_key(key)?;
        // A namespace of the past may be another one than that of the present.
        let own = if resource.is("", "namespaces") { name } else { "" };
        let place = if own.is_empty() { namespace } else { own };
        let verdict = (resource.qualified(), place.to_owned(), revision);
        let may_read = match verdicts.get(&verdict) {
            Some(may_read) => *may_read,
            None => {
                let target = Target {
                    resource,
                    custom: None,
                    subresource: "",
                    namespace: namespace.to_owned(),
                    name: own.to_owned(),
                };
                let may_read = self.pipeline.check(user, "list", &target, own).await.is_ok()
                    && self.pipeline.check_past(user, "list", &target, own, revision).await.is_ok();
                verdicts.insert(verdict, may_read);
                may_read
            }
        };
        let effect = match &event.current {
            None => "deleted",
            Some(raw) if raw.created == raw.revision => "created",
            Some(_) => "updated",
        };
        may_read.then(|| {
            json!({"resource": resource.qualified(), "version": resource.version, "namespace": namespace, "name": name, "effect": effect})
        })
    }
}

/// A write with what its note says: its time, its author, and its causes.
fn noted_write(batch: &RawBatch, objects: Vec<Value>) -> Value {
    let mut write = json!({"revision": batch.revision, "objects": objects});
    let note = batch.note.as_deref().and_then(Note::decode);
    if let Some(Note { user, agent, verb, causes, time_us }) = note {
        let time = jiff::Timestamp::from_microsecond(time_us).ok();
        write["time"] = json!(time.map(|time| format!("{time:.6}")));
        write["user"] = json!(user);
        write["agent"] = json!(agent);
        write["verb"] = json!(verb);
        write["causes"] = json!(causes);
    }
    write
}

/// A write with what the states of its objects say.
fn described_write(batch: &RawBatch, objects: Vec<(Value, &RawEvent)>) -> Value {
    let describe = |(mut object, event): (Value, &RawEvent)| {
        field_writer::describe(&mut object, event);
        object
    };
    json!({"revision": batch.revision, "objects": objects.into_iter().map(describe).collect::<Vec<_>>()})
}
