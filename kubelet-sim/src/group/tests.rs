//! Groups: specs, names, shapes, and plans against a simple model.

use super::names::{NamePattern, Placeholders};
use super::plan::{Action, Instance, InstanceState, plan, scheduled};
use super::spec::{GroupDoc, GroupSpec};
use super::template::{shape, zone};
use crate::config::Config;
use jiff::Timestamp;
use proptest::prelude::{any, prop, proptest};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn doc(spec: Value) -> GroupDoc {
    kstore_api::lenient::from_value(&spec).unwrap()
}

fn checked(spec: Value) -> Result<GroupSpec, String> {
    GroupSpec::check(&doc(spec))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn instance(index: u32, state: InstanceState, pods: usize, since: i64) -> Instance {
    Instance { name: format!("web-{index}"), index, state, since: at(since), pods, is_unwanted: false }
}

#[test]
fn wrong_specs_are_refused_with_their_paths() {
    for (spec, expected) in [
        (json!({"replicas": 60, "maxReplicas": 50}), "spec.replicas: replicas 60 is above maxReplicas 50"),
        (json!({"replicas": 1, "minReplicas": 2}), "spec.replicas: replicas 1 is below minReplicas 2"),
        (json!({"namePattern": "x"}), "spec.namePattern \"x\": must contain {index} or {random}"),
        (
            json!({"namePattern": "{index}{node}"}),
            "spec.namePattern \"{index}{node}\": only {group}, {index}, {zone} and {random} are known",
        ),
        (
            json!({"template": {"reserved": {"cpu": "1"}, "allocatable": {"cpu": "1"}}}),
            "spec.template: give reserved or allocatable, not both",
        ),
        (json!({"cost": {"perHour": "1,5"}}), "spec.cost.perHour \"1,5\" is not an amount such as \"0.192\""),
        (json!({"scaleDown": "Any"}), "spec.scaleDown \"Any\": must be Cheapest, Newest, Oldest or Index"),
        (json!({"maxReplicas": 20001}), "spec.maxReplicas 20001: at most 20000"),
    ] {
        assert_eq!(checked(spec).unwrap_err(), expected);
    }
    let soon = checked(json!({"startup": {"ready": "soon"}})).unwrap_err();
    assert!(soon.starts_with("spec.startup.ready \"soon\" is not a delay"), "{soon}");
    let spot = json!({"capacityType": "spot", "cost": {"perHour": "0.192", "spot": "0.058"}});
    assert_eq!(checked(spot).unwrap().micros_per_hour, 58_000);
}

#[test]
fn a_template_makes_zones_labels_and_what_is_left_for_pods() {
    let doc = doc(json!({
        "zones": ["a", "b", "c"], "region": "eu", "instanceType": "m5.xlarge",
        "template": {
            "labels": {"rack": "{zone}-{index}"},
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "capacity": {"cpu": "4", "memory": "16Gi", "example.com/gpu": "8"},
            "reserved": {"cpu": "80m", "memory": "600Mi", "pods": "200"},
            "nodeInfo": {"architecture": "arm64"},
        },
    }));
    let of = Placeholders { group: "web", index: 4, zone: zone(&doc, 4), draw: (1, 0) };
    let shape = shape(&Config::default(), &doc, &of, "web-4");
    let label = |name: &str| shape.labels.get(name).map(String::as_str).unwrap_or_default();
    assert_eq!(
        (label("rack"), label("topology.kubernetes.io/zone"), label("sim.kstore.io/group")),
        ("b-4", "b", "web")
    );
    assert_eq!(
        (label("node.kubernetes.io/instance-type"), label("sim.kstore.io/capacity-type")),
        ("m5.xlarge", "on-demand")
    );
    let left = |name: &str| shape.allocatable[name].0.as_str();
    assert_eq!(
        (left("cpu"), left("memory"), left("pods"), left("example.com/gpu")),
        ("3920m", "15784Mi", "0", "8")
    );
    assert_eq!(shape.capacity["ephemeral-storage"].0, "100Gi");
    assert_eq!((shape.provider_id.as_deref(), &*shape.architecture), (Some("kstore://web/web-4"), "arm64"));
    assert_eq!(
        (shape.taints[0].key.as_str(), shape.annotations["sim.kstore.io/index"].as_str()),
        ("gpu", "4")
    );
}

#[test]
fn random_names_differ_by_count_and_are_the_same_for_a_seed() {
    let pattern = NamePattern::parse("{group}-{random}").unwrap();
    let name =
        |seed, count| pattern.name(&Placeholders { group: "web", index: 0, zone: "", draw: (seed, count) });
    let names: BTreeSet<_> = (0..200).map(|count| name(7, count)).collect();
    assert_eq!((names.len(), name(7, 3)), (200, name(7, 3)));
    assert_ne!(name(7, 3), name(8, 3));
    assert!(name(7, 3).len() == "web-".len() + 5);
}

#[test]
fn a_group_gives_up_what_it_is_still_creating_and_then_the_cheapest_nodes() {
    use InstanceState::{Creating, Ready, Registered, Terminating};
    let all = [
        instance(0, Ready, 5, 10),
        instance(1, Ready, 0, 20),
        instance(2, Registered, 9, 30),
        instance(3, Creating, 0, 40),
        instance(4, Terminating, 0, 5),
        instance(5, Ready, 0, 0),
    ];
    let gone = |replicas: u32, by: &str| -> Vec<String> {
        let spec = checked(json!({"replicas": replicas, "scaleDown": by})).unwrap();
        let names = plan(&spec, &all).into_iter().map(|action| match action {
            Action::Create(index) => format!("+{index}"),
            Action::Cancel(name) => format!("-{name}"),
            Action::Terminate(name) => name,
        });
        names.collect()
    };
    assert_eq!(gone(0, "Cheapest"), ["-web-3", "web-2", "web-5", "web-1", "web-0"]);
    assert_eq!(gone(0, "Newest"), ["-web-3", "web-2", "web-1", "web-0", "web-5"]);
    assert_eq!(gone(0, "Oldest"), ["-web-3", "web-5", "web-0", "web-1", "web-2"]);
    assert_eq!(gone(3, "Index"), ["-web-3", "web-5"]);
    assert_eq!(gone(5, ""), Vec::<String>::new());
    assert_eq!(gone(7, ""), ["+6", "+7"], "the number of a node that still goes away is not used again");
}

#[test]
fn a_schedule_says_the_latest_size_and_the_next_time() {
    let spec = json!({"schedule": [
        {"after": "8h", "replicas": 20, "every": "24h"}, {"after": "18h", "replicas": 4, "every": "24h"}, {"after": "0", "replicas": 2},
    ]});
    let spec = checked(spec).unwrap();
    let hour = |hours: i64| at(hours * 3600);
    let of = |hours| {
        let (latest, next) = scheduled(&spec.schedule, at(0), hour(hours));
        (latest.map(|(_, size)| size), next.map(|next| next.as_second() / 3600))
    };
    assert_eq!([of(0), of(8), of(17)], [(Some(2), Some(8)), (Some(20), Some(18)), (Some(20), Some(18))]);
    assert_eq!(
        [of(18), of(31), of(32), of(43)],
        [(Some(4), Some(32)), (Some(4), Some(32)), (Some(20), Some(42)), (Some(4), Some(56))]
    );
}

proptest! {
    /// Random sizes and losses: the group converges to its size, and no number is used twice at once.
    #[test]
    fn instances_converge_to_the_size_and_numbers_are_unique(steps in prop::collection::vec(any::<(u8, u8)>(), 1..40)) {
        let mut all: Vec<Instance> = Vec::new();
        let mut replicas = 0;
        for (size, lost) in steps {
            replicas = u32::from(size % 12);
            let spec = checked(json!({"replicas": replicas})).unwrap();
            for action in plan(&spec, &all) {
                match action {
                    Action::Create(index) => all.push(instance(index, InstanceState::Creating, 0, 0)),
                    Action::Cancel(name) => all.retain(|one| one.name != name),
                    Action::Terminate(name) => {
                        let one = all.iter_mut().find(|one| one.name == name).unwrap();
                        one.state = InstanceState::Terminating;
                    }
                }
            }
            let names: BTreeSet<_> = all.iter().map(|one| one.index).collect();
            assert_eq!(names.len(), all.len());
            let alive = all.iter().filter(|one| one.state != InstanceState::Terminating).count();
            assert_eq!(alive as u32, replicas);
            // Some become ready, and one is lost.
            all.iter_mut().filter(|one| one.state == InstanceState::Creating).for_each(|one| one.state = InstanceState::Ready);
            all.retain(|one| one.state != InstanceState::Terminating || one.index % 2 == 0);
            if !all.is_empty() && lost % 3 == 0 {
                let at = usize::from(lost) % all.len();
                all.remove(at);
            }
        }
        let spec = checked(json!({"replicas": replicas})).unwrap();
        let lacking = plan(&spec, &all).iter().filter(|action| matches!(action, Action::Create(_))).count();
        let alive = all.iter().filter(|one| one.state != InstanceState::Terminating).count();
        assert_eq!(alive + lacking, (replicas as usize).max(alive));
    }
}

#[test]
fn an_instance_that_is_unwanted_goes_before_those_that_are_being_created() {
    let spec = checked(json!({"replicas": 1})).unwrap();
    let ready = |index| instance(index, InstanceState::Ready, 9, 0);
    let unwanted = Instance { is_unwanted: true, ..ready(1) };
    let all = [instance(2, InstanceState::Creating, 0, 0), unwanted, ready(0)];
    let expected = [Action::Terminate("web-1".to_owned()), Action::Cancel("web-2".to_owned())];
    assert_eq!(plan(&spec, &all), expected);
}
