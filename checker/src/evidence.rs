//! Evidence about each revision, collected from all clients: which keys it put or deleted and with what, which keys it
//! left unchanged, and by when it existed. Contradicting evidence violates a guarantee by itself. The rest determines
//! which calls with unknown outcome made a revision. A watch on everything from the first revision on is evidence of
//! all revisions: it has the order of the store's writes.

use crate::history::{
    Blob, Call, Event, EventKind, History, KeyValue, Op, OpReply, Operation, Outcome, Range, RangeReply,
    Reply, Watch, WatchContent,
};
use crate::model::{self, Change, StoreState};
use crate::verdict::{Guarantee, Violation};
use crate::{describe, monotonic};
use std::collections::BTreeMap;

/// The source of a piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvidenceSource {
    Call(usize),
    /// Indices of the watch and of its response.
    Watch(usize, usize),
}

/// Known facts about one change of one key. An unknown field is `None`.
#[derive(Clone, Debug)]
struct Fact {
    key: Blob,
    kind: EventKind,
    value: Option<Blob>,
    create_revision: Option<i64>,
    version: Option<i64>,
    lease: Option<i64>,
    witness: EvidenceSource,
}

/// Which sources count as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sources {
    /// Calls and watches.
    Everything,
    /// Calls only.
    Calls,
    /// Only calls that read the current state, which must be ordered in any case.
    Present,
}

/// A watch that received every change it requested, from the first to the last of these revisions.
#[derive(Clone, Copy, Debug)]
struct CompleteSpan<'a> {
    first: i64,
    last: i64,
    watch: &'a Watch,
}

/// A key that did not change between two revisions: an event shows that they have successive versions.
#[derive(Clone, Debug)]
struct UnchangedInterval {
    key: Blob,
    after: i64,
    before: i64,
}

/// The evidence about all revisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence<'a> {
    revisions: BTreeMap<i64, Vec<Fact>>,
    /// Reads of old revisions.
    past: BTreeMap<i64, Vec<(&'a Range, &'a RangeReply)>>,
    spans: Vec<CompleteSpan<'a>>,
    rests: Vec<UnchangedInterval>,
    /// The time by which this revision, or a later one, was observed.
    seen_by: BTreeMap<i64, u64>,
    /// Contradictions.
    pub(crate) conflicts: Vec<Violation>,
}

/// The fact that a version shows: all its fields, except the value in a keys-only read.
fn version_fact(kv: &KeyValue, keys_only: bool, witness: EvidenceSource) -> Fact {
    Fact {
        key: kv.key.clone(),
        kind: EventKind::Put,
        value: (!keys_only).then(|| kv.value.clone()),
        create_revision: Some(kv.create_revision),
        version: Some(kv.version),
        lease: Some(kv.lease),
        witness,
    }
}

/// A fact without any field except the key.
fn bare(key: &Blob, kind: EventKind, witness: EvidenceSource) -> Fact {
    let key = key.clone();
    Fact { key, kind, value: None, create_revision: None, version: None, lease: None, witness }
}

impl<'a> Evidence<'a> {
    pub(crate) fn gather(history: &'a History, sources: Sources) -> Self {
        let mut evidence = Self::default();
        for (at, call) in history.calls.iter().enumerate() {
            if sources != Sources::Present || !is_past(call) {
                evidence.call(history, at, call);
            }
        }
        if sources == Sources::Everything {
            for (at, watch) in history.watches.iter().enumerate() {
                evidence.watch(history, at, watch);
            }
            evidence.seen_by = monotonic::seen_by(history);
        }
        evidence
    }

    /// The last revision with evidence, or zero.
    pub(crate) fn last(&self) -> i64 {
        self.revisions.last_key_value().map_or(0, |(revision, _)| *revision)
    }

    /// Whether these changes can have led to this state.
    pub(crate) fn admits(&self, state: &StoreState, changes: &[Change]) -> bool {
        let facts = self.revisions.get(&state.revision()).into_iter().flatten();
        let mut past = self.past.get(&state.revision()).into_iter().flatten();
        facts.into_iter().all(|fact| changes.iter().any(|change| fact.is(change)))
            && past.all(|(range, reply)| {
                let found = state.select(&range.keys).map(AsRef::as_ref);
                model::answer(range, reply.revision, found) == **reply
            })
    }

    /// Whether a call made at time `call` can have made a revision: no client had observed the revision before.
    pub(crate) fn admits_at(&self, revision: i64, call: u64) -> bool {
        self.seen_by.range(revision..).next().is_none_or(|(_, seen)| call <= *seen)
    }

