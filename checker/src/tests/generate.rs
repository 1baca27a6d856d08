//! Generator of good histories from a seed: a store that executes one operation after the other, clients that call at
//! random times around it, and watches.

use crate::history::{
    Blob, Call, Compare, Event, EventKind, Field, History, KeyValue, Keys, Op, Operation, Outcome, Range,
    RangeReply, Refusal, Relation, Reply, Txn, Watch, WatchContent, WatchRequest, WatchResponse,
};
use crate::model::{Change, StoreState};
use kstore_nondet::Rng;
use std::collections::BTreeMap;

/// The size and shape of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) clients: u32,
    pub(super) calls: usize,
    pub(super) keys: u64,
    /// Percentage of calls without an answer.
    pub(super) unknown: u64,
    pub(super) watches: u32,
}

impl Setup {
    pub(super) fn small(seed: u64) -> Self {
        Self { seed, clients: 5, calls: 300, keys: 6, unknown: 4, watches: 8 }
    }
}

/// A revision of the generated history.
struct GeneratedRevision {
    at: u64,
    changes: Vec<Change>,
}

struct Generator {
    rng: Rng,
    keys: u64,
    state: StoreState,
    /// Every key at every revision.
    past: Vec<BTreeMap<Blob, KeyValue>>,
    made: BTreeMap<i64, GeneratedRevision>,
    /// Times and revisions of compactions.
    compactions: Vec<(u64, i64)>,
    leases: Vec<i64>,
    values: u64,
}

pub(super) fn history(setup: Setup) -> History {
    let mut world = Generator {
        rng: Rng::seeded(setup.seed),
        keys: setup.keys,
        state: StoreState::new(&Default::default()),
        past: vec![BTreeMap::new(); 2],
        made: BTreeMap::new(),
        compactions: Vec::new(),
        leases: Vec::new(),
        values: 0,
    };
    // Per client: when its next call takes effect, and when it calls.
    let mut next: Vec<(u64, u64, u32)> =
        (0..setup.clients).map(|client| (u64::from(client) + 10, 1, client)).collect();
    let mut calls = Vec::new();
    for _ in 0..setup.calls {
        next.sort_unstable();
        let (at, call, client) = next[0];
        let ret = at + world.rng.below(20);
        calls.push(world.call(setup.unknown, client, (call, at, ret)));
        let call = ret + 1 + world.rng.below(10);
        next[0] = (call + world.rng.below(20), call, client);
    }
    let end = next.iter().map(|next| next.0).max().unwrap_or(0) + 100;
    let watches = (0..setup.watches).map(|client| world.watch(client, end)).collect();
    History { calls, watches, ..History::default() }
}

impl Generator {
    fn call(&mut self, unknown: u64, client: u32, (call, at, ret): (u64, u64, u64)) -> Call {
        let operation = self.operation();
        let lost = self.rng.below(100) < unknown;
        if lost && self.rng.below(2) == 0 {
            return Call { client, call, ret, operation, outcome: Outcome::Unknown };
        }
        let outcome = match self.apply(&operation, at) {
            _ if lost => Outcome::Unknown,
            Ok(reply) => Outcome::Ok(reply),
            Err(refusal) => Outcome::Failed(refusal),
        };
        Call { client, call, ret, operation, outcome }
    }

    fn apply(&mut self, operation: &Operation, at: u64) -> Result<Reply, Refusal> {
        let (answer, effect) = self.state.apply(operation);
        if !effect.changes.is_empty() {
            let kvs = self.state.kvs().map(|kv| (kv.key.clone(), kv.as_ref().clone()));
            self.past.push(kvs.collect());
            self.made.insert(self.state.revision(), GeneratedRevision { at, changes: effect.changes });
        }
        match (operation, answer) {
            (Operation::Range(range), Ok(_)) if range.revision > 0 => Ok(Reply::Range(self.read(range))),
            (Operation::Compact { revision }, Ok(reply)) => {
                self.compactions.push((at, *revision));
                Ok(reply)
            }
            (Operation::LeaseGrant { id, .. }, Ok(reply)) => {
                self.leases.push(*id);
                Ok(reply)
            }
            (_, answer) => answer,
        }
    }

    /// A read of an old revision, from the recorded states.
    fn read(&self, range: &Range) -> RangeReply {
        let past = &self.past[range.revision as usize];
        let kvs: Vec<_> =
            past.values().filter(|kv| range.keys.contains(kv.key.as_bytes())).cloned().collect();
        RangeReply { revision: self.state.revision(), count: kvs.len() as i64, kvs, more: false }
    }

    fn key(&self) -> Blob {
        format!("k{}", self.rng.below(self.keys)).into()
    }

    fn put(&mut self, lease: i64) -> Op {
        self.values += 1;
        let value = format!("v{}", self.values).into();
        Op::Put { key: self.key(), value, lease, prev_kv: self.rng.below(2) == 0 }
    }

    fn delete(&self) -> Op {
        let keys = if self.rng.below(5) == 0 { Keys::between("k1", "k3") } else { Keys::one(self.key()) };
        Op::Delete { keys, prev_kv: self.rng.below(2) == 0 }
    }

    /// A revision around the current one, or zero.
    fn revision(&self) -> i64 {
        (self.state.revision() - 30 + self.rng.below(33) as i64).max(0)
    }

    fn lease(&self) -> i64 {
        match self.leases.len() as u64 {
            0 => 77,
            len => self.leases[self.rng.below(len) as usize],
        }
    }

