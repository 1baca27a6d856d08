//! Differences between two states of an object as edits, and states made of them. Pure; `web/src/report.ts` has the other half, and both
//! run `web/tests/edits.json`.

use super::limits::DEPTH;
use serde_json::{Map, Value, json};

/// A member or an item, on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPart {
    Member(String),
    Item(usize),
}

/// A value that is set or removed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edit {
    pub(super) path: Vec<PathPart>,
    /// `None`: the member is removed.
    pub(super) value: Option<Value>,
}

impl Edit {
    /// As in the file: the path, and the value if there is one.
    pub(super) fn to_json(&self) -> Value {
        let path: Vec<Value> = self
            .path
            .iter()
            .map(|part| match part {
                PathPart::Member(name) => json!(name),
                PathPart::Item(at) => json!(at),
            })
            .collect();
        match &self.value {
            Some(value) => json!([path, value]),
            None => json!([path]),
        }
    }
}

/// The edits that make `new` of `old`. Lists of different lengths are set as a whole.
pub(super) fn edits(old: &Value, new: &Value) -> Vec<Edit> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), (old, new), DEPTH, &mut found);
    found
}

fn compare(path: &mut Vec<PathPart>, (old, new): (&Value, &Value), depth: usize, found: &mut Vec<Edit>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if depth > 0 => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                path.push(PathPart::Member(name.clone()));
                found.push(Edit { path: path.clone(), value: None });
                path.pop();
            }
            for (name, value) in new {
                path.push(PathPart::Member(name.clone()));
                match old.get(name) {
                    Some(before) => compare(path, (before, value), depth - 1, found),
                    None => found.push(Edit { path: path.clone(), value: Some(value.clone()) }),
                }
                path.pop();
            }
        }
        (Value::Array(old), Value::Array(new)) if depth > 0 && old.len() == new.len() => {
            for (at, pair) in old.iter().zip(new).enumerate() {
                path.push(PathPart::Item(at));
                compare(path, pair, depth - 1, found);
                path.pop();
            }
        }
        (old, new) if old == new => {}
        (_, new) => found.push(Edit { path: path.clone(), value: Some(new.clone()) }),
    }
}

/// Applies edits that were made for this value.
pub(super) fn apply(value: &mut Value, edits: &[Edit]) {
    for Edit { path, value: set } in edits {
        let Some((last, way)) = path.split_last() else {
            *value = set.clone().unwrap_or_default();
            continue;
        };
        let place = way.iter().try_fold(&mut *value, |place, part| match part {
            PathPart::Member(name) => place.get_mut(name),
            PathPart::Item(at) => place.get_mut(at),
        });
        match (place, last, set) {
            (Some(Value::Object(members)), PathPart::Member(name), Some(set)) => {
                members.insert(name.clone(), set.clone());
            }
            (Some(Value::Object(members)), PathPart::Member(name), None) => remove(members, name),
            (Some(Value::Array(items)), PathPart::Item(at), Some(set)) => {
                if let Some(item) = items.get_mut(*at) {
                    *item = set.clone();
                }
            }
            _ => {}
        }
    }
}

fn remove(members: &mut Map<String, Value>, name: &str) {
    members.remove(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_those_of_the_cases_that_the_page_runs_too() {
        let cases: Vec<[Value; 3]> =
            serde_json::from_str(include_str!("../../web/tests/edits.json")).unwrap();
        assert!(cases.len() > 5);
        for [old, new, expected] in cases {
            let found = edits(&old, &new);
            let shown: Vec<Value> = found.iter().map(Edit::to_json).collect();
            assert_eq!(Value::from(shown), expected, "{old} to {new}");
            let mut made = old;
            apply(&mut made, &found);
            assert_eq!(made, new);
        }
    }

    /// A value of small pieces, from numbers of a linear congruence.
    fn value(seed: &mut u64, depth: usize) -> Value {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (kind, size) = ((*seed >> 33) % 6, (*seed >> 40) % 4);
        match kind {
            0 if depth > 0 => (0..size).map(|_| value(seed, depth - 1)).collect(),
            1 | 2 if depth > 0 => {
                let members = (0..size).map(|at| (format!("m{at}"), value(seed, depth - 1)));
                Value::Object(members.collect())
            }
            3 => Value::Null,
            4 => json!(size),
            _ => json!(size.to_string()),
        }
    }

    #[test]
    fn edits_between_random_values_lead_from_one_to_the_other() {
        let mut seed = 1;
        for _ in 0..3_000 {
            let (old, new) = (value(&mut seed, 4), value(&mut seed, 4));
            let mut made = old.clone();
            apply(&mut made, &edits(&old, &new));
            assert_eq!(made, new, "from {old}");
            assert_eq!(edits(&new, &new), []);
        }
    }

    #[test]
    fn values_deeper_than_the_bound_are_set_as_a_whole() {
        let deep = |leaf: i32| (0..2 * DEPTH).fold(json!(leaf), |value, _| json!({ "a": value }));
        let found = edits(&deep(1), &deep(2));
        assert_eq!((found.len(), found[0].path.len()), (1, DEPTH));
    }
}
