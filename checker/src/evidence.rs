//! What the history proves of each revision, whoever saw it: which keys it put or deleted, and with what. Two pieces of
//! evidence that contradict each other are a broken guarantee by themselves; the others tell which of the calls with unknown
//! outcome made a revision. A watch on everything from the first revision on is evidence of all of them: the order in which
//! the store did its writes.

use std::collections::{BTreeMap, BTreeSet};

use crate::describe;
use crate::history::{
    Blob, Call, Event, EventKind, History, KeyValue, Op, OpReply, Operation, Outcome, Reply, Said, Watch,
};
use crate::model::Change;
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
    /// Calls alone.
    Calls,
    /// Calls and watches.
    CallsAndWatches,
}

/// What is known of the revisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    revisions: BTreeMap<i64, Vec<Fact>>,
    /// Revisions of which every change is known.
    complete: BTreeSet<i64>,
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

impl Evidence {
    pub(crate) fn gather(history: &History, sources: Sources) -> Self {
        let mut evidence = Self::default();
        for (at, call) in history.calls.iter().enumerate() {
            evidence.call(history, at, call);
        }
        if sources == Sources::CallsAndWatches {
            for (at, watch) in history.watches.iter().enumerate() {
                evidence.watch(history, at, watch);
            }
        }
        evidence
    }

    /// The last revision of which anything is known, or zero.
    pub(crate) fn last(&self) -> i64 {
        self.revisions.last_key_value().map_or(0, |(revision, _)| *revision)
    }

    /// Whether these can be the changes of that revision.
    pub(crate) fn admits(&self, revision: i64, changes: &[Change]) -> bool {
        let Some(facts) = self.revisions.get(&revision) else { return true };
        let complete = self.complete.contains(&revision);
        facts.iter().all(|fact| changes.iter().any(|change| fact.is(change)))
            && (!complete || changes.iter().all(|change| facts.iter().any(|fact| fact.is(change))))
    }

    /// What is known of a revision, in words.
    pub(crate) fn describe(&self, history: &History, revision: i64) -> Vec<String> {
        let facts = self.revisions.get(&revision).into_iter().flatten();
        facts
            .map(|fact| format!("{} by {}", fact.describe(revision), fact.witness.describe(history)))
            .collect()
    }

    fn call(&mut self, history: &History, at: usize, call: &Call) {
        let witness = Witness::Call(at);
        match (&call.operation, &call.outcome) {
            (Operation::Range(range), Outcome::Ok(Reply::Range(reply))) => {
                let facts = reply.kvs.iter().map(|kv| (kv.mod_revision, seen(kv, range.keys_only, witness)));
                facts.for_each(|(revision, fact)| self.add(history, revision, fact));
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

    fn watch(&mut self, history: &History, at: usize, watch: &Watch) {
        let all = watch.request.keys.is_all() && !watch.request.no_put && !watch.request.no_delete;
        for (number, response) in watch.responses.iter().enumerate() {
            let Said::Events { events, fragment } = &response.said else { continue };
            let parted = *fragment || number > 0 && is_fragment(&watch.responses[number - 1].said);
            for event in events {
                let revision = event.kv.mod_revision;
                self.add(history, revision, told(event, Witness::Watch(at, number)));
                if all && !parted {
                    self.complete.insert(revision);
                }
            }
        }
    }

    fn add(&mut self, history: &History, revision: i64, fact: Fact) {
        let facts = self.revisions.entry(revision).or_default();
        let Some(known) = facts.iter_mut().find(|known| known.key == fact.key && known.kind == fact.kind)
        else {
            facts.push(fact);
            return;
        };
        if !known.merge(&fact) {
            self.conflicts.push(conflict(history, revision, known, &fact));
        }
    }
}

fn is_fragment(said: &Said) -> bool {
    matches!(said, Said::Events { fragment: true, .. })
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
