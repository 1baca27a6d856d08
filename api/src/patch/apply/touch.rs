//! Fast path of [`track_update`](super::track_update) for a write that changes one scalar whose manager
//! already owns it: only the time of the manager's entry changes. All other writes need the full comparison.

use super::Write;
use serde_json::Value;

/// Updates the managed fields for a write that changed the scalar at `path`, a path of maps only. True if
/// `object` now has the managed fields that [`track_update`](super::track_update) would have produced.
///
/// False, without a change, if that cannot be said: entries have other versions or shapes, another entry owns
/// fields of the same top-level member, or the writer does not own this field yet. `object` must have its
/// stored entries, all made by this crate.
pub fn touch(object: &mut Value, write: &Write<'_>, path: &[&str]) -> bool {
    let entries = match object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")) {
        // An object without managed fields stays so until its first apply.
        None => return true,
        Some(Value::Array(entries)) => entries,
        Some(_) => return false,
    };
    let manager = if write.manager.is_empty() { super::UNKNOWN } else { write.manager };
    let [head, ..] = path else { return false };
    let mut own = None;
    for (at, entry) in entries.iter().enumerate() {
        let fields = &entry["fieldsV1"];
        if text(entry, "fieldsType") != "FieldsV1"
            || text(entry, "apiVersion") != write.api_version
            || fields.as_object().is_none_or(serde_json::Map::is_empty)
        {
            return false;
        }
        let is_own = text(entry, "operation") == "Update"
            && text(entry, "manager") == manager
            && text(entry, "subresource") == write.subresource;
        if is_own && owns(fields, path) {
            own = Some(at);
        } else if is_own || member(fields, head).is_some() {
            return false;
        }
    }
    let Some(own) = own else { return false };
    entries[own]["time"] = Value::from(write.now);
    // Entries are sorted by time.
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    true
}

/// Updates the managed fields for a write that changed several scalars, like [`touch`]. The writer must be
/// the only owner of all of them; other entries may own other fields of the same member.
pub fn touch_all(object: &mut Value, write: &Write<'_>, paths: &[[&str; 3]]) -> bool {
    let entries = match object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")) {
        None => return true,
        Some(Value::Array(entries)) => entries,
        Some(_) => return false,
    };
    let mut own = None;
    for (at, entry) in entries.iter().enumerate() {
        let fields = &entry["fieldsV1"];
        if text(entry, "fieldsType") != "FieldsV1" || text(entry, "apiVersion") != write.api_version {
            return false;
        }
        let is_own = text(entry, "operation") == "Update"
            && text(entry, "manager") == write.manager
            && text(entry, "subresource") == write.subresource;
        if is_own && paths.iter().all(|path| owns(fields, path)) {
            own = Some(at);
        } else if is_own || paths.iter().any(|path| owns(fields, path)) {
            return false;
        }
    }
    let Some(own) = own else { return false };
    entries[own]["time"] = Value::from(write.now);
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    true
}

fn owns(fields: &Value, path: &[&str]) -> bool {
    path.iter().try_fold(fields, |fields, name| member(fields, name)).is_some()
}

fn member<'f>(fields: &'f Value, name: &str) -> Option<&'f Value> {
    fields.as_object()?.get(&format!("f:{name}"))
}

/// Sort key of an entry, in the order of [`ManagedFields::entries`](super::managed::ManagedFields::entries).
fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
}

fn text<'e>(entry: &'e Value, name: &str) -> &'e str {
    entry[name].as_str().unwrap_or_default()
}
