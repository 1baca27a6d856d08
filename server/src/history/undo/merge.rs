//! Three-way merge of an object: what a write changed goes back to what was before it, and everything else stays as it is now. Pure.

use super::super::change::{Items, keyed, member};
use crate::args::ConflictPolicy;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Depth of members that are merged one by one.
const DEPTH: usize = 64;

/// A member that the undone write and a later one changed differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Conflict {
    /// Path of the member.
    pub path: String,
    /// Value before the undone write; `None`: there was none.
    pub before: Option<Value>,
    /// Value that the undone write left.
    pub after: Option<Value>,
    /// Value now.
    pub now: Option<Value>,
}

/// A merge and the conflicts that it met.
#[derive(Debug)]
pub(super) struct Merge {
    policy: ConflictPolicy,
    pub conflicts: Vec<Conflict>,
}

/// One value in three states.
#[derive(Clone, Copy)]
struct Three<'v> {
    before: Option<&'v Value>,
    after: Option<&'v Value>,
    now: Option<&'v Value>,
}

impl Merge {
    pub(super) fn new(policy: ConflictPolicy) -> Self {
        Self { policy, conflicts: Vec::new() }
    }

    /// The value now, with what changed from `before` to `after` put back; `None`: there is none.
    pub(super) fn merged(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        now: Option<&Value>,
    ) -> Option<Value> {
        self.merge("", Three { before, after, now }, DEPTH)
    }

    fn merge(&mut self, path: &str, values: Three<'_>, depth: usize) -> Option<Value> {
        let Three { before, after, now } = values;
        if before == after || before == now {
            return now.cloned();
        }
        if now == after {
            return before.cloned();
        }
        match (before, after, now) {
            (Some(Value::Object(before)), Some(Value::Object(after)), Some(Value::Object(now)))
                if depth > 0 =>
            {
                let names: BTreeSet<&String> = before.keys().chain(after.keys()).chain(now.keys()).collect();
                let mut made = Map::new();
                for name in names {
                    let of = Three { before: before.get(name), after: after.get(name), now: now.get(name) };
                    made.extend(
                        self.merge(&member(path, name), of, depth - 1).map(|value| (name.clone(), value)),
                    );
                }
                Some(made.into())
            }
            (Some(Value::Array(one)), Some(Value::Array(two)), Some(Value::Array(three))) if depth > 0 => {
                match keyed(&[one, two, three]).as_deref() {
                    Some([one, two, three]) => Some(self.merge_items(path, [one, two, three], depth)),
                    _ => self.conflict(path, values),
                }
            }
            _ => self.conflict(path, values),
        }
    }

