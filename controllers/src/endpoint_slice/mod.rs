//! EndpointSlice controller: publishes the pods of a Service as EndpointSlices and as the legacy Endpoints
//! object. `plan` and `legacy` decide, `endpoints` converts pods to endpoints, `hints` and `topology` say where
//! clients should use them; this file reads the caches and executes the plans.
//!
//! Follows `syncService`.

mod endpoints;
mod hints;
mod legacy;
mod plan;
#[cfg(test)]
mod tests;
mod topology;

use crate::apply::Executor;
use crate::caches::{Caches, Pods, Services, Sources, Watched, selected_by_map};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{LONGEST_SLICE_REST, SLICE_REST_PER_POD};
use crate::resource::ENDPOINTSLICES;
use crate::selector::map_matches;
use crate::view::{Pod, elapsed};
use hints::Distribution;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Delta, Index, Informer, Key, Object};
use parking_lot::Mutex;
use plan::Observed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use topology::Capacity;

/// Label of a slice with the name of its Service.
pub(crate) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const ZONE: &str = "topology.kubernetes.io/zone";

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let services = caches.services.clone();
    let of_nodes = caches.services.clone();
    let controller = cluster
        .controller("endpoint-slice")
        .watch(&caches.services, |service: &Obj<Service>| [service.key()])
        .watch_deltas(&caches.pods, move |delta| services_of(&services, delta))
        .watch(&caches.slices.informer, |slice: &Obj<EndpointSlice>| {
            let service = slice.metadata.labels.as_ref().and_then(|l| l.get(SERVICE_LABEL))?;
            Some(Key::new(slice.metadata.namespace.as_deref()?, service))
        })
        .watch(&caches.endpoints, |endpoints: &Obj<Endpoints>| [endpoints.key()])
        .watch_deltas(&caches.nodes, move |delta: &Delta<Obj<Node>>| placed(&of_nodes, delta))
        .workers(WORKERS);
    let executor = cluster.executor("endpointslice-controller");
    let legacy_executor = cluster.executor_of("endpoint-controller", "endpoint-controller");
    let stop = cluster.stop.clone();
    let (written, hinted) = (Mutex::default(), Mutex::default());
    work(controller, stop, Slices { cluster, caches, executor, legacy_executor, written, hinted })
}

/// The zone of a node.
fn zone(node: &Node) -> Option<&String> {
    node.metadata.labels.as_ref()?.get(ZONE).filter(|zone| !zone.is_empty())
}

/// The Services whose endpoints a change of a node may affect: all if it moves to another zone, and those whose
/// hints depend on the CPUs of zones if these change.
fn placed(services: &Informer<Obj<Service>>, delta: &Delta<Obj<Node>>) -> Vec<Key> {
    let (moves, changes) = match delta {
        Delta::Updated { old, new } => {
            (zone(old) != zone(new), topology::capacity(old) != topology::capacity(new))
        }
        Delta::Added(node) | Delta::Deleted(node) => (false, topology::capacity(node) != Capacity::Ignored),
        Delta::Resync(_) => (false, false),
    };
    if !moves && !changes {
        return vec![];
    }
    let is_affected = |service: &&Arc<Obj<Service>>| moves || Distribution::of(service) == Distribution::Auto;
    services.list().iter().filter(is_affected).map(Object::key).collect()
}

/// The Services whose endpoints a change of a pod may affect.
fn services_of(services: &Informer<Obj<Service>>, delta: &Delta<Pod>) -> Vec<Key> {
    let (old, new) = match delta {
        Delta::Added(pod) | Delta::Resync(pod) => (None, Some(pod)),
        Delta::Updated { old, new } if has_same_endpoint(old, new) => return vec![],
        Delta::Updated { old, new } => (Some(old), Some(new)),
        Delta::Deleted(pod) => (Some(pod), None),
    };
    let pods: Vec<&Arc<Pod>> = old.into_iter().chain(new).collect();
    // A pod without an address is in no slice.
    if pods.iter().all(|p| p.status.pod_ip.is_empty()) {
        return vec![];
    }
    let Some(first) = pods.first() else { return vec![] };
    let selects = |service: &Arc<Obj<Service>>| {
        let selector = service.spec.as_ref().and_then(|s| s.selector.as_ref());
        selector.is_some_and(|s| pods.iter().any(|p| map_matches(s, &p.metadata.labels)))
    };
    services.namespace(&first.metadata.namespace).iter().filter(|s| selects(s)).map(Object::key).collect()
}

/// Whether no field of the endpoint changed.
fn has_same_endpoint(a: &Pod, b: &Pod) -> bool {
    a.ready() == b.ready()
        && a.metadata.is_deleting() == b.metadata.is_deleting()
        && a.status.phase.is_terminal() == b.status.phase.is_terminal()
        && a.status.pod_ip == b.status.pod_ip
        && a.status.pod_ips == b.status.pod_ips
        && a.metadata.labels == b.metadata.labels
        && a.spec == b.spec
}

