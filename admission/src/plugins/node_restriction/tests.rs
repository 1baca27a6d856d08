//! Permitted and refused writes of node `n1`, with the texts of a Kubernetes apiserver 1.36.

use super::*;
use kstore_api::kind;
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::json;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// The rest of a resource's path, an object, and the expected error: "" if allowed.
type Case = (Operation, &'static str, Value, &'static str);

fn pod(name: &str, node: &str, rest: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a1", "uid": format!("{name}-uid")},
        "spec": {"nodeName": node, "serviceAccountName": "default", "volumes": [
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "vault"}},
            {"name": "c", "projected": {"sources": [{"podCertificate": {"signerName": "example.com/a"}}]}},
        ]},
    });
    pod.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    pod
}

fn cluster() -> std::sync::Arc<MapLookup> {
    let named = |api: &str, kind: &str, namespace: &str, name: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": "node-uid"}, "spec": spec});
    let driver = json!({"tokenRequests": [{"audience": "vault"}]});
    MapLookup::of([
        named("v1", "Node", "", "n1", json!({})),
        named("v1", "ServiceAccount", "a1", "default", json!({})),
        pod("p1", "n1", json!({})),
        pod("p2", "n2", json!({})),
        named("v1", "PersistentVolumeClaim", "a1", "vault", json!({"volumeName": "pv"})),
        named("v1", "PersistentVolume", "", "pv", json!({"csi": {"driver": "vault.example.com"}})),
        named("storage.k8s.io/v1", "CSIDriver", "", "vault.example.com", driver),
    ])
}

/// The plugin's error for a request of node `n1` about an object or subresource.
fn ask(operation: Operation, path: &str, new: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
    let (plural, subresource) = path.split_once('/').unwrap_or((path, ""));
    let (group, plural) = plural.rsplit_once(':').unwrap_or(("", plural));
    let object = new.or(old).unwrap();
    let user = UserInfo::new("system:node:n1", ["system:nodes"]);
    let (namespace, name) = (meta::namespace(object), meta::name(object));
    let is_meant = |row: &&'static Resource| (row.group, row.version, row.plural) == (group, "v1", plural);
    let resource = kind::every().find(is_meant).unwrap();
    let subject = Subject { user: &user, operation, resource, subresource, namespace, name, seed: 0 };
    restrict(&*cluster(), &subject, new, old)
}

fn hold(cases: Vec<Case>) {
    for (operation, path, object, expected) in cases {
        let old = (operation != Operation::Create).then_some(&object);
        let new = (operation != Operation::Delete).then_some(&object);
        check(ask(operation, path, new, old), expected, &object);
    }
}

fn check(verdict: Result<(), Status>, expected: &str, about: &Value) {
    let text = verdict.err().map(|status| status.message).unwrap_or_default();
    let text = text.split_once(" is forbidden: ").map_or(text.as_str(), |(_, why)| why);
    assert_eq!(text, expected, "{about}");
}

fn mirror(spec: Value, owner: Value) -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": true})
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .chain(owner.as_object().unwrap().clone())
            .collect::<serde_json::Map<_, _>>();
    let mut spec = spec;
    if spec["nodeName"].is_null() {
        spec["nodeName"] = json!("n1");
    }
    json!({
        "metadata": {"name": "k", "namespace": "a1", "annotations": {MIRROR: "h"}, "ownerReferences": [owner]}, "spec": spec,
    })
}

