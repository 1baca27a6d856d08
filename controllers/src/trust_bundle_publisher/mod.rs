//! Trust bundle publisher: publishes the certificate authority of the API server as a ClusterTrustBundle of the
//! signer `kubernetes.io/kube-apiserver-serving`, and deletes other bundles of that signer. `plan` decides; this file
//! reads the cache and executes the plan. It runs only if the server serves ClusterTrustBundles.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::optional_api;
use crate::resource::resource_of;
use crate::stable_kinds::{self, TrustBundle};
use k8s_openapi::api::certificates::v1beta1;
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Causes, Context, Informer, Key};
use std::sync::Arc;

/// One worker: there is one bundle to publish.
const WORKERS: usize = 1;

/// Runs the controller until the cluster stops, with bundles in the version that the server serves. Without a certificate there is nothing
/// to publish.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    if cluster.config.root_ca.is_empty() {
        return;
    }
    if optional_api::is_served::<stable_kinds::ClusterTrustBundle>(&cluster).await {
        publish::<stable_kinds::ClusterTrustBundle>(cluster).await;
    } else if optional_api::is_served::<v1beta1::ClusterTrustBundle>(&cluster).await {
        publish::<v1beta1::ClusterTrustBundle>(cluster).await;
    }
}

async fn publish<B: TrustBundle>(cluster: Arc<Cluster>) {
    let bundles: SignerBundles<B> = cluster.caches.get();
    let all = Key::new("", plan::SIGNER);
    let of_any = all.clone();
    let controller = cluster
        .controller("clustertrustbundle-publisher")
        .watch(&bundles.0, move |_: &Obj<B>| [of_any.clone()])
        .workers(WORKERS);
    controller.queue().add(all, Causes::none());
    let executor = cluster.executor("kube-apiserver-serving-clustertrustbundle-publisher");
    let stop = cluster.stop.clone();
    work(controller, stop, Publisher { cluster, bundles, executor }).await;
}

/// Informer of the bundles of the signer.
struct SignerBundles<B: TrustBundle>(Informer<Obj<B>>);

impl<B: TrustBundle> Clone for SignerBundles<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: TrustBundle> Watched for SignerBundles<B> {
    fn start(from: &Sources<'_>) -> Self {
        let own = WatchParams::default().fields(&format!("spec.signerName={}", plan::SIGNER));
        let builder = Builder::new(from.multi.trimmed::<B>(own));
        Self(from.start("clustertrustbundles", Some(resource_of::<B>()), builder))
    }
}

struct Publisher<B: TrustBundle> {
    cluster: Arc<Cluster>,
    bundles: SignerBundles<B>,
    executor: Executor,
}

impl<B: TrustBundle> Reconcile for Publisher<B> {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let stored = self.bundles.0.list();
        let bundles: Vec<&B> = stored.iter().map(|bundle| &***bundle).collect();
        let actions = plan::plan(&bundles, &self.cluster.config.root_ca);
        // If another client created it first, the key runs again until the cache shows it: the bundle may be gone before that.
        self.executor.execute(&cx, &actions).await.result()?;
        Ok(Next::Done)
    }
}