/// Cache of all EndpointSlices.
#[derive(Clone)]
pub(crate) struct EndpointSlices {
    pub informer: Informer<Obj<EndpointSlice>>,
    /// Index by namespace and name of their Service.
    pub of: Index<Obj<EndpointSlice>, (String, String)>,
}

impl Watched for EndpointSlices {
    fn start(from: &Sources<'_>) -> Self {
        let of = Index::new(|slice: &Obj<EndpointSlice>, emit: &mut dyn FnMut((String, String))| {
            let service = slice.metadata.labels.as_ref().and_then(|l| l.get(SERVICE_LABEL));
            if let Some(service) = service {
                emit((slice.metadata.namespace.clone().unwrap_or_default(), service.clone()));
            }
        });
        let builder = Builder::new(from.multi.trimmed::<EndpointSlice>(WatchParams::default())).index(&of);
        Self { informer: from.start("endpointslices", Some(ENDPOINTSLICES), builder), of }
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    services: Services,
    pods: Pods,
    nodes: Informer<Obj<Node>>,
    slices: EndpointSlices,
    endpoints: Informer<Obj<Endpoints>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self {
            services: caches.get(),
            pods: caches.get(),
            nodes: caches.get(),
            slices: caches.get(),
            endpoints: caches.get(),
        }
    }
}

struct Slices {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
    /// Executor for the Endpoints object: in Kubernetes a separate controller with its own service account.
    legacy_executor: Executor,
    /// Time of the last write for each Service, and the time after it in which the Service does not run.
    written: Mutex<BTreeMap<Key, (Timestamp, Duration)>>,
    /// Services that have hints by their annotation. As in Kubernetes, a controller that starts knows of none.
    hinted: Mutex<BTreeSet<Key>>,
}

impl Reconcile for Slices {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let legacy = caches.endpoints.get(&cx.key);
        let Some(service) = caches.services.get(&cx.key) else {
            self.written.lock().remove(&cx.key);
            self.hinted.lock().remove(&cx.key);
            let action = legacy.and_then(|e| legacy::orphaned(&e));
            self.legacy_executor.execute(&cx, action.as_slice()).await.result()?;
            return Ok(Next::Done);
        };
        let Some(selector) = service.spec.as_ref().and_then(|s| s.selector.as_ref()) else {
            return Ok(Next::Done);
        };
        let now = self.cluster.nondet.clock.now();
        let last = self.written.lock().get(&cx.key).copied();
        let wait =
            last.and_then(|(last, rest)| rest.checked_sub(elapsed(last, now))).filter(|w| !w.is_zero());
        if let Some(wait) = wait {
            return Ok(Next::Again(wait));
        }
        let pods =
            selected_by_map(&caches.pods.view(), &caches.pods.by_lookup_key, cx.key.namespace(), selector);
        let zones = self.zones(&pods);
        let of = (cx.key.namespace().to_owned(), cx.key.name().to_owned());
        let slices = caches.slices.informer.by(&caches.slices.of, &of);
        let slices: Vec<&EndpointSlice> = slices.iter().map(|s| &***s).collect();
        let shares = self.shares(&service);
        let seen = Observed {
            service: &service,
            pods: &pods,
            zones: &zones,
            slices: &slices,
            shares: shares.as_ref(),
        };
        let mut is_hinted = self.hinted.lock().contains(&cx.key);
        let actions = plan::plan(seen, &mut is_hinted);
        self.remember_hints(&cx.key, is_hinted);
        let legacy = legacy::plan(&service, &pods, legacy.as_ref().map(|e| &***e));
        if actions.is_empty() && legacy.is_none() {
            return Ok(Next::Done);
        }
        let number = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        let rest = SLICE_REST_PER_POD.saturating_mul(number).min(LONGEST_SLICE_REST);
        self.written.lock().insert(cx.key.clone(), (now, rest));
        self.executor.execute(&cx, &actions).await.result()?;
        self.legacy_executor.execute(&cx, legacy.as_slice()).await.result()?;
        Ok(Next::Done)
    }
}

impl Slices {
    fn remember_hints(&self, key: &Key, is_hinted: bool) {
        let mut hinted = self.hinted.lock();
        if is_hinted {
            hinted.insert(key.clone());
        } else {
            hinted.remove(key);
        }
    }

    /// The zones' shares in the CPUs, for a Service whose hints depend on them.
    fn shares(&self, service: &Service) -> Option<topology::Shares> {
        let nodes = || self.caches.nodes.list().into_iter().map(|node| topology::capacity(&node));
        (Distribution::of(service) == Distribution::Auto).then(|| topology::Shares::of(nodes()))?
    }

    fn zones(&self, pods: &[Arc<Pod>]) -> BTreeMap<String, String> {
        let nodes = &self.caches.nodes;
        let mut zones = BTreeMap::new();
        for name in pods.iter().map(|p| &p.spec.node_name).filter(|n| !n.is_empty()) {
            if !zones.contains_key(name)
                && let Some(zone) = nodes.get(&Key::new("", name)).as_deref().and_then(|n| zone(n))
            {
                zones.insert(name.clone(), zone.clone());
            }
        }
        zones
    }
}
