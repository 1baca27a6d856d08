//! The ServiceCIDR `kubernetes`: the configured ranges of Service addresses. It is ready from the start,
//! because the API's own Service has its address from it before any controller runs. An existing one is kept,
//! since addresses may have been allocated from it; only a second IP family may be added.

use super::server_identity;
use crate::pipeline::Pipeline;
use kstore_api::meta;
use kstore_api::object::list;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use serde_json::{Value, json};

const READY: &str = "Kubernetes default Service CIDR is ready";

/// Creates the ServiceCIDR, or updates it.
pub(super) async fn reconcile(pipeline: &Pipeline) -> Result<(), Status> {
    let cidrs = pipeline.registry().service_ranges().cidrs();
    let now = pipeline.nondet().clock.now_seconds().to_string();
    let wanted = service_cidr(&cidrs, &now);
    server_identity::reconcile_with(pipeline, &wanted, |row, stored| changed(row, stored, &cidrs, &now)).await
}

fn service_cidr(cidrs: &[String], now: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": cidrs },
        "status": { "conditions": [ready(now)] },
    })
}

fn ready(now: &str) -> Value {
    json!({ "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": now, "message": READY })
}

/// The updated ServiceCIDR; `None` if it needs no change.
fn changed(row: &'static Resource, stored: &Value, cidrs: &[String], now: &str) -> Option<Value> {
    let stored_cidrs: Vec<&str> = list(&stored["spec"]["cidrs"]).iter().filter_map(Value::as_str).collect();
    let grows = cidrs.len() == 2 && stored_cidrs == cidrs[..1];
    if grows {
        return Some(server_identity::changed(row, stored, &json!({ "spec": { "cidrs": cidrs } })));
    }
    if stored_cidrs != cidrs {
        tracing::warn!(
            stored = ?stored_cidrs, configured = ?cidrs,
            "the default ServiceCIDR does not match --service-cluster-ip-range and stays as it is"
        );
        return None;
    }
    let conditions = list(&stored["status"]["conditions"]);
    let is_decided = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] != "Unknown");
    if is_decided || meta::is_being_deleted(stored) {
        return None;
    }
    let others = conditions.iter().filter(|c| c["type"] != "Ready").cloned();
    let mut next = stored.clone();
    next["status"] = json!({ "conditions": others.chain([ready(now)]).collect::<Vec<_>>() });
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn change(stored: &Value, cidrs: &[&str]) -> Option<Value> {
        let row = kind::lookup("networking.k8s.io", "v1", "servicecidrs").unwrap();
        changed(row, stored, &cidrs.iter().map(|cidr| (*cidr).to_owned()).collect::<Vec<_>>(), NOW)
    }

    #[test]
    fn an_existing_service_cidr_only_gains_a_second_family_or_its_condition() {
        let four = service_cidr(&["10.0.0.0/24".to_owned()], NOW);
        assert_eq!(change(&four, &["10.0.0.0/24"]), None);
        assert_eq!(change(&four, &["10.1.0.0/24"]), None, "addresses may have been allocated from it");
        assert_eq!(change(&four, &["fd00::/64", "10.0.0.0/24"]), None);
        let both = change(&four, &["10.0.0.0/24", "fd00::/64"]).unwrap();
        assert_eq!(both["spec"]["cidrs"], json!(["10.0.0.0/24", "fd00::/64"]));
        assert_eq!(both["status"], four["status"]);
        assert_eq!(change(&both, &["10.0.0.0/24"]), None);

        let mut unknown = four;
        unknown["status"] =
            json!({ "conditions": [{ "type": "Other" }, { "type": "Ready", "status": "Unknown" }] });
        let known = change(&unknown, &["10.0.0.0/24"]).unwrap();
        assert_eq!(known["status"]["conditions"], json!([{ "type": "Other" }, ready(NOW)]));
        unknown["metadata"]["deletionTimestamp"] = json!(NOW);
        assert_eq!(change(&unknown, &["10.0.0.0/24"]), None);
    }
}
