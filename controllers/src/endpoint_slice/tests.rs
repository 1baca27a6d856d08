//! Tests of slices, with tables and a union of all endpoints under random changes.

use super::legacy;
use super::plan::{Observed, plan};
use super::topology::{Shares, capacity};
use crate::action::Action;
use crate::view::Pod;
use k8s_openapi::api::core::v1::{Endpoints, Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn service(more: Value) -> Service {
    let mut spec =
        json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    from_value(json!({"metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"l": "1"}}, "spec": spec})).unwrap()
}

fn pod(n: u32, ready: bool, deleting: bool) -> Arc<Pod> {
    let mut value = json!({
        "metadata": {"name": format!("p{n}"), "namespace": "default", "uid": format!("u{n}")},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", n / 250, n % 250 + 1),
                   "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    if deleting {
        value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(from_value(value).unwrap())
}

#[derive(Default)]
struct SimulatedCluster {
    slices: Vec<EndpointSlice>,
    made: u32,
    shares: Option<Shares>,
    is_hinted: bool,
    /// Reason and message of the events of the last run.
    events: Vec<(String, String)>,
}

impl SimulatedCluster {
    fn run(&mut self, service: &Service, pods: &[Arc<Pod>]) -> usize {
        let zones = (1..4).map(|n| (format!("n{n}"), format!("z{n}"))).collect();
        let slices: Vec<&EndpointSlice> = self.slices.iter().collect();
        let seen = Observed { service, pods, zones: &zones, slices: &slices, shares: self.shares.as_ref() };
        let actions = plan(seen, &mut self.is_hinted);
        self.events.clear();
        for action in &actions {
            match action {
                Action::Create(slice) => {
                    let mut slice: EndpointSlice = slice.typed().unwrap();
                    self.made += 1;
                    slice.metadata.name = Some(format!("web-{}", self.made));
                    slice.metadata.uid = slice.metadata.name.clone();
                    self.slices.push(slice);
                }
                Action::Update(slice) => {
                    let slice: EndpointSlice = slice.typed().unwrap();
                    let old = self.slices.iter_mut().find(|s| s.metadata.uid == slice.metadata.uid).unwrap();
                    old.clone_from(&slice);
                }
                Action::Delete { target, .. } => {
                    self.slices.retain(|s| s.metadata.uid.as_ref() != Some(&target.uid));
                }
                Action::Event(event) => self.events.push((event.reason.clone(), event.message.clone())),
                other => panic!("{other:?}"),
            }
        }
        actions.len() - self.events.len()
    }

    fn sizes(&self) -> Vec<usize> {
        self.slices.iter().map(|s| s.endpoints.iter().flatten().count()).collect()
    }
}

#[test]
fn an_endpoint_has_the_fields_of_its_pod() {
    let mut w = SimulatedCluster::default();
    w.run(&service(json!({})), &[pod(0, true, false), pod(1, false, false), pod(2, true, true)]);
    let slice = &w.slices[0];
    let labels = slice.metadata.labels.as_ref().unwrap();
    assert_eq!((labels["kubernetes.io/service-name"].as_str(), labels["l"].as_str()), ("web", "1"));
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080), "a named port is the container's");
    let told: Vec<(Option<bool>, Option<bool>, Option<bool>)> = slice
        .endpoints
        .iter()
        .flatten()
        .map(|e| e.conditions.as_ref().map(|c| (c.ready, c.serving, c.terminating)).unwrap())
        .collect();
    let s = Some;
    assert_eq!(
        told,
        [(s(true), s(true), s(false)), (s(false), s(false), s(false)), (s(false), s(true), s(true))]
    );
    let first = &slice.endpoints.as_ref().unwrap()[0];
    assert_eq!((first.zone.as_deref(), first.node_name.as_deref()), (Some("z1"), Some("n1")));
}

#[test]
fn a_service_without_endpoints_keeps_one_reusable_empty_slice() {
    let mut w = SimulatedCluster::default();
    let service = service(json!({}));
    assert_eq!(w.run(&service, &[]), 1);
    assert_eq!((w.sizes(), w.run(&service, &[])), (vec![0], 0));
    w.run(&service, &[pod(0, true, false)]);
    assert_eq!((w.sizes(), w.made), (vec![1], 1));
    w.run(&service, &[]);
    assert_eq!((w.sizes(), w.made), (vec![0], 1));
}

#[test]
fn a_full_slice_overflows_into_new_ones() {
    let mut w = SimulatedCluster::default();
    let pods: Vec<_> = (0..250).map(|n| pod(n, true, false)).collect();
    w.run(&service(json!({})), &pods);
    assert_eq!(w.sizes(), [100, 100, 50]);
    assert_eq!(w.run(&service(json!({})), &pods[..249]), 1, "one pod less touches one slice");
}

/// Ready pods with these numbers on node `n1`, `n2` or `n3`.
fn on(nodes: &[(u32, u32)]) -> Vec<Arc<Pod>> {
    let placed = |(n, node): &(u32, u32)| {
        let mut pod = (*pod(*n, true, false)).clone();
        pod.spec.node_name = format!("n{node}");
        Arc::new(pod)
    };
    nodes.iter().map(placed).collect()
}

impl SimulatedCluster {
    /// The hints of the endpoints by pod, as `zones` or `zones/nodes`; empty without hints.
    fn hints(&self) -> BTreeMap<String, String> {
        let endpoints = self.slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let text = |endpoint: &Endpoint| {
            let hints = serde_json::to_value(&endpoint.hints).unwrap();
            let names = |all: &Value| {
                let all = all.as_array().into_iter().flatten();
                all.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("+")
            };
            let (zones, nodes) = (names(&hints["forZones"]), names(&hints["forNodes"]));
            if nodes.is_empty() { zones } else { format!("{zones}/{nodes}") }
        };
        endpoints.map(|one| (one.target_ref.as_ref().unwrap().name.clone().unwrap(), text(one))).collect()
    }

    /// The number of hints for each zone.
    fn hinted(&self) -> BTreeMap<String, usize> {
        let mut zones = BTreeMap::new();
        self.hints().into_values().for_each(|zone| *zones.entry(zone).or_default() += 1);
        zones
    }
}

fn hints(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(pod, hint)| ((*pod).to_owned(), (*hint).to_owned())).collect()
}

#[test]
fn traffic_distribution_hints_ready_endpoints_to_their_zone_or_node() {
    let mut pods = on(&[(0, 1), (1, 2)]);
    pods.push(pod(2, false, false));
    let table = [
        (json!({}), ["", "", ""]),
        (json!({"trafficDistribution": "PreferClose"}), ["z1", "z2", ""]),
        (json!({"trafficDistribution": "PreferSameZone"}), ["z1", "z2", ""]),
        (json!({"trafficDistribution": "PreferSameNode"}), ["z1/n1", "z2/n2", ""]),
    ];
    // Each distribution after each other one, and at the creation.
    for (before, _) in &table {
        for (after, [first, second, third]) in &table {
            let mut w = SimulatedCluster::default();
            w.run(&service(before.clone()), &pods);
            w.run(&service(after.clone()), &pods);
            let expected = hints(&[("p0", first), ("p1", second), ("p2", third)]);
            assert_eq!(w.hints(), expected, "{before} then {after}");
            assert_eq!(w.run(&service(after.clone()), &pods), 0, "{before} then {after}: nothing to do");
            assert_eq!(w.events, []);
        }
    }
}

#[test]
fn a_hint_follows_its_endpoint_and_its_zone() {
    let close = service(json!({"trafficDistribution": "PreferSameNode"}));
    let mut w = SimulatedCluster::default();
    w.run(&close, &on(&[(0, 1)]));
    w.run(&close, &on(&[(0, 2)]));
    assert_eq!(w.hints(), hints(&[("p0", "z2/n2")]));
    w.run(&close, &on(&[(0, 9)]));
    assert_eq!(w.hints(), hints(&[("p0", "/n9")]), "a node without a zone");
}

fn node(zone: &str, cpu: &str, ready: &str) -> Node {
    let labels = if zone.is_empty() { json!({}) } else { json!({"topology.kubernetes.io/zone": zone}) };
    from_value(json!({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": {"cpu": cpu},
        "conditions": [{"type": "Ready", "status": ready}]}}))
    .unwrap()
}

fn shares(nodes: &[(&str, &str)]) -> Option<Shares> {
    Shares::of(nodes.iter().map(|(zone, cpu)| capacity(&node(zone, cpu, "True"))))
}

fn automatic() -> Service {
    let mut service = service(json!({"trafficDistribution": "PreferSameNode"}));
    let annotation = ("service.kubernetes.io/topology-mode".to_owned(), "Auto".to_owned());
    service.metadata.annotations = Some([annotation].into());
    service
}

#[test]
fn nodes_without_zone_or_cpu_make_the_shares_unknown() {
    let full = || vec![capacity(&node("a", "2", "True")), capacity(&node("b", "2", "True"))];
    let with = |node: Node| Shares::of(full().into_iter().chain([capacity(&node)]));
    let mut control_plane = node("", "2", "True");
    let label = ("node-role.kubernetes.io/control-plane".to_owned(), String::new());
    control_plane.metadata.labels = Some([label].into());
    let even = Shares::of(full());
    assert!(even.is_some());
    let table = [
        (node("a", "2", "True"), false),
        (node("", "2", "True"), false),
        (node("c", "0", "True"), false),
        (node("c", "nonsense", "True"), false),
        (node("c", "8", "False"), true),
        (node("", "0", "Unknown"), true),
        (control_plane, true),
    ];
    for (node, keeps_the_shares) in table {
        assert_eq!(with(node.clone()) == even, keeps_the_shares, "{node:?}");
    }
    assert_eq!(shares(&[("a", "2"), ("a", "2")]), None, "one zone");
    assert_eq!(shares(&[]), None);
}

/// Zones with their CPUs, the nodes of the endpoints, and the number of endpoints hinted to each zone.
type TopologyCase<'c> = (&'c [(&'c str, &'c str)], &'c [u32], &'c [(&'c str, usize)]);

#[test]
fn topology_mode_shares_endpoints_among_zones_by_their_cpus() {
    let even: &[(&str, &str)] = &[("z1", "4"), ("z2", "4"), ("z3", "4")];
    let uneven: &[(&str, &str)] = &[("z1", "2"), ("z2", "2"), ("z3", "4")];
    let table: [TopologyCase<'_>; 6] = [
        (even, &[1, 2, 3], &[("z1", 1), ("z2", 1), ("z3", 1)]),
        (even, &[1, 1, 1], &[("z1", 1), ("z2", 1), ("z3", 1)]),
        (even, &[1, 1, 1, 1, 1, 1, 2, 2, 3], &[("z1", 3), ("z2", 3), ("z3", 3)]),
        (even, &[1, 1, 1, 2, 2, 3, 3], &[("z1", 3), ("z2", 2), ("z3", 2)]),
        (uneven, &[1, 1, 2, 2, 3, 3, 3, 3], &[("z1", 2), ("z2", 2), ("z3", 4)]),
        (uneven, &[1, 1, 1, 1, 2, 2, 2, 2], &[("z1", 2), ("z2", 2), ("z3", 4)]),
    ];
    for (zones, nodes, expected) in table {
        let mut w = SimulatedCluster { shares: shares(zones), ..SimulatedCluster::default() };
        let nodes: Vec<(u32, u32)> = (0..).zip(nodes.iter().copied()).collect();
        w.run(&service(json!({"trafficDistribution": "PreferSameNode"})), &on(&nodes));
        w.run(&automatic(), &on(&nodes));
        let expected: BTreeMap<String, usize> = expected.iter().map(|(z, n)| ((*z).to_owned(), *n)).collect();
        assert_eq!(w.hinted(), expected, "{nodes:?}");
        let enabled = "Topology Aware Hints has been enabled, addressType: IPv4";
        assert_eq!(w.events, [("TopologyAwareHintsEnabled".to_owned(), enabled.to_owned())]);
        assert_eq!((w.run(&automatic(), &on(&nodes)), w.events.len()), (0, 0), "{nodes:?}");
    }
}

#[test]
fn topology_mode_says_why_it_gives_no_hints() {
    let three = shares(&[("z1", "4"), ("z2", "4"), ("z3", "4")]);
    let four = shares(&[("a", "10"), ("b", "1"), ("c", "1"), ("d", "1")]);
    let overload = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
         (4 endpoints, 4 zones), addressType: IPv4";
    let table = [
        (
            None,
            on(&[(0, 1), (1, 2), (2, 3)]),
            "Insufficient Node information: allocatable CPU or zone not specified on \
             one or more nodes, addressType: IPv4",
        ),
        (
            three.clone(),
            on(&[(0, 1), (1, 2)]),
            "Insufficient number of endpoints (2 endpoints, 3 zones), addressType: IPv4",
        ),
        (
            three.clone(),
            on(&[(0, 1), (1, 2), (2, 9)]),
            "One or more endpoints do not have a zone specified, addressType: IPv4",
        ),
        (four, on(&[(0, 1), (1, 2), (2, 3), (3, 3)]), overload),
    ];
    for (shares, pods, why) in table {
        let mut w = SimulatedCluster { shares: three.clone(), ..SimulatedCluster::default() };
        w.run(&automatic(), &on(&[(0, 1), (1, 2), (2, 3)]));
        assert!(w.is_hinted);
        w.shares = shares;
        w.run(&automatic(), &pods);
        assert_eq!(w.events, [("TopologyAwareHintsDisabled".to_owned(), why.to_owned())]);
        assert!(w.hints().values().all(String::is_empty) && !w.is_hinted, "{:?}", w.hints());
    }
    let mut w = SimulatedCluster { shares: three, ..SimulatedCluster::default() };
    let pods = on(&[(0, 1), (1, 2), (2, 3)]);
    w.run(&automatic(), &pods);
    w.run(&service(json!({})), &pods);
    let disabled = "Topology Aware Hints has been disabled, addressType: IPv4";
    assert_eq!(w.events, [("TopologyAwareHintsDisabled".to_owned(), disabled.to_owned())]);
    assert!(w.hints().values().all(String::is_empty));
    w.run(&service(json!({})), &pods);
    assert_eq!(w.events, []);
}

#[test]
fn unmanaged_services_are_ignored() {
    for more in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        assert_eq!(SimulatedCluster::default().run(&service(more), &[pod(0, true, false)]), 0);
    }
}

#[test]
fn legacy_endpoints_divide_ready_from_not_ready() {
    let service = service(json!({}));
    let pods = [pod(0, true, false), pod(1, false, false), pod(2, true, true)];
    let made: Endpoints = legacy::plan(&service, &pods, None).unwrap().created().unwrap();
    let subset = &made.subsets.as_ref().unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap().len(), 1);
    assert_eq!(subset.not_ready_addresses.as_ref().unwrap().len(), 1);
    assert_eq!(subset.ports.as_ref().unwrap()[0].port, 8080);
    assert_eq!(legacy::plan(&service, &pods, Some(&made)), None);
    assert!(legacy::orphaned(&made).is_some());
}

proptest! {
    #[test]
    fn slices_contain_all_endpoints_with_few_writes(
        rounds in prop::collection::vec(prop::collection::btree_set(0u32..400, 0..300), 1..6),
    ) {
        let service = service(json!({}));
        let mut w = SimulatedCluster::default();
        for set in rounds {
            let pods: Vec<_> = set.iter().map(|n| pod(*n, n % 3 > 0, false)).collect();
            w.run(&service, &pods);
            let listed: Vec<String> = w.slices.iter().flat_map(|s| s.endpoints.iter().flatten())
                .map(|e| e.target_ref.as_ref().unwrap().uid.clone().unwrap()).collect();
            let distinct: BTreeSet<String> = listed.iter().cloned().collect();
            prop_assert_eq!(listed.len(), distinct.len(), "no endpoint twice");
            let expected: BTreeSet<String> = set.iter().map(|n| format!("u{n}")).collect();
            prop_assert_eq!(distinct, expected);
            prop_assert!(w.sizes().iter().all(|s| *s <= 100));
            prop_assert_eq!(w.run(&service, &pods), 0, "the same again is nothing to do");
        }
    }
}
