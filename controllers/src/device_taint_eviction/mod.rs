//! Device taint eviction controller: deletes pods that hold devices whose NoExecute taints their claims do not
//! tolerate, or no longer. Taints come from ResourceSlices and, if the server serves them, from DeviceTaintRules, whose status says how far
//! the evictions are. `plan` decides about pods and `rules` about DeviceTaintRules; `slices` has the cache of devices; this file reads the
//! caches and executes the plans.

mod plan;
mod rules;
mod slices;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Pods, ResourceClaims, allocated};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::device_claims::named_claims;
use crate::eviction::{ScheduledEvictions, Verdict};
use crate::optional_api;
use crate::resource_claim::{is_reserved_for, reserved_pods};
use crate::stable_kinds::DeviceTaintRule;
use crate::view::Pod;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object, Queue};
use parking_lot::Mutex;
use rules::{RuleCounts, STATUS_PERIOD};
use slices::{PoolId, Slice, TaintedSlices, devices_of, pool_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pods that are evicted at once, as upstream.
const WORKERS: usize = 10;

/// The account of the controller.
const ACCOUNT: &str = "device-taint-eviction-controller";

/// Cache of DeviceTaintRules; `None` if the server does not serve them.
type Rules = Option<Informer<Obj<DeviceTaintRule>>>;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let (pods, claims, slices): (Pods, ResourceClaims, TaintedSlices) =
        (cluster.caches.get(), cluster.caches.get(), cluster.caches.get());
    async move {
        let is_served = optional_api::is_served::<DeviceTaintRule>(&cluster).await;
        let rules: Rules = is_served.then(|| cluster.caches.whole());
        if !cluster.stop.is_cancelled() {
            evict(cluster, pods, claims, slices, rules).await;
        }
    }
}

async fn evict(
    cluster: Arc<Cluster>,
    pods: Pods,
    claims: ResourceClaims,
    slices: TaintedSlices,
    rules: Rules,
) {
    let users = Arc::new(Users { claims: claims.clone(), slices: slices.clone() });
    let of_slice = Arc::clone(&users);
    let mut controller = cluster
        .controller("device-taint-eviction")
        .watch(&pods, |pod: &Pod| (!pod.spec.resource_claims.is_empty()).then(|| pod.key()))
        .watch(&claims, |claim: &Obj<ResourceClaim>| {
            let is_allocated = !allocated(claim).is_empty();
            reserved_pods(claim).filter(|_| is_allocated).collect::<Vec<_>>()
        })
        .watch_deltas(&slices.informer, move |delta: &Delta<Slice>| of_slice.affected(delta));
    if let Some(rules) = &rules {
        controller = controller
            .watch_deltas(rules, move |delta: &Delta<Obj<DeviceTaintRule>>| users.affected_by_rule(delta));
    }
    let controller = controller.workers(WORKERS);
    let evictions = ScheduledEvictions::new(cluster.executor(ACCOUNT), plan::TEXTS);
    let (executor, queue, stop) = (cluster.executor(ACCOUNT), controller.queue(), cluster.stop.clone());
    let evicted = Mutex::default();
    work(
        controller,
        stop,
        Evictions { cluster, pods, claims, slices, rules, evictions, executor, queue, evicted },
    )
    .await;
}

/// Caches that find the users of devices.
struct Users {
    claims: ResourceClaims,
    slices: TaintedSlices,
}

impl Users {
    /// The pods that hold devices whose taints a change of a slice may have changed. A new generation of a pool makes
    /// its other slices count no more, so all tainted devices of the pool are looked at.
    fn affected(&self, delta: &Delta<Slice>) -> BTreeSet<Key> {
        let new = delta.object();
        let old = match delta {
            Delta::Updated { old, .. } if old.spec == new.spec => return BTreeSet::new(),
            Delta::Resync(_) => return BTreeSet::new(),
            Delta::Updated { old, .. } => Some(old),
            Delta::Added(_) | Delta::Deleted(_) => None,
        };
        let changed = || std::iter::once(new).chain(old);
        let pools: BTreeSet<_> = changed().map(|slice| pool_of(slice)).collect();
        let siblings: Vec<_> = pools.iter().flat_map(|pool| self.slices.of_pool(pool)).collect();
        let devices: BTreeSet<_> = changed().chain(&siblings).flat_map(|slice| devices_of(slice)).collect();
        let holders = devices.iter().flat_map(|device| self.claims.by(&self.claims.holding, device));
        holders.flat_map(|claim| reserved_pods(&claim).collect::<Vec<_>>()).collect()
    }

