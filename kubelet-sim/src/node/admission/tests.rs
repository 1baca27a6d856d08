//! Which pods a node admits, and kubelet's texts for the others.

use super::*;
use serde_yaml_ng::from_str;

fn pod(spec: &str) -> PodObject {
    from_str(&format!("{{metadata: {{name: p}}, spec: {spec}}}")).unwrap()
}

fn requesting(list: &str) -> PodObject {
    pod(&format!("{{containers: [{{name: c, resources: {{requests: {{{list}}}}}}}]}}"))
}

fn node() -> NodeProperties {
    let taint =
        |key: &str, effect: &str| Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
    let allocatable = "{cpu: '8', memory: 32Gi, ephemeral-storage: 100Gi, pods: '3', example.com/gpu: '2'}";
    NodeProperties {
        name: "node-0".to_owned(),
        labels: from_str("{zone: a, cores: '8'}").unwrap(),
        taints: vec![taint("k", "NoSchedule")],
        allocatable: Amounts::of(Some(&from_str(allocatable).unwrap())),
        pressures: Vec::new(),
    }
}

/// Reason and message for a pod beside others.
fn rejected(others: &[PodObject], pod: &PodObject, node: &NodeProperties) -> Option<(String, String)> {
    let mut ledger = Ledger::default();
    others.iter().for_each(|other| ledger.charge(&other.wanted_claim()));
    let rejection = judge(pod, &pod.wanted_claim(), node, &ledger).err()?;
    Some((rejection.reason, rejection.message))
}

#[test]
fn pods_that_exceed_the_free_resources_are_rejected_with_the_first_reason() {
    let large = requesting("cpu: 7500m, memory: 1Gi, example.com/gpu: '2'");
    let cases = [
        ("cpu: 500m", None),
        ("cpu: 501m, memory: 40Gi", Some(("cpu", "requested: 501, used: 7500, capacity: 8000"))),
        ("memory: 31Gi", None),
        ("memory: 32Gi", Some(("memory", "requested: 34359738368, used: 1073741824, capacity: 34359738368"))),
        (
            "ephemeral-storage: 101Gi",
            Some(("ephemeral-storage", "requested: 108447924224, used: 0, capacity: 107374182400")),
        ),
        ("example.com/gpu: '1'", Some(("example.com/gpu", "requested: 1, used: 2, capacity: 2"))),
        // A device that the node does not know may be one of the cluster.
        ("example.com/other: '1'", None),
        ("hugepages-2Mi: 2Mi", Some(("hugepages-2Mi", "requested: 2097152, used: 0, capacity: 0"))),
    ];
    for (list, expected) in cases {
        let expected = expected.map(|(resource, amounts)| {
            (format!("OutOf{resource}"), format!("Node didn't have enough resource: {resource}, {amounts}"))
        });
        assert_eq!(rejected(std::slice::from_ref(&large), &requesting(list), &node()), expected, "{list}");
    }
    let small = || requesting("");
    let why = rejected(&[small(), small(), small()], &small(), &node()).unwrap();
    assert_eq!(why.0, "OutOfpods");
    assert_eq!(why.1, "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3");
}

#[test]
fn an_overcommitted_node_admits_pods_that_request_nothing() {
    let twice = [requesting("cpu: '8'"), requesting("cpu: '8'")];
    assert_eq!(rejected(&twice, &requesting(""), &node()), None);
    assert_eq!(rejected(&twice, &requesting("cpu: 1m"), &node()).unwrap().0, "OutOfcpu");
}

#[test]
fn a_pod_counts_what_its_init_containers_sidecars_and_overhead_need() {
    let of = |spec: &str| pod(spec).wanted_claim().requests.milli_cpu;
    let one = |cpu: &str| format!("{{name: c, resources: {{requests: {{cpu: '{cpu}'}}}}}}");
    let sidecar = "{name: s, restartPolicy: Always, resources: {requests: {cpu: '1'}}}";
    assert_eq!(of(&format!("{{containers: [{}, {}]}}", one("1"), one("100m"))), 1100);
    assert_eq!(of(&format!("{{initContainers: [{}], containers: [{}]}}", one("3"), one("1"))), 3000);
    assert_eq!(
        of(&format!("{{initContainers: [{sidecar}, {}], containers: [{}]}}", one("3"), one("1"))),
        4000
    );
    assert_eq!(
        of(&format!("{{initContainers: [{}, {sidecar}], containers: [{}]}}", one("3"), one("5"))),
        6000
    );
    assert_eq!(of(&format!("{{overhead: {{cpu: 250m}}, containers: [{}]}}", one("1"))), 1250);
    assert_eq!(of(&format!("{{resources: {{requests: {{cpu: '2'}}}}, containers: [{}]}}", one("1"))), 2000);
}

