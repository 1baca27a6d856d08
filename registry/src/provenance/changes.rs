//! What a write changed in an object, in a few words for people: `replicas 3→2`, `Ready=True`, `nodeName=node-3`, "marked for
//! deletion". The server makes the words from two states in the history when a client asks for them, so that a write costs nothing more.

use super::record::Effect;
use super::tree::{ObjectTrace, TraceNode};
use kstore_storage::limits;
use kstore_storage::storage::SharedStorage;
use kstore_storage::storage_key::KeyPlace;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Changes that a line names; it says how many more there are.
const MOST: usize = 6;
/// Characters of a value or of a name.
const WIDTH: usize = 40;
/// Depth of members that are compared one by one. Deeper ones are named by the member above them.
const DEPTH: usize = 8;
/// Writes between two yields to other tasks.
const YIELD: usize = 16;

/// Adds to up to `limit` writes of a trace what they changed: those whose two states are still in the history.
pub async fn add(trace: &mut ObjectTrace, storage: &SharedStorage, limit: usize) {
    let mut wanted = Vec::new();
    for nodes in [&trace.ancestors, &trace.writes] {
        updates(nodes, &mut wanted, limit);
    }
    let (mut found, mut bytes) = (BTreeMap::new(), 0);
    for (at, (revision, key)) in wanted.into_iter().enumerate() {
        if at % YIELD == YIELD - 1 {
            tokio::task::yield_now().await;
        }
        let Some((old, new)) = states(storage, &key, revision, &mut bytes).await else { continue };
        let object_key = KeyPlace::of(&key);
        let is_secret = object_key.is_some_and(|object_key| object_key.is("", "secrets"));
        found.insert((revision, key), between(&old, &new, is_secret));
        if bytes > limits::TRACE_CHANGE_BYTES {
            break;
        }
    }
    for nodes in [&mut trace.ancestors, &mut trace.writes] {
        set(nodes, &found);
    }
}

/// The updates of a tree, in its order. The tree is at most [`limits::TRACE_DEPTH`] deep.
fn updates(nodes: &[TraceNode], found: &mut Vec<(i64, String)>, limit: usize) {
    for node in nodes {
        if found.len() >= limit {
            return;
        }
        if node.effect == Effect::Updated {
            found.push((node.revision, node.key.clone()));
        }
        updates(&node.children, found, limit);
    }
}

fn set(nodes: &mut [TraceNode], found: &BTreeMap<(i64, String), Vec<String>>) {
    for node in nodes {
        if let Some(changes) = found.get(&(node.revision, node.key.clone())) {
            node.changes = changes.clone();
        }
        set(&mut node.children, found);
    }
}

/// The states of an object before and after a revision. `None` if one is no longer in the history, or is no JSON.
async fn states(
    storage: &SharedStorage,
    key: &str,
    revision: i64,
    bytes: &mut usize,
) -> Option<(Value, Value)> {
    let mut read = async |at: i64| {
        let raw = storage.get(key, at).await.ok()??;
        *bytes += raw.value.len();
        raw.undecrypted.is_none().then(|| serde_json::from_slice(&raw.value).ok())?
    };
    Some((read(revision - 1).await?, read(revision).await?))
}

/// What differs between two states of an object. With `hides_values` it has names only.
fn between(old: &Value, new: &Value, hides_values: bool) -> Vec<String> {
    let mut list = ChangeList { hides_values, found: Vec::new(), more: 0 };
    let (before, after) = (&old["metadata"], &new["metadata"]);
    if before["deletionTimestamp"].is_null() && !after["deletionTimestamp"].is_null() {
        list.push("marked for deletion".to_owned());
    }
    list.finalizers(&before["finalizers"], &after["finalizers"]);
    list.pairs("label", &before["labels"], &after["labels"]);
    list.pairs("annotation", &before["annotations"], &after["annotations"]);
    if before["ownerReferences"] != after["ownerReferences"] {
        list.push("ownerReferences changed".to_owned());
    }
    // Their members need no `spec.` and `status.`: the line says which subresource was written.
    for part in ["spec", "status"] {
        let (old, new) = (&old[part], &new[part]);
        let path = if old.is_object() || new.is_object() { "" } else { part };
        list.compare(path, old, new, DEPTH);
    }
    for name in names(old.as_object(), new.as_object()) {
        if !["apiVersion", "kind", "metadata", "spec", "status"].contains(&name) {
            list.compare(name, &old[name], &new[name], DEPTH);
        }
    }
    if list.more > 0 {
        list.found.push(format!("… and {} more", list.more));
    }
    list.found
}

