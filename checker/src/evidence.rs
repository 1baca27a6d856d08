//! What the history proves of each revision, whoever saw it: which keys it put or deleted and with what, which it left alone,
//! and by when it was there. Two pieces of evidence that contradict each other are a broken guarantee by themselves; the
//! others tell which of the calls with unknown outcome made a revision. A watch on everything from the first revision on is
//! evidence of all of them: the order in which the store did its writes.

use std::collections::BTreeMap;

use crate::describe;
use crate::history::{
    Blob, Call, Event, EventKind, History, KeyValue, Op, OpReply, Operation, Outcome, Range, RangeReply,
    Reply, Said, Watch,
};
use crate::model::{self, Change, State};
use crate::monotonic;
use crate::verdict::{Guarantee, Violation};

/// Where a piece of evidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    Call(usize),
    /// Watch and response.
    Watch(usize, usize),
}

/// What is known of one change of one key. Nothing known of a field is a none.
#[derive(Clone, Debug)]
struct Fact {
    key: Blob,
    kind: EventKind,
    value: Option<Blob>,
    create_revision: Option<i64>,
    version: Option<i64>,
    lease: Option<i64>,
    witness: Witness,
}

/// Whose evidence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sources {
    /// Everybody's.
    Everything,
    /// That of calls.
    Calls,
    /// That of calls that speak of the present; such as must be in order anyway.
    Present,
}

/// A watch that was told of every change it wanted, from the first to the last of these revisions.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    first: i64,
    last: i64,
    watch: &'a Watch,
}

/// A key that nothing changed between these revisions: the one was the version before the other.
#[derive(Clone, Debug)]
struct Rest {
    key: Blob,
    after: i64,
    before: i64,
}

/// What is known of the revisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence<'a> {
    revisions: BTreeMap<i64, Vec<Fact>>,
    /// Reads of old revisions.
    past: BTreeMap<i64, Vec<(&'a Range, &'a RangeReply)>>,
    spans: Vec<Span<'a>>,
    rests: Vec<Rest>,
    /// By which time there was such a revision, or a later one.
    seen_by: BTreeMap<i64, u64>,
    /// Contradictions.
    pub(crate) conflicts: Vec<Violation>,
}