    fn merge_items(&mut self, path: &str, [before, after, now]: [&Items<'_>; 3], depth: usize) -> Value {
        let of = |items: &Items<'_>, key: &str| items.iter().position(|(own, _)| own == key);
        let mut made: Vec<(String, Value)> = Vec::new();
        let mut seen = BTreeSet::new();
        // The order of now, and then what is put back.
        for (key, _) in now.iter().chain(before).chain(after) {
            if seen.insert(key) {
                let three = Three {
                    before: of(before, key).map(|at| before[at].1),
                    after: of(after, key).map(|at| after[at].1),
                    now: of(now, key).map(|at| now[at].1),
                };
                let merged = self.merge(&format!("{path}[{key}]"), three, depth - 1);
                made.extend(merged.map(|merged| (key.clone(), merged)));
            }
        }
        // If the items are those of before, so is their order.
        if made.iter().all(|(key, _)| of(before, key).is_some()) {
            made.sort_by_key(|(key, _)| of(before, key));
        }
        made.into_iter().map(|(_, value)| value).collect()
    }

    fn conflict(&mut self, path: &str, values: Three<'_>) -> Option<Value> {
        let Three { before, after, now } = values;
        self.conflicts.push(Conflict {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
            now: now.cloned(),
        });
        match self.policy {
            ConflictPolicy::Overwrite => before.cloned(),
            ConflictPolicy::Fail | ConflictPolicy::Skip => now.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(policy: ConflictPolicy, before: Value, after: Value, now: Value) -> (Value, Vec<String>) {
        let mut merge = Merge::new(policy);
        let made = merge.merged(Some(&before), Some(&after), Some(&now)).unwrap_or_default();
        (made, merge.conflicts.into_iter().map(|conflict| conflict.path).collect())
    }

    #[test]
    fn what_the_write_left_is_put_back_and_later_changes_stay() {
        let (made, conflicts) = merged(
            ConflictPolicy::Fail,
            json!({"a": 1, "gone": true, "list": [1, 2], "keep": {"x": 1}}),
            json!({"a": 2, "new": true, "list": [1, 2, 3], "keep": {"x": 1}}),
            json!({"a": 2, "new": true, "list": [1, 2, 3], "keep": {"x": 9}, "later": 5}),
        );
        assert_eq!(made, json!({"a": 1, "gone": true, "list": [1, 2], "keep": {"x": 9}, "later": 5}));
        assert_eq!(conflicts, [""; 0]);
    }

    #[test]
    fn items_of_lists_are_merged_by_what_tells_them_apart() {
        let list = |items: Value| json!({"spec": {"containers": items}});
        let (made, conflicts) = merged(
            ConflictPolicy::Fail,
            list(json!([{"name": "a", "image": "a:1"}, {"name": "b"}])),
            list(json!([{"name": "a", "image": "a:2"}, {"name": "new"}])),
            list(json!([{"name": "a", "image": "a:2", "args": ["x"]}, {"name": "new"}, {"name": "later"}])),
        );
        let expected =
            list(json!([{"name": "a", "image": "a:1", "args": ["x"]}, {"name": "later"}, {"name": "b"}]));
        assert_eq!((made, conflicts), (expected, Vec::new()));
        let order = |names: &[&str]| list(names.iter().map(|name| json!({"name": name})).collect());
        let (made, _) = merged(ConflictPolicy::Fail, order(&["a", "b", "c"]), order(&["c"]), order(&["c"]));
        assert_eq!(made, order(&["a", "b", "c"]), "the order of before");
    }

    #[test]
    fn a_member_that_changed_since_is_a_conflict() {
        let three = || (json!({"a": 1, "b": 1}), json!({"a": 2, "b": 2}), json!({"a": 3, "b": 2}));
        for (policy, expected) in [
            (ConflictPolicy::Fail, json!({"a": 3, "b": 1})),
            (ConflictPolicy::Skip, json!({"a": 3, "b": 1})),
            (ConflictPolicy::Overwrite, json!({"a": 1, "b": 1})),
        ] {
            let (before, after, now) = three();
            assert_eq!(merged(policy, before, after, now), (expected, vec!["a".to_owned()]), "{policy:?}");
        }
        let (made, conflicts) = merged(ConflictPolicy::Fail, json!({"a": 1}), json!({"a": 2}), json!({}));
        assert_eq!((made, conflicts), (json!({}), vec!["a".to_owned()]), "removed since");
        let (made, conflicts) =
            merged(ConflictPolicy::Fail, json!({"a": 1}), json!({"a": 2}), json!({"a": 1}));
        assert_eq!((made, conflicts), (json!({"a": 1}), Vec::new()), "already undone");
    }

    #[test]
    fn an_undo_without_conflicts_gives_the_state_before_and_its_undo_the_state_after() {
        let rng = kstore_nondet::Nondet::simulated(11).rng;
        let random = || {
            let names = ["a", "b", "c"];
            let items: Vec<Value> = names
                .iter()
                .filter(|_| rng.below(3) > 0)
                .map(|name| json!({"name": name, "value": rng.below(3), "list": [rng.below(2)]}))
                .collect();
            let mut object = json!({"items": items, "x": rng.below(3), "deep": {"y": rng.below(2)}});
            if rng.below(2) == 0 {
                object["optional"] = json!(rng.below(4));
            }
            object
        };
        for _ in 0..2_000 {
            let (before, after) = (random(), random());
            let (undone, conflicts) =
                merged(ConflictPolicy::Fail, before.clone(), after.clone(), after.clone());
            assert_eq!((&undone, conflicts.len()), (&before, 0));
            let (again, conflicts) = merged(ConflictPolicy::Fail, after.clone(), before, undone);
            assert_eq!((again, conflicts.len()), (after, 0));
        }
    }
}
