//! Fields that an apply removes: the manager applied them before, no longer states them, and no other manager
//! owns them.

use super::managed::OwnedFields;
use super::node::{Node, ObjectType};
use super::set::FieldSet;
use super::walk;
use serde_json::Value;
use std::collections::BTreeMap;

/// Inputs for the removal of fields after an apply was merged.
pub(super) struct Pruning<'a> {
    pub(super) object: ObjectType<'a>,
    /// The version of the request and of `merged`.
    pub(super) api_version: &'a str,
    pub(super) merged: &'a Value,
    /// Fields that the manager owned before the apply.
    pub(super) last: &'a OwnedFields,
    /// Fields that the configuration states.
    pub(super) now: &'a FieldSet,
}

impl Pruning<'_> {
    /// The object without the removed fields; `None` if no field is removed.
    pub(super) fn pruned<'h>(&self, others: impl Iterator<Item = &'h OwnedFields>) -> Option<Value> {
        let last_version = self.object.version_of(&self.last.api_version, self.api_version);
        let last = self.last.fields.set();
        if last_version == self.api_version && last.difference(self.now).is_empty() {
            return None;
        }
        let (merged, object) = self.object.in_version(self.merged, last_version)?;
        let node = Node::root(object);
        let last = last.into_owned().settled(node).with_named(node);
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        owned.insert(self.api_version, self.now.clone());
        for holding in others {
            let version = self.object.version_of(&holding.api_version, self.api_version);
            owned.entry(version).or_default().extend(&holding.fields.set());
        }
        let mut pruned = walk::remove(&merged, &last, node);
        // The version of the removal comes first: conversions to other versions may need the fields it adds
        // back.
        let own = owned.remove_entry(last_version);
        for (version, owned) in own.into_iter().chain(owned) {
            let Some((merged, in_version)) = object.in_version(&merged, version) else { continue };
            let Some((left, _)) = object.in_version(&pruned, version) else { continue };
            let back = with_owned(&merged, &left, &owned, Node::root(in_version));
            pruned = in_version.in_version(&back, last_version)?.0.into_owned();
        }
        // Fields without an owner stay too, unless the manager owned them.
        let all = walk::fields(&merged, node).with_named(node);
        let gone = all.difference(&walk::fields(&pruned, node).with_named(node)).intersection(&last);
        let kept = walk::remove(&merged, &gone, node);
        Some(object.in_version(&kept, self.api_version)?.0.into_owned())
    }
}

/// `left` with all fields of the merged object that have an owner.
fn with_owned(merged: &Value, left: &Value, owned: &FieldSet, node: Node<'_>) -> Value {
    let stays = walk::fields(left, node).with_named(node).union(&owned.with_named(node));
    walk::remove(merged, &walk::fields(merged, node).with_named(node).difference(&stays), node)
}
