//! Approves CertificateSigningRequests for client certificates of kubelets whose requester may have them. `plan` judges; this file reads
//! the cache, asks the API server about permissions, and writes the approval.
//!
//! Follows `isNodeClientCert` and `isSelfNodeClientCert`.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::certificate_request::CertificateRequest;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::object::Object;
use crate::resource::{gvr, resource_of};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kstore_api::json::value_of;
use kstore_client::{ApiError, Obj};
use kstore_informer::{Action as Next, Context, Informer};
use plan::{Permission, approved, permissions, question};
use std::sync::Arc;

const WORKERS: usize = 1;

/// Runs until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let requests: Informer<Obj<CertificateSigningRequest>> = cluster.caches.get();
    let controller = cluster
        .controller("csr-approver")
        .watch(&requests, |request: &Obj<CertificateSigningRequest>| [kstore_informer::Object::key(request)])
        .workers(WORKERS);
    let executor = cluster.executor("certificate-controller");
    work(controller, cluster.stop.clone(), Approver { cluster, requests, executor })
}

struct Approver {
    cluster: Arc<Cluster>,
    requests: Informer<Obj<CertificateSigningRequest>>,
    executor: Executor,
}

impl Reconcile for Approver {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(csr) = self.requests.get(&cx.key) else { return Ok(Next::Done) };
        // The API server refuses requests that cannot be parsed; a stored one needs a human.
        let Ok(parsed) = CertificateRequest::parse(&csr.spec.request.0) else { return Ok(Next::Done) };
        let tried = permissions(&csr, &parsed);
        for permission in &tried {
            if self.is_allowed(&csr, *permission).await? {
                let approved = approved(&csr, *permission, self.cluster.nondet.clock.now());
                self.executor.execute(&cx, &[Action::Approve(Object::of(&approved))]).await.result()?;
                return Ok(Next::Done);
            }
        }
        if tried.is_empty() {
            return Ok(Next::Done);
        }
        // A role that is granted later approves it: rights change without an event here.
        Err(ReconcileError::Failed(format!(
            "recognized csr {:?} but subject access review was not approved",
            cx.key.name()
        )))
    }
}

impl Approver {
    async fn is_allowed(
        &self,
        csr: &CertificateSigningRequest,
        permission: Permission,
    ) -> Result<bool, ApiError> {
        let review =
            value_of(&question(csr, permission)).map_err(|error| ApiError::Json(error.to_string()))?;
        let api = self.executor.client.dynamic(gvr(&resource_of::<SubjectAccessReview>()));
        Ok(api.create("", &review).await?["status"]["allowed"] == true)
    }
}
