//! Random nodes and pods, of few labels, resources and topologies, so that they meet.

use crate::script::{Dice, Flavour};
use serde_json::{Map, Value, json};

/// Priority classes: name, value, preemption policy.
pub(crate) const CLASSES: [(&str, i32, &str); 4] = [
    ("low", 10, "PreemptLowerPriority"),
    ("high", 1000, "PreemptLowerPriority"),
    ("higher", 2000, "PreemptLowerPriority"),
    ("patient", 1500, "Never"),
];

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APPS: [&str; 3] = ["web", "db", "job"];
const TIERS: [&str; 2] = ["x", "y"];

/// An image that one node alone has: kube-scheduler knows of images that several nodes have only how many had them when the node was last
/// changed.
fn image_of(node: &str) -> String {
    format!("registry.example.com/{node}:1")
}

/// The labels of a node.
pub(crate) fn node_labels(dice: &Dice, name: &str) -> Value {
    let mut labels = Map::new();
    labels.insert(HOST.to_owned(), name.into());
    if !dice.percent(8) {
        labels.insert(ZONE.to_owned(), dice.pick(&["z0", "z1", "z2"]).into());
    }
    if dice.percent(30) {
        labels.insert("topology.kubernetes.io/region".to_owned(), dice.pick(&["r0", "r1"]).into());
    }
    if dice.percent(70) {
        labels.insert("disk".to_owned(), dice.pick(&["ssd", "hdd"]).into());
    }
    if dice.percent(50) {
        labels.insert("size".to_owned(), dice.pick(&["1", "2", "3", "x"]).into());
    }
    labels.insert("rack".to_owned(), dice.pick(&["a", "b", "c", "d"]).into());
    labels.into()
}

/// The capacity of a node.
pub(crate) fn allocatable(dice: &Dice) -> Value {
    let mut found = json!({
        "cpu": dice.pick(&["1", "2", "3900m", "4", "8"]), "memory": dice.pick(&["2Gi", "4Gi", "8000Mi", "16Gi"]),
        "pods": dice.pick(&["3", "8", "110"]), "ephemeral-storage": dice.pick(&["5Gi", "20Gi"]),
    });
    if dice.percent(40) {
        found["example.com/foo"] = dice.pick(&["0", "1", "3"]).into();
    }
    if dice.percent(20) {
        found["hugepages-2Mi"] = "64Mi".into();
    }
    found
}

/// The taints of a node.
pub(crate) fn taints(dice: &Dice) -> Value {
    let mut found = Vec::new();
    for key in ["dedicated", "maintenance"] {
        if dice.percent(25) {
            let effect = dice.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
            found.push(json!({ "key": key, "value": dice.pick(&["a", "b", ""]), "effect": effect }));
        }
    }
    found.into()
}

/// A node.
pub(crate) fn node(dice: &Dice, name: &str) -> Value {
    let capacity = allocatable(dice);
    let size = dice.pick(&[10_000_000_u64, 300_000_000, 2_000_000_000, 9_000_000_000]);
    let images = json!([{ "names": [image_of(name)], "sizeBytes": size }]);
    json!({
        "metadata": { "name": name, "labels": node_labels(dice, name) },
        "status": { "capacity": capacity, "allocatable": capacity, "images": images },
    })
}

fn selector(dice: &Dice) -> Value {
    match dice.below(5) {
        0 => json!({ "matchLabels": { "tier": dice.pick(&TIERS) } }),
        1 => json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web", "db"] }] }),
        2 => {
            json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": [dice.pick(&APPS)] }] })
        }
        _ => json!({ "matchLabels": { "app": dice.pick(&APPS) } }),
    }
}

fn node_requirement(dice: &Dice) -> Value {
    match dice.below(7) {
        0 => json!({ "key": "disk", "operator": "Exists" }),
        1 => json!({ "key": "disk", "operator": "DoesNotExist" }),
        2 => json!({ "key": "size", "operator": dice.pick(&["Gt", "Lt"]), "values": ["2"] }),
        3 => json!({ "key": ZONE, "operator": "NotIn", "values": [dice.pick(&["z0", "z1"])] }),
        4 => json!({ "key": "rack", "operator": "In", "values": ["a", "b", "c"] }),
        _ => json!({ "key": ZONE, "operator": "In", "values": [dice.pick(&["z0", "z1", "z2"]), "z9"] }),
    }
}

