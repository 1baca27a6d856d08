//! A model of etcd as a deterministic state machine: executes one operation after the other, each with its reply. It
//! has the current state only; a `Timeline` has the past. Leases do not expire by themselves here: an expiry is a
//! revocation.

use crate::fingerprint::Fingerprint;
use crate::history::{
    Blob, Compare, EventKind, Field, InitialState, KeyValue, Keys, Op, OpReply, Operation, Outcome, Range,
    RangeReply, Refusal, Relation, Reply, Txn,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Put or delete.
    pub kind: EventKind,
    /// The new version; in a deletion only key and mod revision are set.
    pub kv: Arc<KeyValue>,
    /// The previous version.
    pub before: Option<Arc<KeyValue>>,
}

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreState {
    revision: i64,
    compacted: i64,
    keys: BTreeMap<Blob, Arc<KeyValue>>,
    leases: BTreeSet<i64>,
    fingerprint: Fingerprint,
}

/// The effect of an operation on a state, sufficient to undo it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Changes of keys, in order. Not empty exactly if the operation made a revision.
    pub changes: Vec<Change>,
    /// The lease that the operation granted or revoked.
    lease: Option<i64>,
    /// The previous compacted revision, if it changed.
    compacted: Option<i64>,
}

impl Effect {
    /// Whether nothing changed.
    pub fn is_none(&self) -> bool {
        self.changes.is_empty() && self.lease.is_none() && self.compacted.is_none()
    }
}

/// The model's reply. For a read of an explicit revision it only tells that the read is possible.
pub type ModelReply = Result<Reply, Refusal>;

impl StoreState {
    /// The state at the start of a history. It has no leases: no operation may use a lease from before.
    pub fn new(start: &InitialState) -> Self {
        let mut state = Self {
            revision: start.revision,
            compacted: start.compacted,
            keys: BTreeMap::new(),
            leases: BTreeSet::new(),
            fingerprint: Fingerprint::default(),
        };
        for kv in &start.kvs {
            state.set(&kv.key, Some(Arc::new(kv.clone())));
        }
        state
    }

    /// The current revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The oldest readable revision.
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Whether the lease exists.
    pub fn has_lease(&self, id: i64) -> bool {
        self.leases.contains(&id)
    }

    /// The current version of a key.
    pub fn get(&self, key: &Blob) -> Option<&Arc<KeyValue>> {
        self.keys.get(key)
    }

    /// All current versions, in key order.
    pub fn kvs(&self) -> impl Iterator<Item = &Arc<KeyValue>> {
        self.keys.values()
    }

