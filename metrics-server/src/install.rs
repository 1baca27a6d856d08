//! The objects that install the metrics server in a cluster: its APIService, and a ClusterRole that lets
//! users with `view`, `edit` or `admin` read metrics. Existing objects with these names are left unchanged.

use crate::resource::{GROUP, STABLE, VERSION, versions};
use kstore_api::object::text;
use kstore_api::version::Minor;
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, Gvr};
use serde_json::{Value, json};

/// The namespace in the APIService's Service reference. No such Service exists: the process that runs the
/// metrics server answers.
pub const NAMESPACE: &str = "kube-system";
/// The name in the Service reference.
pub const NAME: &str = "metrics-server";
/// The port in the Service reference.
pub const PORT: u16 = 443;
/// The name of the APIService of the version that each server has.
pub const API_SERVICE: &str = "v1beta1.metrics.k8s.io";

/// The label of objects that this module creates. [`uninstall`] deletes only an APIService with it.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kstore-server");

/// Creates the APIServices of the versions that a Kubernetes version has, and the ClusterRole, unless they exist.
///
/// # Errors
/// If an object could not be created.
pub async fn install(client: &Client, minor: Minor) -> Result<(), ApiError> {
    let services = versions(minor).iter().map(|version| (api_services(client), api_service(version)));
    for (api, object) in std::iter::once((cluster_roles(client), reader())).chain(services) {
        match api.create("", &object).await {
            Ok(_) => {}
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Deletes the APIServices that [`install`] created and that still name the same Service. Without this their
/// group would stay in discovery without a server, and namespaces could not be deleted.
///
/// # Errors
/// If an APIService could not be read or deleted.
pub async fn uninstall(client: &Client) -> Result<(), ApiError> {
    for version in [STABLE, VERSION] {
        delete(client, &format!("{version}.{GROUP}")).await?;
    }
    Ok(())
}

async fn delete(client: &Client, name: &str) -> Result<(), ApiError> {
    let api = api_services(client);
    let found = match api.get("", name).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_own(&found) {
        return Ok(());
    }
    let params = DeleteParams::default().uid(text(&found["metadata"]["uid"]));
    match api.delete("", name, &params).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

fn is_own(api_service: &Value) -> bool {
    let service = &api_service["spec"]["service"];
    api_service["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1
        && service["namespace"] == NAMESPACE
        && service["name"] == NAME
}

fn api_services(client: &Client) -> DynamicApi {
    client.dynamic(Gvr::new("apiregistration.k8s.io", "v1", "apiservices"))
}

fn cluster_roles(client: &Client) -> DynamicApi {
    client.dynamic(Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles"))
}

fn api_service(version: &str) -> Value {
    let priority = if version == STABLE { 200 } else { 100 };
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{GROUP}"), "labels": {MANAGED_BY.0: MANAGED_BY.1}},
        "spec": {
            "group": GROUP, "version": version, "groupPriorityMinimum": 100, "versionPriority": priority,
            "insecureSkipTLSVerify": true, "service": {"namespace": NAMESPACE, "name": NAME, "port": PORT},
        },
    })
}

fn reader() -> Value {
    let parts = ["view", "edit", "admin"];
    let labels = parts.map(|part| (format!("rbac.authorization.k8s.io/aggregate-to-{part}"), json!("true")));
    let mut labels: serde_json::Map<String, Value> = labels.into_iter().collect();
    labels.insert(MANAGED_BY.0.to_owned(), json!(MANAGED_BY.1));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "system:aggregated-metrics-reader", "labels": labels},
        "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    })
}
