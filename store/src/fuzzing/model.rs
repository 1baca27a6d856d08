//! The reference model: every revision is a full copy of the map.

use crate::{
    Compare, CompareOp, Event, EventKind, KeyRange, KeyValue, LeaseId, Op, OpResult, Range, RangeResult,
    Revision, SortOrder, SortTarget, Target, Txn, TxnResult, VersionEffect,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelKv {
    pub(crate) value: Vec<u8>,
    pub(crate) create: i64,
    pub(crate) modified: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
}

pub(crate) type Map = BTreeMap<Vec<u8>, ModelKv>;

/// Kind, key, new version, previous version.
pub(crate) type Change = (EventKind, Vec<u8>, Option<ModelKv>, Option<ModelKv>);

#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// The map at each revision; index 0 is unused.
    pub(crate) maps: Vec<Map>,
    /// The changes of each revision.
    pub(crate) changes: Vec<Vec<Change>>,
    pub(crate) notes: Vec<Option<Vec<u8>>>,
    pub(crate) compacted: i64,
    pub(crate) leases: BTreeMap<i64, i64>,
}

impl Model {
    pub(crate) fn new() -> Self {
        let (maps, changes) = (vec![Map::new(); 2], vec![vec![]; 2]);
        Self { maps, changes, notes: vec![None; 2], compacted: -1, leases: BTreeMap::new() }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.maps.len() as i64 - 1
    }

    pub(crate) fn now(&self) -> &Map {
        self.maps.last().expect("there always is a revision")
    }

    /// Applies a transaction that the store accepted.
    pub(crate) fn txn(&mut self, txn: &Txn) -> Outcome {
        let mut run = TxnRun {
            base: self.revision(),
            before: self.now().clone(),
            map: self.now().clone(),
            changes: vec![],
        };
        let outcome = run.txn(txn, self);
        if !run.changes.is_empty() {
            self.push(run.map, run.changes, txn.note.as_ref().map(|note| note.to_vec()));
        }
        outcome
    }

    pub(crate) fn revoke(&mut self, id: i64) {
        self.leases.remove(&id);
        let mut map = self.now().clone();
        let gone: Vec<_> = map.iter().filter(|(_, kv)| kv.lease == id).map(|(key, _)| key.clone()).collect();
        let changes: Vec<_> =
            gone.into_iter().map(|key| (EventKind::Delete, key.clone(), None, map.remove(&key))).collect();
        if !changes.is_empty() {
            self.push(map, changes, None);
        }
    }

    fn push(&mut self, map: Map, changes: Vec<Change>, note: Option<Vec<u8>>) {
        self.maps.push(map);
        self.changes.push(changes);
        self.notes.push(note);
    }

    /// All keys that ever were.
    pub(crate) fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.changes.iter().flatten().map(|change| change.1.clone()).collect()
    }

    /// The changes of a key whose results can be read: the one that made the version at the oldest revision, and all later ones.
    pub(crate) fn versions(&self, key: &[u8]) -> Vec<(i64, VersionEffect)> {
        let oldest = self.compacted.max(1);
        let effect = |existed: bool, exists: bool| match (existed, exists) {
            (_, false) => VersionEffect::Deleted,
            (true, true) => VersionEffect::Updated,
            (false, true) => VersionEffect::Created,
        };
        let first = self.maps[oldest as usize].get(key);
        let first = first.map(|kv| (kv.modified, effect(kv.create < kv.modified, true)));
        let later = (oldest + 1..=self.revision()).filter_map(|revision| {
            let is_changed = self.changes[revision as usize].iter().any(|change| change.1 == key);
            let has = |revision: i64| self.maps[revision as usize].contains_key(key);
            is_changed.then(|| (revision, effect(has(revision - 1), has(revision))))
        });
        first.into_iter().chain(later).collect()
    }

    /// Whether the store must still have a note: if its revision is not compacted, or is a live key's create or mod
    /// revision.
    pub(crate) fn must_keep_note(&self, revision: i64) -> bool {
        let used = self.now().values().any(|kv| kv.create == revision || kv.modified == revision);
        revision >= self.compacted || used
    }
}

/// The result of a transaction in the model's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    pub(crate) revision: i64,
    pub(crate) answers: Vec<Reply>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Range { revision: i64, kvs: Vec<(Vec<u8>, ModelKv)>, more: bool, count: i64 },
    Put { revision: i64, prev: Option<ModelKv> },
    Delete { revision: i64, deleted: i64, prev: Vec<ModelKv> },
    Txn(Outcome),
}

struct TxnRun {
    base: i64,
    before: Map,
    map: Map,
    changes: Vec<Change>,
}

impl TxnRun {
    fn now(&self) -> i64 {
        self.base + i64::from(!self.changes.is_empty())
    }

    fn txn(&mut self, txn: &Txn, model: &Model) -> Outcome {
        let succeeded = txn.compares.iter().all(|compare| holds(compare, &self.before));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let answers = ops.iter().map(|op| self.op(op, model)).collect();
        Outcome { succeeded, revision: self.now(), answers }
    }

