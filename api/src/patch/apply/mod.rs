//! Server-side apply and the books on field ownership (`metadata.managedFields`).
//!
//! [`apply`] lays an apply configuration over the live object: fields it states get its values and its manager as an
//! owner; fields the manager applied before and no longer states go, unless someone else owns them; a value that
//! another manager owns and the configuration changes is a conflict, unless forced. [`track_update`] keeps the books
//! for every other write: what changed belongs to the writer alone, what vanished belongs to nobody.
//!
//! An entry may speak another version of the kind than the request; fields are compared in the version of each entry. An
//! entry in a version that is gone goes with the next write.

mod configuration;
mod custom;
#[cfg(test)]
mod custom_tests;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod last_applied;
mod managed;
mod merge;
mod node;
mod path;
mod prune;
mod reset;
mod scale;
mod set;
#[cfg(test)]
mod tests;
mod touch;
mod typed;
mod walk;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::managed::{Fields, Holding, Managed, Owner, asks_reset};
use self::node::Node;
use self::prune::Pruning;
use self::set::FieldSet;
use self::walk::Difference;
use crate::kind::{Resource, split_api_version};
use crate::status::{Cause, Details, Reason, Status};

pub use configuration::merge_configuration;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzz::fuzz;
pub use managed::Operation;
pub use node::ObjectType;
pub use reset::{Reset, reset_fields};
pub use scale::{books_of_scale, books_of_workload};
pub use touch::{touch, touch_all};

/// Fields that nobody owns: they are the system's.
const SYSTEM_FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "metadata.clusterName",
    "metadata.creationTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.selfLink",
    "metadata.uid",
];

/// Manager of the fields that an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager of writes whose author has no name.
const UNKNOWN: &str = "unknown";

/// One write, for the books.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// Subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// apiVersion of the request.
    pub api_version: &'a str,
    /// The time, RFC 3339 with seconds.
    pub now: &'a str,
    /// Fields this endpoint does not write; see [`reset_fields`].
    pub reset: Reset,
}

impl Write<'_> {
    fn owner(&self, operation: Operation) -> Owner {
        let manager = if self.manager.is_empty() { UNKNOWN } else { self.manager };
        Owner::new(manager, operation, self.subresource, self.api_version)
    }
}

/// One field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as messages name it.
    pub owner: String,
    /// The field, e.g. `.spec.replicas`.
    pub path: String,
}

/// An apply that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 409: resolve, or force.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// 400: not a configuration of this object.
    #[error("{0}")]
    BadRequest(String),
    /// 500 without a reason: not of its type. Kubernetes gives this error no class of its own.
    #[error("{0}")]
    Unclassified(String),
}

impl ApplyError {
    /// The answer to the client whose configuration for `name` was refused.
    #[must_use]
    pub fn to_status(&self, resource: &Resource, name: &str) -> Status {
        let conflicts = match self {
            Self::BadRequest(text) => return Status::bad_request(text),
            Self::Unclassified(text) => return Status::unclassified(text),
            Self::Conflicts(conflicts) => conflicts,
        };
        let mut status = Status::conflict(resource, name, "");
        status.message = self.to_string();
        status.reason = Reason::Conflict;
        let causes = conflicts.iter().map(|conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", conflict.owner),
            field: conflict.path.clone(),
        });
        status.details = Some(Box::new(Details { causes: causes.collect(), ..Details::default() }));
        status
    }
}

/// The object after applying `config`, with its managedFields. Unchanged books and values give back `live` as it was.
///
/// `config` states apiVersion and kind; both, and the types of its members, have been checked.
///
/// # Errors
/// Conflicts, unless `force`d; or the configuration is malformed.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    write: &Write<'_>,
    force: bool,
    object: ObjectType<'_>,
) -> Result<Value, ApplyError> {
    check(config, object)?;
    let mut managed = live.map(Managed::stored).unwrap_or_default();
    let bare = live.map_or_else(|| json!({}), without_managed);
    if managed.is_empty() {
        let before = Write { manager: BEFORE_FIRST_APPLY, subresource: "", ..*write };
        update(&mut Versions::new(&json!({"metadata": {}}), &bare, &before, object), &mut managed, &before);
    }
    let attempt = Attempt { bare: &bare, config, write, object };
    let mut done = attempt.run(managed.clone(), force);
    if let Err(ApplyError::Conflicts(conflicts)) = &done
        && write.manager == last_applied::MANAGER
        && let Some(left) = last_applied::left_over(conflicts, &bare, object)
    {
        done = if left.is_empty() { attempt.run(managed, true) } else { Err(ApplyError::Conflicts(left)) };
    }
    let mut new = done?;
    if write.manager == last_applied::MANAGER {
        last_applied::refresh(&mut new, config);
    }
    Ok(new)
}

