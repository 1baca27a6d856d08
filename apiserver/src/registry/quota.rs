//! What an object charges to the ResourceQuotas of its namespace: `status.used` moves in the very commit of the object, and the quotas
//! as they were read guard it. So no race overshoots a quota or loses a charge, and no charge outlives a write that failed.
//!
//! Writers of one namespace contend for the same quotas. Within this process they take turns ([`QuotaLedgers`]), so that each commits at
//! its first try; writers of other processes are noticed by the guards, and the loser judges its write again.

use super::service::Claims;
use super::{Registry, View};
use crate::cache::{Entry, Filter};
use crate::limits;
use crate::request::Target;
use crate::storage::{Guard, Write};
use bytes::Bytes;
use kstore_api::kind::{self, Resource};
use kstore_api::patch::apply::{self, ObjectType};
use kstore_api::quota::{self, Amounts, Change, Evaluator, Quota};
use kstore_api::status::Status;
use kstore_api::{meta, object, schema};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// The manager of the fields that charges change, as in Kubernetes.
const MANAGER: &str = "kube-apiserver";

/// The table row of ResourceQuotas.
fn resource_quotas() -> &'static Resource {
    kind::lookup("", "v1", "resourcequotas").expect("quotas are in the table")
}

/// The newest states of quotas that this process has stored and that its cache may not show yet, by storage key.
type Newest = BTreeMap<String, Arc<Entry>>;

/// The turns of writers that charge quotas. A namespace always has the same ledger.
pub(super) struct QuotaLedgers([Mutex<Newest>; limits::QUOTA_LEDGERS]);

impl Default for QuotaLedgers {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl QuotaLedgers {
    fn place(namespace: &str) -> usize {
        // FNV-1a: the places must only spread.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = namespace.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        (hash % limits::QUOTA_LEDGERS as u64) as usize
    }

    async fn turn(&self, place: usize) -> QuotaTurn<'_> {
        QuotaTurn(self.0[place].lock().await)
    }
}

/// The right to charge the quotas of a namespace, until it is dropped.
pub(crate) struct QuotaTurn<'l>(MutexGuard<'l, Newest>);

impl QuotaTurn<'_> {
    /// The newer of a quota's state in the cache and of the one that this process stored last.
    fn newest(&self, cached: Arc<Entry>) -> Arc<Entry> {
        match self.0.get(cached.key()) {
            Some(stored) if stored.revision > cached.revision => stored.clone(),
            _ => cached,
        }
    }
}

/// What a write adds to its commit for the quotas of its namespace.
#[derive(Default)]
pub(super) struct Charges {
    pub(super) claims: Claims,
    quotas: Vec<ChargedQuota>,
}

/// A quota as a commit stores it.
struct ChargedQuota {
    key: String,
    value: Value,
    bytes: Bytes,
    created: i64,
}

/// The write that is judged.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) target: &'a Target,
    /// The object before; `None`: it is created.
    pub(super) old: Option<&'a Value>,
    pub(super) new: &'a Value,
    /// Whether the write will be committed by itself: not in a dry run, and not as a part of a transaction.
    pub(super) commits: bool,
}

impl Registry {
    /// Without charges and without refusals: the plugin ResourceQuota is switched off.
    #[must_use]
    pub(crate) fn without_quotas(self) -> Self {
        Self { quotas: None, ..self }
    }

    /// Whether a write may depend on quotas, as its kind and its namespace say.
    pub(super) fn may_be_charged(&self, view: &View, target: &Target, creates: bool) -> bool {
        self.quotas.is_some()
            && target.resource.namespaced
            && !target.namespace.is_empty()
            && view.has_any(resource_quotas(), &target.namespace)
            && {
                let evaluator = evaluator(target);
                match creates {
                    true => evaluator.charges_create(target.subresource),
                    false => evaluator.charges_update(target.subresource),
                }
            }
    }

