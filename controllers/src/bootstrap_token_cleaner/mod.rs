//! Bootstrap token cleaner: deletes expired bootstrap tokens (Secrets of `kube-system` of type
//! `bootstrap.kubernetes.io/token`). `plan` decides; this file watches these Secrets and executes the plan
//! when a token expires.
//!
//! Follows `evalSecret`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use k8s_openapi::api::core::v1::Secret;
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Informer, Object};
pub(crate) use plan::expiry;
use std::sync::Arc;

const WORKERS: usize = 1;
const NAMESPACE: &str = "kube-system";
const OF_TYPE: &str = "type=bootstrap.kubernetes.io/token";

/// Informer of the bootstrap tokens.
#[derive(Clone)]
pub(crate) struct BootstrapTokens(pub(crate) Informer<Obj<Secret>>);

impl Watched for BootstrapTokens {
    fn start(from: &Sources<'_>) -> Self {
        let params = WatchParams { fields: OF_TYPE.to_owned(), ..WatchParams::default().ns(NAMESPACE) };
        Self(from.start(
            "bootstrap-tokens",
            Some(crate::resource::resource_of::<Secret>()),
            Builder::new(from.multi.trimmed::<Secret>(params)),
        ))
    }
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let tokens: BootstrapTokens = cluster.caches.get();
    let controller = cluster
        .controller("token-cleaner")
        .watch(&tokens.0, |secret: &Obj<Secret>| [secret.key()])
        .workers(WORKERS);
    let executor = cluster.executor("token-cleaner");
    work(controller, cluster.stop.clone(), Cleaner { cluster, tokens, executor })
}

struct Cleaner {
    cluster: Arc<Cluster>,
    tokens: BootstrapTokens,
    executor: Executor,
}

impl Reconcile for Cleaner {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(token) = self.tokens.0.get(&cx.key) else { return Ok(Next::Done) };
        let plan = plan::plan(&token, self.cluster.nondet.clock.now());
        self.executor.execute(&cx, &plan.actions).await.result()?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}
