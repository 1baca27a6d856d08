//! Legacy service account token cleaner: invalidates, and later deletes, Secrets with service account tokens
//! that an earlier Kubernetes generated and that are not used any more. The API server writes the day of the
//! last use into a label. `plan` decides; this file reads the caches and, for an unused token, the pods of the
//! namespace, and executes the plan.
//!
//! Follows `evaluateSATokens`.

mod mounted;
mod plan;
#[cfg(test)]
mod tests;

use crate::account_token::{AccountTokens, account_key};
use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::UNUSED_TOKEN_CHECK;
use jiff::civil::Date;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kstore_client::{Gvr, ListParams, Obj};
use kstore_informer::{Action as Next, Context, Informer};
use std::sync::Arc;

const WORKERS: usize = 1;
const TRACKING_NAMESPACE: &str = "kube-system";
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let (secrets, accounts): (AccountTokens, Informer<Obj<ServiceAccount>>) =
        (cluster.caches.get(), cluster.caches.get());
    let controller = cluster
        .controller("legacy-serviceaccount-token-cleaner")
        .watch(&secrets.informer, |secret: &Obj<Secret>| [kstore_informer::Object::key(secret)])
        .workers(WORKERS);
    let executor = cluster.executor("legacy-service-account-token-cleaner");
    work(controller, cluster.stop.clone(), Cleaner { cluster, secrets, accounts, executor })
}

struct Cleaner {
    cluster: Arc<Cluster>,
    secrets: AccountTokens,
    accounts: Informer<Obj<ServiceAccount>>,
    executor: Executor,
}

impl Reconcile for Cleaner {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(secret) = self.secrets.informer.get(&cx.key) else { return Ok(Next::Done) };
        let (period, now) = (self.cluster.config.unused_tokens, self.cluster.nondet.clock.now());
        let account = self.accounts.get(&account_key(&secret));
        let is_unused = plan::is_unused(&secret, account.as_ref().map(|account| &***account), period, now);
        if is_unused
            && let Some(since) = self.tracked_since().await?
            && plan::is_tracked(since, period, now)
            && !self.is_mounted(&cx).await?
        {
            let action = plan::plan(&secret, period, now);
            match self.executor.execute(&cx, action.as_slice()).await.result() {
                // The Secret has changed; its new state has its own run.
                Err(error) if error.is_conflict() => {}
                done => done?,
            }
        }
        Ok(Next::Again(UNUSED_TOKEN_CHECK))
    }
}

impl Cleaner {
    /// The day since which the API server records the use of tokens. `None`, with a warning, if it is unknown.
    async fn tracked_since(&self) -> Result<Option<Date>, ReconcileError> {
        let maps = self.executor.client.api::<ConfigMap>();
        let tracking = match maps.get(TRACKING_NAMESPACE, TRACKING).await {
            Ok(tracking) => tracking,
            Err(error) if error.is_not_found() => ConfigMap::default(),
            Err(error) => return Err(error.into()),
        };
        let since = tracking.data.as_ref().and_then(|data| data.get(SINCE)).and_then(|day| day.parse().ok());
        if since.is_none() {
            tracing::warn!("the ConfigMap {TRACKING_NAMESPACE}/{TRACKING} has no day in {SINCE:?}");
        }
        Ok(since)
    }

    /// Whether a pod of the namespace refers to the Secret.
    async fn is_mounted(&self, cx: &Context) -> Result<bool, ReconcileError> {
        let pods = self.cluster.client.dynamic(Gvr::new("", "v1", "pods"));
        let (pods, _) = pods.list(cx.key.namespace(), &ListParams::default()).await?;
        Ok(pods.iter().any(|pod| mounted::refers_to(&pod["spec"], cx.key.name())))
    }
}