    /// A changed rule itself, and the pods that hold devices from which it evicts, or did before. Changes of its status are no reason.
    fn affected_by_rule(&self, delta: &Delta<Obj<DeviceTaintRule>>) -> BTreeSet<Key> {
        let new = delta.object();
        let old = match delta {
            Delta::Updated { old, .. } if old.spec == new.spec && old.metadata.uid == new.metadata.uid => {
                return BTreeSet::new();
            }
            Delta::Resync(_) => return BTreeSet::new(),
            Delta::Updated { old, .. } => Some(old),
            Delta::Added(_) | Delta::Deleted(_) => None,
        };
        let evicting: Vec<_> =
            std::iter::once(new).chain(old).filter(|rule| rules::is_evicting(rule)).collect();
        let mut keys = BTreeSet::from([new.key()]);
        if !evicting.is_empty() {
            let is_selected = |result: &DeviceRequestAllocationResult| {
                evicting.iter().any(|rule| rules::selects_allocated(rule, result))
            };
            for claim in self.claims.list() {
                if allocated(&claim).iter().any(is_selected) {
                    keys.extend(reserved_pods(&claim));
                }
            }
        }
        keys
    }
}

/// Name and uid of a rule.
type RuleId = (String, String);

/// When devices evict a pod, and the rules among the reasons.
#[derive(Default)]
struct PodEviction {
    time: Option<Timestamp>,
    rules: BTreeSet<RuleId>,
}

struct Evictions {
    cluster: Arc<Cluster>,
    pods: Pods,
    claims: ResourceClaims,
    slices: TaintedSlices,
    rules: Rules,
    evictions: ScheduledEvictions,
    executor: Executor,
    queue: Queue<Key>,
    /// Pods that were evicted because of each rule that exists, by the rule's name, with its uid.
    evicted: Mutex<BTreeMap<String, (String, u64)>>,
}

impl Reconcile for Evictions {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.key.namespace().is_empty() {
            return self.report(cx).await;
        }
        let Some(pod) = self.pods.get(&cx.key) else {
            self.evictions.forget(&cx.key);
            return Ok(Next::Done);
        };
        let now = self.cluster.nondet.clock.now();
        let eviction = self.eviction(&pod);
        let verdict = plan::evaluate(&pod, eviction.time, now);
        let next = self.evictions.execute(cx, &pod, verdict, now).await?;
        if verdict == Verdict::Leave {
            self.count(eviction.rules);
        }
        Ok(next)
    }
}

impl Evictions {
    /// The allocated claims that are reserved for a pod.
    fn held_claims(&self, pod: &Pod) -> Vec<Arc<Obj<ResourceClaim>>> {
        let namespace = &pod.metadata.namespace;
        let claims = named_claims(pod).filter_map(|named| {
            let claim = self.claims.get(&Key::new(namespace, named.name))?;
            (named.is(&claim, pod) && is_reserved_for(&claim, pod)).then_some(claim)
        });
        claims.collect()
    }

    /// The earliest time at which a device of the pod evicts it, and the rules that evict it at any time.
    fn eviction(&self, pod: &Pod) -> PodEviction {
        let mut eviction = PodEviction::default();
        let rules = self.rules.as_ref().map(Informer::list).unwrap_or_default();
        for claim in self.held_claims(pod) {
            for result in allocated(&claim) {
                let mut times: Vec<_> = self.device_eviction_time(result).into_iter().collect();
                for rule in rules.iter().filter(|rule| rules::is_evicting(rule)) {
                    if let Some(time) = rules::eviction_time(rule, result) {
                        times.push(time);
                        eviction.rules.insert(id_of(rule));
                    }
                }
                eviction.time = eviction.time.into_iter().chain(times).min();
            }
        }
        eviction
    }

