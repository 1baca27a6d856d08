//! Makes the claims of pods' generic ephemeral volumes: a claim for each, from the template in the pod, owned by the pod, so that both go
//! together. `plan` judges; this file reads the caches and has the plan carried out.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Hands;
use crate::caches::Pods;
use crate::runner::{Cluster, Reconcile, Trouble, work};
use crate::view::Pod;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as WholePod};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use std::sync::Arc;

const WORKERS: usize = 2;

/// Sets it up; the future runs until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let claims: Informer<Obj<PersistentVolumeClaim>> = cluster.caches.get();
    let pods: Pods = cluster.caches.get();
    let controller = cluster
        .controller("ephemeral-volume")
        .watch(&pods, |pod: &Pod| pod.has_ephemeral_volumes().then(|| pod.key()))
        // A claim that was deleted is made again while its pod is there.
        .watch(&claims, |claim: &Obj<PersistentVolumeClaim>| {
            let pod = plan::controlling_pod(claim)?;
            Some(Key::new(claim.metadata.namespace.as_deref()?, pod))
        })
        .workers(WORKERS);
    let hands = cluster.hands("ephemeral_volume");
    work(controller, cluster.stop.clone(), EphemeralVolumes { claims, pods, hands })
}

struct EphemeralVolumes {
    claims: Informer<Obj<PersistentVolumeClaim>>,
    pods: Pods,
    hands: Hands,
}

impl Reconcile for EphemeralVolumes {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let (claims, pods) = cx.cut((&self.claims, &*self.pods)).await?;
        let Some(pod) = pods.get(&cx.key).filter(|pod| plan::needs_claims(pod)) else {
            return Ok(Next::Done);
        };
        let is_there = |claim: &str| claims.get(&Key::new(cx.key.namespace(), claim));
        let missing = pod.ephemeral_claims().any(|claim| is_there(claim).is_none());
        let mut actions: Vec<_> =
            pod.ephemeral_claims().filter_map(|claim| plan::foreign(pod, is_there(claim)?)).collect();
        if missing {
            // The caches have no templates: few pods have any.
            let api = self.hands.client.api::<WholePod>();
            match api.get(cx.key.namespace(), cx.key.name()).await {
                Ok(whole) => actions.extend(plan::create(&whole, |claim| is_there(claim).is_some())),
                Err(error) if error.is_not_found() => return Ok(Next::Done),
                Err(error) => return Err(error.into()),
            }
        }
        match self.hands.carry_out(&cx, &actions).await.result() {
            // Its own claim, which the cache does not show yet, or another one's, which it will.
            Err(error) if error.is_already_exists() => Ok(Next::Done),
            other => Ok(other.map(|()| Next::Done)?),
        }
    }
}
