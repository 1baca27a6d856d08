//! N2, N3, N8: slots. A name that every reference has is its slot. Of any other name the slot is the kind, the namespace, the controller
//! owner's slot or the labels without hashes, and an ordinal by sorted content.

use super::{Normaliser, clean, values};
use crate::record::StoredObject;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Labels whose values are hashes or UIDs.
const HASHES: [&str; 6] = [
    "pod-template-hash",
    "controller-revision-hash",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "job-name",
];

/// How often owners of owners are looked for.
const GENERATIONS: usize = 8;

/// Shortest generated name that is replaced within longer strings: shorter ones occur by chance.
const SHORTEST: usize = 6;

/// The slots of a state, and what replaces UIDs and generated names in strings.
pub(super) struct Slots {
    /// Slot of each object.
    pub(super) of: Vec<String>,
    /// Slots by UID.
    pub(super) by_uid: BTreeMap<String, String>,
    replacements: Replacements,
}

/// Texts and what replaces them. Each string of a state is searched for all of them at once: a state has hundreds of UIDs and thousands of
/// strings.
struct Replacements {
    /// What replaces a string that is such a text.
    whole: BTreeMap<String, String>,
    /// Finds texts within longer strings: of those that begin at one place the longest.
    within: AhoCorasick,
    /// What replaces the texts of `within`, by their number.
    by_number: Vec<String>,
}

impl Replacements {
    /// Of several replacements of one text the first in order counts.
    fn new(mut texts: Vec<(String, String)>) -> Self {
        texts.sort_unstable_by(|a, b| b.cmp(a));
        let whole: BTreeMap<String, String> = texts.into_iter().collect();
        let within = whole.iter().filter(|(from, _)| from.len() >= SHORTEST);
        let (from, by_number): (Vec<&String>, Vec<String>) =
            within.map(|(from, to)| (from, to.clone())).unzip();
        // Of the kinds of automata the one that is built in the least time: it is used for one state.
        let kind = Some(AhoCorasickKind::NoncontiguousNFA);
        let within = AhoCorasick::builder().kind(kind).match_kind(MatchKind::LeftmostLongest).build(from);
        Self { whole, within: within.expect("names and UIDs of one state fit in an automaton"), by_number }
    }

    fn replaced<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if let Some(to) = self.whole.get(text) {
            return Cow::Owned(to.clone());
        }
        if !self.within.is_match(text) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.within.replace_all(text, &self.by_number))
    }
}

impl Slots {
    /// A string with UIDs and generated names replaced.
    pub(super) fn replaced<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.replacements.replaced(text)
    }

    /// The name of an object in its normalised form.
    pub(super) fn name(&self, stored: &StoredObject, slot: &str) -> String {
        let key = stored.key();
        if slot == key.to_string() { key.name } else { slot.to_owned() }
    }
}

/// The controller's UID, else that of the first owner.
fn owner(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true);
    controller.or(owners.first()).and_then(|owner| owner["uid"].as_str().or(owner["slot"].as_str()))
}

/// The slot of a generated name without its ordinal.
pub(super) fn group(
    stored: &StoredObject,
    owner_slot: Option<&str>,
    unstable: &BTreeMap<String, String>,
) -> String {
    let object = &stored.object;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let labels = || {
        let labels = object["metadata"]["labels"].as_object();
        let labels = labels.into_iter().flatten().filter(|(name, value)| {
            let is_generated = value.as_str().is_some_and(|value| unstable.contains_key(value));
            !HASHES.contains(&name.as_str()) && !is_generated
        });
        let labels: Vec<String> =
            labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
        match (object["metadata"]["generateName"].as_str(), labels.is_empty()) {
            (Some(prefix), true) => prefix.to_owned(),
            // A name that its maker chose: what follows the first dash may be a UID or a random text.
            (None, true) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                name.split_once('-').map(|(first, _)| format!("{first}-")).unwrap_or_default()
            }
            _ => labels.join(","),
        }
    };
    let group = owner_slot.map_or_else(labels, str::to_owned);
    let resource = &stored.resource;
    if namespace.is_empty() {
        format!("{resource}/<{group}>")
    } else {
        format!("{resource}/{namespace}/<{group}>")
    }
}

