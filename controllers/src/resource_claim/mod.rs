//! Resource claim controller: creates ResourceClaims for the templates that pods name, reserves claims for pods
//! that a user bound to a node, and ends reservations of pods that are done. `pods` and `claims` decide; this
//! file reads the caches and executes the plans. It allocates no devices: schedulers and drivers do.
//!
//! Follows `syncPod` and `syncClaim`.

mod claims;
mod pods;
#[cfg(test)]
mod tests;

use crate::action::{Action, Propagation, Target};
use crate::apply::Executor;
use crate::caches::{LookupKey, Pods, ResourceClaims};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::device_claims::{owner, used_by};
use crate::resource::{gvr, resource_of};
use crate::view::Pod;
use claims::{Consumer, Release};
pub(crate) use claims::{is_reserved_for, reserved_pods};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kstore_api::json::value_of;
use kstore_client::{ApiError, Obj};
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Workers of each of the two loops, as upstream.
const WORKERS: usize = 10;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let (pods, claims): (Pods, ResourceClaims) = (cluster.caches.get(), cluster.caches.get());
    let executor = cluster.executor("resource-claim-controller");
    let users = pods.clone();
    let of_pods = cluster
        .controller("resource-claim-pods")
        .watch(&pods, |pod: &Pod| pods::has_claims(pod).then(|| pod.key()))
        .watch(&claims, move |claim: &Obj<ResourceClaim>| {
            let owner = owner(claim).map(|owner| Key::new(claim.key().namespace(), &owner.name));
            let users = users.by(&users.by_lookup_key, &LookupKey::ResourceClaim(claim.key().to_string()));
            users.iter().map(|pod| pod.key()).chain(owner).collect::<BTreeSet<_>>()
        })
        .workers(WORKERS);
    let of_claims = cluster
        .controller("resource-claims")
        .watch(&claims, |claim: &Obj<ResourceClaim>| [claim.key()])
        .watch_deltas(&pods, |delta: &Delta<Pod>| {
            let pod = delta.object();
            let is_over = matches!(delta, Delta::Deleted(_)) || pods::is_done(pod);
            let names = is_over.then(|| used_by(pod)).into_iter().flatten();
            names.map(|name| Key::new(&pod.metadata.namespace, name)).collect::<Vec<_>>()
        })
        .workers(WORKERS);
    let templates: Informer<Obj<ResourceClaimTemplate>> = cluster.caches.get();
    let stop = cluster.stop.clone();
    let consumers =
        Consumers { pods: pods.clone(), claims: claims.clone(), templates, executor: executor.clone() };
    let of_pods = work(of_pods, stop.clone(), consumers);
    let of_claims = work(of_claims, stop, Reservations { pods, claims, executor });
    async {
        futures::join!(of_pods, of_claims);
    }
}

/// The loop over pods with claims.
struct Consumers {
    pods: Pods,
    claims: ResourceClaims,
    templates: Informer<Obj<ResourceClaimTemplate>>,
    executor: Executor,
}

impl Reconcile for Consumers {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(pod) = self.pods.get(&cx.key).filter(|pod| pods::wants_claims(pod)) else {
            return Ok(Next::Done);
        };
        let namespace = cx.key.namespace();
        let find = |name: &str| self.claims.get(&Key::new(namespace, name));
        let owned = self.claims.by(&self.claims.of_pod, &pod.metadata.uid);
        let owned: Vec<&ResourceClaim> = owned.iter().map(|claim| &***claim).collect();
        let wanted = pods::wanted(&pod, |name| find(name).map(|found| (**found).clone()), &owned);
        let mut made = Vec::new();
        for (entry, template) in &wanted.missing {
            let Some(found) = self.templates.get(&Key::new(namespace, template)) else {
                let why = format!("resource claim template {template:?} not found");
                self.executor.execute(&cx, &[pods::failed(&pod, entry, &why)]).await.result()?;
                return Err(ReconcileError::Failed(format!("pod {}: {entry}: {why}", cx.key)));
            };
            made.push(pods::create(&pod, entry, &found));
        }
        // A later run, which the new claims cause, finds their names.
        if let Some((at, error)) = self.failure(&cx, &made).await {
            if let Some((entry, _)) = wanted.missing.get(at) {
                self.executor
                    .execute(&cx, &[pods::failed(&pod, entry, &error.to_string())])
                    .await
                    .result()?;
            }
            return Err(error.into());
        }
        let mut actions: Vec<Action> = pods::names(&pod, &wanted.names).into_iter().collect();
        actions.extend(pods::reservations(&pod, |name| find(name).map(|found| (**found).clone())));
        self.executor.execute(&cx, &actions).await.result()?;
        Ok(Next::Done)
    }
}