    /// Whether these changes at a revision agree with all watches. They do not if a watch whose filter matches a change
    /// received the surrounding revisions without it. They do not either if an event's previous version shows that the
    /// key did not change in between.
    pub(crate) fn misses_none(&self, revision: i64, changes: &[Change]) -> bool {
        let facts = self.revisions.get(&revision).map(Vec::as_slice).unwrap_or_default();
        let is_known = |change: &Change| facts.iter().any(|fact| fact.is(change));
        let unknown: Vec<_> = changes.iter().filter(|change| !is_known(change)).collect();
        let missed = |span: &CompleteSpan<'_>| {
            (span.first..=span.last).contains(&revision)
                && unknown.iter().any(|change| span.watch.wants(change.kind, change.kv.key.as_bytes()))
        };
        let slept = |rest: &UnchangedInterval| {
            rest.after < revision
                && revision < rest.before
                && unknown.iter().any(|change| change.kv.key == rest.key)
        };
        unknown.is_empty() || !self.spans.iter().any(missed) && !self.rests.iter().any(slept)
    }

    /// Describes the evidence about a revision.
    pub(crate) fn describe(&self, history: &History, revision: i64) -> Vec<String> {
        let facts = self.revisions.get(&revision).into_iter().flatten();
        facts
            .map(|fact| format!("{} by {}", fact.describe(revision), fact.witness.describe(history)))
            .collect()
    }

    fn call(&mut self, history: &History, at: usize, call: &'a Call) {
        let witness = EvidenceSource::Call(at);
        match (&call.operation, &call.outcome) {
            (Operation::Range(range), Outcome::Ok(Reply::Range(reply))) => {
                let facts =
                    reply.kvs.iter().map(|kv| (kv.mod_revision, version_fact(kv, range.keys_only, witness)));
                facts.for_each(|(revision, fact)| self.add(history, revision, fact));
                if is_past(call) {
                    let revision = if range.revision > 0 { range.revision } else { reply.revision };
                    self.past.entry(revision).or_default().push((range, reply));
                }
            }
            (Operation::Txn(txn), Outcome::Ok(Reply::Txn { revision, succeeded, results })) => {
                let ops = if *succeeded { &txn.then } else { &txn.or_else };
                for (op, reply) in ops.iter().zip(results) {
                    self.op(history, *revision, op, reply, witness);
                }
            }
            _ => {}
        }
    }

    fn op(&mut self, history: &History, revision: i64, op: &Op, reply: &OpReply, witness: EvidenceSource) {
        let mut add = |revision, fact| self.add(history, revision, fact);
        let before = |kv: &KeyValue| (kv.mod_revision, version_fact(kv, false, witness));
        match (op, reply) {
            (Op::Put { key, value, lease, .. }, OpReply::Put(prev_kv)) => {
                let (value, lease) = (Some(value.clone()), Some(*lease));
                add(revision, Fact { value, lease, ..bare(key, EventKind::Put, witness) });
                prev_kv.iter().map(before).for_each(|(revision, fact)| add(revision, fact));
            }
            (Op::Delete { keys, .. }, OpReply::Delete { deleted, prev_kvs }) => {
                for kv in prev_kvs {
                    add(revision, bare(&kv.key, EventKind::Delete, witness));
                    add(kv.mod_revision, version_fact(kv, false, witness));
                }
                if prev_kvs.is_empty() && *deleted == 1 && keys.end.is_empty() {
                    add(revision, bare(&keys.key, EventKind::Delete, witness));
                }
            }
            // A read after a change in the same transaction sees the change; the model checks that.
            (Op::Range(_) | Op::Put { .. } | Op::Delete { .. }, _) => {}
        }
    }

    fn watch(&mut self, history: &History, at: usize, watch: &'a Watch) {
        let mut last = 0;
        for (number, response) in watch.responses.iter().enumerate() {
            let witness = EvidenceSource::Watch(at, number);
            match &response.said {
                WatchContent::Events { events, fragment } => {
                    events.iter().for_each(|event| self.event(history, event, witness));
                    let newest = events.last().map_or(0, |event| event.kv.mod_revision);
                    last = last.max(newest - i64::from(*fragment));
                }
                WatchContent::Progress => last = last.max(response.revision),
                WatchContent::Created | WatchContent::Canceled { .. } => {}
            }
        }
        self.spans.extend(watch.first().map(|first| CompleteSpan { first, last, watch }));
    }

    fn event(&mut self, history: &History, event: &Event, witness: EvidenceSource) {
        self.add(history, event.kv.mod_revision, event_fact(event, witness));
        if let Some(before) = &event.prev_kv {
            let (key, after) = (before.key.clone(), before.mod_revision);
            self.rests.push(UnchangedInterval { key, after, before: event.kv.mod_revision });
            // A separate guarantee covers wrong previous versions, so this is not a conflict.
            let facts = self.revisions.entry(before.mod_revision).or_default();
            let fact = version_fact(before, false, witness);
            match facts.iter_mut().find(|known| known.is_about(&fact)) {
                Some(known) if known.agrees(&fact) => drop(known.merge(&fact)),
                Some(_) => {}
                None => facts.push(fact),
            }
        }
    }

    fn add(&mut self, history: &History, revision: i64, fact: Fact) {
        let facts = self.revisions.entry(revision).or_default();
        let Some(known) = facts.iter_mut().find(|known| known.is_about(&fact)) else {
            facts.push(fact);
            return;
        };
        if !known.merge(&fact) {
            self.conflicts.push(conflict(history, revision, known, &fact));
        }
    }
}

