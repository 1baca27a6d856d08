//! Server-side apply and field ownership (`metadata.managedFields`).
//!
//! [`apply`] merges an apply configuration into the live object. Fields of the configuration get its values,
//! and its manager becomes an owner. Fields that the manager applied before and no longer states are removed,
//! unless another manager owns them. A changed value that another manager owns is a conflict, unless the
//! apply is forced. [`track_update`] updates the managed fields for every other write: the writer becomes the
//! only owner of changed fields, and removed fields lose all owners.
//!
//! An entry may have another version of the kind than the request; fields are compared in the version of each
//! entry. The next write drops entries of versions that no longer exist.

mod configuration;
mod creation;
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
#[cfg(test)]
mod text_tests;
mod touch;
mod typed;
mod walk;

use self::managed::{EntryFields, ManagedFields, OwnedFields, Owner, requests_reset};
use self::node::Node;
use self::prune::Pruning;
use self::set::FieldSet;
use self::walk::Difference;
use crate::group_version::split_api_version;
use crate::resource::{Reset, Resource};
use crate::status::{Cause, Details, Reason, Status};
pub use configuration::merge_configuration;
pub use creation::{created_fields, shape_of, states_no_managed_fields, track_creation};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzz::fuzz;
pub use managed::Operation;
pub use node::ObjectType;
pub use reset::reset_fields;
pub use scale::{REPLICAS, ReplicasPath, managed_fields_of_scale, managed_fields_of_workload};
use serde_json::{Map, Value, json};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
pub use touch::{touch, touch_all};

/// Fields that are recorded under no manager, since the system sets them.
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

fn system_fields() -> &'static FieldSet {
    static SET: OnceLock<FieldSet> = OnceLock::new();
    SET.get_or_init(|| FieldSet::of_names(SYSTEM_FIELDS))
}

/// Manager of the fields that an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Manager of writes without a field manager.
const UNKNOWN: &str = "unknown";

/// Field manager, endpoint and time of one write, as managed fields record them.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// Subresource written; empty for the object itself.
    pub subresource: &'a str,
    /// apiVersion of the request.
    pub api_version: &'a str,
    /// Time of the write, RFC 3339 with seconds.
    pub now: &'a str,
    /// Fields that this endpoint does not write; see [`reset_fields`].
    pub reset: Reset,
}

impl Write<'_> {
    fn owner(&self, operation: Operation) -> Owner {
        let manager = if self.manager.is_empty() { UNKNOWN } else { self.manager };
        Owner::new(manager, operation, self.subresource, self.api_version)
    }
}

/// Conflict: a field that the apply changes and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Owner in the form of conflict messages.
    pub owner: String,
    /// Path of the field, e.g. `.spec.replicas`.
    pub path: String,
}

/// Error of a server-side apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 409: the client must resolve the conflicts, or force.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// 400: the configuration has managed fields of its own.
    #[error("{0}")]
    BadRequest(String),
    /// 500 without a reason: the configuration is not of its type. Kubernetes gives this error no class of
    /// its own.
    #[error("{0}")]
    Unclassified(String),
}

impl ApplyError {
    /// Status for the client whose configuration for the object `name` was refused.
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

/// Applies `config` to `live` and returns the object with its managedFields. If neither values nor ownership
/// change, the result equals `live`.
///
/// `config` states apiVersion and kind, and both match `object`.
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
    let mut managed = live.map(ManagedFields::stored).unwrap_or_default();
    let bare = live.map_or_else(|| json!({}), without_managed);
    if managed.is_empty() {
        let before = Write { manager: BEFORE_FIRST_APPLY, subresource: "", ..*write };
        update(
            VersionDifferences::new(&json!({"metadata": {}}), &bare, &before, object),
            &mut managed,
            &before,
        );
    }
    let attempt = ApplyAttempt { bare: &bare, config, write, object };
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

/// Checks that a configuration is of the object's type.
///
/// # Errors
/// The configuration has managedFields, or is not of its type.
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

/// Sets the managedFields of `new` for a write other than apply. `live` is `None` on create.
pub fn track_update(live: Option<&Value>, new: &mut Value, write: &Write<'_>, object: ObjectType<'_>) {
    let stored = live.map(|live| &live["metadata"]["managedFields"]);
    let is_same = stored.is_some_and(|stored| *stored == new["metadata"]["managedFields"]);
    let sent = if is_same { None } else { sent_managed_fields(new, write) };
    let stated =
        new.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.remove("managedFields"));
    let is_managed = match &sent {
        Some(sent) => !sent.is_empty(),
        None => live.is_some_and(ManagedFields::are_stored_in),
    };
    let empty = json!({"metadata": {}});
    let mut versions = match live {
        // An object without managed fields stays so until its first apply.
        Some(_) if !is_managed => return,
        Some(live) => VersionDifferences::new(live, new, write, object),
        None => VersionDifferences::new(&empty, new, write, object),
    };
    if let Some(stored @ Value::Array(_)) = stored
        && (is_same || stated.is_none())
        && versions.own().is_empty()
    {
        set_managed_fields(new, stated.unwrap_or_else(|| stored.clone()));
        return;
    }
    let mut managed = match (sent, stated) {
        (Some(sent), _) => sent,
        (None, Some(Value::Array(entries))) if is_same => ManagedFields::of(entries),
        (None, _) => live.map(ManagedFields::stored).unwrap_or_default(),
    };
    update(versions, &mut managed, write);
    managed.store(new);
}

