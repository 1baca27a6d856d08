//! What every cluster has from the start: namespaces, priority classes, the service of the API itself, roles and bindings. Made
//! through the pipeline like anything else, if they are not there yet; what somebody has changed stays changed.

use crate::authn::{MASTERS, UserInfo};
use crate::authz::bootstrap as rbac;
use crate::pipeline::Pipeline;
use crate::request::{Action, Body, Request, Target, WriteOptions};
use kstore_api::kind::{self, Resource};
use kstore_api::meta;
use kstore_api::status::{Reason, Status};
use serde_json::{Value, json};

/// As whom the apiserver writes on its own behalf.
const SELF: &str = "system:apiserver";
/// The first address of the service network: the API as pods see it.
const SERVICE_ADDRESS: &str = "10.96.0.1";

/// Creates what is missing. On return all of it is there and durable.
///
/// # Errors
/// The first refusal that is not "already there".
pub async fn run(pipeline: &Pipeline) -> Result<(), Status> {
    for object in objects() {
        let row = row_of(&object);
        let key = row.storage_key(meta::namespace(&object), meta::name(&object));
        if pipeline.cache().get(row, &key).is_some() {
            continue;
        }
        match pipeline.serve(create(row, &object)).await {
            Ok(_) => {}
            // Another apiserver on the same storage was faster.
            Err(status) if status.reason == Reason::AlreadyExists => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

fn row_of(object: &Value) -> &'static Resource {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    kind::lookup_api_version(text("apiVersion"), text("kind"))
        .expect("initial objects are of kinds in the table")
}

fn create(row: &'static Resource, object: &Value) -> Request {
    let body = serde_json::to_vec(object).expect("a value has string keys only");
    Request {
        user: UserInfo::new(SELF, [MASTERS]),
        agent: "kstore-apiserver".into(),
        causes: Vec::new(),
        fence: None,
        stage: None,
        timeout: None,
        target: Target {
            resource: row,
            subresource: "",
            namespace: meta::namespace(object).into(),
            name: String::new(),
        },
        action: Action::Create(
            Body::json(body.into()),
            WriteOptions { field_manager: "kstore-apiserver".into(), ..WriteOptions::default() },
        ),
    }
}

/// All of it, in an order in which each can be made: namespaces before what lives in them, roles before bindings.
fn objects() -> Vec<Value> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces = namespaces
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
    let mut objects: Vec<Value> = namespaces.into();
    objects.push(class(
        "system-cluster-critical",
        2_000_000_000,
        "For pods without which the cluster does not work, on whichever node they run.",
    ));
    objects.push(class(
        "system-node-critical",
        2_000_001_000,
        "For pods without which their node does not work.",
    ));
    objects.extend(rbac::objects());
    objects.push(kubernetes_service());
    objects
}

fn class(name: &str, value: i64, description: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": name },
        "value": value,
        "description": description,
    })
}

fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": SERVICE_ADDRESS,
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }],
        },
    })
}
