//! A shortcut of [`track_update`](super::track_update) for a write that gives one scalar another value: its manager owned the field
//! before, so only the time of the manager's entry moves. Whatever could move ownership takes the long way.

use serde_json::Value;

use super::Write;

/// Records that `write` gave the scalar at `path`, a path of maps only, another value. True if `object` now has the managed fields
/// that [`track_update`](super::track_update) would have made; false, and nothing is changed, if that has to make them: the entries
/// have other versions or shapes, another entry owns fields of the same top-level member, or the writer does not own this one yet.
///
/// `object` has the entries that are stored, and all of them were made by this module's parent.
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
    // Entries are in the order of their times.
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    true
}

/// Does what [`touch`] does for several scalars at once, if the writer owns all of them and no other entry does. Other entries may own
/// other fields of the same member.
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

/// As [`Managed::entries`](super::managed::Managed::entries) orders them.
fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
}

fn text<'e>(entry: &'e Value, name: &str) -> &'e str {
    entry[name].as_str().unwrap_or_default()
}