/// Restores the times of managed-fields entries in `new` if the write changed nothing but times, so that the
/// write becomes a no-op. Both objects are in their stored form.
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
    let managed_fields =
        std::mem::replace(&mut new["metadata"]["managedFields"], old["metadata"]["managedFields"].clone());
    if new != old {
        set_managed_fields(new, managed_fields);
    }
}

fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    entry.as_object().into_iter().flatten().filter(|(name, _)| *name != "time")
}

/// Managed fields that a write states, if they count: a write to the object itself may edit them if all entries
/// can be decoded. `None`: the stored ones count.
fn sent_managed_fields(new: &Value, write: &Write<'_>) -> Option<ManagedFields> {
    if !write.subresource.is_empty() {
        return None;
    }
    if requests_reset(new) {
        return Some(ManagedFields::default());
    }
    ManagedFields::sent(new).filter(|sent| !sent.is_empty())
}

/// Removes `metadata.managedFields` from an object.
pub fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn set_managed_fields(object: &mut Value, managed_fields: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), managed_fields);
    }
}

/// Differences of the object in every version that an entry has, computed on demand.
struct VersionDifferences<'a> {
    before: &'a Value,
    after: &'a Value,
    object: ObjectType<'a>,
    api_version: &'a str,
    reset: Reset,
    found: BTreeMap<String, Option<VersionDifference<'a>>>,
}

/// Difference of the object in one version.
struct VersionDifference<'a> {
    difference: Difference,
    /// [`Difference::changed`], computed once for all entries of the version.
    changed: OnceCell<FieldSet>,
    object: ObjectType<'a>,
}

impl VersionDifference<'_> {
    fn changed(&self) -> &FieldSet {
        self.changed.get_or_init(|| self.difference.changed())
    }
}

impl<'a> VersionDifferences<'a> {
    fn new(before: &'a Value, after: &'a Value, write: &Write<'a>, object: ObjectType<'a>) -> Self {
        let (api_version, reset) = (write.api_version, write.reset);
        Self { before, after, object, api_version, reset, found: BTreeMap::new() }
    }

    /// The difference in the version of the request.
    fn own(&mut self) -> &Difference {
        &self.of(self.api_version).expect("an object is of its own version").difference
    }

    /// The difference in the version of the request, by value.
    fn into_own(mut self) -> Difference {
        self.own();
        let own = self.found.remove(self.api_version).flatten();
        own.expect("an object is of its own version").difference
    }

    /// The difference in this version; `None` if the kind has no such version.
    fn of(&mut self, api_version: &str) -> Option<&VersionDifference<'a>> {
        let api_version = self.object.version_of(api_version, self.api_version);
        if !self.found.contains_key(api_version) {
            let found = self.compared(api_version).map(|(difference, object)| {
                let difference = difference.filtered(|set| self.reset.filter(set));
                VersionDifference { difference, changed: OnceCell::new(), object }
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

/// Inputs of an apply, which may run twice: without and with force.
struct ApplyAttempt<'a> {
    bare: &'a Value,
    config: &'a Value,
    write: &'a Write<'a>,
    object: ObjectType<'a>,
}

impl ApplyAttempt<'_> {
    fn run(&self, mut managed: ManagedFields, force: bool) -> Result<Value, ApplyError> {
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
        settle(&mut VersionDifferences::new(bare, &new, write, object), &mut managed, force)?;
        // An apply that only adds an owner does not change the object, so it has no new time.
        let time =
            if new == *bare { last.map(|last| last.time).unwrap_or_default() } else { write.now.to_owned() };
        let fields = fields.difference(system_fields());
        if !fields.is_empty() {
            let api_version = write.api_version.to_owned();
            managed.0.insert(owner, OwnedFields { fields: EntryFields::Set(fields), api_version, time });
        }
        managed.store(&mut new);
        Ok(new)
    }
}

/// Removes changed fields from their other owners. Without `force`, such fields are conflicts.
///
/// # Errors
/// [`ApplyError::Conflicts`], unless `force`.
fn settle(
    versions: &mut VersionDifferences<'_>,
    managed: &mut ManagedFields,
    force: bool,
) -> Result<(), ApplyError> {
    managed.0.retain(|_, holding| versions.of(&holding.api_version).is_some());
    if !force {
        let mut conflicts = Vec::new();
        for (owner, holding) in &managed.0 {
            let Some(compared) = versions.of(&holding.api_version) else { continue };
            let paths = holding.conflicts(compared.changed(), Node::root(compared.object)).paths();
            conflicts.extend(paths.into_iter().map(|path| Conflict { owner: owner.to_string(), path }));
        }
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
    }
    for holding in managed.0.values_mut() {
        if let Some(compared) = versions.of(&holding.api_version) {
            holding.remove_changed(&compared.difference, Node::root(compared.object));
        }
    }
    managed.settle();
    Ok(())
}

/// Records an update in the managed fields.
fn update(mut versions: VersionDifferences<'_>, managed: &mut ManagedFields, write: &Write<'_>) {
    // A forced change has no conflicts.
    settle(&mut versions, managed, true).ok();
    let Difference { added: mut fields, modified, .. } = versions.into_own();
    fields.append(modified);
    fields.subtract(system_fields());
    if !fields.is_empty() {
        let owner = write.owner(Operation::Update);
        if let Some(previous) = managed.0.remove(&owner) {
            fields.append(previous.fields.into_set());
        }
        let (api_version, time) = (write.api_version.to_owned(), write.now.to_owned());
        managed.0.insert(owner, OwnedFields { fields: EntryFields::Set(fields), api_version, time });
    }
    managed.cap();
}

/// Identifies a configuration in messages: `default/web; apps/v1, Kind=Deployment`.
#[must_use]
pub fn identity(config: &Value) -> String {
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
