//! Owner references of new and changed objects.

use crate::distinct::Distinct;
use crate::meta;
use crate::object::text;
use serde_json::Value;

/// Removes owner references that repeat an earlier one; returns the uids of the removed ones.
pub fn drop_same_owners(object: &mut Value) -> Vec<String> {
    let (mut kept, mut dropped, mut seen) = (Vec::new(), Vec::new(), Distinct::default());
    if meta::owner_references(object).len() < 2 {
        return dropped;
    }
    for owner in meta::owner_references(object) {
        if seen.insert(owner) {
            kept.push(owner.clone());
        } else {
            dropped.push(text(&owner["uid"]).to_owned());
        }
    }
    if !dropped.is_empty() {
        meta::metadata_mut(object).insert("ownerReferences".to_owned(), Value::Array(kept));
    }
    dropped
}