fn node_term(dice: &Dice) -> Value {
    let requirements: Vec<_> = (0..1 + dice.below(2)).map(|_| node_requirement(dice)).collect();
    json!({ "matchExpressions": requirements })
}

fn node_affinity(dice: &Dice, nodes: &[String]) -> Value {
    let mut affinity = json!({});
    if dice.percent(60) {
        let terms: Vec<_> = match nodes {
            // One name only: of several, kube-scheduler visits the nodes in a random order.
            [_, ..] if dice.percent(15) => {
                let name = dice.pick(nodes);
                let field = json!({ "key": "metadata.name", "operator": "In", "values": [name] });
                vec![json!({ "matchFields": [field] })]
            }
            _ => (0..1 + dice.below(2)).map(|_| node_term(dice)).collect(),
        };
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({ "nodeSelectorTerms": terms });
    }
    if dice.percent(60) {
        let preferred: Vec<_> = (0..1 + dice.below(3))
            .map(|_| json!({ "weight": 1 + dice.below(100), "preference": node_term(dice) }))
            .collect();
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred.into();
    }
    affinity
}

fn pod_term(dice: &Dice) -> Value {
    let mut term =
        json!({ "topologyKey": dice.pick(&[ZONE, ZONE, HOST, "rack"]), "labelSelector": selector(dice) });
    match dice.below(8) {
        0 => term["namespaces"] = json!(["a", "b"]),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({ "matchLabels": { "team": dice.pick(&["a", "b", "c"]) } }),
        3 => term["matchLabelKeys"] = json!(["version"]),
        4 => term["mismatchLabelKeys"] = json!(["version"]),
        _ => {}
    }
    term
}

fn pod_affinity(dice: &Dice) -> Value {
    let mut affinity = json!({});
    if dice.percent(50) {
        let terms: Vec<_> = (0..1 + dice.below(2)).map(|_| pod_term(dice)).collect();
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms.into();
    }
    if dice.percent(60) {
        let terms: Vec<_> = (0..1 + dice.below(2))
            .map(|_| json!({ "weight": 1 + dice.below(100), "podAffinityTerm": pod_term(dice) }))
            .collect();
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = terms.into();
    }
    affinity
}

