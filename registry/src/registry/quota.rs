//! ResourceQuota charges of a write: the commit of an object also updates `status.used` of its namespace's
//! quotas, guarded by the revisions that were read. So no race exceeds a quota or loses a charge, and a write
//! that fails leaves no charge.
//!
//! Writers of one namespace contend for the same quotas. Within this process they take turns
//! ([`QuotaLedgers`]), so that each commits at its first try. The guards detect writers of other processes,
//! and the loser judges its write again.

use super::Registry;
use super::service::Claims;
use crate::cache::Filter;
use crate::entry::Entry;
use crate::request::Target;
use crate::stage::View;
use bytes::Bytes;
use kstore_api::patch::apply::{self, ObjectType};
use kstore_api::quota::{self, Amounts, Change, DeviceNames, Evaluator, LimitedResource, Quota};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::{kind, meta, object, schema};
use kstore_storage::limits;
use kstore_storage::storage::{Guard, Write};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, MutexGuard};

/// Field manager of charges, as in Kubernetes.
const MANAGER: &str = "kube-apiserver";

/// The table row of ResourceQuotas. Every write of a namespaced object asks for it.
fn resource_quotas() -> &'static Resource {
    static ROW: OnceLock<&'static Resource> = OnceLock::new();
    ROW.get_or_init(|| kind::lookup("", "v1", "resourcequotas").expect("quotas are in the table"))
}

/// Quotas that this process stored and that the cache may not show yet, by storage key.
type Newest = BTreeMap<String, Arc<Entry>>;

/// The rules of the admission plugin ResourceQuota, and the order of writers that charge quotas.
#[derive(Default)]
pub(super) struct QuotaAdmission {
    ledgers: QuotaLedgers,
    /// Kinds whose objects need a quota that covers them.
    limited: Arc<[LimitedResource]>,
}

impl QuotaAdmission {
    /// The limits on objects of a kind.
    fn limited(&self, target: &Target) -> Vec<LimitedResource> {
        let of_kind = |one: &&LimitedResource| one.concerns(target.resource.group, target.resource.plural);
        self.limited.iter().filter(of_kind).cloned().collect()
    }
}

/// Locks that order the writers that charge quotas, each with the newest quotas. A namespace always maps to
/// the same lock.
struct QuotaLedgers([Mutex<Newest>; limits::QUOTA_LEDGERS]);

impl Default for QuotaLedgers {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl QuotaLedgers {
    fn index(namespace: &str) -> usize {
        // FNV-1a; the hash only has to distribute namespaces.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = namespace.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        (hash % limits::QUOTA_LEDGERS as u64) as usize
    }

    async fn lock(&self, index: usize) -> QuotaLock<'_> {
        QuotaLock(self.0[index].lock().await)
    }
}

/// The lock on the quotas of a namespace: only its holder may charge them. Released on drop.
pub struct QuotaLock<'l>(MutexGuard<'l, Newest>);

impl QuotaLock<'_> {
    /// The newer of a quota's cached state and the state that this process stored last.
    fn newest(&self, cached: Arc<Entry>) -> Arc<Entry> {
        match self.0.get(cached.key()) {
            Some(stored) if stored.revision > cached.revision => stored.clone(),
            _ => cached,
        }
    }
}

/// The quota updates that a write adds to its commit.
#[derive(Default)]
pub(super) struct Charges {
    pub(super) claims: Claims,
    quotas: Vec<ChargedQuota>,
}

/// A quota with updated `status.used`, as a commit stores it.
struct ChargedQuota {
    key: String,
    value: Value,
    bytes: Bytes,
    created: i64,
}

/// A write that is checked against quotas.
#[derive(Clone, Copy)]
pub(super) struct JudgedWrite<'a> {
    pub(super) target: &'a Target,
    /// The stored object; `None` for a create.
    pub(super) old: Option<&'a Value>,
    pub(super) new: &'a Value,
    /// Whether the write is committed by itself: it is neither a dry run nor part of a transaction.
    pub(super) commits: bool,
}

impl Registry {
    /// Refuses objects of these kinds that no quota covers. With `None`, quotas are disabled: nothing is charged
    /// or refused.
    #[must_use]
    pub fn with_limited_resources(self, limited: Option<Arc<[LimitedResource]>>) -> Self {
        let quotas = limited.map(|limited| QuotaAdmission { limited, ..self.quotas.unwrap_or_default() });
        Self { quotas, ..self }
    }

    /// Whether quotas may bound objects of the kind in the namespace.
    fn has_quotas(&self, view: &View, target: &Target) -> bool {
        let Some(quotas) = &self.quotas else { return false };
        target.resource.namespaced
            && !target.namespace.is_empty()
            && (view.has_any(resource_quotas(), &target.namespace) || !quotas.limited(target).is_empty())
    }

    /// Whether quotas may bound each update of the object, whatever it changes.
    pub(super) fn may_charge_every_update(&self, view: &View, target: &Target) -> bool {
        evaluator(target).charges_every_update(target.subresource) && self.has_quotas(view, target)
    }

    /// Whether quotas may bound a write, judging by its namespace, its kind, and the object before and after.
    pub(super) fn may_be_charged(&self, view: &View, judged: JudgedWrite<'_>) -> bool {
        let (evaluator, subresource) = (evaluator(judged.target), judged.target.subresource);
        let is_charged = match judged.old {
            None => evaluator.charges_create(subresource),
            Some(old) => evaluator.charges_update(subresource, old, judged.new),
        };
        is_charged && self.has_quotas(view, judged.target)
    }