#[test]
fn a_node_can_create_only_its_mirror_pods_without_references() {
    use Operation::Create;
    let none = || json!({});
    let volume = |volume: Value| json!({"volumes": [volume]});
    let mut plain = mirror(none(), none());
    plain["metadata"]["annotations"] = json!({});
    let mut orphan = mirror(none(), none());
    orphan["metadata"]["ownerReferences"] = json!([]);
    let mut shared = mirror(none(), none());
    let owner = shared["metadata"]["ownerReferences"][0].clone();
    shared["metadata"]["ownerReferences"] = json!([owner, owner]);
    let case = |object: Value, text: &'static str| (Create, "pods", object, text);
    let refers = |spec: Value, text: &'static str| (Create, "pods", mirror(spec, json!({})), text);
    let owned = |owner: Value, text: &'static str| (Create, "pods", mirror(json!({}), owner), text);
    hold(vec![
        case(mirror(none(), none()), ""),
        case(
            plain,
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
        ),
        case(
            mirror(json!({"nodeName": "n2"}), none()),
            "node \"n1\" can only create pods with spec.nodeName set to itself",
        ),
        case(orphan, "node \"n1\" can only create pods with an owner reference set to itself"),
        case(shared, "node \"n1\" can only create pods with a single owner reference set to itself"),
        owned(
            json!({"name": "n2"}),
            "node \"n1\" can only create pods with an owner reference set to itself",
        ),
        owned(
            json!({"controller": null}),
            "node \"n1\" can only create pods with a controller owner reference set to itself",
        ),
        owned(
            json!({"blockOwnerDeletion": true}),
            "node \"n1\" must not set blockOwnerDeletion on an owner reference",
        ),
        owned(json!({"uid": "x"}), "node n1 UID mismatch: expected x got node-uid"),
        refers(
            json!({"serviceAccountName": "s"}),
            "node \"n1\" can not create pods that reference a service account",
        ),
        refers(
            volume(json!({"secret": {"secretName": "x"}})),
            "node \"n1\" can not create pods that reference secrets",
        ),
        refers(
            volume(json!({"configMap": {"name": "x"}})),
            "node \"n1\" can not create pods that reference configmaps",
        ),
        refers(
            volume(json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "p"}}]}})),
            "node \"n1\" can not create pods that reference clustertrustbundles",
        ),
        refers(
            volume(json!({"projected": {"sources": [{"podCertificate": {"keyPath": "k"}}]}})),
            "node \"n1\" can not create pods that reference podcertificates",
        ),
        refers(
            volume(json!({"persistentVolumeClaim": {"claimName": "x"}})),
            "node \"n1\" can not create pods that reference persistentvolumeclaims",
        ),
        refers(
            json!({"resourceClaims": [{"name": "x"}]}),
            "node \"n1\" can not create pods that reference resourceclaims",
        ),
    ]);
}

#[test]
fn a_node_can_request_certificates_only_for_its_pods_and_their_signers() {
    let request = |changes: Value| {
        let mut spec = json!({"signerName": "example.com/a", "podName": "p1", "podUID": "p1-uid", "nodeName": "n1",
            "nodeUID": "node-uid", "serviceAccountName": "default", "serviceAccountUID": "node-uid"});
        spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"metadata": {"name": "req-x", "namespace": "a1"}, "spec": spec})
    };
    let about = "PodCertificateRequest for pod \"a1/p1\"";
    for (changes, text) in [
        (json!({}), String::new()),
        (
            json!({"nodeName": "n2"}),
            "PodCertificateRequest.Spec.NodeName=\"n2\", which is not the requesting node \"n1\"".to_owned(),
        ),
        (
            json!({"nodeUID": "x"}),
            format!("{about} names node UID \"x\", inconsistent with the running node (\"node-uid\")"),
        ),
        (json!({"podName": "gone"}), "pods \"gone\" not found".to_owned()),
        (
            json!({"podUID": "x"}),
            format!("{about} contains pod UID (\"x\") which differs from running pod \"p1-uid\""),
        ),
        (
            json!({"podName": "p2", "podUID": "p2-uid"}),
            "pod \"a1/p2\" is not running on node \"n1\" named in the PodCertificateRequest".to_owned(),
        ),
        (
            json!({"serviceAccountName": "s"}),
            format!(
                "{about} contains serviceAccountName (\"s\") that differs from running pod (\"default\")"
            ),
        ),
        (
            json!({"serviceAccountUID": "x"}),
            format!(
                "{about} names service account UID \"x\", which differs from the running service account (\"node-uid\")"
            ),
        ),
        (
            json!({"signerName": "example.com/b"}),
            format!("{about} names signer \"example.com/b\", of which the pod mounts no certificate"),
        ),
    ] {
        let object = request(changes);
        let verdict =
            ask(Operation::Create, "certificates.k8s.io:podcertificaterequests", Some(&object), None);
        check(verdict, &text, &object);
    }
}

