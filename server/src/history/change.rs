//! [`Change`]: what differs between two states of an object, by path. Pure.

use kstore_ui::secret_copies::is_copy;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Most changes between two states. Beyond them the largest common parent counts as replaced.
const MOST: usize = 2_000;
/// Depth of members that are compared one by one.
const DEPTH: usize = 64;

/// Members by which the items of a list are told apart: the first ones that all items have, and that no two items share. They are the merge
/// keys of Kubernetes' types, and the usual ones of custom resources.
const KEYS: [&[&str]; 8] = [
    &["uid"],
    &["name"],
    &["type"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["key"],
    &["ip"],
];

/// Members of the metadata that every write changes, or that repeat the object.
const LEFT_OUT: [&str; 3] = ["managedFields", "resourceVersion", "generation"];
/// The annotation in which kubectl keeps the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A member that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    /// Path, such as `spec.template.spec.containers[nginx].image`.
    pub path: String,
    /// Value before; `None`: there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// Value after; `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

impl Change {
    /// Whether the change is at a path, or below or above it.
    pub(super) fn is_at(&self, path: &str) -> bool {
        let is_below = |long: &str, short: &str| {
            short.is_empty()
                || long
                    .strip_prefix(short)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        is_below(&self.path, path) || is_below(path, &self.path)
    }
}

/// The changes between two states, sorted by path but for the order of lists. With `all_fields` also those that every write makes.
pub(super) fn changes(old: &Value, new: &Value, all_fields: bool) -> Vec<Change> {
    let mut found = Vec::new();
    let (old, new) = match all_fields {
        true => (old.clone(), new.clone()),
        false => (without_repeats(old), without_repeats(new)),
    };
    compare("", Some(&old), Some(&new), DEPTH, &mut found);
    found
}

/// An object without what every write changes.
fn without_repeats(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        LEFT_OUT.iter().for_each(|name| drop(metadata.remove(*name)));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, depth: usize, found: &mut Vec<Change>) {
    if old == new {
        return;
    }
    let before = found.len();
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) if depth > 0 => {
            for name in names(old, new) {
                compare(&member(path, name), old.get(name), new.get(name), depth - 1, found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) if depth > 0 => {
            match keyed(&[one, other]).as_deref() {
                Some([one, other]) => compare_items(path, one, other, depth, found),
                _ => leaf(path, old, new, found),
            }
        }
        _ => leaf(path, old, new, found),
    }
    if found.len() - before > MOST {
        found.truncate(before);
        leaf(path, old, new, found);
    }
}

fn leaf(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Change>) {
    found.push(Change { path: path.to_owned(), from: old.cloned(), to: new.cloned() });
}

/// The items of a list, each with what tells it apart.
pub(super) type Items<'v> = Vec<(String, &'v Value)>;

fn compare_items(path: &str, old: &Items<'_>, new: &Items<'_>, depth: usize, found: &mut Vec<Change>) {
    let of = |items: &Items<'_>, key: &str| items.iter().position(|(own, _)| own == key);
    let mut seen = BTreeSet::new();
    for (key, _) in old.iter().chain(new) {
        if seen.insert(key) {
            let (before, after) = (of(old, key).map(|at| old[at].1), of(new, key).map(|at| new[at].1));
            compare(&format!("{path}[{key}]"), before, after, depth - 1, found);
        }
    }
    let common = |items: &Items<'_>, others: &Items<'_>| -> Vec<String> {
        items.iter().filter(|(key, _)| of(others, key).is_some()).map(|(key, _)| key.clone()).collect()
    };
    let (before, after) = (common(old, new), common(new, old));
    if before != after {
        let order = |keys: Vec<String>| Some(Value::from(keys));
        found.push(Change { path: format!("{path} (order)"), from: order(before), to: order(after) });
    }
}

/// The items of several lists by the same members; `None` if nothing tells them apart.
pub(super) fn keyed<'v>(lists: &[&'v Vec<Value>]) -> Option<Vec<Items<'v>>> {
    KEYS.iter().find_map(|members| lists.iter().map(|list| items(list, members)).collect())
}