    /// A hash of the state; different states have the same hash with a probability of about 2⁻¹²⁸.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.with(&(self.revision, self.compacted))
    }

    /// Executes an operation. A refused one changes nothing.
    pub fn apply(&mut self, operation: &Operation) -> (ModelReply, Effect) {
        let nothing = |answer| (answer, Effect::default());
        match operation {
            Operation::Range(range) => nothing(self.range(range).map(Reply::Range)),
            Operation::Txn(txn) => self.txn(txn),
            Operation::LeaseGrant { id, ttl } => self.grant(*id, *ttl),
            Operation::LeaseRevoke { id } => self.revoke(*id),
            Operation::LeaseKeepAlive { .. } => nothing(Ok(Reply::LeaseKeepAlive { ttl: 0 })),
            Operation::Compact { revision } => self.compact(*revision),
            Operation::Defragment => nothing(Ok(Reply::Defragment)),
        }
    }

    /// Undoes the last operation that was not undone.
    pub fn undo(&mut self, effect: &Effect) {
        for change in effect.changes.iter().rev() {
            self.set(&change.kv.key, change.before.clone());
        }
        self.revision -= i64::from(!effect.changes.is_empty());
        if let Some(id) = effect.lease {
            self.toggle(id);
        }
        if let Some(compacted) = effect.compacted {
            self.compacted = compacted;
        }
    }

    fn set(&mut self, key: &Blob, kv: Option<Arc<KeyValue>>) {
        let new = kv.as_ref().map(|kv| Fingerprint::of(kv.as_ref()));
        let old = match kv {
            Some(kv) => self.keys.insert(key.clone(), kv),
            None => self.keys.remove(key),
        };
        for part in new.into_iter().chain(old.map(|old| Fingerprint::of(old.as_ref()))) {
            self.fingerprint.toggle(part);
        }
    }

    fn toggle(&mut self, lease: i64) {
        if !self.leases.remove(&lease) {
            self.leases.insert(lease);
        }
        self.fingerprint.toggle(Fingerprint::of(&("lease", lease)));
    }

    fn range(&self, range: &Range) -> Result<RangeReply, Refusal> {
        if range.revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        if range.revision > 0 && range.revision < self.compacted {
            return Err(Refusal::Compacted);
        }
        let kvs = (range.revision <= 0).then(|| self.select(&range.keys)).into_iter().flatten();
        Ok(answer(range, self.revision, kvs.map(AsRef::as_ref)))
    }

    /// The versions of these keys, in key order.
    pub(crate) fn select(&self, keys: &Keys) -> impl Iterator<Item = &Arc<KeyValue>> {
        let end = match keys.end.as_bytes() {
            [] => Bound::Included(&keys.key),
            [0] => Bound::Unbounded,
            _ if keys.end < keys.key => Bound::Excluded(&keys.key),
            _ => Bound::Excluded(&keys.end),
        };
        let empty = matches!(end, Bound::Excluded(end) if *end <= keys.key);
        let found = (!empty).then(|| self.keys.range((Bound::Included(&keys.key), end)));
        found.into_iter().flatten().map(|(_, kv)| kv)
    }

    fn holds(&self, compare: &Compare) -> bool {
        let kv = self.keys.get(&compare.key);
        let number = |of: fn(&KeyValue) -> i64, given: &i64| Some(kv.map_or(0, |kv| of(kv)).cmp(given));
        let order = match &compare.field {
            Field::Version(given) => number(|kv| kv.version, given),
            Field::Create(given) => number(|kv| kv.create_revision, given),
            Field::Mod(given) => number(|kv| kv.mod_revision, given),
            Field::Lease(given) => number(|kv| kv.lease, given),
            Field::Value(given) => kv.map(|kv| kv.value.cmp(given)),
        };
        order.is_some_and(|order| match compare.relation {
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
            Relation::Greater => order.is_gt(),
            Relation::Less => order.is_lt(),
        })
    }

    fn txn(&mut self, txn: &Txn) -> (ModelReply, Effect) {
        let succeeded = txn.compares.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &txn.then } else { &txn.or_else };
        if let Some(refusal) = ops.iter().find_map(|op| self.refusal(op)) {
            return (Err(refusal), Effect::default());
        }
        let mut changes = Vec::new();
        let results = ops.iter().map(|op| self.op(op, &mut changes)).collect();
        self.revision += i64::from(!changes.is_empty());
        let effect = Effect { changes, ..Effect::default() };
        (Ok(Reply::Txn { revision: self.revision, succeeded, results }), effect)
    }

    fn refusal(&self, op: &Op) -> Option<Refusal> {
        match op {
            Op::Put { lease, .. } => {
                (*lease != 0 && !self.has_lease(*lease)).then_some(Refusal::LeaseNotFound)
            }
            Op::Range(range) => self.range(range).err(),
            Op::Delete { .. } => None,
        }
    }

    /// Executes one operation of a transaction that makes the next revision.
    fn op(&mut self, op: &Op, changes: &mut Vec<Change>) -> OpReply {
        let revision = self.revision + 1;
        match op {
            Op::Range(range) => OpReply::Range(self.range(range).expect("it was checked before")),
            Op::Put { key, value, lease, prev_kv } => {
                let before = self.keys.get(key).cloned();
                let (create_revision, version) =
                    before.as_ref().map_or((revision, 1), |kv| (kv.create_revision, kv.version + 1));
                let (key, value, lease) = (key.clone(), value.clone(), *lease);
                let kv = KeyValue { key, value, create_revision, mod_revision: revision, version, lease };
                let answer = before.as_deref().filter(|_| *prev_kv).cloned();
                self.change(EventKind::Put, kv, before, changes);
                OpReply::Put(answer)
            }
            Op::Delete { keys, prev_kv } => {
                let gone: Vec<_> = self.select(keys).cloned().collect();
                self.delete(&gone, changes);
                let prev_kvs = gone.iter().filter(|_| *prev_kv).map(|kv| kv.as_ref().clone()).collect();
                OpReply::Delete { deleted: gone.len() as i64, prev_kvs }
            }
        }
    }

    fn delete(&mut self, gone: &[Arc<KeyValue>], changes: &mut Vec<Change>) {
        for kv in gone {
            let mod_revision = self.revision + 1;
            let tombstone = KeyValue { key: kv.key.clone(), mod_revision, ..KeyValue::default() };
            self.change(EventKind::Delete, tombstone, Some(kv.clone()), changes);
        }
    }

    fn change(
        &mut self,
        kind: EventKind,
        kv: KeyValue,
        before: Option<Arc<KeyValue>>,
        changes: &mut Vec<Change>,
    ) {
        let kv = Arc::new(kv);
        self.set(&kv.key, (kind == EventKind::Put).then(|| kv.clone()));
        changes.push(Change { kind, kv, before });
    }

    fn grant(&mut self, id: i64, ttl: i64) -> (ModelReply, Effect) {
        if self.has_lease(id) {
            return (Err(Refusal::LeaseExists), Effect::default());
        }
        self.toggle(id);
        let reply = Reply::LeaseGrant { revision: self.revision, ttl };
        (Ok(reply), Effect { lease: Some(id), ..Effect::default() })
    }

    fn revoke(&mut self, id: i64) -> (ModelReply, Effect) {
        if !self.has_lease(id) {
            return (Err(Refusal::LeaseNotFound), Effect::default());
        }
        self.toggle(id);
        let gone: Vec<_> = self.keys.values().filter(|kv| kv.lease == id).cloned().collect();
        let mut changes = Vec::new();
        self.delete(&gone, &mut changes);
        self.revision += i64::from(!changes.is_empty());
        let reply = Reply::LeaseRevoke { revision: self.revision };
        (Ok(reply), Effect { changes, lease: Some(id), compacted: None })
    }

    fn compact(&mut self, revision: i64) -> (ModelReply, Effect) {
        if revision <= self.compacted {
            return (Err(Refusal::Compacted), Effect::default());
        }
        if revision > self.revision {
            return (Err(Refusal::FutureRevision), Effect::default());
        }
        let compacted = Some(std::mem::replace(&mut self.compacted, revision));
        (Ok(Reply::Compact { revision: self.revision }), Effect { compacted, ..Effect::default() })
    }
}

