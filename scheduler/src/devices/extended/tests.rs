//! Tests of the claim for extended resources: the rule as a table.

use super::*;
use crate::testing::{device_class, pod};
use serde_json::{Value, json};

/// The requests `NAME=COUNT of CLASS` and the mappings `CONTAINER RESOURCE NAME` of the claim of a pod whose resources `a.x/gpu` and
/// `b.x/nic` have the classes `gpu` and `nic`.
fn claim_of(spec: Value) -> (Vec<String>, Vec<String>) {
    let pod = pod("p", spec);
    let mut devices = crate::devices::Devices::default();
    for (class, resource) in [("gpu", "a.x/gpu"), ("nic", "b.x/nic")] {
        devices.apply(device_class(class, &[], json!({ "extendedResourceName": resource })));
    }
    let resources: Vec<Arc<str>> = vec!["a.x/gpu".into(), "b.x/nic".into()];
    let with_class = resources
        .iter()
        .map(|name| (name, &**devices.class_of_resource(name).expect("a class of the resource")));
    let ResourcesClaim { claim, mappings } = ResourcesClaim::of(&pod, with_class);
    let request = |request: &Request| match request.alternatives[0].count {
        Count::Exact(count) => format!("{}={count} of {}", request.name, request.alternatives[0].class),
        Count::All => "all".to_owned(),
    };
    let mapping = |one: &RequestMapping| format!("{} {} {}", one.container, one.resource, one.request);
    (claim.requests.iter().map(request).collect(), mappings.iter().map(mapping).collect())
}

fn container(name: &str, requests: Value) -> Value {
    json!({ "name": name, "resources": { "requests": requests } })
}

fn sidecar(name: &str, requests: Value) -> Value {
    let mut sidecar = container(name, requests);
    sidecar["restartPolicy"] = "Always".into();
    sidecar
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// What is shown, the spec of a pod, and the requests and mappings of its claim.
type ClaimCase = (&'static str, Value, Vec<String>, Vec<String>);

fn claim_cases() -> [ClaimCase; 6] {
    let gpus = |name: &str, count: i64| container(name, json!({ "a.x/gpu": count.to_string() }));
    [
        (
            "one container",
            json!({ "containers": [gpus("c", 2)] }),
            texts(&["container-0-request-0=2 of gpu"]),
            texts(&["c a.x/gpu container-0-request-0"]),
        ),
        (
            "the index counts all requests of the container by name",
            json!({ "containers": [
                container("c", json!({ "memory": "1Gi", "cpu": "1", "b.x/nic": "1", "a.x/gpu": "1" })),
                container("d", json!({ "cpu": "1" })), gpus("e", 1),
            ] }),
            texts(&[
                "container-0-request-0=1 of gpu",
                "container-0-request-1=1 of nic",
                "container-2-request-0=1 of gpu",
            ]),
            texts(&[
                "c a.x/gpu container-0-request-0",
                "e a.x/gpu container-2-request-0",
                "c b.x/nic container-0-request-1",
            ]),
        ),
        (
            "an init container uses the devices of later containers",
            json!({ "initContainers": [gpus("i", 3)], "containers": [gpus("c", 1), gpus("d", 2)] }),
            texts(&["container-1-request-0=1 of gpu", "container-2-request-0=2 of gpu"]),
            texts(&[
                "c a.x/gpu container-1-request-0",
                "d a.x/gpu container-2-request-0",
                "i a.x/gpu container-1-request-0",
                "i a.x/gpu container-2-request-0",
            ]),
        ),
        (
            "init containers share the largest request for the rest",
            json!({ "initContainers": [gpus("i", 2), gpus("j", 4), gpus("k", 3)], "containers": [gpus("c", 1)] }),
            texts(&["container-1-request-0=3 of gpu", "container-3-request-0=1 of gpu"]),
            texts(&[
                "c a.x/gpu container-3-request-0",
                "i a.x/gpu container-3-request-0",
                "i a.x/gpu container-1-request-0",
                "j a.x/gpu container-3-request-0",
                "j a.x/gpu container-1-request-0",
                "k a.x/gpu container-3-request-0",
                "k a.x/gpu container-1-request-0",
            ]),
        ),
        (
            "a sidecar before an init container keeps its devices",
            json!({
                "initContainers": [sidecar("s", json!({ "a.x/gpu": "1" })), gpus("i", 1)],
                "containers": [container("c", json!({ "cpu": "1" }))],
            }),
            texts(&["container-0-request-0=1 of gpu", "container-1-request-0=1 of gpu"]),
            texts(&["s a.x/gpu container-0-request-0", "i a.x/gpu container-1-request-0"]),
        ),
        (
            "a sidecar after an init container does not",
            json!({
                "initContainers": [gpus("i", 1), sidecar("s", json!({ "a.x/gpu": "1" }))],
                "containers": [container("c", json!({ "a.x/gpu": "0" }))],
            }),
            texts(&["container-1-request-0=1 of gpu"]),
            texts(&["s a.x/gpu container-1-request-0", "i a.x/gpu container-1-request-0"]),
        ),
    ]
}

#[test]
fn each_container_gets_requests_and_init_containers_share_them() {
    for (name, spec, requests, mappings) in claim_cases() {
        assert_eq!(claim_of(spec), (requests, mappings), "{name}");
    }
}

#[test]
fn the_manifest_is_that_of_kube_scheduler() {
    let pod = pod("p", json!({ "containers": [container("c", json!({ "a.x/gpu": "2" }))] }));
    let mut devices = crate::devices::Devices::default();
    devices.apply(device_class("gpu", &[], json!({ "extendedResourceName": "a.x/gpu" })));
    let resource: Arc<str> = "a.x/gpu".into();
    let class = devices.class_of_resource(&resource).unwrap();
    let made = ResourcesClaim::of(&pod, [(&resource, &**class)].into_iter()).named(&pod, "bcdfg");
    let expected = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "namespace": "ns", "name": "p-extended-resources-bcdfg", "generateName": "p-extended-resources-",
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true }],
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": { "devices": { "requests": [{
            "name": "container-0-request-0",
            "exactly": { "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2 },
        }] } },
    });
    assert_eq!(manifest(&pod, &made.claim), expected);
    let status = json!({ "extendedResourceClaimStatus": {
        "resourceClaimName": "p-extended-resources-bcdfg",
        "requestMappings": [
            { "containerName": "c", "resourceName": "a.x/gpu", "requestName": "container-0-request-0" },
        ],
    } });
    assert_eq!(pod_status(made.claim.key.name(), &made.mappings), status);
}