    /// Checks a write against the quotas of its namespace. The charges are valid while `lock` is held, which
    /// this locks if needed.
    ///
    /// # Errors
    /// 403 with Kubernetes' text. The view may be stale.
    pub(super) async fn charge<'r>(
        &'r self,
        view: &View,
        judged: JudgedWrite<'_>,
        lock: &mut Option<QuotaLock<'r>>,
    ) -> Result<Option<Box<Charges>>, Status> {
        if !self.may_be_charged(view, judged) {
            return Ok(None);
        }
        // Boxed because few namespaces have quotas: otherwise the future of every write would be larger.
        Box::pin(self.charge_bounded(view, judged, lock)).await.map(Box::new).map(Some)
    }

    async fn charge_bounded<'r>(
        &'r self,
        view: &View,
        judged: JudgedWrite<'_>,
        lock: &mut Option<QuotaLock<'r>>,
    ) -> Result<Charges, Status> {
        let Some(quotas) = &self.quotas else { return Ok(Charges::default()) };
        let limited = &quotas.limited(judged.target);
        if lock.is_none() {
            let charged = self.judge(view, judged, limited, None)?;
            if charged.quotas.is_empty() || !judged.commits {
                return Ok(charged);
            }
            *lock = Some(quotas.ledgers.lock(QuotaLedgers::index(&judged.target.namespace)).await);
        }
        self.judge(view, judged, limited, lock.as_ref())
    }

    fn judge(
        &self,
        view: &View,
        judged: JudgedWrite<'_>,
        limited: &[LimitedResource],
        lock: Option<&QuotaLock<'_>>,
    ) -> Result<Charges, Status> {
        let target = judged.target;
        let filter = Filter { namespace: target.namespace.clone(), ..Filter::all(resource_quotas()) };
        let entries = view.scan(&filter).into_iter();
        let entries: Vec<Arc<Entry>> = entries
            .map(|entry| lock.map_or_else(|| entry.clone(), |lock| lock.newest(entry.clone())))
            .collect();
        let objects: Vec<Value> = entries.iter().map(|entry| entry.parse()).collect();
        let quotas: Vec<Quota> = objects.iter().map(Quota::of).collect();
        let evaluator = evaluator(target);
        let is_report = target.subresource == "status";
        let names = match evaluator.charges_resources() {
            true => device_names(view, judged.new, &target.namespace),
            false => DeviceNames::default(),
        };
        let (old, new) = (judged.old, judged.new);
        let change = Change { evaluator: &evaluator, old, new, is_report, names: &names, limited };
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

    /// Records the quotas that a commit at `revision` stored, for the next holder of the turn.
    pub(super) fn charged(
        &self,
        charged: Option<Box<Charges>>,
        lock: Option<&mut QuotaLock<'_>>,
        revision: i64,
    ) {
        let (Some(QuotaLock(newest)), Some(charged)) = (lock, charged) else { return };
        let shown = self.cache().revision();
        newest.retain(|_, entry| entry.revision > shown);
        for quota in charged.quotas {
            let ChargedQuota { key, value, bytes, created } = quota;
            // Without the entry, the next holder only has to wait for the cache.
            if let Ok(entry) = Entry::new(resource_quotas(), &key, &value, bytes, revision, created) {
                newest.insert(key, Arc::new(entry));
            }
        }
    }

    /// Locks the quotas of all namespaces in which a transaction charges them, always in the same order.
    pub async fn quota_locks(&self, stage: &crate::stage::Stage) -> Vec<QuotaLock<'_>> {
        let mut locks = Vec::new();
        if let Some(QuotaAdmission { ledgers, .. }) = &self.quotas {
            let prefix = resource_quotas().storage_prefix("");
            let namespaces = stage.written_below(&prefix);
            let namespaces = namespaces.iter().filter_map(|rest| rest.split('/').next());
            let indexes: BTreeSet<usize> = namespaces.map(QuotaLedgers::index).collect();
            for index in indexes {
                locks.push(ledgers.lock(index).await);
            }
        }
        locks
    }
}

fn evaluator(target: &Target) -> Evaluator {
    let resource = target.resource;
    Evaluator::of(resource.group, resource.plural).in_version(resource.minor)
}

/// The names under which the devices of a claim are charged: the classes say some, and the pod for which a scheduler made the claim.
fn device_names(view: &View, claim: &Value, namespace: &str) -> DeviceNames {
    let row =
        |group, version, plural| kind::lookup(group, version, plural).expect("the kind is in the table");
    let of_classes = view.scan(&Filter::all(row("resource.k8s.io", "v1", "deviceclasses"))).into_iter();
    let of_classes = of_classes.filter_map(|class| {
        let resource = class.parse()["spec"]["extendedResourceName"].as_str()?.to_owned();
        Some((class.name().to_owned(), resource))
    });
    let usage = Evaluator::of("resource.k8s.io", "resourceclaims").usage(claim);
    let pods = row("", "v1", "pods");
    let of_requests = usage.devices().and_then(|devices| devices.pod()).and_then(|(name, uid)| {
        let pod = view.get(pods, &pods.storage_key(namespace, name))?.parse();
        (meta::uid(&pod) == uid).then(|| quota::requests_of_pod(&pod))
    });
    DeviceNames { of_classes: of_classes.collect(), of_requests: of_requests.unwrap_or_default() }
}

/// The quota with these amounts in `status.used`, and with its managed fields updated.
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
