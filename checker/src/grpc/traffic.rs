//! Choice of a client's operations. Pure: the client reports the outcomes.

use super::{Mix, Plan};
use crate::history::{
    Blob, Compare, Field, Keys, Op, OpReply, Operation, Outcome, Range, RangeReply, Relation, Reply, Txn,
};
use kstore_nondet::Rng;
use std::collections::BTreeMap;

/// Most leases that a client has at a time.
const LEASES: usize = 4;

/// Most revisions between the current one and that of a historical read.
const BACK: i64 = 100;

/// Operations in a large transaction.
const MANY: u64 = 4;

/// Prefix of every key that the workload uses.
const PREFIX: &str = "/kstore-check/";

/// The range of all keys that the workload uses.
pub(super) fn everything() -> Keys {
    Keys::prefix(PREFIX.as_bytes())
}

/// The key with this number.
pub(super) fn key(number: u64) -> Blob {
    format!("{PREFIX}{number:03}").into()
}

/// A kind of operation.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Get,
    List,
    KeysOnly,
    OldGet,
    OldList,
    Serializable,
    Put,
    PutWithLease,
    Many,
    Swap,
    Delete,
    DeleteRange,
    Revoke,
    KeepAlive,
    Create,
    Update,
    DeleteIf,
}

// Operations with their weights.
const ETCD: [(u64, Kind); 14] = [
    (15, Kind::Get),
    (8, Kind::List),
    (7, Kind::KeysOnly),
    (10, Kind::OldGet),
    (10, Kind::OldList),
    (2, Kind::Serializable),
    (20, Kind::Put),
    (5, Kind::PutWithLease),
    (10, Kind::Many),
    (5, Kind::Swap),
    (4, Kind::Delete),
    (1, Kind::DeleteRange),
    (4, Kind::Revoke),
    (3, Kind::KeepAlive),
];

const KUBERNETES: [(u64, Kind); 5] =
    [(30, Kind::List), (10, Kind::OldList), (54, Kind::Update), (3, Kind::DeleteIf), (3, Kind::Create)];

/// The state of one client's choices.
pub(super) struct Traffic {
    rng: Rng,
    client: u32,
    kinds: &'static [(u64, Kind)],
    keys: u64,
    ttl: i64,
    values: u64,
    /// The newest revision in the client's replies.
    revision: i64,
    /// The last seen mod revisions by key.
    known: BTreeMap<Blob, i64>,
    leases: Vec<i64>,
}

impl Traffic {
    pub(super) fn new(plan: &Plan, client: u32, rng: Rng) -> Self {
        let kinds: &[_] = match plan.mix {
            Mix::Etcd => &ETCD,
            Mix::Kubernetes => &KUBERNETES,
        };
        let (known, leases) = (BTreeMap::new(), Vec::new());
        let (keys, ttl) = (plan.keys.max(1), plan.lease_ttl);
        Self { rng, client, kinds, keys, ttl, values: 0, revision: 1, known, leases }
    }

    pub(super) fn next(&mut self) -> Operation {
        let whole: u64 = self.kinds.iter().map(|(part, _)| part).sum();
        let mut at = self.rng.below(whole);
        let chosen = self.kinds.iter().find(|(part, _)| {
            let found = at < *part;
            at = at.saturating_sub(*part);
            found
        });
        let (_, kind) = *chosen.expect("the parts add up to the whole");
        self.operation(kind)
    }

    fn operation(&mut self, kind: Kind) -> Operation {
        let read = |range| Operation::Range(range);
        let one = Range { keys: Keys::one(self.key()), ..Range::default() };
        let limit = [0, 0, 3][self.rng.below(3) as usize];
        let all = Range { keys: everything(), limit, ..Range::default() };
        match kind {
            Kind::Get => read(one),
            Kind::List => read(all),
            Kind::KeysOnly => read(Range { keys_only: true, ..all }),
            Kind::OldGet => read(Range { revision: self.old(), ..one }),
            Kind::OldList => read(Range { revision: self.old(), ..all }),
            Kind::Serializable => read(Range { serializable: true, ..all }),
            Kind::Put => Operation::Txn(Txn::of(self.put(0))),
            Kind::PutWithLease => self.put_with_lease(),
            Kind::Many => self.many(),
            Kind::Swap | Kind::Update => self.guarded(|traffic, key| traffic.put_to(key, 0)),
            Kind::DeleteIf => self.guarded(|_, key| Op::Delete { keys: Keys::one(key), prev_kv: false }),
            Kind::Create => self.create(),
            Kind::Delete => Operation::Txn(Txn::of(self.delete(one.keys))),
            Kind::DeleteRange => {
                let first = self.rng.below(self.keys);
                Operation::Txn(Txn::of(self.delete(Keys::between(key(first), key(first + 3)))))
            }
            Kind::Revoke => Operation::LeaseRevoke { id: self.lease() },
            Kind::KeepAlive => Operation::LeaseKeepAlive { id: self.lease() },
        }
    }

    fn key(&self) -> Blob {
        key(self.rng.below(self.keys))
    }

    /// A recent revision, sometimes a future one.
    fn old(&self) -> i64 {
        (self.revision + 2 - self.rng.below(BACK as u64) as i64).max(1)
    }

    fn value(&mut self) -> Blob {
        self.values += 1;
        format!("{}-{}", self.client, self.values).into()
    }

    fn put(&mut self, lease: i64) -> Op {
        let key = self.key();
        self.put_to(key, lease)
    }

