//! Server-side apply and the books on field ownership (`metadata.managedFields`).
//!
//! [`apply`] lays an apply configuration over the live object: fields it states get its values and its manager as an
//! owner; fields the manager applied before and no longer states go, unless someone else owns them; a value that
//! another manager owns and the configuration changes is a conflict, unless forced. [`track_update`] keeps the books
//! for every other write: what changed belongs to the writer alone, what vanished belongs to nobody.
//!
//! Versions of one kind are taken to name their fields alike; there is no conversion between them.

mod managed;
mod merge;
mod node;
mod set;
#[cfg(test)]
mod tests;
mod walk;

use serde_json::{Value, json};

use self::managed::{Holding, Managed, Owner, asks_reset};
use self::node::Node;
use self::set::FieldSet;
use crate::kind::Resource;
use crate::schema::fill;
use crate::status::{Cause, Details, Reason, Status};

pub use managed::Operation;
pub use node::ObjectType;

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

/// Annotation of client-side kubectl apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Manager of the fields that an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

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
    /// Fields this endpoint does not write, as dotted paths; see [`reset_fields`].
    pub reset: &'a [&'a str],
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
}

impl ApplyError {
    /// The answer to the client whose configuration for `name` was refused.
    #[must_use]
    pub fn to_status(&self, resource: &Resource, name: &str) -> Status {
        let conflicts = match self {
            Self::BadRequest(text) => return Status::bad_request(text),
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

/// Fields which an endpoint of a kind never writes, for [`Write::reset`].
#[must_use]
pub fn reset_fields(resource: &Resource, subresource: &str) -> &'static [&'static str] {
    match (subresource, resource.kind) {
        ("", _) if resource.has_status() => &["status"],
        ("status", "Deployment") => &["spec", "metadata.labels"],
        ("status", "Pod") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ("status", _) => &["spec"],
        _ => &[],
    }
}

/// The object after applying `config`, with its managedFields. Unchanged books and values give back `live` as it was.
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
    let node = Node::root(object);
    if config["metadata"].get("managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    merge::check(config, node, "")
        .map_err(|text| ApplyError::BadRequest(format!("failed to create typed patch object: {text}")))?;
    let mut managed = live.and_then(Managed::of).unwrap_or_default();
    let bare = live.map_or_else(|| json!({}), without_managed);
    if managed.is_empty() {
        let before = Write { manager: BEFORE_FIRST_APPLY, subresource: "", ..*write };
        update(&empty(object), &bare, &mut managed, &before, node);
    }
    let attempt = Attempt { bare: &bare, config, write, node };
    match attempt.run(managed.clone(), force) {
        Err(ApplyError::Conflicts(conflicts)) if write.manager == "kubectl" => {
            let allowed = client_side_fields(&bare, node);
            let left: Vec<Conflict> = conflicts.into_iter().filter(|c| !allowed.contains(&c.path)).collect();
            if left.is_empty() { attempt.run(managed, true) } else { Err(ApplyError::Conflicts(left)) }
        }
        done => done,
    }
}

/// Keeps the books for a write that is no apply: `new` gets its managedFields. `live` is `None` on create.
pub fn track_update(live: Option<&Value>, new: &mut Value, write: &Write<'_>, object: ObjectType<'_>) {
    let node = Node::root(object);
    let stored = || live.and_then(Managed::of).unwrap_or_default();
    // Clients may edit the books of the object itself, but only keep or forget them consistently.
    let mut managed = match Managed::of(new) {
        _ if !write.subresource.is_empty() => stored(),
        _ if asks_reset(new) => Managed::default(),
        Some(theirs) if !theirs.is_empty() => theirs,
        Some(_) | None => stored(),
    };
    let after = without_managed(new);
    match live {
        Some(live) if !managed.is_empty() => {
            update(&filled(live, object), &filled(&after, object), &mut managed, write, node);
        }
        // An object whose books were never kept, or were reset, stays so until someone applies.
        Some(_) => {}
        None => update(&empty(object), &filled(&after, object), &mut managed, write, node),
    }
    *new = after;
    managed.store(new);
}

/// One try to apply.
struct Attempt<'a> {
    bare: &'a Value,
    config: &'a Value,
    write: &'a Write<'a>,
    node: Node<'a>,
}

impl Attempt<'_> {
    fn run(&self, mut managed: Managed, force: bool) -> Result<Value, ApplyError> {
        let Self { bare, config, write, node } = *self;
        let reset = FieldSet::of_names(write.reset);
        let owner = Owner::new(write.manager, Operation::Apply, write.subresource, write.api_version);
        let last = managed.0.remove(&owner);
        let fields = walk::fields(config, node).without(&reset);
        let holding = |time: &str| Holding {
            fields: fields.difference(&FieldSet::of_names(SYSTEM_FIELDS)),
            api_version: write.api_version.to_owned(),
            time: time.to_owned(),
        };
        let merged = merge::merge(bare, config, node);
        let mut new = match &last {
            Some(last) => prune(&merged, &last.fields, &fields, &managed, node),
            None => merged,
        };
        settle(bare, &new, &mut managed, &reset, force, node)?;
        let changed = new != *bare;
        let time = match &last {
            Some(last) if !changed && last.fields == holding("").fields => last.time.as_str(),
            _ => write.now,
        };
        managed.0.insert(owner, holding(time));
        managed.store(&mut new);
        Ok(new)
    }
}

