//! Normalisation of states: a map from slots to values, in which everything that two runs of the same scenario may choose freely (UIDs,
//! generated names, times, addresses, revisions) has the same form. Two runs did the same if their normalised end states are equal. Pure.
//!
//! The rules are N1–N9: `clean` drops what the server keeps (N1), `slots` gives generated names a slot (N2, N3, N8), `values` rewrites
//! strings, times, lists and encoded data (N4–N7), `learn` finds what differs between references (N9), and `compare` lists differences.

mod clean;
mod compare;
mod learn;
mod pem;
mod slots;
#[cfg(test)]
mod tests;
mod values;

pub use compare::{Difference, differences};
pub use learn::Volatility;

use crate::record::{ObjectKey, StoredObject};
use crate::scenario::{ObjectSet, Scenario, VolatilePath};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The value with each time replaced by the word `time`: what is kept of a run has no wall times.
#[must_use]
pub fn without_times(mut value: Value) -> Value {
    values::drop_times(&mut value, crate::limits::DEPTH);
    value
}

/// The text with each time in it replaced by the word `time`, as [`without_times`] does it to values.
#[must_use]
pub fn text_without_times(text: &str) -> String {
    values::drop_times_of_text(text)
}

/// A normalised state: values by slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NormalState {
    /// Values by slot, such as `configmaps/default/a` or `pods/default/<replicasets.apps/default/web>#0`.
    pub objects: BTreeMap<String, Value>,
}

/// A path whose value is volatile, learned from references.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LearnedPath {
    /// Slot; `None`: every object of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// `plural.group`.
    pub resource: String,
    /// Names of members; `*` stands for any position of a list.
    pub path: Vec<String>,
}

/// What references taught.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// Objects that every reference has: their names are slots. Any other name is generated.
    pub stable: BTreeSet<ObjectKey>,
    /// Paths whose values differ between references.
    pub volatile: BTreeSet<LearnedPath>,
    /// Lists whose order differs between references, and nothing else of them.
    pub unordered: BTreeSet<LearnedPath>,
}

/// Normalises states of runs of one scenario.
#[derive(Clone, Debug, Default)]
pub struct Normaliser {
    ignored: BTreeSet<String>,
    fungible: Vec<ObjectSet>,
    dropped: Vec<VolatilePath>,
    /// Texts that steps set: they are no times and no addresses.
    given: BTreeSet<String>,
    /// Unix seconds between which numbers are times.
    window: Option<(i64, i64)>,
    learned: Option<Learned>,
}

impl Normaliser {
    /// A normaliser for a scenario. `given` are the objects and patches of its steps.
    pub fn new(scenario: &Scenario, given: &[Value]) -> Self {
        use crate::scenario::Ignored;
        let ignored = scenario.ignore.iter().filter_map(|ignored| match ignored {
            Ignored::Resource(name) => Some(name.clone()),
            Ignored::Client(_) => None,
        });
        let mut texts = BTreeSet::new();
        for value in given {
            values::texts(value, &mut texts, crate::limits::DEPTH);
        }
        Self {
            ignored: ignored.collect(),
            fungible: scenario.fungible.clone(),
            dropped: scenario.volatile.clone(),
            given: texts,
            window: None,
            learned: None,
        }
    }

    /// The normaliser for runs between two times, in Unix seconds: numbers within a day of them are times.
    #[must_use]
    pub fn with_window(mut self, from: i64, to: i64) -> Self {
        const DAY: i64 = 86_400;
        self.window = Some((from - DAY, to + DAY));
        self
    }

    /// The normaliser with what references taught.
    #[must_use]
    pub fn with_learned(mut self, learned: Learned) -> Self {
        self.learned = Some(learned);
        self
    }

    /// What references taught; `None` before.
    pub fn learned(&self) -> Option<&Learned> {
        self.learned.as_ref()
    }