    fn put_to(&mut self, key: Blob, lease: i64) -> Op {
        Op::Put { key, value: self.value(), lease, prev_kv: self.rng.below(3) == 0 }
    }

    fn delete(&self, keys: Keys) -> Op {
        Op::Delete { keys, prev_kv: self.rng.below(2) == 0 }
    }

    /// One of the client's leases, or a lease that does not exist if it has none.
    fn lease(&self) -> i64 {
        match self.leases.len() as u64 {
            0 => 1,
            len => self.leases[self.rng.below(len) as usize],
        }
    }

    fn put_with_lease(&mut self) -> Operation {
        if self.leases.is_empty() || self.leases.len() < LEASES && self.rng.below(3) == 0 {
            let id = 1 + (self.rng.next_u64() >> 1) as i64 / 2;
            return Operation::LeaseGrant { id, ttl: self.ttl };
        }
        let lease = self.lease();
        Operation::Txn(Txn::of(self.put(lease)))
    }

    /// A transaction that writes several distinct keys, since no key may be changed twice.
    fn many(&mut self) -> Operation {
        let first = self.rng.below(self.keys);
        let ops = (0..MANY.min(self.keys)).map(|step| {
            let key = key((first + step) % self.keys);
            match self.rng.below(4) {
                0 => Op::Range(Range { keys: Keys::one(key), ..Range::default() }),
                1 => Op::Delete { keys: Keys::one(key), prev_kv: true },
                _ => self.put_to(key, 0),
            }
        });
        Operation::Txn(Txn { compares: Vec::new(), then: ops.collect(), or_else: Vec::new() })
    }

    /// A transaction that changes a key if its mod revision is the last seen one, and otherwise reads it.
    fn guarded(&mut self, change: impl Fn(&mut Self, Blob) -> Op) -> Operation {
        let key = self.key();
        let known = self.known.get(&key).copied().unwrap_or(0);
        let compare = Compare { key: key.clone(), relation: Relation::Equal, field: Field::Mod(known) };
        let read = Op::Range(Range { keys: Keys::one(key.clone()), ..Range::default() });
        Operation::Txn(Txn { compares: vec![compare], then: vec![change(self, key)], or_else: vec![read] })
    }

    /// A transaction that creates a key if it does not exist.
    fn create(&mut self) -> Operation {
        let key = self.key();
        let compare = Compare { key: key.clone(), relation: Relation::Equal, field: Field::Version(0) };
        let read = Op::Range(Range { keys: Keys::one(key.clone()), ..Range::default() });
        let then = vec![self.put_to(key, 0)];
        Operation::Txn(Txn { compares: vec![compare], then, or_else: vec![read] })
    }

    /// Learns from the outcome of an operation.
    pub(super) fn learn(&mut self, operation: &Operation, outcome: &Outcome) {
        if let Outcome::Ok(reply) = outcome {
            self.revision = self.revision.max(reply.revision().unwrap_or(0));
        }
        match (operation, outcome) {
            (Operation::LeaseGrant { id, .. }, Outcome::Ok(_)) => self.leases.push(*id),
            (Operation::LeaseRevoke { id }, _) => self.leases.retain(|lease| lease != id),
            (Operation::LeaseKeepAlive { id }, Outcome::Ok(Reply::LeaseKeepAlive { ttl: 0 })) => {
                self.leases.retain(|lease| lease != id);
            }
            (Operation::Txn(_), Outcome::Failed(_)) if self.rng.below(2) == 0 => drop(self.leases.pop()),
            (Operation::Range(range), Outcome::Ok(Reply::Range(reply))) if range.revision == 0 => {
                self.remember_mod_revisions(reply);
            }
            (Operation::Txn(txn), Outcome::Ok(Reply::Txn { revision, succeeded, results })) => {
                let ops = if *succeeded { &txn.then } else { &txn.or_else };
                for (op, reply) in ops.iter().zip(results) {
                    match (op, reply) {
                        (Op::Put { key, .. }, _) => drop(self.known.insert(key.clone(), *revision)),
                        (Op::Delete { keys, .. }, _) => drop(self.known.remove(&keys.key)),
                        (Op::Range(_), OpReply::Range(reply)) => self.remember_mod_revisions(reply),
                        (Op::Range(_), OpReply::Put(_) | OpReply::Delete { .. }) => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn remember_mod_revisions(&mut self, reply: &RangeReply) {
        self.known.extend(reply.kvs.iter().map(|kv| (kv.key.clone(), kv.mod_revision)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StoreState;

    #[test]
    fn generated_traffic_covers_every_operation_and_outcome() {
        for mix in [Mix::Etcd, Mix::Kubernetes] {
            let plan = Plan { mix, ..Plan::new("", 1) };
            let mut traffic = Traffic::new(&plan, 1, Rng::seeded(1));
            let (mut state, mut refused, mut failed) = (StoreState::new(&Default::default()), 0, 0);
            // A single client rarely finds a key changed.
            for _ in 0..20_000 {
                let operation = traffic.next();
                let (answer, _) = state.apply(&operation);
                refused += usize::from(answer.is_err());
                failed += usize::from(matches!(answer, Ok(Reply::Txn { succeeded: false, .. })));
                traffic.learn(&operation, &answer.map_or_else(Outcome::Failed, Outcome::Ok));
            }
            assert!(state.revision() > 1_000 && state.kvs().count() > 3 && refused > 10, "{mix:?} {refused}");
            assert!(failed > 10, "{mix:?}: {failed} guards did not hold");
        }
    }
}