    fn op(&mut self, op: &Op, model: &Model) -> Reply {
        match op {
            Op::Range(range) => {
                let map = match range.revision.0 {
                    0 => &self.map,
                    revision => &model.maps[revision as usize],
                };
                self::range(map, range, self.now())
            }
            Op::Put(put) => {
                let prev = self.map.get(&put.key[..]).cloned();
                let old = prev.as_ref();
                let kv = ModelKv {
                    value: if put.ignore_value {
                        old.map(|old| old.value.clone()).unwrap_or_default()
                    } else {
                        put.value.to_vec()
                    },
                    create: old.map_or(self.base + 1, |old| old.create),
                    modified: self.base + 1,
                    version: old.map_or(1, |old| old.version + 1),
                    lease: if put.ignore_lease { old.map_or(0, |old| old.lease) } else { put.lease.0 },
                };
                self.map.insert(put.key.to_vec(), kv.clone());
                // A put that creates has no previous version, even if its own transaction deleted the key first.
                let was = self.before.get(&put.key[..]).filter(|_| old.is_some()).cloned();
                self.changes.push((EventKind::Put, put.key.to_vec(), Some(kv), was));
                Reply::Put { revision: self.base + 1, prev: prev.filter(|_| put.prev_kv) }
            }
            Op::Delete(delete) => {
                let keys: Vec<_> = inside(&self.map, &delete.keys).map(|(key, _)| key.clone()).collect();
                let gone: Vec<_> =
                    keys.iter().map(|key| self.map.remove(key).expect("it was found")).collect();
                for key in &keys {
                    self.changes.push((EventKind::Delete, key.clone(), None, self.before.get(key).cloned()));
                }
                let prev = if delete.prev_kv { gone } else { vec![] };
                Reply::Delete { revision: self.now(), deleted: keys.len() as i64, prev }
            }
            Op::Txn(inner) => Reply::Txn(self.txn(inner, model)),
        }
    }
}

fn inside<'a>(map: &'a Map, keys: &'a KeyRange) -> impl Iterator<Item = (&'a Vec<u8>, &'a ModelKv)> {
    map.iter().filter(|(key, _)| keys.contains(key))
}

fn holds(compare: &Compare, map: &Map) -> bool {
    let missing = ModelKv { value: vec![], create: 0, modified: 0, version: 0, lease: 0 };
    let mut found: Vec<_> = inside(map, &compare.keys).map(|(_, kv)| Some(kv)).collect();
    if found.is_empty() {
        found.push(None);
    }
    found.into_iter().all(|kv| {
        let stored = kv.unwrap_or(&missing);
        let order = match &compare.target {
            Target::Version(given) => stored.version.cmp(given),
            Target::Create(given) => stored.create.cmp(&given.0),
            Target::Mod(given) => stored.modified.cmp(&given.0),
            Target::Lease(given) => stored.lease.cmp(&given.0),
            Target::Value(_) if kv.is_none() => return false,
            Target::Value(given) => stored.value.as_slice().cmp(given),
        };
        match compare.op {
            CompareOp::Equal => order.is_eq(),
            CompareOp::NotEqual => order.is_ne(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::Less => order.is_lt(),
        }
    })
}

/// Reads a range of one map.
pub(crate) fn range(map: &Map, range: &Range, revision: i64) -> Reply {
    let all: Vec<_> = inside(map, &range.keys).map(|(key, kv)| (key.clone(), kv.clone())).collect();
    let count = all.len() as i64;
    if range.count_only {
        return Reply::Range { revision, kvs: vec![], more: false, count };
    }
    let bound = |value: i64, min: Revision, max: Revision| {
        (min.0 == 0 || value >= min.0) && (max.0 == 0 || value <= max.0)
    };
    let mut kvs: Vec<_> = all
        .into_iter()
        .filter(|(_, kv)| bound(kv.modified, range.min_mod_revision, range.max_mod_revision))
        .filter(|(_, kv)| bound(kv.create, range.min_create_revision, range.max_create_revision))
        .collect();
    kvs.sort_by(|(a_key, a), (b_key, b)| {
        let order = match range.sort_target {
            SortTarget::Key => a_key.cmp(b_key),
            SortTarget::Version => a.version.cmp(&b.version),
            SortTarget::Create => a.create.cmp(&b.create),
            SortTarget::Mod => a.modified.cmp(&b.modified),
            SortTarget::Value => a.value.cmp(&b.value),
        };
        if range.sort_order == SortOrder::Descending { order.reverse() } else { order }
    });
    let more = range.limit > 0 && kvs.len() as i64 > range.limit;
    if range.limit > 0 {
        kvs.truncate(range.limit as usize);
    }
    if range.keys_only {
        kvs.iter_mut().for_each(|(_, kv)| kv.value.clear());
    }
    Reply::Range { revision, kvs, more, count }
}

// Conversions of the store's results to the model's types.

pub(crate) fn kv(kv: &KeyValue) -> ModelKv {
    ModelKv {
        value: kv.value().to_vec(),
        create: kv.create_revision().0,
        modified: kv.mod_revision().0,
        version: kv.version(),
        lease: kv.lease().0,
    }
}

pub(crate) fn range_reply(result: &RangeResult) -> Reply {
    let kvs = result.kvs.iter().map(|found| (found.key().to_vec(), kv(found))).collect();
    Reply::Range { revision: result.revision.0, kvs, more: result.more, count: result.count }
}

pub(crate) fn outcome(result: &TxnResult) -> Outcome {
    let answer = |response: &OpResult| match response {
        OpResult::Range(range) => range_reply(range),
        OpResult::Put(put) => Reply::Put { revision: put.revision.0, prev: put.prev_kv.as_deref().map(kv) },
        OpResult::Delete(delete) => Reply::Delete {
            revision: delete.revision.0,
            deleted: delete.deleted,
            prev: delete.prev_kvs.iter().map(|prev| kv(prev)).collect(),
        },
        OpResult::Txn(inner) => Reply::Txn(outcome(inner)),
    };
    let answers = result.responses.iter().map(answer).collect();
    Outcome { succeeded: result.succeeded, revision: result.revision.0, answers }
}

pub(crate) fn change(event: &Event) -> Change {
    let now = (event.kind == EventKind::Put).then(|| kv(&event.kv));
    (event.kind, event.key().to_vec(), now, event.prev_kv.as_deref().map(kv))
}

pub(crate) fn lease(id: i64) -> LeaseId {
    LeaseId(id)
}
