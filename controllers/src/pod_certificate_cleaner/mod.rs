//! Pod certificate request cleaner: deletes requests a quarter of an hour after their creation, answered or not: a node keeps what it was
//! issued. It runs only if the server serves PodCertificateRequests.
//!
//! Follows `PCRCleanerController`.

use crate::action::{Action, Plan, Propagation, Target};
use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::POD_REQUEST;
use crate::optional_api;
use crate::stable_kinds::PodCertificateRequest;
use jiff::Timestamp;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Informer, Object};
use std::sync::Arc;

const WORKERS: usize = 1;

/// Runs the controller until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    if !optional_api::is_served::<PodCertificateRequest>(&cluster).await {
        return;
    }
    let requests: Informer<Obj<PodCertificateRequest>> = cluster.caches.whole();
    let controller = cluster
        .controller("podcertificaterequest-cleaner")
        .watch(&requests, |request: &Obj<PodCertificateRequest>| [request.key()])
        .workers(WORKERS);
    let executor = cluster.executor("podcertificaterequestcleaner");
    let stop = cluster.stop.clone();
    work(controller, stop, Cleaner { cluster, requests, executor }).await;
}

struct Cleaner {
    cluster: Arc<Cluster>,
    requests: Informer<Obj<PodCertificateRequest>>,
    executor: Executor,
}

impl Reconcile for Cleaner {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(request) = self.requests.get(&cx.key) else { return Ok(Next::Done) };
        let plan = plan(&request, self.cluster.nondet.clock.now());
        self.executor.execute(&cx, &plan.actions).await.result()?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}

/// Deletes an old request, or runs again when it is old.
fn plan(request: &PodCertificateRequest, now: Timestamp) -> Plan {
    let created = request.metadata.creation_timestamp.as_ref();
    let end = created.and_then(|created| created.0.checked_add(POD_REQUEST).ok());
    let Some(end) = end.filter(|_| request.metadata.deletion_timestamp.is_none()) else {
        return Plan::nothing();
    };
    if end > now {
        let mut plan = Plan::nothing();
        plan.wake_in(end.duration_since(now).unsigned_abs());
        return plan;
    }
    let target = Target { resource_version: None, ..Target::of(request) };
    Plan::of(vec![Action::Delete { target, propagation: Propagation::Default, force: false }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_deleted_a_quarter_of_an_hour_after_its_creation() {
        let request: PodCertificateRequest = serde_json::from_value(json!({
            "metadata": {"name": "r", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        }))
        .unwrap();
        let at = |text: &str| plan(&request, text.parse().unwrap());
        let young = at("2026-01-01T00:14:59Z");
        assert!(young.actions.is_empty() && young.wake.unwrap().as_secs() == 1);
        let old = at("2026-01-01T00:15:00Z");
        let [Action::Delete { target, .. }] = old.actions.as_slice() else { panic!("{:?}", old.actions) };
        assert_eq!((target.namespace.as_str(), target.name.as_str(), target.uid.as_str()), ("n", "r", "u"));
        assert_eq!(&*target.resource.version, "v1");
    }
}
