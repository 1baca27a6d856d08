//! Which names the definitions of one group get, and the conditions that say so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::approval::{self, Approval};
use super::condition::{self, APPROVED, Condition, ESTABLISHED, NAMES_ACCEPTED};
use super::definition::Names;
use crate::meta;
use crate::object::text;

/// The new status of each definition whose status changes, by `metadata.name`. `definitions` are all of one group, as they are after
/// a write or delete; `now` (RFC 3339) is the time of changed conditions. Names that a definition holds stay its own; free names go
/// to the oldest definition that asks. Running it on its own result changes nothing.
#[must_use]
pub fn plan_names(definitions: &[&Value], now: &str) -> Vec<(String, Value)> {
    let mut group = Group::new(definitions);
    // A definition that takes its new names frees its old ones for others. Each name changes at most once, so this ends.
    while group.pass() {}
    let applicants = group.applicants.iter();
    let changed = applicants.filter_map(|applicant| {
        let status = applicant.status(now);
        let is_new = status != applicant.crd["status"];
        is_new.then(|| (meta::name(applicant.crd).to_owned(), status))
    });
    changed.collect()
}

/// A definition, the names it asks for, and the names it holds so far.
struct Applicant<'a> {
    crd: &'a Value,
    wanted: Names,
    accepted: Names,
    conflict: Option<(&'static str, String)>,
}

/// The definitions of a group, oldest first, with the names in use.
struct Group<'a> {
    applicants: Vec<Applicant<'a>>,
    resources: Uses,
    kinds: Uses,
}

/// How many definitions hold each name of one name space.
#[derive(Default)]
struct Uses(BTreeMap<Arc<str>, usize>);

impl Uses {
    fn add(&mut self, name: &Arc<str>) {
        if !name.is_empty() {
            *self.0.entry(Arc::clone(name)).or_default() += 1;
        }
    }

    fn remove(&mut self, name: &Arc<str>) {
        if let Some(count) = self.0.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }

    fn is_used(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl<'a> Group<'a> {
    fn new(definitions: &[&'a Value]) -> Self {
        let applicant = |crd: &&'a Value| Applicant {
            crd,
            wanted: Names::of(&crd["spec"]["names"]),
            accepted: Names::of(&crd["status"]["acceptedNames"]),
            conflict: None,
        };
        let mut applicants: Vec<Applicant<'a>> = definitions.iter().map(applicant).collect();
        applicants.sort_by_key(|own| (meta::creation_timestamp(own.crd), meta::name(own.crd)));
        let mut group = Group { applicants, resources: Uses::default(), kinds: Uses::default() };
        for i in 0..group.applicants.len() {
            group.hold(i);
        }
        group
    }

    /// Counts the names that an applicant holds as used.
    fn hold(&mut self, at: usize) {
        let names = &self.applicants[at].accepted;
        [&names.plural, &names.singular]
            .into_iter()
            .chain(&names.short_names)
            .for_each(|n| self.resources.add(n));
        [&names.kind, &names.list_kind].into_iter().for_each(|n| self.kinds.add(n));
    }

    /// Takes the names that an applicant holds out of use, so that only those of others are left.
    fn release(&mut self, at: usize) {
        let names = &self.applicants[at].accepted;
        let resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        resources.for_each(|n| self.resources.remove(n));
        [&names.kind, &names.list_kind].into_iter().for_each(|n| self.kinds.remove(n));
    }

    /// Gives each applicant what is free. Returns whether any accepted name changed.
    fn pass(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.applicants.len() {
            self.release(at);
            let (resources, kinds) = (&self.resources, &self.kinds);
            moved |= self.applicants[at].take_free(resources, kinds);
            self.hold(at);
        }
        moved
    }
}

impl Applicant<'_> {
    /// Takes each wanted name that no other definition holds; of several conflicts the last one is remembered. Short names are
    /// taken all or none.
    fn take_free(&mut self, resources: &Uses, kinds: &Uses) -> bool {
        let before = self.accepted.clone();
        let (wanted, accepted) = (&self.wanted, &mut self.accepted);
        self.conflict = None;
        let mut take = |slot: &mut Arc<str>, name: &Arc<str>, uses: &Uses, reason: &'static str| {
            if slot != name && uses.is_used(name) {
                self.conflict = Some((reason, in_use(name)));
            } else {
                *slot = Arc::clone(name);
            }
        };
        take(&mut accepted.plural, &wanted.plural, resources, "PluralConflict");
        take(&mut accepted.singular, &wanted.singular, resources, "SingularConflict");
        let held: BTreeSet<&Arc<str>> = accepted.short_names.iter().collect();
        let is_taken = |name: &&Arc<str>| !held.contains(name) && resources.is_used(name);
        let taken: Vec<String> =
            wanted.short_names.iter().filter(is_taken).map(|name| in_use(name)).collect();
        match taken.as_slice() {
            [] => accepted.short_names.clone_from(&wanted.short_names),
            [one] => self.conflict = Some(("ShortNamesConflict", one.clone())),
            many => self.conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
        let mut take = |slot: &mut Arc<str>, name: &Arc<str>, reason: &'static str| {
            if slot != name && kinds.is_used(name) {
                self.conflict = Some((reason, in_use(name)));
            } else {
                *slot = Arc::clone(name);
            }
        };
        take(&mut accepted.kind, &wanted.kind, "KindConflict");
        take(&mut accepted.list_kind, &wanted.list_kind, "ListKindConflict");
        accepted.categories.clone_from(&wanted.categories);
        self.accepted != before
    }