/// Whether a read returns an old revision, or may do so.
fn is_past(call: &Call) -> bool {
    matches!(&call.operation, Operation::Range(range) if range.revision > 0 || range.serializable)
}

fn event_fact(event: &Event, witness: EvidenceSource) -> Fact {
    match event.kind {
        EventKind::Put => version_fact(&event.kv, false, witness),
        EventKind::Delete => bare(&event.kv.key, EventKind::Delete, witness),
    }
}

fn conflict(history: &History, revision: i64, known: &Fact, fact: &Fact) -> Violation {
    Violation {
        guarantee: Guarantee::OneHistory,
        summary: format!("revision {revision} of {} is two different things", fact.key),
        expected: format!("{}, as was observed first", known.describe(revision)),
        seen: fact.describe(revision),
        window: vec![known.witness.describe(history), fact.witness.describe(history)],
    }
}

impl EvidenceSource {
    fn describe(self, history: &History) -> String {
        match self {
            Self::Call(at) => describe::call(&history.calls[at]),
            Self::Watch(at, number) => {
                let watch = &history.watches[at];
                format!("{} at {}", describe::watch(watch), describe::time(watch.responses[number].at))
            }
        }
    }
}

/// Merges `new` into `known`. Returns whether they agree.
fn learn<T: Clone + PartialEq>(known: &mut Option<T>, new: &Option<T>) -> bool {
    match (known.as_ref(), new) {
        (Some(known), Some(new)) => known == new,
        (None, Some(new)) => {
            *known = Some(new.clone());
            true
        }
        (_, None) => true,
    }
}

impl Fact {
    fn is_about(&self, other: &Self) -> bool {
        (&self.key, self.kind) == (&other.key, other.kind)
    }

    /// Whether both facts can be true.
    fn agrees(&self, other: &Self) -> bool {
        self.clone().merge(other)
    }

    fn merge(&mut self, other: &Self) -> bool {
        learn(&mut self.value, &other.value)
            & learn(&mut self.create_revision, &other.create_revision)
            & learn(&mut self.version, &other.version)
            & learn(&mut self.lease, &other.lease)
    }

    fn is(&self, change: &Change) -> bool {
        fn fits<T: PartialEq>(known: Option<&T>, is: &T) -> bool {
            known.is_none_or(|known| known == is)
        }
        let kv = &change.kv;
        self.kind == change.kind
            && self.key == kv.key
            && (self.kind == EventKind::Delete
                || fits(self.value.as_ref(), &kv.value)
                    && fits(self.create_revision.as_ref(), &kv.create_revision)
                    && fits(self.version.as_ref(), &kv.version)
                    && fits(self.lease.as_ref(), &kv.lease))
    }

    fn describe(&self, revision: i64) -> String {
        let Self { key, kind, value, create_revision, version, lease, .. } = self;
        if *kind == EventKind::Delete {
            return format!("delete {key}@{revision}");
        }
        let number = |number: &Option<i64>| number.map_or("?".into(), |number| number.to_string());
        let value = value.as_ref().map_or("?".into(), ToString::to_string);
        let (create, version, lease) = (number(create_revision), number(version), number(lease));
        format!("put {key}={value}@{revision}(c{create} v{version} l{lease})")
    }
}