    fn operation(&mut self) -> Operation {
        match self.rng.below(100) {
            0..20 => Operation::Range(Range { keys: Keys::one(self.key()), ..Range::default() }),
            20..30 => Operation::Range(Range { keys: Keys::prefix(b"k"), limit: 3, ..Range::default() }),
            30..40 => {
                let revision = self.revision();
                Operation::Range(Range { keys: Keys::prefix(b"k"), revision, ..Range::default() })
            }
            40..65 => Operation::Txn(Txn::of(self.put(0))),
            65..70 => {
                let lease = self.lease();
                Operation::Txn(Txn::of(self.put(lease)))
            }
            70..78 => Operation::Txn(Txn::of(self.delete())),
            78..88 => self.swap(),
            88..92 => {
                let id = 1_000 + self.rng.below(1 << 40) as i64;
                Operation::LeaseGrant { id, ttl: 1 << 40 }
            }
            92..95 => Operation::LeaseRevoke { id: self.lease() },
            95..97 => Operation::Compact { revision: self.revision() },
            _ => self.many(),
        }
    }

    /// A transaction that changes a key if it is unchanged, and otherwise reads it.
    fn swap(&mut self) -> Operation {
        let key = self.key();
        let known = self.state.get(&key).map_or(0, |kv| kv.mod_revision);
        let guess = known + i64::from(self.rng.below(3) == 0);
        let compare = Compare { key: key.clone(), relation: Relation::Equal, field: Field::Mod(guess) };
        self.values += 1;
        let value = format!("v{}", self.values).into();
        let then = vec![Op::Put { key: key.clone(), value, lease: 0, prev_kv: false }];
        let or_else = vec![Op::Range(Range { keys: Keys::one(key), ..Range::default() })];
        Operation::Txn(Txn { compares: vec![compare], then, or_else })
    }

    /// A transaction with several changes in one revision.
    fn many(&mut self) -> Operation {
        self.values += 1;
        let value: Blob = format!("v{}", self.values).into();
        let put = |key: &str| Op::Put { key: key.into(), value: value.clone(), lease: 0, prev_kv: false };
        let delete = Op::Delete { keys: Keys::one("k2"), prev_kv: true };
        Operation::Txn(Txn { compares: vec![], then: vec![put("k0"), put("k1"), delete], or_else: vec![] })
    }

    /// The newest revision at a time.
    fn revision_at(&self, at: u64) -> i64 {
        let made = self.made.iter().take_while(|(_, made)| made.at <= at);
        made.last().map_or(1, |(revision, _)| *revision)
    }

    fn watch(&self, client: u32, end: u64) -> Watch {
        let at = if client == 0 { 0 } else { self.rng.below(end / 2) };
        let current = self.revision_at(at);
        let wide = client.is_multiple_of(2);
        let keys = if wide { Keys::all() } else { Keys::one(self.key()) };
        let start = if client == 0 { 1 } else { (current - 20 + self.rng.below(40) as i64).max(0) };
        let request = WatchRequest { keys, start, prev_kv: wide, no_delete: client % 3 == 1, no_put: false };
        let mut watch = Watch { client, at, request, responses: Vec::new() };
        let mut say = |at, revision, said| watch.responses.push(WatchResponse { at, revision, said });
        say(at + 1, current, WatchContent::Created);
        let compacted = self.compactions.iter().take_while(|(when, _)| *when <= at).map(|(_, to)| *to);
        let compacted = compacted.last().unwrap_or(-1);
        if start > 0 && start < compacted {
            say(at + 2, 0, WatchContent::Canceled { compact_revision: compacted });
            return watch;
        }
        let first = watch.first().unwrap_or(0);
        self.deliver(&mut watch, first, at);
        watch
    }

    /// Delivers everything from `first` on, some revisions together, with progress responses in between.
    fn deliver(&self, watch: &mut Watch, first: i64, from: u64) {
        let (mut batch, mut clock) = (Vec::new(), from + 2);
        for (revision, made) in self.made.range(first..) {
            clock = clock.max(made.at + 1) + self.rng.below(3);
            let wanted =
                made.changes.iter().filter(|change| watch.wants(change.kind, change.kv.key.as_bytes()));
            let events: Vec<_> = wanted.map(|change| self.event(watch, change, clock)).collect();
            batch.extend(events);
            if !batch.is_empty() && self.rng.below(3) > 0 {
                let said = WatchContent::Events { events: std::mem::take(&mut batch), fragment: false };
                watch.responses.push(WatchResponse { at: clock, revision: *revision, said });
            }
            if batch.is_empty() && self.rng.below(6) == 0 {
                watch.responses.push(WatchResponse {
                    at: clock,
                    revision: *revision,
                    said: WatchContent::Progress,
                });
            }
        }
        if !batch.is_empty() {
            let revision = self.state.revision();
            let said = WatchContent::Events { events: batch, fragment: false };
            watch.responses.push(WatchResponse { at: clock, revision, said });
        }
    }

    fn event(&self, watch: &Watch, change: &Change, now: u64) -> Event {
        let gone = self.compactions.iter().any(|(at, to)| *at <= now && *to >= change.kv.mod_revision);
        let has_prev_kv = watch.request.prev_kv && !gone;
        let prev_kv = change.before.as_deref().filter(|_| has_prev_kv).cloned();
        Event { kind: change.kind, kv: (*change.kv).clone(), prev_kv }
    }
}

/// Whether an event is a put.
pub(super) fn is_put(event: &Event) -> bool {
    event.kind == EventKind::Put
}