/// Removes what the manager applied before, does not state now, and nobody else owns.
fn prune(merged: &Value, last: &FieldSet, now: &FieldSet, others: &Managed, node: Node<'_>) -> Value {
    let named = |set: &FieldSet| walk::with_named(set, node);
    let remove = |gone: &FieldSet| walk::remove(merged, gone, node).unwrap_or_else(|| json!({}));
    let last = named(last);
    let all = named(&walk::fields(merged, node));
    let without_last = named(&walk::fields(&remove(&last), node));
    let mut owned = now.clone();
    for holding in others.0.values() {
        owned.extend(&holding.fields);
    }
    let unowned = all.difference(&without_last.union(&named(&owned)));
    let pruned = named(&walk::fields(&remove(&unowned), node));
    remove(&all.difference(&pruned).intersection(&last))
}

/// Takes changed fields from their other owners, or says whose they are.
fn settle(
    before: &Value,
    after: &Value,
    managed: &mut Managed,
    reset: &FieldSet,
    force: bool,
    node: Node<'_>,
) -> Result<walk::Difference, ApplyError> {
    let difference = walk::compare(before, after, node).without(reset);
    let changed = difference.changed();
    if !force {
        let conflicts: Vec<Conflict> = managed
            .0
            .iter()
            .flat_map(|(owner, holding)| {
                let paths = holding.fields.intersection(&changed).paths();
                paths.into_iter().map(|path| Conflict { owner: owner.to_string(), path })
            })
            .collect();
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
    }
    for holding in managed.0.values_mut() {
        holding.fields = holding.fields.difference(&changed).difference(&difference.removed);
    }
    managed.0.retain(|_, holding| !holding.fields.is_empty());
    Ok(difference)
}

fn update(before: &Value, after: &Value, managed: &mut Managed, write: &Write<'_>, node: Node<'_>) {
    let owner = Owner::new(write.manager, Operation::Update, write.subresource, write.api_version);
    let reset = FieldSet::of_names(write.reset);
    let previous = managed.0.remove(&owner);
    let Ok(difference) = settle(before, after, managed, &reset, true, node) else {
        return; // Forced settlement has no conflicts.
    };
    let system = FieldSet::of_names(SYSTEM_FIELDS);
    let changed = difference.changed().difference(&system);
    let kept = previous.as_ref().map(|p| p.fields.difference(&difference.removed)).unwrap_or_default();
    let time = match &previous {
        Some(previous) if changed.is_empty() => previous.time.clone(),
        _ => write.now.to_owned(),
    };
    let fields = kept.union(&changed);
    if !fields.is_empty() {
        managed.0.insert(owner, Holding { fields, api_version: write.api_version.to_owned(), time });
    }
    managed.cap();
}

/// Fields which client-side kubectl apply set last and which still have that value: kubectl may take them over.
fn client_side_fields(live: &Value, node: Node<'_>) -> Vec<String> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
    let Ok(last @ Value::Object(_)) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let difference = walk::compare(live, &last, node);
    let changed = difference.changed().union(&difference.removed);
    walk::fields(&last, node).difference(&changed).paths()
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
    let mut out = object.clone();
    if let Some(metadata) = out.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    out
}

/// The object as Kubernetes prints it: members that are always there have no adder.
fn filled(object: &Value, ty: ObjectType<'_>) -> Value {
    let mut out = object.clone();
    if let ObjectType::BuiltIn(ty) = ty {
        fill::fill(&mut out, ty);
    }
    out
}

fn empty(ty: ObjectType<'_>) -> Value {
    filled(&json!({"metadata": {}}), ty)
}
