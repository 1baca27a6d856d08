//! What references teach: stable names, volatile values, lists without order (§7.3).

use super::{Difference, Learned, LearnedPath, NormalState, Normaliser, differences, values};
use crate::record::{ObjectKey, StoredObject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How much of the end state differs from reference to reference, so that it is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volatility {
    /// Paths of the end state, general over positions of lists, each once for a kind.
    pub paths: usize,
    /// Volatile ones among them.
    pub volatile: usize,
    /// Lists whose order is not compared, as `resource path`.
    pub unordered: Vec<String>,
}

impl Volatility {
    /// Whether so much is volatile that bugs may not be seen: more than a tenth of all paths.
    pub fn is_high(&self) -> bool {
        self.volatile * 10 > self.paths
    }
}

pub(super) fn volatility(learned: Option<&Learned>, reference: &NormalState) -> Volatility {
    let Some(learned) = learned else { return Volatility::default() };
    let mut paths: BTreeSet<(String, Vec<String>)> = BTreeSet::new();
    for (slot, value) in &reference.objects {
        leaves(value, &mut Vec::new(), crate::limits::DEPTH, &mut |path| {
            paths.insert((resource(slot), general(path)));
        });
    }
    let of = |learned: &LearnedPath| (learned.resource.clone(), learned.path.clone());
    let volatile: BTreeSet<_> = learned.volatile.iter().map(of).collect();
    let shown = |list: &LearnedPath| format!("{} {}", list.resource, list.path.join("."));
    Volatility {
        paths: paths.len(),
        volatile: volatile.len(),
        unordered: learned.unordered.iter().map(shown).collect(),
    }
}

/// Calls `each` with the path of each value that has no members or items, to a depth.
fn leaves(value: &Value, path: &mut Vec<String>, depth: usize, each: &mut impl FnMut(&[String])) {
    let members: Vec<(String, &Value)> = match value {
        _ if depth == 0 => Vec::new(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    if members.is_empty() {
        each(path);
    }
    for (name, value) in members {
        path.push(name);
        leaves(value, path, depth - 1, each);
        path.pop();
    }
}

/// Learns from the end states of references.
pub(super) fn learn(normaliser: Normaliser, references: &[&[StoredObject]]) -> Normaliser {
    let keys = |state: &&[StoredObject]| state.iter().map(StoredObject::key).collect::<BTreeSet<ObjectKey>>();
    let mut all = references.iter().map(keys);
    let first = all.next().unwrap_or_default();
    let stable = all.fold(first, |stable, keys| stable.intersection(&keys).cloned().collect());
    let learned = Learned { stable, ..Learned::default() };
    // Lists first: what is left of a list in another order is no volatile value.
    let normaliser = normaliser.with_learned(learned.clone());
    let unordered = unordered(&states(&normaliser, references));
    let normaliser = normaliser.with_learned(Learned { unordered: unordered.clone(), ..learned.clone() });
    let volatile = volatile(&states(&normaliser, references));
    normaliser.with_learned(Learned { unordered, volatile, ..learned })
}

fn states(normaliser: &Normaliser, references: &[&[StoredObject]]) -> Vec<NormalState> {
    references.iter().map(|state| normaliser.normalise(state)).collect()
}

fn resource(slot: &str) -> String {
    slot.split('/').next().unwrap_or_default().to_owned()
}

/// Lists that have the same items in another order.
fn unordered(states: &[NormalState]) -> BTreeSet<LearnedPath> {
    let mut found = BTreeSet::new();
    let Some((first, others)) = states.split_first() else { return found };
    for difference in others.iter().flat_map(|other| differences(first, other)) {
        let Some(index) = difference.path.iter().rposition(|part| part.parse::<usize>().is_ok()) else {
            continue;
        };
        let list = &difference.path[..index];
        let at = |state: &NormalState| {
            let mut items = None;
            if let Some(mut object) = state.objects.get(&difference.slot).cloned() {
                values::visit(&mut object, list, crate::limits::DEPTH, &mut |value| {
                    items = Some(value.clone());
                });
            }
            sorted(items)
        };
        let orders: BTreeSet<Option<Vec<String>>> = states.iter().map(at).collect();
        if orders.len() == 1 && !orders.contains(&None) {
            let path = general(list);
            found.insert(LearnedPath { slot: None, resource: resource(&difference.slot), path });
        }
    }
    found
}

fn sorted(list: Option<Value>) -> Option<Vec<String>> {
    let Some(Value::Array(items)) = list else { return None };
    let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
    texts.sort();
    Some(texts)
}

/// Paths whose values differ, and have the same type in all states.
fn volatile(states: &[NormalState]) -> BTreeSet<LearnedPath> {
    let Some((first, others)) = states.split_first() else { return BTreeSet::new() };
    let mut slots: BTreeMap<(String, Vec<String>), BTreeSet<String>> = BTreeMap::new();
    let is_value = |difference: &Difference| match (&difference.reference, &difference.run) {
        (Some(a), Some(b)) => {
            let is_scalar = |value: &Value| !value.is_object() && !value.is_array() && !value.is_null();
            is_scalar(a) && values::type_name(a) == values::type_name(b)
        }
        _ => false,
    };
    for difference in others.iter().flat_map(|other| differences(first, other)).filter(is_value) {
        let key = (resource(&difference.slot), general(&difference.path));
        slots.entry(key).or_default().insert(difference.slot);
    }
    let mut found = BTreeSet::new();
    for ((resource, path), slots) in slots {
        match slots.len() {
            // In one object only: other objects of the kind are still compared.
            1 => found.extend(slots.into_iter().map(|slot| LearnedPath {
                slot: Some(slot),
                resource: resource.clone(),
                path: path.clone(),
            })),
            _ => {
                found.insert(LearnedPath { slot: None, resource, path });
            }
        }
    }
    found
}

/// A path with `*` for positions of lists.
fn general(path: &[String]) -> Vec<String> {
    let general = |part: &String| if part.parse::<usize>().is_ok() { "*".to_owned() } else { part.clone() };
    path.iter().map(general).collect()
}
