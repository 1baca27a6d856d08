//! Type checking of validating admission policies: checks their expressions against the types of the matched
//! kinds, and reports mismatches in `status.typeChecking`. It runs once per generation of a policy: a later
//! change of a kind is not checked, as in Kubernetes. `kstore_api` has the checker and `plan` the report;
//! this file reads the schemas of custom kinds from the API.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::resource::{DEFINITIONS, gvr};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kstore_api::admission::policy::type_checking::{Checks, param_kind, resources};
use kstore_api::json::value_of;
use kstore_client::{ApiError, Client, ListParams, Obj};
use kstore_informer::{Action as Next, Context, Informer, Object};
use plan::{Definitions, is_due, report};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One worker: checks use CPU time and nothing waits for them.
const WORKERS: usize = 1;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let policies = cluster.caches.whole();
    let controller = cluster
        .controller("validatingadmissionpolicy-status")
        .watch(&policies, |policy: &Obj<ValidatingAdmissionPolicy>| [policy.key()])
        .workers(WORKERS);
    let executor = cluster.executor("validatingadmissionpolicy-status-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Policies { client: cluster.client.clone(), policies, executor })
}

struct Policies {
    /// Client for listing definitions, which the controller's account may not read.
    client: Client,
    policies: Informer<Obj<ValidatingAdmissionPolicy>>,
    executor: Executor,
}

impl Reconcile for Policies {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let policy = self.policies.get(&cx.key).filter(|policy| is_due(policy));
        let Some(policy) = policy else { return Ok(Next::Done) };
        let value = value_of(&**policy).map_err(|error| ApiError::Json(error.to_string()))?;
        let definitions = self.definitions(&value).await?;
        let mut checks = Checks::new(&value, &definitions);
        let mut warnings = Vec::new();
        for index in 0..checks.len() {
            warnings.extend(checks.run(index));
            // Other controllers share the thread.
            tokio::task::yield_now().await;
        }
        match self.executor.execute(&cx, &[report(&policy, &warnings)]).await.result() {
            Err(error) if !error.is_not_found() => Err(error.into()),
            Err(_) | Ok(()) => Ok(Next::Done),
        }
    }
}

impl Policies {
    /// The existing definitions of the custom kinds that a policy names.
    async fn definitions(&self, policy: &Value) -> Result<Definitions, ApiError> {
        let api = self.client.dynamic(gvr(&DEFINITIONS));
        let mut found = Definitions::default();
        // Only the definition has the plural of a parameter kind, so all are listed.
        if param_kind(policy).is_some_and(plan::may_be_custom) {
            let (all, _) = api.list("", &ListParams::default()).await?;
            all.iter().for_each(|definition| found.add(definition));
            return Ok(found);
        }
        let names: BTreeSet<String> = resources(policy).into_iter().filter_map(plan::definition_of).collect();
        for name in names {
            let (of_name, _) =
                api.list("", &ListParams::default().fields(&format!("metadata.name={name}"))).await?;
            of_name.iter().for_each(|definition| found.add(definition));
        }
        Ok(found)
    }
}
