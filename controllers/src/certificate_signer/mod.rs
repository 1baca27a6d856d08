//! Signs approved CertificateSigningRequests that name a signer of Kubernetes. `plan` judges, `signers` knows what each signer accepts,
//! `signing_authority` makes certificates; this file reads the cache and writes the status. Without an authority in the configuration it
//! does nothing, as kube-controller-manager without `--cluster-signing-cert-file`.

mod plan;
pub(crate) mod signers;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::certificate_request::CertificateRequest;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::config::Signing;
use crate::object::Object;
use crate::signing_authority::{SERIAL_BYTES, Terms};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer};
use plan::{Decision, decide, failed, issued, lifetime};
use std::sync::Arc;

const WORKERS: usize = 1;

/// Runs until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let signing = cluster.config.signing.clone();
    let running = signing.map(|signing| {
        let requests: Informer<Obj<CertificateSigningRequest>> = cluster.caches.get();
        let controller = cluster
            .controller("csr-signer")
            .watch(&requests, |request: &Obj<CertificateSigningRequest>| {
                [kstore_informer::Object::key(request)]
            })
            .workers(WORKERS);
        let executor = cluster.executor("certificate-controller");
        work(controller, cluster.stop.clone(), Signer { cluster, requests, executor, signing })
    });
    async {
        if let Some(running) = running {
            running.await;
        }
    }
}

struct Signer {
    cluster: Arc<Cluster>,
    requests: Informer<Obj<CertificateSigningRequest>>,
    executor: Executor,
    signing: Signing,
}

impl Signer {
    /// A random serial number: positive, and of full length.
    fn serial(&self) -> [u8; SERIAL_BYTES] {
        let rng = &self.cluster.nondet.rng;
        let number = (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) >> 2 | 1 << 125;
        number.to_be_bytes()
    }
}

impl Reconcile for Signer {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(csr) = self.requests.get(&cx.key) else { return Ok(Next::Done) };
        // The API server refuses requests that cannot be read.
        let Ok(parsed) = CertificateRequest::parse(&csr.spec.request.0) else { return Ok(Next::Done) };
        let now = self.cluster.nondet.clock.now();
        let answered = match decide(&csr, &parsed) {
            Decision::Nothing => return Ok(Next::Done),
            Decision::Fail(why) => failed(&csr, why, now),
            Decision::Sign => {
                let serial = self.serial();
                let usages = csr.spec.usages.clone().unwrap_or_default();
                let terms = Terms { usages: &usages, lifetime: lifetime(&csr, self.signing.longest), serial };
                let pem = self.signing.authority.issue(&parsed.der, terms, now);
                issued(
                    &csr,
                    pem.map_err(|why| ReconcileError::Failed(format!("error auto signing csr: {why}")))?,
                )
            }
        };
        self.executor.execute(&cx, &[Action::UpdateStatus(Object::of(&answered))]).await.result()?;
        Ok(Next::Done)
    }
}
