//! What an apply removes: fields that the manager applied before, does not state now, and nobody else owns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::managed::Holding;
use super::node::{Node, ObjectType};
use super::set::FieldSet;
use super::walk;

/// An apply whose configuration is laid over the object already.
pub(super) struct Pruning<'a> {
    pub(super) object: ObjectType<'a>,
    /// The version of the request, which is that of `merged`.
    pub(super) api_version: &'a str,
    pub(super) merged: &'a Value,
    /// What the manager held before.
    pub(super) last: &'a Holding,
    /// What its configuration states.
    pub(super) now: &'a FieldSet,
}

impl Pruning<'_> {
    /// The object without what is to go; `None` if that is nothing.
    pub(super) fn pruned<'h>(&self, others: impl Iterator<Item = &'h Holding>) -> Option<Value> {
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
        let mut pruned = without(&merged, &last, node);
        // First in the version in which something was taken away: what a conversion needs must be back by then.
        let own = owned.remove_entry(last_version);
        for (version, owned) in own.into_iter().chain(owned) {
            let Some((merged, in_version)) = object.in_version(&merged, version) else { continue };
            let Some((left, _)) = object.in_version(&pruned, version) else { continue };
            let back = with_owned(&merged, &left, &owned, Node::root(in_version));
            pruned = in_version.in_version(&back, last_version)?.0.into_owned();
        }
        // What nobody owns is not the manager's to remove either, unless it held it.
        let all = walk::fields(&merged, node).with_named(node);
        let gone = all.difference(&walk::fields(&pruned, node).with_named(node)).intersection(&last);
        let kept = without(&merged, &gone, node);
        Some(object.in_version(&kept, self.api_version)?.0.into_owned())
    }
}

/// What is left, with everything from the merged object that has an owner.
fn with_owned(merged: &Value, left: &Value, owned: &FieldSet, node: Node<'_>) -> Value {
    let stays = walk::fields(left, node).with_named(node).union(&owned.with_named(node));
    without(merged, &walk::fields(merged, node).with_named(node).difference(&stays), node)
}

fn without(object: &Value, gone: &FieldSet, node: Node<'_>) -> Value {
    walk::remove(object, gone, node).unwrap_or_else(|| json!({}))
}
