//! Acceptance of names among the definitions of one group, and the resulting conditions.

use super::approval::{self, Approval};
use super::condition::{self, APPROVED, Condition, ESTABLISHED, NAMES_ACCEPTED};
use super::definition::Names;
use crate::meta;
use crate::object::text;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The new status of each definition whose status changes, by `metadata.name`. `definitions` are all
/// definitions of one group after a write or delete; `now` (RFC 3339) is the time of changed conditions. A
/// definition keeps its accepted names; a free name is given to the oldest definition that requests it. The
/// function is idempotent.
#[must_use]
pub fn plan_names(definitions: &[&Value], now: &str) -> Vec<(String, Value)> {
    let mut group = Group::new(definitions);
    // A definition that changes its names frees the old ones for others. Each name changes at most once, so
    // the loop ends.
    while group.pass() {}
    let claims = group.claims.iter();
    let changed = claims.filter_map(|claim| {
        let status = claim.status(now);
        let is_new = status != claim.crd["status"];
        is_new.then(|| (meta::name(claim.crd).to_owned(), status))
    });
    changed.collect()
}

/// Definition with its requested names and the names it has so far.
struct NameClaim<'a> {
    crd: &'a Value,
    wanted: Names,
    accepted: Names,
    conflict: Option<(&'static str, String)>,
}

/// Definitions of a group, oldest first, with the names in use.
struct Group<'a> {
    claims: Vec<NameClaim<'a>>,
    resources: NameCounts,
    kinds: NameCounts,
}

/// Number of definitions that have each name.
#[derive(Default)]
struct NameCounts(BTreeMap<Arc<str>, usize>);

impl NameCounts {
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
        let claim = |crd: &&'a Value| NameClaim {
            crd,
            wanted: Names::of(&crd["spec"]["names"]),
            accepted: Names::of(&crd["status"]["acceptedNames"]),
            conflict: None,
        };
        let mut claims: Vec<NameClaim<'a>> = definitions.iter().map(claim).collect();
        claims.sort_by_key(|own| (meta::creation_timestamp(own.crd), meta::name(own.crd)));
        let mut group = Group { claims, resources: NameCounts::default(), kinds: NameCounts::default() };
        for i in 0..group.claims.len() {
            group.hold(i);
        }
        group
    }

    /// Counts the names of a definition as used.
    fn hold(&mut self, at: usize) {
        let names = &self.claims[at].accepted;
        [&names.plural, &names.singular]
            .into_iter()
            .chain(&names.short_names)
            .for_each(|n| self.resources.add(n));
        [&names.kind, &names.list_kind].into_iter().for_each(|n| self.kinds.add(n));
    }

    /// Stops counting the names of a definition, so that only those of others remain.
    fn release(&mut self, at: usize) {
        let names = &self.claims[at].accepted;
        let resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        resources.for_each(|n| self.resources.remove(n));
        [&names.kind, &names.list_kind].into_iter().for_each(|n| self.kinds.remove(n));
    }

    /// Gives each definition the free names that it requests. Returns whether any accepted name changed.
    fn pass(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.claims.len() {
            self.release(at);
            let (resources, kinds) = (&self.resources, &self.kinds);
            moved |= self.claims[at].take_free(resources, kinds);
            self.hold(at);
        }
        moved
    }
}

impl NameClaim<'_> {
    /// Takes each requested name that no other definition has. Short names are taken all or none. The last
    /// conflict is recorded.
    fn take_free(&mut self, resources: &NameCounts, kinds: &NameCounts) -> bool {
        let before = self.accepted.clone();
        let (wanted, accepted) = (&self.wanted, &mut self.accepted);
        self.conflict = None;
        let mut take = |slot: &mut Arc<str>, name: &Arc<str>, uses: &NameCounts, reason: &'static str| {
            if slot != name && uses.is_used(name) {
                self.conflict = Some((reason, in_use(name)));
            } else {
                *slot = Arc::clone(name);
            }
        };
        take(&mut accepted.plural, &wanted.plural, resources, "PluralConflict");
        take(&mut accepted.singular, &wanted.singular, resources, "SingularConflict");
        let own_names: BTreeSet<&Arc<str>> = accepted.short_names.iter().collect();
        let is_taken = |name: &&Arc<str>| !own_names.contains(name) && resources.is_used(name);
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

    /// The status with the accepted names and conditions.
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
        // Equal names keep their JSON, so that an equal status does not count as changed.
        if Names::of(&status["acceptedNames"]) != self.accepted || !status["acceptedNames"].is_object() {
            status["acceptedNames"] = self.accepted.to_json();
        }
        status
    }

    /// The condition `Established`, unless it stays; once true, it never changes.
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