    /// The status with accepted names and conditions as they are now.
    fn status(&self, now: &str) -> Value {
        let mut status = self.crd["status"].clone();
        if let Some(approval) = approval_condition(self.crd) {
            condition::set(&mut status, &approval, now);
        }
        let named = match &self.conflict {
            Some((reason, message)) => state(NAMES_ACCEPTED, false, reason, message),
            None => state(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found"),
        };
        condition::set(&mut status, &named, now);
        if let Some(established) = self.established(named.status) {
            condition::set(&mut status, &established, now);
        }
        // Equal names stay as they are written, so that a status that says the same does not count as changed.
        if Names::of(&status["acceptedNames"]) != self.accepted || !status["acceptedNames"].is_object() {
            status["acceptedNames"] = self.accepted.to_json();
        }
        status
    }

    /// The condition `Established`, unless it stays: once true it is never taken back.
    fn established(&self, names_accepted: bool) -> Option<Condition> {
        let old = condition::find(self.crd, ESTABLISHED);
        if condition::is_true(self.crd, ESTABLISHED) || (!names_accepted && old.is_some()) {
            return None;
        }
        Some(if !names_accepted {
            state(ESTABLISHED, false, "NotAccepted", "not all names are accepted")
        } else if has_invalid_ca_bundle(self.crd) {
            let message = "The conversion webhook CABundle is invalid";
            state(ESTABLISHED, false, "InvalidCABundle", message)
        } else {
            let message = "the initial names have been accepted";
            state(ESTABLISHED, true, "InitialNamesAccepted", message)
        })
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", json!(name))
}

fn state(kind: &'static str, status: bool, reason: &'static str, message: &str) -> Condition {
    Condition { kind, status, reason, message: message.to_owned() }
}

fn approval_condition(crd: &Value) -> Option<Condition> {
    if !approval::is_protected(text(&crd["spec"]["group"])) {
        return None;
    }
    let (approval, message) = approval::of(crd);
    let reason = match approval {
        Approval::Missing => "MissingAnnotation",
        Approval::Invalid => "InvalidAnnotation",
        Approval::Bypassed => "UnapprovedAnnotation",
        Approval::Approved => "ApprovedAnnotation",
    };
    Some(Condition { kind: APPROVED, status: approval == Approval::Approved, reason, message })
}

fn has_invalid_ca_bundle(crd: &Value) -> bool {
    let conversion = &crd["spec"]["conversion"];
    let bundle = text(&conversion["webhook"]["clientConfig"]["caBundle"]);
    !bundle.is_empty() && !super::validate::is_certificate_bundle(bundle)
}