#[test]
fn labels_ports_taints_and_systems_decide_in_this_order() {
    let selects = |key: &str| format!("nodeSelector: {{{key}}}");
    let requires = |what: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{what}]}}}}}}"
        )
    };
    let affinity = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    let ports = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    let taints = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    let port = "containers: [{name: c, ports: [{containerPort: 1, hostPort: 80}]}]";
    let mut tainted = node();
    tainted.taints.push(Taint { key: "gone".into(), effect: "NoExecute".into(), ..Taint::default() });
    let cases = [
        (selects("zone: a"), node(), None),
        (selects("zone: b"), node(), Some(affinity)),
        (requires("{matchExpressions: [{key: cores, operator: Gt, values: ['7']}]}"), node(), None),
        (requires("{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}"), node(), Some(affinity)),
        (requires("{matchExpressions: [{key: disk, operator: Exists}]}, {}"), node(), Some(affinity)),
        (requires("{matchFields: [{key: metadata.name, operator: In, values: [node-0]}]}"), node(), None),
        (port.to_owned(), node(), Some(ports)),
        (port.replace("hostPort: 80", "hostPort: 80, protocol: UDP"), node(), None),
        (port.replace("hostPort: 80", "hostPort: 80, hostIP: 10.0.0.1"), node(), Some(ports)),
        (format!("{}, {port}", selects("zone: b")), node(), Some(affinity)),
        (String::new(), tainted.clone(), Some(taints)),
        ("tolerations: [{key: gone, operator: Exists}]".to_owned(), tainted.clone(), None),
        ("tolerations: [{key: gone, value: x}]".to_owned(), tainted.clone(), Some(taints)),
        ("tolerations: [{operator: Exists, effect: NoSchedule}]".to_owned(), tainted, Some(taints)),
    ];
    let other = pod(&format!("{{{port}}}"));
    for (spec, node, expected) in cases {
        let why = rejected(std::slice::from_ref(&other), &pod(&format!("{{{spec}}}")), &node);
        assert_eq!(why.as_ref().map(|(_, message)| message.as_str()), expected, "{spec}");
    }
    let why = rejected(&[], &pod("{os: {name: windows}}"), &node()).unwrap();
    assert_eq!(why.0, "PodOSNotSupported");
    let mut labelled = pod("{}");
    labelled.metadata.labels.os = Some("windows".to_owned());
    assert_eq!(rejected(&[], &labelled, &node()).unwrap().0, "PodOSSelectorNodeLabelDoesNotMatch");
}

#[test]
fn released_pods_leave_their_resources_and_ports() {
    let one = pod(
        "{containers: [{name: c, ports: [{containerPort: 1, hostPort: 80}], resources: {requests: {cpu: '8'}}}]}",
    );
    let mut ledger = Ledger::default();
    ledger.charge(&one.wanted_claim());
    assert!(judge(&one, &one.wanted_claim(), &node(), &ledger).is_err());
    ledger.release(&one.wanted_claim());
    assert_eq!(ledger, Ledger::default());
    assert_eq!(judge(&one, &one.wanted_claim(), &node(), &ledger), Ok(()));
}

#[test]
fn a_resize_is_infeasible_on_a_small_node_and_deferred_on_a_full_one() {
    let of = |list: &str| {
        let mut ledger = Ledger::default();
        ledger.charge(&requesting("cpu: 7500m").wanted_claim());
        let wanted = requesting(list).wanted_claim().requests;
        judge_resize(&wanted, &node(), &ledger).err().map(|why| (why.reason, why.message))
    };
    let why = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    assert_eq!(of("cpu: 500m"), None);
    let full = "Node didn't have enough resource: cpu, requested: 2000, used: 7500, capacity: 8000";
    assert_eq!(of("cpu: '2'"), why("Deferred", full));
    let small = "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000";
    assert_eq!(of("cpu: '9'"), why("Infeasible", small));
    let memory = "Node didn't have enough capacity: memory, requested: 35433480192, capacity: 34359738368";
    assert_eq!(of("cpu: '9', memory: 33Gi"), why("Infeasible", memory));
}

#[test]
fn pressures_keep_pods_out_by_quality_of_service_toleration_and_priority() {
    let under = |pressures: &[&'static str]| NodeProperties { pressures: pressures.to_vec(), ..node() };
    let (plain, sized) = (requesting(""), requesting("cpu: 100m"));
    let tolerant = "tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists}]";
    let tolerant = pod(&format!("{{{tolerant}, containers: [{{name: c}}]}}"));
    let critical = pod("{priority: 2000000000, containers: [{name: c}]}");
    let reason = |pod: &PodObject, pressures: &[&'static str]| {
        rejected(&[], pod, &under(pressures)).map(|(_, why)| why)
    };
    let memory = Some("The node had condition: [MemoryPressure]. ".to_owned());
    assert_eq!(reason(&plain, &["MemoryPressure"]), memory);
    assert_eq!(
        [&sized, &tolerant, &critical].map(|pod| reason(pod, &["MemoryPressure"])),
        [None, None, None]
    );
    let disk = Some("The node had condition: [DiskPressure]. ".to_owned());
    assert_eq!([&sized, &tolerant].map(|pod| reason(pod, &["DiskPressure"])), [disk.clone(), disk]);
    assert_eq!(reason(&critical, &["DiskPressure", "PIDPressure"]), None);
}
