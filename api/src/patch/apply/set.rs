//! Sets of field paths, the content of `fieldsV1`.
//!
//! A path element is kept in its wire spelling: `f:<name>`, `k:{"key":"value"}` (keys sorted), `v:<scalar>`,
//! `i:<n>`. A path can be a member, have members below it, or both (`.` in the JSON).

use super::node::{Node, View};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Set of field paths below some value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeMap<String, PathEntry>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PathEntry {
    member: bool,
    below: FieldSet,
}

impl PathEntry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.0.entry(first.clone()).or_default();
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    /// Adds an element with the paths below it. An element that is neither a member nor has members below it
    /// is skipped.
    pub(super) fn put(&mut self, element: String, member: bool, below: FieldSet) {
        if member || !below.is_empty() {
            self.0.insert(element, PathEntry { member, below });
        }
    }

    /// Adds an element with the paths below it, like [`Self::put`]. Copies its name only if it is added.
    pub(super) fn put_new(&mut self, element: &str, member: bool, below: FieldSet) {
        if member || !below.is_empty() {
            self.put(element.to_owned(), member, below);
        }
    }

    /// The set of these paths; dots separate their members.
    pub(super) fn of_names(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<String> = path.split('.').map(|name| format!("f:{name}")).collect();
            set.insert(&elements);
        }
        set
    }

    /// Whether the element itself is a member.
    pub(super) fn has(&self, element: &str) -> bool {
        self.0.get(element).is_some_and(|entry| entry.member)
    }

    /// Whether the path is a member.
    pub(super) fn has_path(&self, path: &[&str]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.has_path(rest)),
        }
    }

    /// The paths below an element.
    pub(super) fn below(&self, element: &str) -> Option<&Self> {
        self.0.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// Whether a path starts with this element.
    pub(super) fn has_prefix(&self, element: &str) -> bool {
        self.0.contains_key(element)
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.extend(other);
        out
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.append(other.clone());
    }

    /// Moves the members of `other` into this set.
    pub(super) fn append(&mut self, other: Self) {
        for (element, entry) in other.0 {
            match self.0.entry(element) {
                Entry::Vacant(vacant) => drop(vacant.insert(entry)),
                Entry::Occupied(mut own) => {
                    let own = own.get_mut();
                    own.member |= entry.member;
                    own.below.append(entry.below);
                }
            }
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, entry| {
            let (member, below) = match other.0.get(element) {
                Some(theirs) => (entry.member && theirs.member, entry.below.intersection(&theirs.below)),
                None => (false, Self::default()),
            };
            PathEntry { member, below }
        })
    }

    /// The members that `other` does not have; members below a shared member stay.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// Removes the members of `other`; members below them stay.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.remove_each(other, &|own, theirs| {
            own.member &= !theirs.member;
            own.below.subtract(&theirs.below);
        });
    }

    /// Removes the members of `other` and everything below them.
    pub(super) fn prune(&mut self, other: &Self) {
        self.remove_each(other, &|own, theirs| match theirs.member {
            true => *own = PathEntry::default(),
            false => own.below.prune(&theirs.below),
        });
    }

    /// Changes the entries that both sets have, and removes those that are empty then. Walks the smaller set: a
    /// large change is compared with the fields of each of many managers.
    fn remove_each(&mut self, other: &Self, change: &impl Fn(&mut PathEntry, &PathEntry)) {
        if self.0.len() <= other.0.len() {
            return self.0.retain(|element, own| {
                let Some(theirs) = other.0.get(element) else { return true };
                change(own, theirs);
                !own.is_empty()
            });
        }
        for (element, theirs) in &other.0 {
            let Some(own) = self.0.get_mut(element) else { continue };
            change(own, theirs);
            if own.is_empty() {
                self.0.remove(element);
            }
        }
    }

    /// The paths at or below one of the patterns; `*` stands for any element.
    pub(super) fn matching(&self, patterns: &[&[&str]]) -> Self {
        self.combine(|element, entry| {
            let name = element.strip_prefix("f:");
            let rest: Vec<&[&str]> = patterns
                .iter()
                .filter_map(|pattern| pattern.split_first())
                .filter(|(first, _)| **first == "*" || Some(**first) == name)
                .map(|(_, rest)| rest)
                .collect();
            if rest.iter().any(|rest| rest.is_empty()) {
                return entry.clone();
            }
            PathEntry { member: false, below: entry.below.matching(&rest) }
        })
    }

    /// Makes inner elements members where the schema names them.
    pub(super) fn with_named(&self, node: Node<'_>) -> Self {
        let entries = self.0.iter().map(|(element, entry)| {
            let (below, named) = match element.strip_prefix("f:") {
                Some(name) => node.member(name),
                None => (node.item(), false),
            };
            let member = entry.member || (named && !entry.below.is_empty());
            (element.clone(), PathEntry { member, below: entry.below.with_named(below) })
        });
        Self(entries.collect())
    }

    /// Replaces fields below an atomic value by the atomic value. Stored managed fields can be older than the
    /// schema that makes it atomic.
    pub(super) fn settled(self, node: Node<'_>) -> Self {
        let entries = self.0.into_iter().map(|(element, entry)| {
            let below = match element.strip_prefix("f:") {
                Some(name) => node.member(name).0,
                None => node.item(),
            };
            let entry = match entry {
                entry if entry.below.is_empty() => entry,
                _ if below.view([None, None]) == View::Leaf => {
                    PathEntry { member: true, below: Self::default() }
                }
                PathEntry { member, below: fields } => PathEntry { member, below: fields.settled(below) },
            };
            (element, entry)
        });
        Self(entries.collect())
    }

    fn combine(&self, entry: impl Fn(&str, &PathEntry) -> PathEntry) -> Self {
        let entries = self.0.iter().map(|(element, own)| (element.clone(), entry(element, own)));
        Self(entries.filter(|(_, entry)| entry.member || !entry.below.is_empty()).collect())
    }

    /// Texts of all member paths; members of one level come before those below them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect("", &mut out);
        out
    }

    fn collect(&self, prefix: &str, out: &mut Vec<String>) {
        let path = |element: &str| format!("{prefix}{}", readable(element));
        out.extend(self.0.iter().filter(|(_, entry)| entry.member).map(|(element, _)| path(element)));
        for (element, entry) in self.0.iter().filter(|(_, entry)| !entry.below.is_empty()) {
            entry.below.collect(&path(element), out);
        }
    }

    /// The JSON of the set.
    pub(super) fn into_json(self) -> Value {
        Value::Object(self.into_map())
    }

    fn into_map(self) -> Map<String, Value> {
        let entries = self.0.into_iter().map(|(element, entry)| {
            let mut below = entry.below.into_map();
            if entry.member && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element, Value::Object(below))
        });
        entries.collect()
    }

    /// Decodes the JSON of a field set; `None` if it is malformed.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut out = Self::default();
        for (element, below) in value.as_object()? {
            if element == "." {
                continue;
            }
            let element = canonical(element)?;
            let map = below.as_object()?;
            let member = map.is_empty() || map.contains_key(".");
            out.0.insert(element, PathEntry { member, below: Self::from_json(below)? });
        }
        Some(out)
    }
}

/// An element with the keys of its JSON sorted; `None` if it is malformed.
fn canonical(element: &str) -> Option<String> {
    match element.get(..2)? {
        "f:" => Some(element.to_owned()),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(&element[2..]).ok()?;
            Some(format!("k:{}", Value::Object(keys)))
        }
        "v:" => {
            let value: Value = serde_json::from_str(&element[2..]).ok()?;
            Some(format!("v:{value}"))
        }
        "i:" => element[2..].parse::<i64>().ok().map(|at| format!("i:{at}")),
        _ => None,
    }
}

/// Formats an element as in messages: `.name`, `[key="value"]`, `[="value"]`, `[0]`.
pub(super) fn readable(element: &str) -> String {
    let (kind, rest) = element.split_at_checked(2).unwrap_or(("", element));
    match kind {
        "f:" => format!(".{rest}"),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        "v:" => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}
