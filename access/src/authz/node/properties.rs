//! Decisions of a node authorizer that follows changes equal those of a scan of all pods and volumes.

use super::references::MIRROR;
use super::*;
use crate::authz::More;
use crate::pod_references::{self, items};
use kstore_registry::testing::MapLookup;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::sample::{select, subsequence};
use serde_json::json;

const NODES: [&str; 2] = ["a", "b"];
const SPACES: [&str; 2] = ["x", "y"];
const NAMES: [&str; 3] = ["n0", "n1", "n2"];

#[derive(Clone, Debug)]
enum Step {
    Put(Value),
    Delete(Value),
    /// A request of a node, which brings its index up to date.
    Decide(&'static str),
}

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(&NAMES[..], 0..=2)
}

fn pod() -> impl Strategy<Value = Value> {
    let of = (select(&SPACES[..]), select(&NAMES[..]), select(&["", "a", "b"][..]), any::<u8>());
    (of, names(), names(), names(), names()).prop_map(|((space, name, node, bits), secrets, maps, claims, devices)| {
        let volumes = secrets.iter().map(|name| json!({"name": "s", "secret": {"secretName": name}}));
        let claimed = claims.iter().map(|name| json!({"name": "c", "persistentVolumeClaim": {"claimName": name}}));
        let mut volumes: Vec<Value> = volumes.chain(claimed).collect();
        if bits & 1 == 1 {
            volumes.push(json!({"name": "n1", "ephemeral": {}}));
        }
        let from = maps.iter().map(|name| json!({"configMapRef": {"name": name}})).collect::<Vec<_>>();
        let devices = devices.iter().map(|name| json!({"name": name, "resourceClaimName": name})).collect::<Vec<_>>();
        let status = match bits & 6 {
            0 => json!({}),
            2 => json!({"extendedResourceClaimStatus": {"resourceClaimName": "n2"}}),
            _ => json!({"resourceClaimStatuses": devices, "phase": "Running"}),
        };
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": space, "name": name},
            "spec": {"nodeName": node, "volumes": volumes, "containers": [{"envFrom": from}], "resourceClaims": devices},
            "status": status});
        if bits & 8 == 8 {
            pod["spec"]["serviceAccountName"] = json!("n0");
        }
        if bits & 48 == 48 {
            pod["metadata"]["annotations"] = json!({MIRROR: "x"});
        }
        pod
    })
}

fn volume() -> impl Strategy<Value = Value> {
    let of =
        (select(&NAMES[..]), select(&["", "x", "y"][..]), select(&NAMES[..]), select(&["", "x", "y"][..]));
    (of, names()).prop_map(|((name, claimed, claim, space), secrets)| {
        let mut spec = json!({});
        if !claimed.is_empty() {
            spec["claimRef"] = json!({"namespace": claimed, "name": claim});
        }
        if let Some(secret) = secrets.first() {
            spec["csi"] = json!({"nodeStageSecretRef": {"name": secret, "namespace": space}});
        }
        if let Some(secret) = secrets.get(1) {
            spec["azureFile"] = json!({"secretName": secret});
        }
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    })
}

fn claim() -> impl Strategy<Value = Value> {
    (select(&SPACES[..]), select(&NAMES[..]), select(&NAMES[..])).prop_map(|(space, name, volume)| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": space, "name": name},
            "spec": {"volumeName": volume}})
    })
}

fn step() -> impl Strategy<Value = Step> {
    let object = || {
        proptest::strategy::Union::new_weighted(vec![
            (4, pod().boxed()),
            (2, volume().boxed()),
            (2, claim().boxed()),
        ])
    };
    proptest::strategy::Union::new_weighted(vec![
        (5, object().prop_map(Step::Put).boxed()),
        (2, object().prop_map(Step::Delete).boxed()),
        (2, select(&NODES[..]).prop_map(Step::Decide).boxed()),
    ])
}