/// Whether a configuration is one of such an object.
///
/// # Errors
/// It has books of its own, or is not of its type.
pub fn check(config: &Value, object: ObjectType<'_>) -> Result<(), ApplyError> {
    if config["metadata"].get("managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let found = match object {
        ObjectType::BuiltIn(ty) => typed::check(config, ty),
        ObjectType::Custom(tree) => custom::check(config, tree),
    };
    let text = match &found[..] {
        [] => return Ok(()),
        [only] => only.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let text = format!("failed to create typed patch object ({}): {text}", identity(config));
    Err(ApplyError::Unclassified(text))
}

/// Keeps the books for a write that is no apply: `new` gets its managedFields. `live` is `None` on create.
pub fn track_update(live: Option<&Value>, new: &mut Value, write: &Write<'_>, object: ObjectType<'_>) {
    let managed = books_before(live, new, write);
    let stated =
        new.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.remove("managedFields"));
    let empty = json!({"metadata": {}});
    let mut versions = match live {
        // An object whose books were never kept, or were reset, stays so until someone applies.
        Some(_) if managed.is_empty() => return,
        Some(live) => Versions::new(live, new, write, object),
        None => Versions::new(&empty, new, write, object),
    };
    let stored = live.map(|live| &live["metadata"]["managedFields"]).filter(|books| books.is_array());
    if let Some(stored) = stored.filter(|stored| stated.is_none_or(|stated| stated == **stored))
        && versions.own().is_empty()
    {
        put_books(new, stored.clone());
        return;
    }
    let mut managed = managed;
    update(&mut versions, &mut managed, write);
    managed.store(new);
}

/// A write that changed nothing but the times of entries did not happen: `new` gets the times of `old` back. Both in the form
/// in which they are stored.
pub fn keep_times(old: &Value, new: &mut Value) {
    let [Some(before), Some(after)] =
        [&*new, old].map(|object| object["metadata"]["managedFields"].as_array())
    else {
        return;
    };
    let same =
        before.len() == after.len() && before.iter().zip(after).all(|(a, b)| timeless(a).eq(timeless(b)));
    if !same || before == after {
        return;
    }
    let books =
        std::mem::replace(&mut new["metadata"]["managedFields"], old["metadata"]["managedFields"].clone());
    if new != old {
        put_books(new, books);
    }
}

fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    entry.as_object().into_iter().flatten().filter(|(name, _)| *name != "time")
}

/// The books that a write begins with. Clients may edit those of the object itself, but only consistently.
fn books_before(live: Option<&Value>, new: &Value, write: &Write<'_>) -> Managed {
    let stored = || live.map(Managed::stored).unwrap_or_default();
    let same = live.is_some_and(|live| live["metadata"]["managedFields"] == new["metadata"]["managedFields"]);
    if !write.subresource.is_empty() || same {
        return stored();
    }
    if asks_reset(new) {
        return Managed::default();
    }
    Managed::sent(new).filter(|sent| !sent.is_empty()).unwrap_or_else(stored)
}

/// Takes the books out of an object.
pub fn drop_books(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn put_books(object: &mut Value, books: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), books);
    }
}

/// How the object changed, in every version that an entry speaks.
struct Versions<'a> {
    before: &'a Value,
    after: &'a Value,
    object: ObjectType<'a>,
    api_version: &'a str,
    reset: Reset,
    found: BTreeMap<String, Option<Compared<'a>>>,
}

/// How the object changed in one version.
struct Compared<'a> {
    difference: Difference,
    /// [`Difference::changed`], made once for all entries of the version.
    changed: FieldSet,
    object: ObjectType<'a>,
}

impl<'a> Versions<'a> {
    fn new(before: &'a Value, after: &'a Value, write: &Write<'a>, object: ObjectType<'a>) -> Self {
        let (api_version, reset) = (write.api_version, write.reset);
        Self { before, after, object, api_version, reset, found: BTreeMap::new() }
    }

    /// In the version of the request.
    fn own(&mut self) -> &Difference {
        &self.of(self.api_version).expect("an object is of its own version").difference
    }

