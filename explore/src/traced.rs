//! What patterns look at: the references with their programs, and the triggers at what happened in them. Pure.

use crate::normalise::Normaliser;
use crate::oracle::Reference;
use crate::plan::{EventTrigger, RequestPhase, Subject, Trigger, WriteTrigger, at_request};
use crate::record::{Effect, ObjectKey, RecordedRequest, RecordedWrite, RunRecord};
use crate::scenario::Scenario;
use std::collections::BTreeSet;

/// Kinds that programs write all the time, and that nothing depends on.
const UNWATCHED: [&str; 3] = ["leases.coordination.k8s.io", "events", "events.events.k8s.io"];

/// Whether plans are made for changes of an object.
pub fn is_looked_at(scenario: &Scenario, write: &RecordedWrite) -> bool {
    let resource = write.key.resource.as_str();
    !UNWATCHED.contains(&resource)
        && !scenario.ignores_resource(resource)
        && !scenario.ignores_client(&write.client)
}

/// A tested program as the references show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedProgram {
    /// Name.
    pub name: String,
    /// Whether it ever lists with `resourceVersion=0`: only then can a restart take it back in time.
    pub lists_from_cache: bool,
}

/// What patterns make plans of.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'t> {
    /// The scenario.
    pub scenario: &'t Scenario,
    /// The references; plans are made of the first.
    pub references: &'t [Reference],
    /// Gives objects their slots.
    pub normaliser: &'t Normaliser,
    /// Programs.
    pub programs: &'t [TracedProgram],
    /// Objects that the steps apply.
    pub applied: &'t [ObjectKey],
}

impl<'t> Traced<'t> {
    /// The reference run that plans perturb.
    pub fn run(&self) -> &'t RunRecord {
        &self.references[0].record
    }

    /// The program that is a client.
    pub fn program(&self, client: &str) -> Option<&'t TracedProgram> {
        self.programs.iter().find(|program| program.name == client)
    }

    /// What a write perturbs.
    pub(crate) fn subject(write: &RecordedWrite) -> Subject {
        Subject { resource: write.key.resource.clone(), verb: write.verb.clone() }
    }

    /// The trigger at the request of a write. A generated name becomes a glob, or matches all.
    pub(crate) fn at_write(&self, write: &RecordedWrite, phase: RequestPhase) -> Trigger {
        let (verb, subresource) = write.verb.split_once('/').unwrap_or((&write.verb, ""));
        let key = self.named(write);
        let is_it = |request: &&RecordedRequest| {
            request.client == write.client
                && request.verb == verb
                && request.subresource == subresource
                && request.resource == write.key.resource
                && request.namespace == write.key.namespace
                && (verb == "create" || glob(&key.name, &request.name))
        };
        let matching = self.run().requests.iter().filter(is_it);
        let nth = matching.take_while(|request| request.revision < write.revision).count() as u64 + 1;
        at_request((&write.client, verb, subresource), &key, nth, phase)
    }

    /// The key of a written object; a name that not every reference has is a glob.
    fn named(&self, write: &RecordedWrite) -> ObjectKey {
        let mut key = write.key.clone();
        if self.normaliser.slot_of(&key, write.object()) != key.to_string() {
            let prefix = write.object()["metadata"]["generateName"].as_str().unwrap_or_default();
            key.name = format!("{prefix}*");
        }
        key
    }

    /// The trigger at a change of an object, counted from the changes after revision `since`.
    pub(crate) fn at_change(&self, write: &RecordedWrite, since: i64) -> Trigger {
        self.at_counted_change(write, since, |_| true)
    }

    /// The trigger at a change of an object while a program sees no change after revision `since`: its own writes, which answer what it
    /// sees, do not count.
    pub(crate) fn at_unseen_change(&self, program: &str, write: &RecordedWrite, since: i64) -> Trigger {
        self.at_counted_change(write, since, |other| other.client != program)
    }

    fn at_counted_change(
        &self,
        write: &RecordedWrite,
        since: i64,
        counts: impl Fn(&RecordedWrite) -> bool,
    ) -> Trigger {
        let key = self.named(write);
        let between = self.run().writes.iter().filter(|other| {
            other.revision > since
                && counts(other)
                && other.revision <= write.revision
                && other.key.resource == key.resource
                && other.key.namespace == key.namespace
                && glob(&key.name, &other.key.name)
        });
        Trigger::Write(WriteTrigger {
            by: None,
            resource: Some(key.resource.clone()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
            nth: between.count() as u64,
            name: Some(key.name),
        })
    }

    /// The trigger at the delivery of a change to a program.
    pub(crate) fn at_event(&self, program: &str, write: &RecordedWrite) -> Trigger {
        let Trigger::Write(WriteTrigger { resource, namespace, name, nth, .. }) = self.at_change(write, 0)
        else {
            return Trigger::quiet();
        };
        Trigger::Event(EventTrigger { client: Some(program.to_owned()), resource, namespace, name, nth })
    }

    /// The next change of the object that changes what a change changed.
    pub(crate) fn next_of_the_same(&self, change: &RecordedWrite) -> Option<&'t RecordedWrite> {
        let changed = change.changed();
        let mut later = self
            .run()
            .writes
            .iter()
            .filter(|other| other.revision > change.revision && other.key == change.key);
        later.find(|next| {
            let is_whole = change.effect != Effect::Updated || next.effect != Effect::Updated;
            is_whole || next.changed().iter().any(|path| changed.contains(path))
        })
    }

    /// Changes of objects that a program was shown: of kinds in the views of its writes, by others or itself.
    pub(crate) fn shown<'a>(
        &'a self,
        program: &'a str,
    ) -> impl Iterator<Item = &'t RecordedWrite> + use<'a, 't> {
        let kinds: BTreeSet<&str> = self
            .run()
            .writes
            .iter()
            .filter(|write| write.client == program)
            .flat_map(|write| write.views.iter().map(|view| view.resource.as_str()))
            .collect();
        self.run().writes.iter().filter(move |write| {
            kinds.contains(write.key.resource.as_str()) && is_looked_at(self.scenario, write)
        })
    }

    /// Whether a program wrote something after it was shown a change.
    pub(crate) fn has_reaction(&self, program: &str, change: &RecordedWrite) -> bool {
        let mut writes = self.run().writes.iter().filter(|write| write.client == program);
        writes.any(|write| is_pair(self.run(), change, write))
    }
}

/// Whether a text matches a glob with one `*`.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((prefix, suffix)) => {
            text.len() >= prefix.len() + suffix.len() && text.starts_with(prefix) && text.ends_with(suffix)
        }
    }
}

/// Whether a change may have led to a write: it was delivered to the writer before the write, during the step of the write or the one
/// before.
pub fn is_pair(run: &RunRecord, change: &RecordedWrite, write: &RecordedWrite) -> bool {
    change.revision < write.revision
        && write.delivered(&change.key.resource).is_some_and(|delivered| delivered >= change.revision)
        && run.step_of(write.revision) - run.step_of(change.revision).min(run.step_of(write.revision)) <= 1
}