/// Whether the object is related to the node, by a scan of the node's pods.
fn is_related(cluster: &MapLookup, node: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let list = |plural| cluster.list(row("", plural).unwrap(), "");
    let is_named = |value: &Value| *value == name;
    let pods = list("pods");
    let counts = |pod: &&Arc<Value>| {
        pod["spec"]["nodeName"] == node && pod["metadata"]["annotations"][MIRROR].is_null()
    };
    let pods: Vec<_> = pods.iter().filter(counts).collect();
    let claims = |namespace: &str, claim: &str| {
        pods.iter().filter(|pod| pod["metadata"]["namespace"] == namespace).any(|pod| {
            items(&pod["spec"]["volumes"]).any(|volume| {
                let ephemeral =
                    [&pod["metadata"]["name"], &volume["name"]].map(|name| name.as_str().unwrap()).join("-");
                volume["persistentVolumeClaim"]["claimName"] == claim
                    || (volume["ephemeral"].is_object() && claim == ephemeral)
            })
        })
    };
    let of_volume = |volume: &Value| -> Option<(String, String)> {
        let reference = &volume["spec"]["claimRef"];
        Some((reference["namespace"].as_str()?.to_owned(), reference["name"].as_str()?.to_owned()))
    };
    let volume_has_secret = |volume: &Arc<Value>| {
        let Some((home, claim)) = of_volume(volume) else { return false };
        let (spec, claimed) =
            (&volume["spec"], cluster.get(row("", "persistentvolumeclaims").unwrap(), &home, &claim));
        let stage = &spec["csi"]["nodeStageSecretRef"];
        let given = stage["namespace"].as_str().filter(|given| !given.is_empty());
        let has = (is_named(&stage["name"]) && given.unwrap_or(&home) == namespace)
            || (is_named(&spec["azureFile"]["secretName"]) && home == namespace);
        has && claims(&home, &claim)
            && claimed.is_some_and(|claimed| claimed["spec"]["volumeName"] == volume["metadata"]["name"])
    };
    let any = |is_meant: &dyn Fn(&Value) -> bool| {
        pods.iter().any(|pod| pod["metadata"]["namespace"] == namespace && is_meant(pod))
    };
    match resource {
        "secrets" => {
            any(&|pod| pod_references::secrets(&pod["spec"]).any(|secret| secret == name))
                || list("persistentvolumes").iter().any(volume_has_secret)
        }
        "configmaps" => any(&|pod| pod_references::config_maps(&pod["spec"]).any(|map| map == name)),
        "persistentvolumeclaims" => claims(namespace, name),
        "persistentvolumes" => list("persistentvolumes").iter().any(|volume| {
            is_named(&volume["metadata"]["name"])
                && of_volume(volume).is_some_and(|(namespace, claim)| claims(&namespace, &claim))
        }),
        "serviceaccounts" => any(&|pod| is_named(&pod["spec"]["serviceAccountName"])),
        _ => any(&|pod| {
            items(&pod["spec"]["resourceClaims"])
                .chain(items(&pod["status"]["resourceClaimStatuses"]))
                .chain([&pod["status"]["extendedResourceClaimStatus"]])
                .any(|claim| is_named(&claim["resourceClaimName"]))
        }),
    }
}

fn decide(authorizer: &NodeAuthorizer, cluster: &MapLookup, node: &str, of: (&str, &str, &str)) -> bool {
    let (resource, namespace, name) = of;
    let user = UserInfo::new(format!("{USER}{node}"), [GROUP]);
    let group = if resource == "resourceclaims" { "resource.k8s.io" } else { "" };
    let target = Target::Resource { group, resource, subresource: "", namespace, name };
    let attributes = Attributes { user: &user, verb: "get", target, more: More::default() };
    authorizer.decide(&attributes, cluster) == allow()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn decisions_about_nodes_that_follow_changes_equal_a_scan_of_all_objects(steps in vec(step(), 1..50)) {
        let (cluster, authorizer) = (MapLookup::of([]), NodeAuthorizer::default());
        for step in steps {
            match step {
                Step::Put(object) => cluster.put(object),
                Step::Delete(object) => cluster.delete(&object),
                Step::Decide(node) => drop(decide(&authorizer, &cluster, node, ("secrets", "x", "n0"))),
            }
        }
        for node in NODES {
            for resource in ["secrets", "configmaps", "persistentvolumeclaims", "serviceaccounts", "resourceclaims"] {
                for namespace in SPACES {
                    for name in [NAMES[0], NAMES[1], NAMES[2], "n0-n1", "n1-n1"] {
                        let expected = is_related(&cluster, node, resource, namespace, name);
                        let found = decide(&authorizer, &cluster, node, (resource, namespace, name));
                        assert_eq!(found, expected, "{node}: {resource} {namespace}/{name}");
                    }
                }
            }
            for name in NAMES {
                let expected = is_related(&cluster, node, "persistentvolumes", "", name);
                assert_eq!(decide(&authorizer, &cluster, node, ("persistentvolumes", "", name)), expected, "{name}");
            }
        }
    }
}

#[test]
fn only_changed_pods_are_decoded_and_nodes_without_pods_are_forgotten() {
    let pod = |name: &str, node: &str, phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "x", "name": name},
            "spec": {"nodeName": node, "volumes": [{"name": "s", "secret": {"secretName": name}}]}, "status": {"phase": phase}})
    };
    let cluster = MapLookup::of((0..10).map(|number| pod(&format!("p{number}"), "a", "Pending")));
    let pods = references::NodePods::default();
    let refers = |node: &str, name: &str| pods.refer(&*cluster, node, Referenced::Secret, ("x", name));
    assert!(refers("a", "p5"));
    assert_eq!(pods.decoded("a"), 10);
    cluster.put(pod("p3", "a", "Running"));
    cluster.put(pod("p5", "b", "Pending"));
    assert!(refers("a", "p3") && !refers("a", "p5") && refers("b", "p5"));
    assert_eq!((pods.decoded("a"), pods.decoded("b")), (11, 1));
    (0..200).for_each(|number| assert!(!refers(&format!("gone-{number}"), "p1")));
    assert!(pods.len() < 150, "{} nodes are known", pods.len());
    assert!(refers("a", "p3"), "nodes with pods are kept or made again");
}