/// The names of the members of two objects, sorted.
fn names<'v>(old: Option<&'v Map<String, Value>>, new: Option<&'v Map<String, Value>>) -> BTreeSet<&'v str> {
    old.into_iter().chain(new).flat_map(|members| members.keys().map(String::as_str)).collect()
}

/// The changes so far.
struct ChangeList {
    hides_values: bool,
    found: Vec<String>,
    /// Number of changes beyond [`MOST`].
    more: usize,
}

impl ChangeList {
    fn push(&mut self, change: String) {
        match self.found.len() < MOST {
            true => self.found.push(change),
            false => self.more += 1,
        }
    }

    fn finalizers(&mut self, old: &Value, new: &Value) {
        let of = |value: &Value| -> BTreeSet<String> {
            value.as_array().into_iter().flatten().map(shown).collect()
        };
        let (old, new) = (of(old), of(new));
        new.difference(&old).for_each(|added| self.push(format!("finalizer +{added}")));
        old.difference(&new).for_each(|removed| self.push(format!("finalizer -{removed}")));
    }

    /// Labels or annotations.
    fn pairs(&mut self, kind: &str, old: &Value, new: &Value) {
        for name in names(old.as_object(), new.as_object()) {
            // The whole object once more.
            if old[name] != new[name] && name != "kubectl.kubernetes.io/last-applied-configuration" {
                let shown_name = short(name);
                self.push(match (&new[name], self.hides_values) {
                    (Value::Null, _) => format!("{kind} -{shown_name}"),
                    (_, true) => format!("{kind} {shown_name} changed"),
                    (value, false) => format!("{kind} {shown_name}={}", shown(value)),
                });
            }
        }
    }

    /// Compares two values at a path, member by member down to `depth`.
    fn compare<'v>(&mut self, path: &str, old: &'v Value, new: &'v Value, depth: usize) {
        let name = path.rsplit('.').next().unwrap_or_default();
        if old == new || is_time(name) {
            return;
        }
        if name == "conditions" && is_list(old) && is_list(new) {
            return self.conditions(old, new);
        }
        match (old, new) {
            (Value::Object(_) | Value::Null, Value::Object(_) | Value::Null) if depth > 0 => {
                for name in names(old.as_object(), new.as_object()) {
                    self.compare(&joined(path, &short(name)), &old[name], &new[name], depth - 1);
                }
            }
            _ if depth > 0
                && is_list(old)
                && is_list(new)
                && let Some((old, new)) = by_name(old, new) =>
            {
                for name in old.keys().chain(new.keys()).copied().collect::<BTreeSet<_>>() {
                    let path = format!("{path}[{}]", short(name));
                    let of =
                        |items: &BTreeMap<&str, &'v Value>| items.get(name).copied().unwrap_or(&Value::Null);
                    self.compare(&path, of(&old), of(&new), depth - 1);
                }
            }
            _ => self.leaf(path, old, new),
        }
    }

    fn leaf(&mut self, path: &str, old: &Value, new: &Value) {
        let is_plain = |value: &Value| !value.is_object() && !value.is_array();
        self.push(match (old, new) {
            (_, Value::Null) => format!("-{path}"),
            _ if self.hides_values || !is_plain(new) => format!("{path} changed"),
            (Value::Null, new) => format!("{path}={}", shown(new)),
            (old, new) => format!("{path} {}→{}", shown(old), shown(new)),
        });
    }

    fn conditions(&mut self, old: &Value, new: &Value) {
        let by_type = |list: &Value| -> BTreeMap<String, (String, String)> {
            let of = |condition: &Value| {
                (shown(&condition["type"]), (shown(&condition["status"]), shown(&condition["reason"])))
            };
            list.as_array().into_iter().flatten().map(of).collect()
        };
        let (old, new) = (by_type(old), by_type(new));
        for (kind, (status, reason)) in &new {
            match old.get(kind) {
                Some((before, _)) if before != status => self.push(format!("{kind}={status}")),
                None => self.push(format!("{kind}={status}")),
                Some((_, before)) if before != reason => self.push(format!("{kind}={status} ({reason})")),
                Some(_) => {}
            }
        }
        old.keys().filter(|kind| !new.contains_key(*kind)).for_each(|kind| self.push(format!("-{kind}")));
    }
}

/// A list, or none.
fn is_list(value: &Value) -> bool {
    value.is_array() || value.is_null()
}

/// The items of a list by their names.
type Named<'v> = BTreeMap<&'v str, &'v Value>;