impl Consumers {
    async fn failure(&self, cx: &Context, actions: &[Action]) -> Option<(usize, ApiError)> {
        self.executor.execute(cx, actions).await.failure.map(|failed| (failed.at, failed.error))
    }
}

/// The loop over claims with reservations.
struct Reservations {
    pods: Pods,
    claims: ResourceClaims,
    executor: Executor,
}

impl Reconcile for Reservations {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(claim) = self.claims.get(&cx.key) else { return Ok(Next::Done) };
        let mut consumers = BTreeMap::new();
        for consumer in claims::reserved(&claim) {
            if !claims::is_pod(consumer) {
                let why =
                    format!("claim {}: unsupported consumer {} {}", cx.key, consumer.resource, consumer.name);
                return Err(ReconcileError::Failed(why));
            }
            consumers.insert(consumer.uid.clone(), self.consumer(&cx, &consumer.name, &consumer.uid).await?);
        }
        let release = claims::release(&claim, &consumers);
        let owner = owner(&claim).map(|owner| Key::new(cx.key.namespace(), &owner.name));
        let owner = owner.and_then(|key| self.pods.get(&key));
        self.release(&cx, &claim, release).await?;
        if claims::is_unneeded(&claim, &consumers, owner.as_deref()) {
            let target = Target { resource_version: None, ..Target::of::<ResourceClaim>(&claim) };
            let delete = Action::Delete { target, propagation: Propagation::Default, force: false };
            self.executor.execute(&cx, &[delete]).await.result()?;
        }
        Ok(Next::Done)
    }
}

impl Reservations {
    /// The state of a pod with a reservation. A pod that the cache lacks is read from the API server: the
    /// scheduler may have reserved the claim for a pod that the cache does not show yet.
    async fn consumer(&self, cx: &Context, name: &str, uid: &str) -> Result<Consumer, ApiError> {
        if let Some(pod) = self.pods.get(&Key::new(cx.key.namespace(), name)) {
            let is_over = pod.metadata.uid != uid || pods::is_done(&pod);
            return Ok(if is_over { Consumer::Over } else { Consumer::Active });
        }
        match self.executor.client.api::<core::Pod>().get(cx.key.namespace(), name).await {
            Ok(pod) if pod.metadata.uid.as_deref() == Some(uid) => Ok(Consumer::Active),
            Ok(_) => Ok(Consumer::Over),
            Err(error) if error.is_not_found() => Ok(Consumer::Over),
            Err(error) => Err(error),
        }
    }

    /// Ends reservations in the status, and then removes the finalizer from that very state of the claim: a
    /// scheduler may allocate the claim again in between.
    async fn release(&self, cx: &Context, claim: &ResourceClaim, release: Release) -> Result<(), ApiError> {
        let resource = resource_of::<ResourceClaim>();
        let api = self.executor.client.causes(&cx.causes).dynamic(gvr(&resource));
        let encode =
            |claim: &ResourceClaim| value_of(claim).map_err(|error| ApiError::Json(error.to_string()));
        let mut current = encode(claim)?;
        if let Some(status) = release.status {
            current["status"] = value_of(&status).map_err(|error| ApiError::Json(error.to_string()))?;
            current = api.update_status(&current).await?;
        }
        if release.drops_finalizer && claims::drop_finalizer(&mut current) {
            current = api.update(&current).await?;
        }
        let version = current["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        if let Some(version) = version {
            self.executor.caches.wrote(cx, &resource, kstore_informer::Revision(version));
        }
        Ok(())
    }
}