/// A version of which everything is known but, if only keys were asked for, the value.
fn seen(kv: &KeyValue, keys_only: bool, witness: Witness) -> Fact {
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

/// A change of which nothing but the key is known.
fn bare(key: &Blob, kind: EventKind, witness: Witness) -> Fact {
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

    /// The last revision of which anything is known, or zero.
    pub(crate) fn last(&self) -> i64 {
        self.revisions.last_key_value().map_or(0, |(revision, _)| *revision)
    }

    /// Whether these can be the changes that led to this state.
    pub(crate) fn admits(&self, state: &State, changes: &[Change]) -> bool {
        let facts = self.revisions.get(&state.revision()).into_iter().flatten();
        let mut past = self.past.get(&state.revision()).into_iter().flatten();
        facts.into_iter().all(|fact| changes.iter().any(|change| fact.is(change)))
            && past.all(|(range, reply)| {
                let found = state.select(&range.keys).map(AsRef::as_ref);
                model::answer(range, reply.revision, found) == **reply
            })
    }

    /// Whether a call made at that time can have made a revision: nobody had seen it by then.
    pub(crate) fn admits_at(&self, revision: i64, call: u64) -> bool {
        self.seen_by.range(revision..).next().is_none_or(|(_, seen)| call <= *seen)
    }

    /// Whether these changes at a revision agree with all watches. They do not if a watch whose filter matches a change received
    /// the surrounding revisions without it, or an event's previous version shows that the key did not change in between.
    pub(crate) fn misses_none(&self, revision: i64, changes: &[Change]) -> bool {
        let facts = self.revisions.get(&revision).map(Vec::as_slice).unwrap_or_default();
        let is_known = |change: &Change| facts.iter().any(|fact| fact.is(change));
        let unknown: Vec<_> = changes.iter().filter(|change| !is_known(change)).collect();
        let missed = |span: &Span<'_>| {
            (span.first..=span.last).contains(&revision)
                && unknown.iter().any(|change| span.watch.wants(change.kind, change.kv.key.as_bytes()))
        };
        let slept = |rest: &Rest| {
            rest.after < revision
                && revision < rest.before
                && unknown.iter().any(|change| change.kv.key == rest.key)
        };
        unknown.is_empty() || !self.spans.iter().any(missed) && !self.rests.iter().any(slept)
    }

    /// What is known of a revision, in words.
    pub(crate) fn describe(&self, history: &History, revision: i64) -> Vec<String> {
        let facts = self.revisions.get(&revision).into_iter().flatten();
        facts
            .map(|fact| format!("{} by {}", fact.describe(revision), fact.witness.describe(history)))
            .collect()
    }

    fn call(&mut self, history: &History, at: usize, call: &'a Call) {
        let witness = Witness::Call(at);
        match (&call.operation, &call.outcome) {
            (Operation::Range(range), Outcome::Ok(Reply::Range(reply))) => {
                let facts = reply.kvs.iter().map(|kv| (kv.mod_revision, seen(kv, range.keys_only, witness)));
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

    fn op(&mut self, history: &History, revision: i64, op: &Op, reply: &OpReply, witness: Witness) {
        let mut add = |revision, fact| self.add(history, revision, fact);
        let before = |kv: &KeyValue| (kv.mod_revision, seen(kv, false, witness));
        match (op, reply) {
            (Op::Put { key, value, lease, .. }, OpReply::Put(prev_kv)) => {
                let (value, lease) = (Some(value.clone()), Some(*lease));
                add(revision, Fact { value, lease, ..bare(key, EventKind::Put, witness) });
                prev_kv.iter().map(before).for_each(|(revision, fact)| add(revision, fact));
            }
            (Op::Delete { keys, .. }, OpReply::Delete { deleted, prev_kvs }) => {
                for kv in prev_kvs {
                    add(revision, bare(&kv.key, EventKind::Delete, witness));
                    add(kv.mod_revision, seen(kv, false, witness));
                }
                if prev_kvs.is_empty() && *deleted == 1 && keys.end.is_empty() {
                    add(revision, bare(&keys.key, EventKind::Delete, witness));
                }
            }
            // A read after a change in the same transaction sees it; the model judges that.
            (Op::Range(_) | Op::Put { .. } | Op::Delete { .. }, _) => {}
        }
    }

    fn watch(&mut self, history: &History, at: usize, watch: &'a Watch) {
        let mut last = 0;
        for (number, response) in watch.responses.iter().enumerate() {
            let witness = Witness::Watch(at, number);
            match &response.said {
                Said::Events { events, fragment } => {
                    events.iter().for_each(|event| self.event(history, event, witness));
                    let newest = events.last().map_or(0, |event| event.kv.mod_revision);
                    last = last.max(newest - i64::from(*fragment));
                }
                Said::Progress => last = last.max(response.revision),
                Said::Created | Said::Canceled { .. } => {}
            }
        }
        self.spans.extend(watch.first().map(|first| Span { first, last, watch }));
    }

    fn event(&mut self, history: &History, event: &Event, witness: Witness) {
        self.add(history, event.kv.mod_revision, told(event, witness));
        if let Some(before) = &event.prev_kv {
            let (key, after) = (before.key.clone(), before.mod_revision);
            self.rests.push(Rest { key, after, before: event.kv.mod_revision });
            // If it is wrong, that is a broken guarantee of its own.
            let facts = self.revisions.entry(before.mod_revision).or_default();
            let fact = seen(before, false, witness);
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

/// A read whose content is that of an old revision, or may be.
fn is_past(call: &Call) -> bool {
    matches!(&call.operation, Operation::Range(range) if range.revision > 0 || range.serializable)
}

fn told(event: &Event, witness: Witness) -> Fact {
    match event.kind {
        EventKind::Put => seen(&event.kv, false, witness),
        EventKind::Delete => bare(&event.kv.key, EventKind::Delete, witness),
    }
}

fn conflict(history: &History, revision: i64, known: &Fact, fact: &Fact) -> Violation {
    Violation {
        guarantee: Guarantee::OneHistory,
        summary: format!("revision {revision} of {} is two different things", fact.key),
        expected: format!("{}, as was seen first", known.describe(revision)),
        seen: fact.describe(revision),
        window: vec![known.witness.describe(history), fact.witness.describe(history)],
    }
}

impl Witness {
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

/// Takes what `new` knows; says whether it fits.
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

    /// Whether both can be true.
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