/// The reply to a range read that finds these versions.
pub(crate) fn answer<'a>(
    range: &Range,
    revision: i64,
    found: impl Iterator<Item = &'a KeyValue>,
) -> RangeReply {
    let limit = usize::try_from(range.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (mut kvs, mut count) = (Vec::new(), 0);
    for kv in found {
        count += 1;
        if !range.count_only && kvs.len() < limit {
            let value = if range.keys_only { Blob::default() } else { kv.value.clone() };
            kvs.push(KeyValue { value, ..kv.clone() });
        }
    }
    let more = !range.count_only && count > kvs.len();
    RangeReply { revision, kvs, more, count: count as i64 }
}

/// Whether a client's outcome agrees with the model's reply, as far as the model knows it. The content of an explicit
/// revision is not compared, and some headers promise less than a revision.
pub fn agrees(operation: &Operation, answer: &ModelReply, outcome: &Outcome) -> bool {
    match (answer, outcome) {
        (_, Outcome::Unknown) => true,
        (Err(expected), Outcome::Failed(seen)) => expected == seen,
        (Ok(_), Outcome::Failed(_)) | (Err(_), Outcome::Ok(_)) => false,
        (Ok(expected), Outcome::Ok(seen)) => same(operation, expected, seen),
    }
}

fn same(operation: &Operation, expected: &Reply, seen: &Reply) -> bool {
    match (expected, seen) {
        (Reply::Range(expected), Reply::Range(seen)) => match operation {
            Operation::Range(range) if range.revision > 0 => expected.revision == seen.revision,
            _ => expected == seen,
        },
        (
            Reply::Txn { revision, succeeded, results },
            Reply::Txn { revision: seen, succeeded: as_seen, results: found },
        ) => {
            let pairs = results.iter().zip(found);
            (revision, succeeded) == (seen, as_seen)
                && results.len() == found.len()
                && pairs.into_iter().all(|(expected, seen)| same_op(expected, seen))
        }
        // The server may have raised the time to live.
        (Reply::LeaseGrant { revision, .. }, Reply::LeaseGrant { revision: seen, .. }) => revision == seen,
        // The header may be of a later time than the compaction.
        (Reply::Compact { revision }, Reply::Compact { revision: seen }) => revision <= seen,
        (expected, seen) => expected == seen,
    }
}

/// Whether two operation replies agree. The header's revision of a read inside a transaction is not compared, since
/// etcd promises nothing about it.
fn same_op(expected: &OpReply, seen: &OpReply) -> bool {
    match (expected, seen) {
        (OpReply::Range(expected), OpReply::Range(seen)) => {
            (&expected.kvs, expected.more, expected.count) == (&seen.kvs, seen.more, seen.count)
        }
        (expected, seen) => expected == seen,
    }
}