    /// Judges a write by the quotas of its namespace. What it charges is valid as long as `turn` is held, which is taken if needed.
    ///
    /// # Errors
    /// 403 in the words of Kubernetes. The view may be old.
    pub(super) async fn charge<'r>(
        &'r self,
        view: &View,
        judged: Judged<'_>,
        turn: &mut Option<QuotaTurn<'r>>,
    ) -> Result<Option<Box<Charges>>, Status> {
        if !self.may_be_charged(view, judged.target, judged.old.is_none()) {
            return Ok(None);
        }
        // Boxed, for few namespaces have quotas, and every write would be larger.
        Box::pin(self.charge_bounded(view, judged, turn)).await.map(Box::new).map(Some)
    }

    async fn charge_bounded<'r>(
        &'r self,
        view: &View,
        judged: Judged<'_>,
        turn: &mut Option<QuotaTurn<'r>>,
    ) -> Result<Charges, Status> {
        let Some(ledgers) = &self.quotas else { return Ok(Charges::default()) };
        if turn.is_none() {
            let charged = self.judge(view, judged, None)?;
            if charged.quotas.is_empty() || !judged.commits {
                return Ok(charged);
            }
            *turn = Some(ledgers.turn(QuotaLedgers::place(&judged.target.namespace)).await);
        }
        self.judge(view, judged, turn.as_ref())
    }

    fn judge(
        &self,
        view: &View,
        judged: Judged<'_>,
        turn: Option<&QuotaTurn<'_>>,
    ) -> Result<Charges, Status> {
        let target = judged.target;
        let filter = Filter { namespace: target.namespace.clone(), ..Filter::all(resource_quotas()) };
        let entries = view.scan(&filter).into_iter();
        let entries: Vec<Arc<Entry>> = entries
            .map(|entry| turn.map_or_else(|| entry.clone(), |turn| turn.newest(entry.clone())))
            .collect();
        let objects: Vec<Value> = entries.iter().map(|entry| entry.parse()).collect();
        let quotas: Vec<Quota> = objects.iter().map(Quota::of).collect();
        let evaluator = evaluator(target);
        let is_report = target.subresource == "status";
        let change = Change { evaluator: &evaluator, old: judged.old, new: judged.new, is_report };
        let now = self.nondet.clock.now();
        let quota::Charges { used, pending } = quota::charge(&quotas, &change, now)
            .map_err(|refusal| Status::forbidden(target.resource, &target.name, &refusal.to_string()))?;
        let mut charged = Charges::default();
        let guarded: BTreeSet<usize> = pending.into_iter().chain(used.iter().map(|(at, _)| *at)).collect();
        charged.claims.guards.extend(
            guarded
                .into_iter()
                .map(|at| Guard { key: entries[at].key().to_owned(), revision: entries[at].revision }),
        );
        let now = meta::format_time(now);
        for (at, used) in used {
            let value = with_used(&objects[at], &used, &now);
            let (key, bytes) = (entries[at].key().to_owned(), Bytes::from(object::encode_stored(&value)));
            charged.claims.writes.push(Write::Put { key: key.clone(), value: bytes.clone(), ttl_seconds: 0 });
            charged.quotas.push(ChargedQuota { key, value, bytes, created: entries[at].created });
        }
        Ok(charged)
    }

    /// Notes what a commit at `revision` stored, for the next in turn.
    pub(super) fn charged(
        &self,
        charged: Option<Box<Charges>>,
        turn: Option<&mut QuotaTurn<'_>>,
        revision: i64,
    ) {
        let (Some(QuotaTurn(newest)), Some(charged)) = (turn, charged) else { return };
        let shown = self.cache().revision();
        newest.retain(|_, entry| entry.revision > shown);
        for quota in charged.quotas {
            let ChargedQuota { key, value, bytes, created } = quota;
            // An entry that cannot be made is only not known earlier than the cache shows it.
            if let Ok(entry) = Entry::new(resource_quotas(), &key, &value, bytes, revision, created) {
                newest.insert(key, Arc::new(entry));
            }
        }
    }

    /// The turns of all namespaces whose quotas a transaction would charge. Always taken in the same order.
    pub(crate) async fn quota_turns(&self, stage: &super::Stage) -> Vec<QuotaTurn<'_>> {
        let mut turns = Vec::new();
        if let Some(ledgers) = &self.quotas {
            let prefix = resource_quotas().storage_prefix("");
            let namespaces = stage.written_below(&prefix);
            let namespaces = namespaces.iter().filter_map(|rest| rest.split('/').next());
            let places: BTreeSet<usize> = namespaces.map(QuotaLedgers::place).collect();
            for place in places {
                turns.push(ledgers.turn(place).await);
            }
        }
        turns
    }
}

fn evaluator(target: &Target) -> Evaluator {
    Evaluator::of(target.resource.group, target.resource.plural)
}

/// The quota with these amounts in `status.used`, and its managed fields.
fn with_used(quota: &Value, used: &Amounts, now: &str) -> Value {
    let mut next = quota.clone();
    for (name, amount) in used {
        next["status"]["used"][name] = amount.to_string().into();
    }
    let reset = apply::reset_fields(resource_quotas(), "status");
    let write = apply::Write { manager: MANAGER, subresource: "status", api_version: "v1", now, reset };
    let paths: Vec<[&str; 3]> = used.keys().map(|name| ["status", "used", name.as_str()]).collect();
    if !apply::touch_all(&mut next, &write, &paths)
        && let Some(ty) = schema::of("", "v1", "ResourceQuota")
    {
        apply::track_update(Some(quota), &mut next, &write, ObjectType::BuiltIn(ty));
    }
    next
}

#[cfg(test)]
mod tests;
