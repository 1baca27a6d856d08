//! A service account with all permissions, to compare the cost of its token with that of a certificate.

use crate::process::Server;
use anyhow::Context;
use bytes::Bytes;
use serde_json::{Value, json};

/// Creates a service account with all permissions and returns a token of it.
pub(crate) async fn token(server: &Server) -> anyhow::Result<String> {
    token_of(server, "bench").await
}

/// Creates a service account of this name with all permissions and returns a token of it.
pub(crate) async fn token_of(server: &Server, name: &str) -> anyhow::Result<String> {
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let mut connection = server.connect().await?;
    let mut create = async |path: &str, object: Value| {
        let answer = connection.create(path, Bytes::from(object.to_string())).await?;
        anyhow::Ok(serde_json::from_slice::<Value>(&answer)?)
    };
    let metadata = json!({"name": name});
    create(ACCOUNTS, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await?;
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let subjects = json!([{"kind": "ServiceAccount", "namespace": "default", "name": name}]);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": metadata, "roleRef": role, "subjects": subjects});
    create(BINDINGS, binding).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = create(&format!("{ACCOUNTS}/{name}/token"), request).await?;
    Ok(answer["status"]["token"].as_str().context("no token in the answer")?.to_owned())
}