fn spread(dice: &Dice) -> Value {
    // One constraint per topology and action: the API takes no second one.
    let keys = [
        (ZONE, "DoNotSchedule"),
        (HOST, "ScheduleAnyway"),
        ("rack", "DoNotSchedule"),
        (ZONE, "ScheduleAnyway"),
        (HOST, "DoNotSchedule"),
    ];
    let chosen = keys.into_iter().filter(|_| dice.percent(30));
    let constraint = |(key, action): (&str, &str)| {
        let mut found = json!({ "maxSkew": 1 + dice.below(2), "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector(dice) });
        if action == "DoNotSchedule" && dice.percent(25) {
            found["minDomains"] = (1 + dice.below(4)).into();
        }
        if dice.percent(20) {
            found["nodeAffinityPolicy"] = dice.pick(&["Honor", "Ignore"]).into();
        }
        if dice.percent(20) {
            found["nodeTaintsPolicy"] = dice.pick(&["Honor", "Ignore"]).into();
        }
        if dice.percent(15) {
            found["matchLabelKeys"] = json!(["version"]);
        }
        found
    };
    chosen.map(constraint).collect()
}

fn requests(dice: &Dice, is_large: bool) -> Value {
    let mut found = json!({});
    if dice.percent(80) {
        let sizes: &[&str] =
            if is_large { &["900m", "1500m", "2"] } else { &["50m", "100m", "250m", "500m", "1", "3"] };
        found["cpu"] = dice.pick(sizes).into();
    }
    if dice.percent(70) {
        found["memory"] = dice.pick(&["64Mi", "200Mi", "1Gi", "3Gi"]).into();
    }
    if dice.percent(10) {
        found["ephemeral-storage"] = dice.pick(&["1Gi", "4Gi"]).into();
    }
    if dice.percent(8) {
        found["example.com/foo"] = dice.pick(&["1", "2"]).into();
    }
    found
}

fn container(dice: &Dice, name: &str, is_large: bool, nodes: &[String]) -> Value {
    let requests = requests(dice, is_large);
    let mut limits = json!({});
    if let Some(count) = requests.get("example.com/foo") {
        limits["example.com/foo"] = count.clone();
    }
    let image = match nodes {
        [_, ..] if dice.percent(50) => image_of(&dice.pick(nodes)),
        _ => "registry.example.com/none:1".to_owned(),
    };
    json!({ "name": name, "image": image, "resources": { "requests": requests, "limits": limits } })
}

fn tolerations(dice: &Dice) -> Value {
    let mut found = Vec::new();
    if dice.percent(30) {
        found.push(json!({ "key": "dedicated", "operator": "Equal", "value": dice.pick(&["a", "b"]), "effect": "NoSchedule" }));
    }
    if dice.percent(20) {
        found.push(json!({ "key": "maintenance", "operator": "Exists" }));
    }
    if dice.percent(5) {
        found.push(json!({ "operator": "Exists" }));
    }
    if dice.percent(10) {
        found.push(json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" }));
    }
    found.into()
}

/// A pod.
pub(crate) fn pod(dice: &Dice, (namespace, name): (&str, &str), flavour: Flavour, nodes: &[String]) -> Value {
    let is_large = flavour == Flavour::Preemption;
    let chance = |of: Flavour, often: u64, seldom: u64| {
        dice.percent(if flavour == of || flavour == Flavour::All { often } else { seldom })
    };
    let mut labels = json!({ "app": dice.pick(&APPS), "tier": dice.pick(&TIERS) });
    if dice.percent(50) {
        labels["version"] = dice.pick(&["1", "2"]).into();
    }
    let mut spec = json!({ "automountServiceAccountToken": false, "tolerations": tolerations(dice), "restartPolicy": "Always" });
    spec["terminationGracePeriodSeconds"] = json!(if dice.percent(75) { 0 } else { 30 });
    let count = 1 + dice.below(2);
    let containers: Vec<_> =
        (0..count).map(|at| container(dice, &format!("c{at}"), is_large, nodes)).collect();
    spec["containers"] = containers.into();
    if dice.percent(12) {
        let mut init = container(dice, "i0", is_large, nodes);
        if dice.percent(50) {
            init["restartPolicy"] = "Always".into();
        }
        spec["initContainers"] = json!([init, container(dice, "i1", false, nodes)]);
    }
    if dice.percent(6) {
        spec["resources"] = json!({ "requests": { "cpu": "7", "memory": "12Gi" } });
    }
    if chance(Flavour::Ports, 50, 4) {
        let mut port = json!({ "containerPort": 80, "hostPort": 8000 + dice.below(3), "protocol": dice.pick(&["TCP", "TCP", "UDP"]) });
        if dice.percent(40) {
            port["hostIP"] = dice.pick(&["127.0.0.1", "10.0.0.1", "0.0.0.0"]).into();
        }
        spec["containers"][0]["ports"] = json!([port]);
    }
    if dice.percent(if is_large { 80 } else { 12 }) {
        spec["priorityClassName"] = dice.pick(&CLASSES).0.into();
    }
    if dice.percent(8) {
        spec["nodeSelector"] = json!({ "disk": dice.pick(&["ssd", "hdd", "none"]) });
    }
    let mut affinity = json!({});
    if chance(Flavour::NodeAffinity, 60, 10) {
        affinity["nodeAffinity"] = node_affinity(dice, nodes);
    }
    if chance(Flavour::PodAffinity, 45, 5) {
        affinity["podAffinity"] = pod_affinity(dice);
    }
    if chance(Flavour::PodAffinity, 45, 5) {
        affinity["podAntiAffinity"] = pod_affinity(dice);
    }
    spec["affinity"] = affinity;
    if chance(Flavour::Spread, 75, 8) {
        spec["topologySpreadConstraints"] = spread(dice);
    }
    if dice.percent(5) {
        spec["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
    } else if dice.percent(4) && !nodes.is_empty() {
        spec["nodeName"] = dice.pick(nodes).into();
        // kube-scheduler forgets a port of a node when one of two pods with it goes, and only such a pod has a port that another has.
        for container in spec["containers"].as_array_mut().into_iter().flatten() {
            container.as_object_mut().map(|container| container.remove("ports"));
        }
    }
    let mut meta = json!({ "name": name, "namespace": namespace, "labels": labels });
    if dice.percent(15) {
        let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "00000000-0000-0000-0000-000000000001", "controller": true });
        meta["ownerReferences"] = json!([owner]);
    }
    json!({ "metadata": meta, "spec": spec })
}