    /// In that version; `None` if the kind has no such version.
    fn of(&mut self, api_version: &str) -> Option<&Compared<'a>> {
        let api_version = self.object.version_of(api_version, self.api_version);
        if !self.found.contains_key(api_version) {
            let found = self.compared(api_version).map(|(difference, object)| {
                let difference = difference.filtered(|set| self.reset.filter(set));
                Compared { changed: difference.changed(), difference, object }
            });
            self.found.insert(api_version.to_owned(), found);
        }
        self.found[api_version].as_ref()
    }

    fn compared(&self, api_version: &str) -> Option<(Difference, ObjectType<'a>)> {
        if api_version == self.api_version {
            return Some((walk::compare(self.before, self.after, Node::root(self.object)), self.object));
        }
        let (before, object) = self.object.in_version(self.before, api_version)?;
        let (after, _) = self.object.in_version(self.after, api_version)?;
        Some((walk::compare(&before, &after, Node::root(object)), object))
    }
}

/// One try to apply.
struct Attempt<'a> {
    bare: &'a Value,
    config: &'a Value,
    write: &'a Write<'a>,
    object: ObjectType<'a>,
}

impl Attempt<'_> {
    fn run(&self, mut managed: Managed, force: bool) -> Result<Value, ApplyError> {
        let Self { bare, config, write, object } = *self;
        let node = Node::root(object);
        let owner = write.owner(Operation::Apply);
        let last = managed.0.remove(&owner);
        let fields = write.reset.filter(walk::fields(config, node));
        let mut new = merge::merge(bare, config, node);
        if let Some(last) = &last {
            let pruning =
                Pruning { object, api_version: write.api_version, merged: &new, last, now: &fields };
            if let Some(mut pruned) = pruning.pruned(managed.0.values()) {
                merge::restore(&mut pruned, config, node);
                new = pruned;
            }
        }
        settle(&mut Versions::new(bare, &new, write, object), &mut managed, force)?;
        // An apply that only shares what is there is no change of it, and has no time.
        let time =
            if new == *bare { last.map(|last| last.time).unwrap_or_default() } else { write.now.to_owned() };
        let fields = fields.difference(&FieldSet::of_names(SYSTEM_FIELDS));
        if !fields.is_empty() {
            let api_version = write.api_version.to_owned();
            managed.0.insert(owner, Holding { fields: Fields::Set(fields), api_version, time });
        }
        managed.store(&mut new);
        Ok(new)
    }
}

/// Takes changed fields from their other owners, or says whose they are.
fn settle(versions: &mut Versions<'_>, managed: &mut Managed, force: bool) -> Result<(), ApplyError> {
    managed.0.retain(|_, holding| versions.of(&holding.api_version).is_some());
    if !force {
        let mut conflicts = Vec::new();
        for (owner, holding) in &managed.0 {
            let Some(compared) = versions.of(&holding.api_version) else { continue };
            let paths = holding.conflicts(&compared.changed, Node::root(compared.object)).paths();
            conflicts.extend(paths.into_iter().map(|path| Conflict { owner: owner.to_string(), path }));
        }
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
    }
    for holding in managed.0.values_mut() {
        if let Some(compared) = versions.of(&holding.api_version) {
            holding.lose(&compared.difference, Node::root(compared.object));
        }
    }
    managed.settle();
    Ok(())
}

/// Books a change that has been made.
fn update(versions: &mut Versions<'_>, managed: &mut Managed, write: &Write<'_>) {
    // What is forced meets no conflict.
    settle(versions, managed, true).ok();
    let changed = versions.own().changed().difference(&FieldSet::of_names(SYSTEM_FIELDS));
    if !changed.is_empty() {
        let owner = write.owner(Operation::Update);
        let mut fields = changed;
        if let Some(previous) = managed.0.remove(&owner) {
            fields.extend(&previous.fields.set());
        }
        let (api_version, time) = (write.api_version.to_owned(), write.now.to_owned());
        managed.0.insert(owner, Holding { fields: Fields::Set(fields), api_version, time });
    }
    managed.cap();
}

/// A configuration as messages name it: `default/web; apps/v1, Kind=Deployment`.
fn identity(config: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &config["metadata"];
    let (api_version, kind) = (text(&config["apiVersion"]), text(&config["kind"]));
    let (group, version) = split_api_version(&api_version);
    format!("{}/{}; {group}/{version}, Kind={kind}", text(&metadata["namespace"]), text(&metadata["name"]))
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.owner, only.path);
    }
    let mut lines = Vec::new();
    let mut owner = None;
    for conflict in conflicts {
        if owner != Some(&conflict.owner) {
            lines.push(format!("conflicts with {}:", conflict.owner));
            owner = Some(&conflict.owner);
        }
        lines.push(format!("- {}", conflict.path));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

fn without_managed(object: &Value) -> Value {
    let strip = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (
                name.clone(),
                kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into(),
            )
        }
        value => (name.clone(), value.clone()),
    };
    object.as_object().map_or_else(|| object.clone(), |map| Value::Object(map.iter().map(strip).collect()))
}