#[test]
fn a_node_can_delete_evict_and_update_the_status_of_its_pods_only() {
    use Operation::{Create, Delete, Update};
    let (own, other) = (|| pod("p1", "n1", json!({})), || pod("p2", "n2", json!({})));
    hold(vec![
        (Delete, "pods", own(), ""),
        (Delete, "pods", other(), "node \"n1\" can only delete pods with spec.nodeName set to itself"),
        (
            Update,
            "pods",
            own(),
            "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods",
        ),
        (Update, "pods/status", own(), ""),
        (
            Update,
            "pods/status",
            other(),
            "node \"n1\" can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            Update,
            "pods/resize",
            own(),
            "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed",
        ),
        (Create, "pods/eviction", own(), ""),
        (Create, "pods/eviction", other(), "node n1 can only evict pods with spec.nodeName set to itself"),
        (Create, "pods/eviction", pod("gone", "n1", json!({})), "pods \"gone\" not found"),
    ]);
    let labelled =
        pod("p1", "n1", json!({"metadata": {"name": "p1", "namespace": "a1", "labels": {"a": "b"}}}));
    let verdict = ask(Update, "pods/status", Some(&labelled), Some(&own()));
    check(verdict, "node \"n1\" cannot update labels through pod status", &labelled);
    let claimed = pod(
        "p1",
        "n1",
        json!({"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "y"}]}}),
    );
    let verdict = ask(Update, "pods/status", Some(&claimed), Some(&own()));
    check(verdict, "node \"n1\" cannot update resource claim statues", &claimed);
}

#[test]
fn a_node_cannot_set_restricted_labels_and_taints_of_its_node() {
    use Operation::{Create, Update};
    let node = |name: &str, labels: Value, spec: Value| json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    let created =
        |labels: Value, spec: Value, text: &'static str| (Create, "nodes", node("n1", labels, spec), text);
    hold(vec![
        created(json!({}), json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}), ""),
        created(
            json!({
                "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "z", "kubelet.kubernetes.io/x": "y",
                "node.kubernetes.io/x": "y", "a.node.kubernetes.io/x": "y", "own.example/x": "y", "plain": "y",
            }),
            json!({}),
            "",
        ),
        created(
            json!({"foo.kubernetes.io/x": "y", "k8s.io/z": "1", "node-role.kubernetes.io/m": ""}),
            json!({}),
            "node \"n1\" is not allowed to set the following labels: foo.kubernetes.io/x, k8s.io/z, node-role.kubernetes.io/m",
        ),
        created(
            json!({"node-restriction.kubernetes.io/x": "y"}),
            json!({}),
            "node \"n1\" is not allowed to set the following labels: node-restriction.kubernetes.io/x",
        ),
        created(
            json!({}),
            json!({"configSource": {}}),
            "node \"n1\" is not allowed to create pods with a non-nil configSource",
        ),
        (
            Create,
            "nodes",
            node("n2", json!({}), json!({})),
            "node \"n1\" is not allowed to modify node \"n2\"",
        ),
        (
            Update,
            "nodes/status",
            node("n2", json!({}), json!({})),
            "node \"n1\" is not allowed to modify node \"n2\"",
        ),
    ]);
    let old = node("n1", json!({"kubernetes.io/hostname": "n1", "k8s.io/old": ""}), json!({"taints": []}));
    let changed = |change: Value| kstore_api::patch::merge::apply(&old, &change).unwrap();
    for (change, expected) in [
        (json!({"metadata": {"labels": {"own.example/x": "y"}}, "spec": {"taints": null}}), ""),
        (
            json!({"metadata": {"labels": {"a.kubernetes.io/x": "y", "k8s.io/old": null}}}),
            "is not allowed to modify labels: a.kubernetes.io/x, k8s.io/old",
        ),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            "node \"n1\" is not allowed to modify taints",
        ),
        (
            json!({"spec": {"configSource": {"configMap": {"name": "x"}}}}),
            "node \"n1\" is not allowed to update configSource to a new non-nil configSource",
        ),
        (
            json!({"metadata": {"ownerReferences": [{"kind": "Pod", "name": "p"}]}}),
            "node \"n1\" is not allowed to modify ownerReferences",
        ),
    ] {
        let new = changed(change);
        check(ask(Update, "nodes", Some(&new), Some(&old)), expected, &new);
    }
}

#[test]
fn a_node_can_request_only_tokens_that_its_pods_mount() {
    let request = |account: &str, audiences: &[&str], reference: Value| {
        json!({
            "metadata": {"namespace": "a1", "name": account},
            "spec": {"audiences": audiences, "boundObjectRef": reference},
        })
    };
    let bound = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    let case = |object: Value, text: &'static str| (Operation::Create, "serviceaccounts/token", object, text);
    hold(vec![
        case(request("default", &[], bound("p1", "p1-uid")), ""),
        case(request("default", &["vault"], bound("p1", "p1-uid")), ""),
        case(request("default", &[], Value::Null), "node requested token not bound to a pod"),
        case(
            request("default", &[], bound("p1", "")),
            "node requested token with a pod binding without a uid",
        ),
        case(
            request("default", &[], bound("p2", "p2-uid")),
            "node requested token bound to a pod scheduled on a different node",
        ),
        case(
            request("default", &[], bound("p1", "x")),
            "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and \
             then recreated",
        ),
        case(
            request("default", &["other"], bound("p1", "p1-uid")),
            "audience \"other\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience",
        ),
        case(
            request("default", &["a", "b"], bound("p1", "p1-uid")),
            "node may only request 0 or 1 audiences",
        ),
        case(request("default", &[], bound("gone", "x")), "pods \"gone\" not found"),
    ]);
}

