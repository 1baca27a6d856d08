//! ResourceQuota controller: recounts the usage of quotas when their bounds change, when a counted object is
//! deleted or uses less, and every five minutes. Admission charges created objects; it releases nothing.
//!
//! `plan` writes the status; `kinds` finds the counted kinds of a quota, `counted` computes the usage of one
//! object, `streams` watches the objects of counted kinds only. This file joins them.
//!
//! A count never undoes a charge. It covers objects at least as new as the quota that was read, and is stored
//! only if that quota is still the newest. A charge in between writes the quota, and the quota is counted
//! again.
//!
//! Follows `syncResourceQuota`.

mod counted;
mod kinds;
mod plan;
mod streams;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{QUOTA_RESYNC, QUOTA_WAIT};
use crate::optional_api::is_served;
use counted::{Counted, QuotaObject, pod_key};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use kinds::{CountedKind, Definition, Kinds};
use kstore_api::quota::{Amounts, DeviceNames};
use kstore_api::version::Minor;
use kstore_client::{ListParams, ProjectedMeta};
use kstore_informer::{Action as Next, Causes, Context, CutError, Delta, Informer, Key, Object, Revision};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;
use tokio::sync::OnceCell;

const WORKERS: usize = 5;

/// Queue key for updating the watched kinds.
fn kinds_key() -> Key {
    Key::new("", "kinds")
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches { quotas: cluster.caches.get(), definitions: cluster.caches.get() };
    let all = caches.quotas.clone();
    let controller = cluster
        .controller("resourcequota")
        .watch_deltas(&caches.quotas, changed)
        .watch_deltas(&caches.definitions, move |delta: &Delta<Definition>| defined(&all, delta))
        .workers(WORKERS);
    let queue = controller.queue();
    let streams = Arc::new(Streams::new(caches.quotas.clone(), queue));
    Streams::start(&streams, &cluster);
    let executor = cluster.executor("resourcequota-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Quotas { cluster, caches, streams, executor, serves_claims: OnceCell::new() })
}

/// The keys for a change of a quota: none if only a charge was made.
fn changed(delta: &Delta<QuotaObject>) -> Vec<Key> {
    match delta {
        Delta::Added(quota) => vec![quota.key(), kinds_key()],
        Delta::Deleted(_) => vec![kinds_key()],
        Delta::Updated { old, new } => {
            let mut keys = Vec::new();
            if new.quota().wanted != new.quota().hard || new.uid() != old.uid() {
                keys.push(new.key());
            }
            if new.quota().wanted != old.quota().wanted {
                keys.push(kinds_key());
            }
            keys
        }
        Delta::Resync(quota) => vec![quota.key()],
    }
}

/// The keys for a change of a definition: all quotas that bound the kind.
fn defined(quotas: &Informer<QuotaObject>, delta: &Delta<Definition>) -> Vec<Key> {
    let names = match delta {
        Delta::Updated { old, new } if old.declares() == new.declares() => return Vec::new(),
        Delta::Updated { old, new } => vec![old.count(), new.count()],
        Delta::Added(one) | Delta::Deleted(one) | Delta::Resync(one) => vec![one.count()],
    };
    let names: Vec<String> = names.into_iter().flatten().collect();
    let bounds = |quota: &Arc<QuotaObject>| names.iter().any(|name| quota.quota().wanted.contains_key(name));
    let mut keys: Vec<Key> =
        quotas.list().iter().filter(|quota| bounds(quota)).map(|quota| quota.key()).collect();
    if !keys.is_empty() {
        keys.push(kinds_key());
    }
    keys
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    quotas: Informer<QuotaObject>,
    definitions: Informer<Definition>,
}

impl ControllerCaches {
    /// The countable kinds of a version of Kubernetes.
    fn kinds(&self, minor: Minor, has_claims: bool) -> Kinds {
        let definitions = self.definitions.list();
        Kinds::with(minor, has_claims, definitions.iter().filter_map(|one| one.declares().cloned()))
    }
}

struct Quotas {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    streams: Arc<Streams>,
    executor: Executor,
    /// Whether the server serves ResourceClaims. Asked for the first quota that bounds their use.
    serves_claims: OnceCell<bool>,
}

impl Reconcile for Quotas {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.key == kinds_key() {
            let kinds = self.kinds().await;
            let quotas = self.caches.quotas.list();
            self.streams.want(quotas.iter().flat_map(|quota| kinds.counted_by(quota.quota()).0).collect());
            return Ok(Next::Done);
        }
        let Some(quota) = self.caches.quotas.get(&cx.key) else { return Ok(Next::Done) };
        // A kind is not shown yet: its stream will queue the quota.
        let Some((counted, ends)) = self.count(&quota).await? else { return Ok(Next::Done) };
        let plan = plan::plan(&quota, &counted);
        match self.executor.execute(&cx, &plan.actions).await.result() {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Err(_) | Ok(()) => {}
        }
        let waits = [Some(QUOTA_RESYNC), plan.wake, ends];
        Ok(waits.into_iter().flatten().min().map_or(Next::Done, Next::Again))
    }
}

