//! Device taint eviction controller: deletes pods that hold devices whose NoExecute taints their claims do not
//! tolerate, or no longer. `plan` decides; `slices` has the cache of tainted devices; this file reads the caches and
//! executes the plan. Taints come from ResourceSlices: DeviceTaintRules, which are off by default in Kubernetes, are not
//! served.

mod plan;
mod slices;
#[cfg(test)]
mod tests;

use crate::caches::{Pods, ResourceClaims, allocated};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::device_claims::named_claims;
use crate::eviction::ScheduledEvictions;
use crate::resource_claim::{is_reserved_for, reserved_pods};
use crate::view::Pod;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Key, Object};
use slices::{PoolId, Slice, TaintedSlices, devices_of, pool_of};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pods that are evicted at once, as upstream.
const WORKERS: usize = 10;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let (pods, claims, slices): (Pods, ResourceClaims, TaintedSlices) =
        (cluster.caches.get(), cluster.caches.get(), cluster.caches.get());
    let users = Users { claims: claims.clone(), slices: slices.clone() };
    let controller = cluster
        .controller("device-taint-eviction")
        .watch(&pods, |pod: &Pod| (!pod.spec.resource_claims.is_empty()).then(|| pod.key()))
        .watch(&claims, |claim: &Obj<ResourceClaim>| {
            let is_allocated = !allocated(claim).is_empty();
            reserved_pods(claim).filter(|_| is_allocated).collect::<Vec<_>>()
        })
        .watch_deltas(&slices.informer, move |delta: &Delta<Slice>| users.affected(delta))
        .workers(WORKERS);
    let executor = cluster.executor("device-taint-eviction-controller");
    let evictions = ScheduledEvictions::new(executor, plan::TEXTS);
    let stop = cluster.stop.clone();
    work(controller, stop, Evictions { cluster, pods, claims, slices, evictions })
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
}

struct Evictions {
    cluster: Arc<Cluster>,
    pods: Pods,
    claims: ResourceClaims,
    slices: TaintedSlices,
    evictions: ScheduledEvictions,
}

impl Reconcile for Evictions {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(pod) = self.pods.get(&cx.key) else {
            self.evictions.forget(&cx.key);
            return Ok(Next::Done);
        };
        let now = self.cluster.nondet.clock.now();
        let verdict = plan::evaluate(&pod, self.eviction_time(&pod), now);
        self.evictions.execute(cx, &pod, verdict, now).await
    }
}

impl Evictions {
    /// The earliest time at which a device of the pod evicts it.
    fn eviction_time(&self, pod: &Pod) -> Option<Timestamp> {
        let namespace = &pod.metadata.namespace;
        let claims = named_claims(pod).filter_map(|named| {
            let claim = self.claims.get(&Key::new(namespace, named.name))?;
            (named.is(&claim, pod) && is_reserved_for(&claim, pod)).then_some(claim)
        });
        let earliest = |claim: Arc<Obj<ResourceClaim>>| {
            allocated(&claim).iter().filter_map(|result| self.device_eviction_time(result)).min()
        };
        claims.filter_map(earliest).min()
    }

    fn device_eviction_time(&self, result: &DeviceRequestAllocationResult) -> Option<Timestamp> {
        let pool = PoolId { driver: result.driver.clone(), pool: result.pool.clone() };
        let slices = self.slices.of_pool(&pool);
        let devices = plan::newest(slices.iter().map(|slice| &**slice)).flat_map(|slice| &slice.spec.devices);
        let device = devices.into_iter().find(|device| device.name == result.device)?;
        plan::eviction_time(result, &device.taints)
    }
}