#[test]
fn a_node_can_write_only_leases_and_csi_nodes_of_its_name() {
    use Operation::{Create, Delete, Update};
    let named = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
    let slice = |node: &str| json!({"metadata": {"name": "s"}, "spec": {"nodeName": node}});
    let claim = json!({"metadata": {"namespace": "a1", "name": "c", "resourceVersion": "1"}, "status": {"phase": "Bound"}});
    hold(vec![
        (Create, "coordination.k8s.io:leases", named(LEASES, "n1"), ""),
        (
            Update,
            "coordination.k8s.io:leases",
            named(LEASES, "n2"),
            "can only access node lease with the same name as the requesting node",
        ),
        (
            Create,
            "coordination.k8s.io:leases",
            named("default", "n1"),
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (Create, "storage.k8s.io:csinodes", named("", "n1"), ""),
        (
            Create,
            "storage.k8s.io:csinodes",
            named("", "n2"),
            "can only access CSINode with the same name as the requesting node",
        ),
        (Create, "resource.k8s.io:resourceslices", slice("n1"), ""),
        (
            Create,
            "resource.k8s.io:resourceslices",
            slice("n2"),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            Delete,
            "resource.k8s.io:resourceslices",
            slice("n2"),
            "can only delete ResourceSlice with the same NodeName as the requesting node",
        ),
        (Update, "persistentvolumeclaims", claim.clone(), "may only update PVC status"),
        (Update, "configmaps", named("a1", "x"), ""),
    ]);
    let mut grown = claim.clone();
    grown["metadata"]["resourceVersion"] = json!("");
    grown["status"]["capacity"] = json!({"storage": "2Gi"});
    check(ask(Update, "persistentvolumeclaims/status", Some(&grown), Some(&claim)), "", &grown);
    grown["metadata"]["labels"] = json!({"a": "b"});
    let text = "node \"n1\" is not allowed to update fields other than status.capacity and status.conditions";
    check(ask(Update, "persistentvolumeclaims/status", Some(&grown), Some(&claim)), text, &grown);
}

#[test]
fn a_node_can_request_only_certificates_of_its_own_name() {
    let request = |name: &str| {
        use base64::Engine as _;
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pem = parameters.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        base64::engine::general_purpose::STANDARD.encode(pem)
    };
    let case = |signer: &str, request: String, text: &'static str| {
        let object = json!({"metadata": {"name": "c"}, "spec": {"signerName": signer, "request": request}});
        (Operation::Create, "certificates.k8s.io:certificatesigningrequests", object, text)
    };
    let other = "can only create a node CSR with CN=system:node:n1";
    hold(vec![
        case("kubernetes.io/kubelet-serving", request("system:node:n1"), ""),
        case("kubernetes.io/kubelet-serving", request("system:node:n2"), other),
        case("kubernetes.io/kube-apiserver-client-kubelet", request("n1"), other),
        case("example.com/own", request("anything"), ""),
        case(
            "kubernetes.io/kubelet-serving",
            "bm9uc2Vuc2U=".to_owned(),
            "unable to parse csr: PEM block type must be CERTIFICATE REQUEST",
        ),
    ]);
}

#[test]
fn other_users_are_not_restricted_and_unnamed_nodes_are_refused() {
    let node = json!({"metadata": {"name": "n2"}});
    let created_by = |name: &str, group: &str| {
        let user = UserInfo::new(name, [group]);
        let resource = kind::lookup("", "v1", "nodes").unwrap();
        let subject = Subject {
            user: &user,
            operation: Operation::Create,
            resource,
            subresource: "",
            namespace: "",
            name: "n2",
            seed: 0,
        };
        restrict(&*cluster(), &subject, Some(&node), None)
    };
    check(created_by("mallory", "system:nodes"), "", &node);
    check(created_by("system:node:n1", "system:masters"), "", &node);
    check(
        created_by("system:node:", "system:nodes"),
        "could not determine node from user \"system:node:\"",
        &node,
    );
}