fn items<'v>(list: &'v [Value], members: &[&str]) -> Option<Items<'v>> {
    let key = |item: &Value| {
        let parts = members.iter().enumerate().map(|(at, member)| match item.get(*member) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            // A port without a protocol is one of TCP.
            None if at > 0 => Some("TCP".to_owned()),
            _ => None,
        });
        parts.collect::<Option<Vec<_>>>().map(|parts| parts.join("/"))
    };
    let keyed: Items<'v> = list.iter().map(|item| Some((key(item)?, item))).collect::<Option<_>>()?;
    let distinct: BTreeSet<&String> = keyed.iter().map(|(key, _)| key).collect();
    (distinct.len() == keyed.len()).then_some(keyed)
}

fn names<'v>(old: &'v Map<String, Value>, new: &'v Map<String, Value>) -> BTreeSet<&'v str> {
    old.keys().chain(new.keys()).map(String::as_str).collect()
}

/// The path of a member. A name with a dot, such as that of an annotation, is in brackets.
pub(super) fn member(path: &str, name: &str) -> String {
    match (path.is_empty(), name.contains(['.', '[', ' '])) {
        (true, false) => name.to_owned(),
        (false, false) => format!("{path}.{name}"),
        (_, true) => format!("{path}[{name}]"),
    }
}

/// Hides the values of a Secret: texts below `data` and `stringData`, with their length if they stand alone, and the annotations in which
/// tools keep a copy of the object.
pub(super) fn mask(changes: &mut [Change]) {
    for change in changes {
        let is_change = change.from.is_some() && change.to.is_some();
        for value in [&mut change.from, &mut change.to].into_iter().flatten() {
            mask_at(&change.path, value, is_change);
        }
    }
}

/// Hides the part of a Secret at a path, as far as it has values.
fn mask_at(path: &str, value: &mut Value, is_change: bool) {
    const ANNOTATIONS: &str = "metadata.annotations";
    let below = |parent: &'static str| {
        let rest = path.strip_prefix(parent)?;
        rest.strip_prefix('.').or_else(|| rest.strip_prefix('[')?.strip_suffix(']'))
    };
    let is_hidden = ["data", "stringData"].iter().any(|part| path == *part || below(part).is_some())
        || below(ANNOTATIONS).is_some_and(is_copy);
    let members: &[&str] = match path {
        "" => &["data", "stringData", "metadata"],
        "metadata" => &["annotations"],
        _ => &[],
    };
    match value {
        _ if is_hidden => *value = masked(value, is_change),
        Value::Object(annotations) if path == ANNOTATIONS => {
            let copies = annotations.iter_mut().filter(|(name, _)| is_copy(name));
            copies.for_each(|(_, copy)| *copy = masked(copy, is_change));
        }
        Value::Object(all) => {
            for name in members {
                let part = all.get_mut(*name);
                part.into_iter().for_each(|part| mask_at(&member(path, name), part, is_change));
            }
        }
        _ => {}
    }
}