    /// Learns from the end states of references: which names are stable, which values are volatile, which lists have no order.
    #[must_use]
    pub fn learn(self, references: &[&[StoredObject]]) -> Self {
        learn::learn(self, references)
    }

    /// How much of a normalised state differs from reference to reference.
    pub fn volatility(&self, reference: &NormalState) -> Volatility {
        learn::volatility(self.learned.as_ref(), reference)
    }

    /// Normalises a state.
    pub fn normalise(&self, state: &[StoredObject]) -> NormalState {
        let kept: Vec<&StoredObject> = state.iter().filter(|stored| self.keeps(stored)).collect();
        let slots = slots::assign(self, &kept);
        let mut objects = BTreeMap::new();
        for (stored, slot) in kept.iter().zip(&slots.of) {
            let cleaned = clean::clean(&stored.resource, &stored.object);
            let mut value = values::rewrite(self, stored, cleaned, &slots);
            value["metadata"]["name"] = Value::String(slots.name(stored, slot));
            objects.insert(slot.clone(), value);
        }
        let mut state = NormalState { objects };
        values::name_addresses(self, &mut state);
        self.drop_volatile(&mut state);
        state
    }

    /// The slot of a written object, without the ordinal of generated names.
    pub fn slot_of(&self, key: &ObjectKey, object: &Value) -> String {
        let stored = StoredObject { resource: key.resource.clone(), object: object.clone() };
        match self.has_stable_name(&stored, key) {
            true => key.to_string(),
            false => slots::group(&stored, None, &BTreeMap::new()),
        }
    }

    /// Whether an object takes part in comparisons.
    pub fn keeps(&self, stored: &StoredObject) -> bool {
        const DROPPED: [&str; 5] = [
            "events",
            "events.events.k8s.io",
            "leases.coordination.k8s.io",
            "endpointslices.discovery.k8s.io",
            "endpoints",
        ];
        let object = &stored.object;
        let is_root = stored.resource == "configmaps" && object["metadata"]["name"] == "kube-root-ca.crt";
        let is_token =
            stored.resource == "secrets" && object["type"] == "kubernetes.io/service-account-token";
        !DROPPED.contains(&stored.resource.as_str())
            && !is_root
            && !is_token
            && !self.ignored.contains(&stored.resource)
    }

    /// Whether the name of an object is its slot. A Job of a CronJob is named after its time: another run may have those of other hours.
    fn has_stable_name(&self, stored: &StoredObject, key: &ObjectKey) -> bool {
        let is_timed = || {
            let owners = stored.object["metadata"]["ownerReferences"].as_array();
            owners
                .into_iter()
                .flatten()
                .any(|owner| owner["kind"] == "CronJob" && owner["controller"] == true)
        };
        if stored.resource == "jobs.batch" && is_timed() {
            return false;
        }
        let is_fungible = self.fungible.iter().any(|set| set.contains(&stored.resource, &stored.object));
        !is_fungible && self.learned.as_ref().is_none_or(|learned| learned.stable.contains(key))
    }

    /// Replaces what is volatile: the scenario's paths are dropped, learned ones keep their type.
    fn drop_volatile(&self, state: &mut NormalState) {
        for (slot, value) in &mut state.objects {
            let resource = slot.split('/').next().unwrap_or_default().to_owned();
            for dropped in self.dropped.iter().filter(|dropped| dropped.resource == resource) {
                values::visit(value, &dropped.path, crate::limits::DEPTH, &mut |value| *value = Value::Null);
            }
            for learned in self.learned.iter().flat_map(|learned| &learned.volatile) {
                let is_meant = learned.slot.as_ref().map_or(learned.resource == resource, |of| of == slot);
                if is_meant {
                    values::visit(value, &learned.path, crate::limits::DEPTH, &mut |value| {
                        *value = Value::String(format!("volatile {}", values::type_name(value)));
                    });
                }
            }
        }
    }
}
