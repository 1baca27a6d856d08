//! Tests of the rows, and of a plugin that is not in the tree.

use super::*;
use crate::action::Action;
use crate::change::Change;
use crate::event::EventSet;
use crate::node_state::NodeState;
use crate::plugin::Refused;
use crate::profile::Profile;
use crate::queue::PodBackoff;
use crate::scheduler::Scheduler;
use crate::testing::{NAME, at, cpu_pod, decode_node, with};
use kstore_nondet::Rng;
use serde_json::json;

/// A plugin for nothing but its row.
struct Numbered<const N: usize>;

impl<const N: usize> Plugin for Numbered<N> {
    type State<'a> = ();
    const ROW: &'static Row = &Row {
        name: ["p0", "p1", "p2", "p3"][N % 4],
        points: &[ExtensionPoint::Filter],
        weight: 0,
        reasons: &["no"; N],
        events: EventSet::NONE,
    };
}

#[test]
fn rows_have_distinct_names_reasons_for_filters_and_weights_for_scores() {
    let registry = Registry::in_tree();
    for (row, file) in registry.rows().zip(super::super::IN_TREE) {
        assert_eq!(row.name.to_lowercase(), file.replace('_', ""), "the file has the plugin's name");
        assert_eq!(row.extends(ExtensionPoint::Filter), !row.reasons.is_empty(), "{}", row.name);
        assert!(row.extends(ExtensionPoint::Score) || row.weight == 0, "{}", row.name);
        assert_eq!(registry.rows().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
    }
}

#[test]
fn plugins_that_reserve_write_before_the_bind_under_their_names() {
    let registry = Registry::in_tree();
    for plugin in &registry.plugins {
        let (row, reserves) = (plugin.row(), plugin.reserves());
        assert_eq!(row.extends(ExtensionPoint::Reserve), reserves.is_some(), "{}", row.name);
        assert_eq!(row.extends(ExtensionPoint::PreBind), reserves.is_some(), "{}", row.name);
        if let Some(kind) = reserves {
            let text = format!("running PreBind plugin \"{}\": no", row.name);
            assert_eq!(registry.pre_bind_error(kind, "no"), text);
        }
    }
}

/// kube-scheduler's default plugins in its order.
const DEFAULT_ORDER: [&str; 20] = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "NodeDeclaredFeatures",
];

#[test]
fn plugins_run_in_kube_schedulers_default_order() {
    let registry = Registry::in_tree();
    let names: Vec<&str> = registry.rows().map(|row| row.name).collect();
    let defaults = names.into_iter().filter(|name| DEFAULT_ORDER.contains(name));
    assert!(defaults.eq(DEFAULT_ORDER));
    for point in ExtensionPoint::ALL {
        assert!(registry.line_up().at(point).is_sorted(), "{}", point.name());
    }
    assert!(registry.line_up().filter_order().is_none(), "no attempt sorts the filters");
}

/// Where each filter's rule is stated a second time, as a plain search or as a table of cases.
const SECOND_STATEMENTS: [&str; 4] = [
    include_str!("../../reference/mod.rs"),
    include_str!("../../scheduler/tests/volumes.rs"),
    include_str!("../../scheduler/tests/devices.rs"),
    include_str!("../volume_binding/tests.rs"),
];

#[test]
fn every_filter_is_stated_a_second_time() {
    for row in Registry::in_tree().rows().filter(|row| row.extends(ExtensionPoint::Filter)) {
        let is_stated = SECOND_STATEMENTS.iter().any(|text| text.contains(row.reasons[0]));
        assert!(is_stated, "the reference says nothing about {}: {}", row.name, row.reasons[0]);
    }
}

#[test]
fn a_second_plugin_of_a_name_and_too_many_reasons_are_refused() {
    let registry = Registry::in_tree().with(Numbered::<1>).unwrap();
    assert_eq!(registry.clone().with(Numbered::<5>).unwrap_err(), RegistryError::Duplicate("p1"));
    assert_eq!(registry.with(Numbered::<34>).unwrap_err(), RegistryError::TooManyReasons("p2"));
    let full = RegistryError::Full("p3").to_string();
    assert_eq!(full, "a scheduler has at most 64 plugins; \"p3\" is one too many");
}

/// Refuses nodes outside the rack that the pod's label names.
struct SameRack;

impl Plugin for SameRack {
    type State<'a> = &'a str;
    const ROW: &'static Row = &Row {
        name: "SameRack",
        points: &[ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) were in another rack"],
        events: EventSet::of(&[EventKind::NodeAdded]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, _: ClusterView<'a>) -> PreFilter<'a, &'a str> {
        pod.labels.get("rack").map_or(PreFilter::Skip, |rack| PreFilter::Check(rack.as_str()))
    }

    fn check(&self, _: &PodInfo, rack: &&str, node: &NodeState) -> Result<(), Refused> {
        let is_there = node.info().labels.get("rack").is_some_and(|there| there == rack);
        if is_there { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::NodeAdded(node, _) if node.labels.get("rack") == pod.labels.get("rack"))
    }
}

#[test]
fn a_plugin_of_another_crate_refuses_with_its_reason_and_wakes_by_its_hint() {
    let registry = Registry::in_tree().with(SameRack).unwrap();
    let profile = Profile { plugins: registry, ..Profile::named(NAME) };
    let mut s = Scheduler::of(profile.into(), PodBackoff::default(), &Rng::seeded(1));
    let node = |name: &str, rack: &str| {
        let labels = json!({ "kubernetes.io/hostname": name, "rack": rack });
        let status = json!({ "allocatable": { "cpu": "4", "memory": "1Gi", "pods": "110" } });
        decode_node(&json!({ "metadata": { "name": name, "labels": labels }, "status": status }))
    };
    s.node(Change::Set(node("n1", "r1")), at(0));
    s.pod(
        Change::Set(with(&cpu_pod("p", "1"), |pod| drop(pod.labels.insert("rack".into(), "r2".into())))),
        at(0),
    );
    let Some(Action::Refuse(notice)) = s.next(at(0)) else { panic!("no node is in the rack") };
    let text = "0/1 nodes are available: 1 node(s) were in another rack.";
    assert!(notice.message.starts_with(text), "{}", notice.message);
    s.node(Change::Set(node("n2", "r1")), at(20));
    assert!(s.next(at(20)).is_none(), "the hint says no");
    s.node(Change::Set(node("n3", "r2")), at(20));
    let Some(Action::Bind(binding)) = s.next(at(20)) else { panic!("the hint says yes") };
    assert_eq!(&*binding.choice.node, "n3");
}
