//! `GET /kstore/v1/history`: the changes of one object, the newest first, each with its writer and its causes. They are those of the
//! storage, all that are retained, in all lives of the name; after them come older ones that provenance still has in memory. A caller needs
//! the permission `get` on the path, and `list` for the object.

use super::path::{Paths, namespace_of};
use super::query::Query;
use crate::view::history::{oldest, time_of};
use crate::view::resolve::VisibleObject;
use jiff::Timestamp;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::error;
use kstore_registry::provenance::{Effect, Note, ObjectTrace, TraceNode};
use kstore_registry::request::Target;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::{KeyVersion, VersionEffect};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Range;

/// Most changes of one answer: each may need a read of its note.
const PAGE: usize = 500;
/// Changes of one answer whose times are searched for in the notes of earlier revisions, since they have none: expiries, and writes by
/// clients of the etcd API. Each search opens up to 16 watches.
const TIMES: usize = 32;

/// Most levels of a tree of consequences: more than provenance shows.
const LEVELS: usize = 64;

/// The parameters of the path.
pub(super) const PARAMETERS: [&str; 5] = ["resource", "namespace", "name", "before", "limit"];

/// Writes in the memory of provenance, by revision, each with the number of writes that followed from it.
type KnownWrites<'t> = BTreeMap<i64, (&'t TraceNode, usize)>;

/// The object of a request, and who asks.
struct Question<'q> {
    user: &'q UserInfo,
    target: Target,
    resource: &'static Resource,
    name: &'q str,
    key: String,
    /// Changes from this revision on are not wanted.
    before: i64,
    limit: usize,
}

impl Paths {
    /// The newest changes of an object below the revision `before`, at most `limit`. `remaining` is the number of older ones, and
    /// `continue` the next `before`.
    pub(super) async fn object_history(&self, query: &Query, user: &UserInfo) -> Result<Value, Status> {
        let question = self.question(query, user)?;
        let cache = self.pipeline.cache();
        cache.fresh().await.map_err(error::of_read)?;
        let Question { resource, name, .. } = question;
        self.pipeline.check(user, "list", &question.target, name).await?;
        let oldest = oldest(cache.storage()).await?;
        let found = cache.storage().versions(&question.key, question.before, question.limit).await;
        let found = found.map_err(error::of_read)?;
        let trace = self.pipeline.provenance().trace(&question.key);
        let known = known_writes(&trace);
        let floor = self.floor(&question).await;
        let hidden = match floor {
            0 => 0,
            _ => {
                let below = cache.storage().versions(&question.key, floor.min(question.before), 0).await;
                below.map_err(error::of_read)?.older
            }
        };
        let shown = found.versions.partition_point(|version| version.revision >= floor);
        let hidden_older = hidden.saturating_sub(found.versions.len() - shown);
        let mut page = Page { entries: Vec::new(), remaining: found.older.saturating_sub(hidden_older) };
        let mut searches = TIMES;
        for version in &found.versions[..shown] {
            let entry = self.entry(version, &known, &mut searches).await;
            page.entries.push((version.revision, entry));
        }
        if page.remaining == 0 {
            let before = found.versions.last().map_or(question.before, |version| version.revision);
            page.add_forgotten(&question, known.range(floor.min(before)..before));
        }
        if page.entries.is_empty() && question.before == i64::MAX {
            let mut missing = Status::not_found(resource, name);
            missing.message = format!(
                "{}: no change of it is known; the history reaches back to revision {oldest} only",
                missing.message
            );
            return Err(missing);
        }
        let next = page.entries.last().map(|(revision, _)| *revision).filter(|_| page.remaining > 0);
        let entries: Vec<Value> = page.entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(json!({"kind": "History", "apiVersion": "kstore/v1", "resource": resource.qualified(),
            "namespace": question.target.namespace, "name": name, "oldest": oldest, "entries": entries,
            "remaining": page.remaining, "continue": next, "former": floor > 0}))
    }

    /// The object of a query, with the oldest revision whose changes the caller may see.
    ///
    /// # Errors
    /// The query names no object, or the caller may not list it.
    pub(super) async fn visible_object(
        &self,
        query: &Query,
        user: &UserInfo,
    ) -> Result<VisibleObject, Status> {
        let question = self.question(query, user)?;
        self.pipeline.cache().fresh().await.map_err(error::of_read)?;
        self.pipeline.check(user, "list", &question.target, question.name).await?;
        let floor = self.floor(&question).await;
        Ok(VisibleObject { key: question.key, floor })
    }