impl Quotas {
    /// The countable kinds.
    async fn kinds(&self) -> Kinds {
        let minor = self.cluster.config.minor;
        let claims = kinds::resource_claims(minor);
        let bounds = |quota: &Arc<QuotaObject>| quota.quota().wanted.keys().any(|name| claims.covers(name));
        let has_claims = self.caches.quotas.list().iter().any(bounds)
            && *self.serves_claims.get_or_init(|| is_served::<ResourceClaim>(&self.cluster)).await;
        self.caches.kinds(minor, has_claims)
    }

    /// The names under which the devices of claims in the namespace are charged besides their class. Reads nothing if there are no claims.
    async fn device_names(
        &self,
        kinds: &BTreeSet<CountedKind>,
        namespace: &str,
    ) -> Result<BTreeMap<String, String>, ReconcileError> {
        let claims = kinds.iter().find(|kind| kind.evaluator.charges_resources());
        let has_claims = claims.is_some_and(|kind| {
            let of_namespace = |informer: Informer<Counted>| {
                let view = informer.view();
                view.by(self.streams.by_namespace(), namespace).any(|object| object.is(kind))
            };
            self.streams.shown(kind).is_some_and(of_namespace)
        });
        if !has_claims {
            return Ok(BTreeMap::new());
        }
        let classes = self.executor.client.api::<DeviceClass>();
        let (classes, _) = classes.list_as::<Class>("", &ListParams::default()).await?;
        let stated = |class: Class| Some((class.metadata.name, class.spec.extended_resource_name?));
        Ok(classes.into_iter().filter_map(stated).collect())
    }

    /// The resources for which a pod asks by each request of a claim that a scheduler made for it.
    fn asked(
        &self,
        kinds: &BTreeSet<CountedKind>,
        namespace: &str,
        pod: (&str, &str),
    ) -> BTreeMap<String, String> {
        let (name, uid) = pod;
        let pods = kinds.iter().find(|kind| kind.kind == "Pod" && kind.resource.group.is_empty());
        let asked =
            |informer: Informer<Counted>| informer.view().get(&pod_key(namespace, name))?.asked(uid).cloned();
        pods.and_then(|pods| self.streams.shown(pods)).and_then(asked).unwrap_or_default()
    }

    /// Usage of the bounded resources in the namespace, at the quota's revision or later, and the time until
    /// it decreases without a change. `None` if objects of a kind are not shown yet.
    async fn count(
        &self,
        quota: &QuotaObject,
    ) -> Result<Option<(Amounts, Option<Duration>)>, ReconcileError> {
        let (kinds, mut amounts) = self.kinds().await.counted_by(quota.quota());
        let of_classes = self.device_names(&kinds, quota.namespace()).await?;
        let (mut ends, now) = (None, self.cluster.nondet.clock.now());
        for kind in &kinds {
            let Some(informer) = self.streams.shown(kind) else { return Ok(None) };
            let reached = tokio::time::timeout(QUOTA_WAIT, informer.wait_for(quota.revision())).await;
            if !matches!(reached, Ok(Ok(()))) {
                return Err(CutError::Late.into());
            }
            let view = informer.view();
            for object in view.by(self.streams.by_namespace(), quota.namespace()) {
                let Some(usage) = kind.usage(object) else { continue };
                if quota.quota().selects(&kind.evaluator, usage) {
                    match usage.devices().filter(|_| kind.evaluator.charges_resources()) {
                        None => usage.add_to(&mut amounts, now),
                        Some(devices) => {
                            let asked = |pod| self.asked(&kinds, quota.namespace(), pod);
                            let of_requests = devices.pod().map(asked).unwrap_or_default();
                            let names = DeviceNames { of_classes: of_classes.clone(), of_requests };
                            usage.clone().with_names(&names).add_to(&mut amounts, now);
                        }
                    }
                    ends = ends.into_iter().chain(usage.changes_after(now)).min();
                }
            }
        }
        // The usage ends after that time, not at it.
        let wait = ends.map(|at| crate::view::elapsed(now, at) + Duration::from_millis(1));
        Ok(Some((amounts, wait)))
    }
}

/// The members of a DeviceClass that say for which extended resource it is.
#[derive(Deserialize)]
struct Class {
    metadata: ProjectedMeta,
    #[serde(default)]
    spec: ClassSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClassSpec {
    extended_resource_name: Option<String>,
}

/// Queues quotas whose usage may have decreased.
fn recount(queue: &kstore_informer::Queue<Key>, quotas: impl Iterator<Item = Key>, revision: Revision) {
    quotas.for_each(|key| queue.add(key, Causes::one(revision)));
}
