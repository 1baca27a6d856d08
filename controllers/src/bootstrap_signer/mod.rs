//! Bootstrap signer: signs the kubeconfig in the ConfigMap `kube-public/cluster-info` with every bootstrap
//! token that allows it, so that a joining node, which knows only such a token, can verify it. `plan` decides,
//! `signature` signs; this file watches ConfigMap and tokens, and executes the plan.
//!
//! Follows `signConfigMap`.

mod plan;
mod signature;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::bootstrap_token_cleaner::BootstrapTokens;
use crate::caches::{Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::resource::resource_of;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Informer, Key, Object};
use std::sync::Arc;

/// There is one ConfigMap.
const WORKERS: usize = 1;
const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";

/// Informer of the ConfigMap `cluster-info`.
#[derive(Clone)]
struct ClusterInfo(Informer<Obj<ConfigMap>>);

impl Watched for ClusterInfo {
    fn start(from: &Sources<'_>) -> Self {
        let named = WatchParams::default().ns(NAMESPACE).fields(&format!("metadata.name={NAME}"));
        let builder = Builder::new(from.multi.trimmed::<ConfigMap>(named));
        Self(from.start("cluster-info", Some(resource_of::<ConfigMap>()), builder))
    }
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let (info, tokens): (ClusterInfo, BootstrapTokens) = (cluster.caches.get(), cluster.caches.get());
    let controller = cluster
        .controller("bootstrap-signer")
        .watch(&info.0, |map: &Obj<ConfigMap>| [map.key()])
        .watch(&tokens.0, |_: &Obj<Secret>| [Key::new(NAMESPACE, NAME)])
        .workers(WORKERS);
    let executor = cluster.executor("bootstrap-signer");
    work(controller, cluster.stop.clone(), Signer { cluster, info, tokens, executor })
}

struct Signer {
    cluster: Arc<Cluster>,
    info: ClusterInfo,
    tokens: BootstrapTokens,
    executor: Executor,
}

impl Reconcile for Signer {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(info) = self.info.0.get(&cx.key) else { return Ok(Next::Done) };
        let tokens = self.tokens.0.list();
        let plan = plan::plan(&info, tokens.iter().map(|secret| &***secret), self.cluster.nondet.clock.now());
        self.executor.execute(&cx, &plan.actions).await.result()?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}