    fn question<'q>(&self, query: &'q Query, user: &'q UserInfo) -> Result<Question<'q>, Status> {
        let resource = self.stored_resource(query)?;
        let name = query.get("name");
        if name.is_empty() {
            return Err(Status::bad_request("the object is missing: set resource=, namespace= and name="));
        }
        let positive = |parameter: &str| match query.number(parameter)? {
            Some(number) if number < 1 => {
                Err(Status::bad_request(format!("the parameter {parameter} is less than 1: {number}")))
            }
            number => Ok(number),
        };
        let limit = positive("limit")?.and_then(|limit| usize::try_from(limit).ok());
        let namespace = namespace_of(resource, query).to_owned();
        let key = resource.storage_key(&namespace, name);
        let own = if resource.is("", "namespaces") { name.to_owned() } else { String::new() };
        let target = Target { resource, custom: None, subresource: "", namespace, name: own };
        Ok(Question {
            user,
            target,
            resource,
            name,
            key,
            before: positive("before")?.unwrap_or(i64::MAX),
            limit: limit.unwrap_or(PAGE).min(PAGE),
        })
    }

    /// The oldest revision whose changes the caller may see: the creation of the namespace, unless it may see those of a former one.
    async fn floor(&self, question: &Question<'_>) -> i64 {
        let Question { user, target, name, .. } = question;
        if self.pipeline.check_past(user, "list", target, name, 1).await.is_ok() {
            return 0;
        }
        let row = kind::lookup("", "v1", "namespaces").expect("namespaces are in the table of kinds");
        let namespace = if target.resource.is("", "namespaces") { name } else { &*target.namespace };
        let namespace = self.pipeline.cache().get(row, &row.storage_key("", namespace));
        namespace.map_or(i64::MAX, |entry| entry.created)
    }

    /// A retained change. Without a note, its time is that of the revision before.
    async fn entry(&self, version: &KeyVersion, known: &KnownWrites<'_>, searches: &mut usize) -> Value {
        let revision = version.revision;
        let effect = match version.effect {
            VersionEffect::Created => "created",
            VersionEffect::Updated => "updated",
            VersionEffect::Deleted => "deleted",
        };
        let in_memory = known.get(&revision);
        let mut entry = json!({"revision": revision, "effect": effect, "effects": in_memory.map_or(0, |(_, count)| *count)});
        if let Some(note) = version.note.as_deref().and_then(Note::decode) {
            let time = Timestamp::from_microsecond(note.time_us).ok();
            entry["time"] = json!(time.map(|time| format!("{time:.6}")));
            set_writer(&mut entry, (&note.user, &note.agent, &note.verb), &note.causes);
        } else if let Some((write, _)) = in_memory {
            entry["time"] = json!(write.time);
            set_writer(&mut entry, (&write.user, &write.agent, &write.verb), &write.causes);
        } else if let Some(left) = searches.checked_sub(1) {
            *searches = left;
            let time = time_of(self.pipeline.cache().storage(), revision).await;
            entry["time"] = json!(time.map(|time| format!("{time:.6}")));
        }
        entry
    }
}

/// Changes of one answer, by revision.
struct Page {
    entries: Vec<(i64, Value)>,
    /// Number of older changes that are not in it.
    remaining: usize,
}

impl Page {
    /// Adds changes that are older than all retained ones, and that provenance has in memory. `known` are the writes before those.
    fn add_forgotten(&mut self, question: &Question<'_>, known: Range<'_, i64, (&TraceNode, usize)>) {
        for (revision, (write, count)) in known.rev().filter(|(_, (write, _))| write.key == question.key) {
            if self.entries.len() >= question.limit {
                self.remaining += 1;
                continue;
            }
            let effect = match write.effect {
                Effect::Created => "created",
                Effect::Updated => "updated",
                Effect::Deleted => "deleted",
            };
            let mut entry = json!({"revision": revision, "time": write.time, "effect": effect,
                "effects": count, "retained": false});
            set_writer(&mut entry, (&write.user, &write.agent, &write.verb), &write.causes);
            self.entries.push((*revision, entry));
        }
    }
}

fn set_writer(entry: &mut Value, (user, agent, verb): (&str, &str, &str), causes: &[i64]) {
    entry["user"] = json!(user);
    entry["agent"] = json!(agent);
    entry["verb"] = json!(verb);
    entry["causes"] = json!(causes);
}

/// The writes of a trace and all that followed from them.
fn known_writes(trace: &ObjectTrace) -> KnownWrites<'_> {
    let mut known = KnownWrites::new();
    for write in &trace.writes {
        add(write, &mut known, LEVELS);
    }
    known
}

/// Adds a write and those that followed from it, down to `depth`. Returns their number.
fn add<'t>(write: &'t TraceNode, known: &mut KnownWrites<'t>, depth: usize) -> usize {
    let children = if depth > 0 { &write.children[..] } else { &[] };
    let followed: usize = children.iter().map(|child| add(child, known, depth - 1)).sum();
    known.insert(write.revision, (write, followed));
    followed + 1
}