    fn device_eviction_time(&self, result: &DeviceRequestAllocationResult) -> Option<Timestamp> {
        let pool = PoolId { driver: result.driver.clone(), pool: result.pool.clone() };
        let slices = self.slices.of_pool(&pool);
        let devices = plan::newest(slices.iter().map(|slice| &**slice)).flat_map(|slice| &slice.spec.devices);
        let device = devices.into_iter().find(|device| device.name == result.device)?;
        plan::eviction_time(result, &device.taints)
    }

    /// Counts an evicted pod for its rules, whose status says so a while later: more pods may follow.
    fn count(&self, rules: BTreeSet<RuleId>) {
        let mut evicted = self.evicted.lock();
        for (name, uid) in rules {
            let (counted, count) = evicted.entry(name.clone()).or_default();
            if *counted != uid {
                (*counted, *count) = (uid, 0);
            }
            *count += 1;
            self.queue.add_after(Key::new("", &name), STATUS_PERIOD);
        }
    }

    /// Updates the status of the rule of this run.
    async fn report(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(rule) = self.rules.as_ref().and_then(|rules| rules.get(&cx.key)) else {
            self.evicted.lock().remove(cx.key.name());
            return Ok(Next::Done);
        };
        let now = self.cluster.nondet.clock.now();
        if let Some(wait) = rules::wait(&rule, now) {
            return Ok(Next::Again(wait));
        }
        let Some(action) = rules::condition(&rule, &self.counts(&rule), now) else { return Ok(Next::Done) };
        match self.executor.execute(&cx, &[action]).await.result() {
            Err(error) if !error.is_not_found() => Err(error.into()),
            Err(_) | Ok(()) => Ok(Next::Done),
        }
    }

    /// What the condition of a rule counts.
    fn counts(&self, rule: &DeviceTaintRule) -> RuleCounts {
        let mut counts = RuleCounts::default();
        let mut pools: BTreeMap<PoolId, Vec<Arc<Slice>>> = BTreeMap::new();
        for slice in self.slices.informer.list() {
            pools.entry(pool_of(&slice)).or_default().push(slice);
        }
        for (id, slices) in &pools {
            let devices =
                plan::newest(slices.iter().map(|slice| &**slice)).flat_map(|slice| &slice.spec.devices);
            counts.published +=
                devices.filter(|device| rules::selects(rule, &id.driver, &id.pool, &device.name)).count();
        }
        for claim in self.claims.list() {
            counts.allocated +=
                allocated(&claim).iter().filter(|result| rules::selects_allocated(rule, result)).count();
        }
        let evicts = |result: &DeviceRequestAllocationResult| rules::eviction_time(rule, result).is_some();
        let holds = |pod: &Pod| self.held_claims(pod).iter().any(|claim| allocated(claim).iter().any(evicts));
        let mut namespaces = BTreeSet::new();
        for pod in self.pods.list() {
            let may_leave =
                pod.active() && !pod.spec.node_name.is_empty() && !pod.spec.resource_claims.is_empty();
            if may_leave && holds(&pod) {
                counts.pending += 1;
                namespaces.insert(pod.metadata.namespace.clone());
            }
        }
        counts.namespaces = namespaces.len();
        let (name, uid) = id_of(rule);
        counts.evicted =
            self.evicted.lock().get(&name).filter(|(of, _)| *of == uid).map_or(0, |(_, count)| *count);
        counts
    }
}

fn id_of(rule: &DeviceTaintRule) -> RuleId {
    let metadata = &rule.metadata;
    (metadata.name.clone().unwrap_or_default(), metadata.uid.clone().unwrap_or_default())
}
