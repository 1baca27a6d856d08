//! Permissions of a node, by the references of its pods.

use super::references::MIRROR;
use super::*;
use crate::authz::{More, Selects};
use kstore_api::selector::{field, label};
use kstore_registry::testing::MapLookup;
use serde_json::json;

fn object(kind: &str, namespace: &str, name: &str, rest: Value) -> Value {
    let version = match kind {
        "VolumeAttachment" => "storage.k8s.io/v1",
        "ResourceSlice" => "resource.k8s.io/v1",
        _ => "v1",
    };
    let mut object =
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn pod(name: &str, node: &str, mut spec: Value) -> Value {
    spec["nodeName"] = json!(node);
    object("Pod", "ns", name, json!({"spec": spec, "status": {}}))
}

fn cluster() -> Arc<MapLookup> {
    let mut mirror =
        pod("mirror", "a", json!({"volumes": [{"name": "v", "secret": {"secretName": "wished"}}]}));
    mirror["metadata"]["annotations"] = json!({MIRROR: "x"});
    let claimed = |name: &str, pv: &str| {
        object("PersistentVolumeClaim", "ns", name, json!({"spec": {"volumeName": pv}}))
    };
    let pv = |name: &str, claim: &str| {
        object(
            "PersistentVolume",
            "",
            name,
            json!({"spec": {
            "claimRef": {"namespace": "ns", "name": claim}, "csi": {"nodeStageSecretRef": {"name": "staged", "namespace": "csi"}}}}),
        )
    };
    MapLookup::of([
        pod(
            "web",
            "a",
            json!({
                "serviceAccountName": "web",
                "imagePullSecrets": [{"name": "pull"}],
                "containers": [{"envFrom": [{"configMapRef": {"name": "env"}}], "env": [{"valueFrom": {"secretKeyRef": {"name": "key"}}}]}],
                "initContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "init"}}}]}],
                "volumes": [
                    {"name": "s", "secret": {"secretName": "mounted"}},
                    {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "shown"}}]}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "e", "ephemeral": {}},
                ],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
            }),
        ),
        pod("other", "b", json!({"volumes": [{"name": "s", "secret": {"secretName": "others"}}]})),
        mirror,
        claimed("data", "pv1"),
        pv("pv1", "data"),
        pv("pv2", "elses"),
        object("VolumeAttachment", "", "va", json!({"spec": {"nodeName": "a"}})),
        object("ResourceSlice", "", "slice", json!({"spec": {"nodeName": "a"}})),
    ])
}

fn ask(question: &str, selector: &str) -> Decision {
    let words: Vec<&str> = question.split(' ').collect();
    let [user, verb, target, namespace, name] = words[..] else { panic!("{question}") };
    let user = UserInfo::new(format!("system:node:{user}"), [GROUP]);
    let (group, resource) = target.rsplit_once(':').unwrap_or(("", target));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let or_none = |word: &'static str| if word == "-" { "" } else { word };
    let leak = |word: &str| or_none(Box::leak(word.to_owned().into_boxed_str()));
    let fields = field::Selector::parse(selector).unwrap();
    let labels = label::Selector::everything();
    let selects = Some(Selects { fields: &fields, labels: &labels });
    let target =
        Target::Resource { group, resource, subresource, namespace: leak(namespace), name: leak(name) };
    let attributes = Attributes { user: &user, verb, target, more: More { version: "v1", selects } };
    NodeAuthorizer::default().decide(&attributes, &*cluster())
}

#[test]
fn a_node_can_read_only_objects_that_its_pods_refer_to() {
    for (question, expected) in [
        ("a get secrets ns mounted", true),
        ("a watch secrets ns key", true),
        ("a list secrets ns pull", true),
        ("a get secrets ns projected", true),
        ("a get secrets csi staged", true),
        ("a get secrets ns others", false),
        ("b get secrets ns others", true),
        ("b get secrets csi staged", false),
        ("a get secrets ns wished", false),
        ("a get secrets other mounted", false),
        ("a list secrets ns -", false),
        ("a get secrets - mounted", false),
        ("a update secrets ns mounted", false),
        ("a get configmaps ns env", true),
        ("a get configmaps ns init", true),
        ("a get configmaps ns shown", true),
        ("a get configmaps ns mounted", false),
        ("a get persistentvolumeclaims ns data", true),
        ("a get persistentvolumeclaims ns web-e", true),
        ("a list persistentvolumeclaims ns data", false),
        ("a patch persistentvolumeclaims/status ns data", true),
        ("b patch persistentvolumeclaims/status ns data", false),
        ("a get persistentvolumes - pv1", true),
        ("b get persistentvolumes - pv1", false),
        ("a get persistentvolumes - pv2", false),
        ("a get resource.k8s.io:resourceclaims ns gpu", true),
        ("b get resource.k8s.io:resourceclaims ns gpu", false),
        ("a get storage.k8s.io:volumeattachments - va", true),
        ("b get storage.k8s.io:volumeattachments - va", false),
        ("a create serviceaccounts/token ns web", true),
        ("b create serviceaccounts/token ns web", false),
        ("a create serviceaccounts/token ns default", false),
        ("a get resource.k8s.io:resourceslices - slice", true),
        ("b delete resource.k8s.io:resourceslices - slice", false),
        ("b create resource.k8s.io:resourceslices - -", true),
        ("a get coordination.k8s.io:leases kube-node-lease a", true),
        ("a create coordination.k8s.io:leases kube-node-lease -", true),
        ("a update coordination.k8s.io:leases kube-node-lease b", false),
        ("a get coordination.k8s.io:leases default a", false),
        ("a list coordination.k8s.io:leases kube-node-lease -", false),
        ("a patch storage.k8s.io:csinodes - a", true),
        ("a patch storage.k8s.io:csinodes - b", false),
        ("a get nodes - a", true),
        ("a get nodes - b", false),
        ("a list nodes - -", false),
        ("a patch nodes/status - a", true),
        ("a delete nodes - a", false),
        ("a get pods ns web", true),
        ("b get pods ns web", false),
        ("a get pods ns mirror", true),
        ("a list pods - -", false),
        ("a create pods ns -", true),
        ("a create pods/eviction ns web", true),
        ("a create pods/exec ns web", false),
        ("a list services - -", true),
        ("a create services ns x", false),
        ("a create authentication.k8s.io:tokenreviews - -", true),
    ] {
        assert_eq!(ask(question, "") == allow(), expected, "{question}");
    }
    assert_eq!(ask("a list pods - -", "spec.nodeName=a"), allow());
    assert_ne!(ask("a list pods - -", "spec.nodeName=b"), allow());
    assert_eq!(ask("a deletecollection resource.k8s.io:resourceslices - -", "spec.nodeName=a"), allow());
    let reason = ask("a get secrets ns others", "");
    assert_eq!(reason, none("no relationship found between node 'a' and this object"));
}

#[test]
fn only_members_of_system_nodes_are_nodes() {
    assert_eq!(node_of(&UserInfo::new("system:node:a", [GROUP])), Some("a"));
    assert_eq!(node_of(&UserInfo::new("system:node:a", ["devs"])), None);
    assert_eq!(node_of(&UserInfo::new("a", [GROUP])), None);
}