fn masked(value: &Value, is_change: bool) -> Value {
    match value {
        Value::String(text) if !is_change => format!("••• ({} bytes)", text.len()).into(),
        Value::Object(members) => {
            members.iter().map(|(name, _)| (name.clone(), Value::from("•••"))).collect::<Map<_, _>>().into()
        }
        _ => "•••".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(old: &Value, new: &Value) -> Vec<String> {
        let text = |value: &Option<Value>| value.as_ref().map_or("–".to_owned(), Value::to_string);
        let line = |change: &Change| format!("{} {} → {}", change.path, text(&change.from), text(&change.to));
        changes(old, new, false).iter().map(line).collect()
    }

    #[test]
    fn items_of_lists_are_matched_by_what_tells_them_apart() {
        let containers = |list: Value| json!({"spec": {"containers": list}});
        let old = containers(
            json!([{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}, {"name": "b"}]),
        );
        let new = containers(
            json!([{"name": "b"}, {"name": "a", "image": "a:2", "ports": [{"containerPort": 80, "name": "web"}]}, {"name": "c"}]),
        );
        assert_eq!(
            paths(&old, &new),
            [
                "spec.containers[a].image \"a:1\" → \"a:2\"",
                "spec.containers[a].ports[80/TCP].name – → \"web\"",
                "spec.containers[c] – → {\"name\":\"c\"}",
                "spec.containers (order) [\"a\",\"b\"] → [\"b\",\"a\"]",
            ]
        );
        let twice = json!({"a": [{"name": "x"}, {"name": "x"}]});
        assert_eq!(paths(&twice, &json!({"a": []})), ["a [{\"name\":\"x\"},{\"name\":\"x\"}] → []"]);
        assert_eq!(paths(&json!({"a": [1, 2]}), &json!({"a": [2]})), ["a [1,2] → [2]"]);
    }

    #[test]
    fn what_every_write_changes_is_left_out_unless_it_is_wanted() {
        let object = |version: &str, label: &str| {
            json!({"metadata": {"resourceVersion": version, "generation": version, "managedFields": [version],
                "labels": {"a.b/c": label}, "annotations": {LAST_APPLIED: version}}})
        };
        let (old, new) = (object("1", "x"), object("2", "y"));
        assert_eq!(paths(&old, &new), ["metadata.labels[a.b/c] \"x\" → \"y\""]);
        assert_eq!(changes(&old, &new, true).len(), 5);
    }

    #[test]
    fn more_changes_than_the_bound_are_one_of_the_parent() {
        let wide = |value: usize| -> Value {
            json!({"a": 1, "b": (0..=MOST).map(|at| (at.to_string(), json!(value))).collect::<Map<_, _>>()})
        };
        let found = changes(&wide(1), &wide(2), false);
        assert_eq!(found.iter().map(|change| &*change.path).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn values_of_secrets_are_masked_and_other_members_are_not() {
        let secret = |value: Option<&str>| {
            let data: Map<_, _> = value.map(|value| ("key".to_owned(), json!(value))).into_iter().collect();
            json!({"data": data, "type": value.unwrap_or("none")})
        };
        let masked = |old: Option<&str>, new: Option<&str>| {
            let mut found = changes(&secret(old), &secret(new), false);
            mask(&mut found);
            found.into_iter().map(|change| (change.path, change.from, change.to)).collect::<Vec<_>>()
        };
        let hidden = |text: &str| Some(json!(text));
        assert_eq!(
            masked(Some("one"), Some("two"))[0],
            ("data.key".to_owned(), hidden("•••"), hidden("•••"))
        );
        assert_eq!(masked(None, Some("two"))[0].2, hidden("••• (3 bytes)"));
        assert_eq!(masked(Some("one"), Some("two"))[1].2, hidden("two"));
        let mut whole = vec![Change { path: String::new(), from: None, to: Some(secret(Some("deep"))) }];
        mask(&mut whole);
        let Some(Value::Object(members)) = &whole[0].to else { panic!("{whole:?}") };
        assert_eq!((&members["data"], &members["type"]), (&json!({"key": "•••"}), &json!("deep")));
    }

    /// The annotation of `kubectl apply` showed the values of a Secret to callers that had not asked for them.
    #[test]
    fn copies_of_a_secret_in_its_annotations_are_masked_at_every_depth() {
        let secret = |value: &str| {
            json!({"kind": "Secret", "metadata": {"name": "s", "annotations": {LAST_APPLIED: value,
                "kapp.k14s.io/original": value, "applied": value, "team": "a"}}, "data": {"k": value}})
        };
        let without = |path: &str| {
            let mut object = secret("hunter2");
            let (parent, name) = path.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            object
        };
        let new = secret("hunter2");
        let old = [
            Value::Null,
            without("/metadata"),
            without("/metadata/annotations"),
            without("/metadata/annotations/applied"),
            secret("hunter1"),
        ];
        for (before, after) in old.iter().flat_map(|old| [(old, &new), (&new, old)]) {
            let mut found = changes(before, after, true);
            assert!(!found.is_empty());
            mask(&mut found);
            let text = serde_json::to_string(&found).unwrap();
            assert!(!text.contains("hunter") && text.contains("•••"), "{text}");
        }
        let mut shown = changes(&Value::Null, &new, true);
        mask(&mut shown);
        assert!(serde_json::to_string(&shown).unwrap().contains(r#""team":"a""#), "{shown:?}");
    }

    #[test]
    fn a_change_is_at_the_paths_above_and_below_it() {
        let change = Change { path: "spec.containers[a].image".to_owned(), from: None, to: None };
        for (path, expected) in [
            ("spec", true),
            ("spec.containers", true),
            ("spec.containers[a].image", true),
            ("spec.con", false),
        ] {
            assert_eq!(change.is_at(path), expected, "{path}");
        }
        assert!(change.is_at("spec.containers[a].image.x"));
    }
}