/// The items of two lists by their names; `None` if they have none, or a name twice.
fn by_name<'v>(old: &'v Value, new: &'v Value) -> Option<(Named<'v>, Named<'v>)> {
    let of = |list: &'v Value| {
        let items = list.as_array().map_or(&[][..], Vec::as_slice);
        let named = items.iter().map(|item| Some((item.get("name")?.as_str()?, item)));
        let named = named.collect::<Option<Named<'v>>>()?;
        (named.len() == items.len()).then_some(named)
    };
    Some((of(old)?, of(new)?))
}

/// Whether a member says when or for which state something was written, which is true of every write.
fn is_time(name: &str) -> bool {
    name.ends_with("Time") || name.ends_with("Timestamp") || name == "observedGeneration"
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A value in a line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => short(text),
        Value::Object(_) => "{…}".to_owned(),
        Value::Array(_) => "[…]".to_owned(),
        plain => plain.to_string(),
    }
}

/// A text of at most [`WIDTH`] characters, without control characters, which a terminal would obey.
fn short(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(WIDTH).map(plain).collect();
    if text.chars().nth(WIDTH).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_names_what_changed_and_leaves_times_out() {
        let pod =
            json!({"spec": {"containers": [{"name": "c", "image": "a:1"}]}, "status": {"phase": "Pending"}});
        let with = |pointer: &[(&str, Value)]| {
            let mut changed = pod.clone();
            for (path, value) in pointer {
                let mut at = &mut changed;
                for step in path.split('/') {
                    at = match step.parse::<usize>() {
                        Ok(index) => &mut at[index],
                        Err(_) => &mut at[step],
                    };
                }
                *at = value.clone();
            }
            changed
        };
        let condition = |kind: &str, status: &str, reason: &str| json!([{"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (old, new, expected) in [
            (&[][..], &[][..], &[][..]),
            (&[("spec/replicas", json!(3))], &[("spec/replicas", json!(2))], &["replicas 3→2"]),
            (&[], &[("spec/nodeName", json!("node-3"))], &["nodeName=node-3"]),
            (&[("spec/paused", json!(true))], &[], &["-paused"]),
            (&[], &[("spec/containers/0/image", json!("a:2"))], &["containers[c].image a:1→a:2"]),
            (
                &[],
                &[("status/conditions", condition("Ready", "True", "")), ("status/phase", json!("Running"))],
                &["Ready=True", "phase Pending→Running"],
            ),
            (
                &[("status/conditions", condition("Ready", "False", "A"))],
                &[("status/conditions", condition("Ready", "False", "B"))],
                &["Ready=False (B)"],
            ),
            (&[("status/conditions", condition("Ready", "True", ""))], &[], &["-Ready"]),
            (&[], &[("status/startTime", json!("2026-01-01T00:00:00Z"))], &[]),
            (
                &[("metadata/finalizers", json!(["a", "b"]))],
                &[("metadata/finalizers", json!(["b"])), ("metadata/deletionTimestamp", json!("2026"))],
                &["marked for deletion", "finalizer -a"],
            ),
            (
                &[("metadata/labels", json!({"a": "1", "b": "2"}))],
                &[("metadata/labels", json!({"a": "2", "c": "\u{1b}[31m"}))],
                &["label a=2", "label -b", "label c=\u{fffd}[31m"],
            ),
            (&[], &[("data", json!({"k": "v"}))], &["data.k=v"]),
            (&[("spec/args", json!([1]))], &[("spec/args", json!([1, 2]))], &["args changed"]),
        ] {
            assert_eq!(between(&with(old), &with(new), false), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn values_of_secrets_are_hidden_and_lines_are_bounded() {
        let secret = |password: &str| {
            let annotations =
                json!({"kubectl.kubernetes.io/last-applied-configuration": password, "note": password});
            json!({"metadata": {"annotations": annotations}, "data": {"password": password}, "type": "Opaque"})
        };
        let changes = between(&secret("old-secret"), &secret("new-secret"), true);
        assert_eq!(changes, ["annotation note changed", "data.password changed"]);
        let many = |value: &str| json!({"data": (0..100).map(|n| (format!("k{n:02}"), json!(value))).collect::<Map<_, _>>()});
        let changes = between(&many("a"), &many(&"b".repeat(1000)), false);
        assert_eq!((changes.len(), changes[6].as_str()), (7, "… and 94 more"));
        assert_eq!(changes[0], format!("data.k00 a→{}…", "b".repeat(40)));
        let deep = |leaf: u64| (0..100).fold(json!(leaf), |inner, _| json!({"a": inner}));
        assert_eq!(
            between(&json!({"spec": deep(1)}), &json!({"spec": deep(2)}), false),
            ["a.a.a.a.a.a.a.a changed"]
        );
    }
}
