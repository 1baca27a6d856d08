//! Who may change which part of a claim's status: since Kubernetes 1.36, permission to write `resourceclaims/status` is not enough.

use kstore_api::version::Minor;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const DRIVER: &str = "gpu.example.com";

fn rule(resource: &str, verbs: &[&str], names: &[&str]) -> Value {
    json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs, "resourceNames": names})
}

/// Gives a user a cluster-wide role of its name, beside the right to write the statuses of claims.
async fn grant(cluster: &Cluster, user: &UserInfo, name: &str, rule: Value) {
    let all = json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [all, rule]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": user.username}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        assert_eq!(cluster.rest().call("POST", &path, object.to_string()).await.code, 201);
    }
}

/// A new claim that is allocated to a device on `n1`.
async fn allocated(cluster: &Cluster) -> Value {
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}});
    let mut claim = cluster.rest().call("POST", CLAIMS, claim.to_string()).await.json();
    claim["status"] = json!({"allocation": allocation()});
    write(cluster, &UserInfo::new("admin", ["system:masters"]), &claim).await.expect("a master may")
}

fn allocation() -> Value {
    json!({
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "p", "device": "d"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
    })
}

/// Writes the status of a claim: the claim as it then is, or the refusal.
async fn write(cluster: &Cluster, user: &UserInfo, claim: &Value) -> Result<Value, String> {
    let path = format!("{CLAIMS}/c/status");
    let reply = cluster.rest_as(user.clone()).call("PUT", &path, claim.to_string()).await;
    match reply.code {
        200 => Ok(reply.json()),
        422 => Err(reply.text("/message")),
        code => panic!("{code}: {}", reply.json()),
    }
}

/// A claim with a status of its device that a driver reports.
fn reported(claim: &Value, ready: &str) -> Value {
    let mut reported = claim.clone();
    reported["status"]["devices"] = json!([{"driver": DRIVER, "pool": "p", "device": "d", "conditions": [
        {"type": "Ready", "status": ready, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]);
    reported
}

#[test]
fn reservations_of_a_claim_need_a_permission_of_their_own_since_1_36() {
    for minor in [Minor::V34, Minor::V35, Minor::V36, Minor::V37] {
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| {
            let (writer, binder) = (UserInfo::new("writer", [""; 0]), UserInfo::new("binder", [""; 0]));
            grant(cluster, &writer, "writer", rule("resourceclaims/binding", &["patch"], &[])).await;
            grant(cluster, &binder, "binder", rule("resourceclaims/binding", &["update"], &[])).await;
            let claim = allocated(cluster).await;
            let mut reserved = claim.clone();
            reserved["status"]["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "1"}]);
            let unchanged = write(cluster, &writer, &claim).await;
            assert_eq!(unchanged.as_ref(), Ok(&claim), "{minor}: nothing changes");
            if minor >= Minor::V36 {
                let refused = write(cluster, &writer, &reserved).await.unwrap_err();
                let expected = "ResourceClaim.resource.k8s.io \"c\" is invalid: status.allocation: Forbidden: changing \
                    status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"update\" permission: \
                    resourceclaims.resource.k8s.io is forbidden: User \"writer\" cannot update resource \"resourceclaims/binding\" in API \
                    group \"resource.k8s.io\" at the cluster scope";
                assert_eq!(refused, expected, "{minor}");
                let path = format!("{CLAIMS}/c/status");
                let patch = json!({"status": {"reservedFor": reserved["status"]["reservedFor"]}}).to_string();
                let kind = "application/merge-patch+json";
                let patched = cluster.rest_as(writer.clone()).call_as("PATCH", &path, kind, patch).await;
                assert_eq!(patched.code, 200, "{minor}: the verb is that of the request: {}", patched.json());
                return;
            }
            let written = write(cluster, &writer, &reserved).await.unwrap();
            assert_eq!(written["status"]["reservedFor"][0]["name"], "p", "{minor}");
        });
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| {
            let binder = UserInfo::new("binder", [""; 0]);
            grant(cluster, &binder, "binder", rule("resourceclaims/binding", &["update"], &[])).await;
            let mut claim = allocated(cluster).await;
            claim["status"] = Value::Null;
            let freed = write(cluster, &binder, &claim).await.unwrap();
            assert!(freed["status"]["allocation"].is_null(), "{minor}");
        });
    }
}

#[test]
fn statuses_of_devices_need_a_permission_for_their_driver_since_1_36() {
    for minor in [Minor::V35, Minor::V36, Minor::V37] {
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| {
            let mut near = UserInfo::service_account("kube-system", "near");
            near.extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec!["n1".to_owned()]);
            let mut far = UserInfo::service_account("kube-system", "far");
            far.extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec!["n2".to_owned()]);
            let other = UserInfo::new("other", [""; 0]);
            let any = UserInfo::new("any", [""; 0]);
            let associated = rule("resourceclaims/driver", &["associated-node:update"], &[DRIVER]);
            grant(cluster, &near, "near", associated.clone()).await;
            grant(cluster, &far, "far", associated).await;
            grant(
                cluster,
                &other,
                "other",
                rule("resourceclaims/driver", &["arbitrary-node:update"], &["else"]),
            )
            .await;
            grant(cluster, &any, "any", rule("resourceclaims/driver", &["arbitrary-node:update"], &[DRIVER]))
                .await;
            let claim = allocated(cluster).await;
            for user in [&far, &other].into_iter().filter(|_| minor >= Minor::V36) {
                let refused = write(cluster, user, &reported(&claim, "True")).await;
                let name = &user.username;
                let expected = format!(
                    "ResourceClaim.resource.k8s.io \"c\" is invalid: status.devices: Forbidden: changing status.devices requires \
                     resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:update]\" permission: resourceclaims.resource.k8s.io \
                     \"{DRIVER}\" is forbidden: User \"{name}\" cannot arbitrary-node:update resource \"resourceclaims/driver\" in API \
                     group \"resource.k8s.io\" in the namespace \"default\""
                );
                assert_eq!(refused, Err(expected), "{minor}");
            }
            let mut claim = cluster.get("resourceclaims", "default", "c").await.unwrap();
            for (user, ready) in [(&near, "False"), (&any, "True")] {
                claim = write(cluster, user, &reported(&claim, ready)).await.unwrap();
                assert_eq!(claim["status"]["devices"][0]["conditions"][0]["status"], ready, "{minor}");
            }
        });
    }
}
