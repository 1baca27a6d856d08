//! Attacks on authorization: permission to read must not allow exec, permission for a log must not expose its
//! pod, and a refused write must reveal nothing.

use kstore_apiserver::InProcess;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, simulate};
use pb::kstore_client::KstoreClient;
use serde_json::json;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Grants the user `eve` these verbs on these core resources, in all namespaces.
async fn allow(cluster: &Cluster, verbs: &[&str], resources: &[&str]) -> InProcess {
    let role = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "eve"},
        "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}]});
    let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "eve"},
        "subjects": [{"kind": "User", "name": "eve"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "eve"}});
    cluster.create(role).await;
    cluster.create(binding).await;
    cluster.apiserver().in_process(eve())
}

fn eve() -> UserInfo {
    UserInfo::new("eve", [""; 0])
}

fn reference(resource: &str, subresource: &str, name: &str) -> Option<pb::Ref> {
    Some(pb::Ref {
        version: "v1".into(),
        resource: resource.into(),
        namespace: "default".into(),
        subresource: subresource.into(),
        name: name.into(),
        ..pb::Ref::default()
    })
}

#[test]
fn permission_to_get_allows_no_exec_attach_or_port_forward_by_any_upgrade() {
    simulate(Setup::api_alone(), async |cluster| {
        let resources = ["pods/exec", "pods/attach", "pods/portforward"];
        allow(cluster, &["get"], &resources).await;
        for (below, query) in
            [("exec", "command=id&stdout=1"), ("attach", "stdout=1"), ("portforward", "ports=80")]
        {
            for upgrade in ["SPDY/3.1", "websocket", ""] {
                let path = format!("/api/v1/namespaces/default/pods/web/{below}?{query}");
                let request = http::Request::builder().method("GET").uri(path).header("upgrade", upgrade);
                let request = request
                    .header("connection", "Upgrade")
                    .header("x-stream-protocol-version", "v4.channel.k8s.io")
                    .header("sec-websocket-version", "13")
                    .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
                    .header("sec-websocket-protocol", "v4.channel.k8s.io");
                let reply = cluster.rest_as(eve()).send(request.body(Default::default()).unwrap()).await;
                assert_eq!(reply.code, 403, "{below} by {upgrade:?}: {}", reply.text("/message"));
                let wanted = format!("cannot create resource \"pods/{below}\"");
                assert!(reply.text("/message").contains(&wanted), "{}", reply.text("/message"));
            }
        }
    });
}

#[test]
fn permission_to_watch_a_subresource_does_not_expose_its_objects() {
    simulate(Setup::api_alone(), async |cluster| {
        let api = allow(cluster, &["watch", "get"], &["pods/log"]).await;
        let selector = pb::WatchSelector { r#ref: reference("pods", "log", ""), ..Default::default() };
        let request = pb::WatchRequest { selectors: vec![selector], ..Default::default() };
        let refused = KstoreClient::new(api.clone()).watch(request).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unimplemented, "{refused}");
        let check = pb::Check { r#ref: reference("pods", "log", "web"), absent: true, ..Default::default() };
        let operation = pb::Operation { kind: Some(pb::operation::Kind::Check(check)) };
        let request = pb::TransactRequest { operations: vec![operation], ..Default::default() };
        let refused = KstoreClient::new(api).transact(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    });
}

#[test]
fn a_refused_transaction_does_not_reveal_the_holder_of_a_lease() {
    simulate(Setup::api_alone(), async |cluster| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "office"}, "spec": {"holderIdentity": "secret-holder", "leaseTransitions": 7}});
        cluster.create(lease).await;
        let api = cluster.apiserver().in_process(eve());
        let create = pb::CreateRequest {
            r#ref: reference("configmaps", "", ""),
            json: json!({"metadata": {"name": "one"}}).to_string().into(),
            ..Default::default()
        };
        let operation = pb::Operation { kind: Some(pb::operation::Kind::Create(create)) };
        let message = pb::TransactRequest { operations: vec![operation], ..Default::default() };
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("kstore-fence", "default/office/0/eve".parse().unwrap());
        let refused = KstoreClient::new(api).transact(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
        assert!(!refused.message().contains("secret-holder"), "{refused}");
    });
}