/// Gives each object its slot.
pub(super) fn assign(normaliser: &Normaliser, objects: &[&StoredObject]) -> Slots {
    let mut slots: Vec<Option<String>> = Vec::new();
    let mut unstable = BTreeMap::new();
    for stored in objects {
        let key = stored.key();
        slots.push(if key.name.contains('<') {
            // A normalised state, which keeps its slots.
            Some(key.name.clone())
        } else if normaliser.has_stable_name(stored, &key) {
            Some(key.to_string())
        } else {
            unstable.insert(key.name, format!("<{}>", stored.resource));
            None
        });
    }
    let uids: BTreeMap<&str, usize> = objects
        .iter()
        .enumerate()
        .filter(|(_, stored)| !stored.uid().is_empty())
        .map(|(at, stored)| (stored.uid(), at))
        .collect();
    let contents = contents(normaliser, objects, &slots, &unstable);
    for generation in 0..=GENERATIONS {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, stored) in objects.iter().enumerate().filter(|(at, _)| slots[*at].is_none()) {
            let owner = owner(&stored.object).and_then(|uid| uids.get(uid));
            match owner.map(|owner| slots[*owner].as_deref()) {
                // The owner's slot is found first; a circle of owners ends with the last generation.
                Some(None) if generation < GENERATIONS => {}
                Some(owner_slot) => groups.entry(group(stored, owner_slot, &unstable)).or_default().push(at),
                None => groups.entry(group(stored, None, &unstable)).or_default().push(at),
            }
        }
        if groups.is_empty() {
            break;
        }
        for (group, mut members) in groups {
            members.sort_by(|a, b| contents[*a].cmp(&contents[*b]));
            for (ordinal, at) in members.into_iter().enumerate() {
                slots[at] = Some(format!("{group}#{ordinal}"));
            }
        }
    }
    let of: Vec<String> = slots.into_iter().map(Option::unwrap_or_default).collect();
    finish(objects, of, &unstable)
}

fn finish(objects: &[&StoredObject], of: Vec<String>, unstable: &BTreeMap<String, String>) -> Slots {
    let mut replacements = Vec::new();
    let mut by_uid = BTreeMap::new();
    for (stored, slot) in objects.iter().zip(&of) {
        if !stored.uid().is_empty() {
            replacements.push((stored.uid().to_owned(), slot.clone()));
            by_uid.insert(stored.uid().to_owned(), slot.clone());
        }
        let name = stored.key().name;
        if unstable.contains_key(&name) {
            replacements.push((name, slot.clone()));
        }
    }
    Slots { of, by_uid, replacements: Replacements::new(replacements) }
}

/// Contents of objects by which ordinals are given: all generated names and UIDs are equal in them.
fn contents(
    normaliser: &Normaliser,
    objects: &[&StoredObject],
    slots: &[Option<String>],
    unstable: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut replacements: Vec<(String, String)> =
        unstable.iter().map(|(name, placeholder)| (name.clone(), placeholder.clone())).collect();
    for (stored, slot) in objects.iter().zip(slots).filter(|(stored, _)| !stored.uid().is_empty()) {
        let placeholder = slot.clone().unwrap_or_else(|| format!("<{}>", stored.resource));
        replacements.push((stored.uid().to_owned(), placeholder));
    }
    let replacements = Replacements::new(replacements);
    let blind = Slots { of: Vec::new(), by_uid: BTreeMap::new(), replacements };
    let content = |stored: &&StoredObject| {
        let mut value =
            values::rewrite(normaliser, stored, clean::clean(&stored.resource, &stored.object), &blind);
        values::blind_addresses(&mut value, crate::limits::DEPTH);
        value.to_string()
    };
    objects.iter().map(content).collect()
}
