//! Tests of the choice of victims against examples and a plain reference.

use super::reference::{ReferenceBudget, ReferenceCandidate, choice};
use super::*;
use crate::budgets;
use crate::cache::Cache;
use crate::decide::tests::decided;
use crate::decide::{Outcome, Terms, Tie};
use crate::reference::ReferenceCluster;
use crate::snapshot::Snapshot;
use crate::testing::{any_node, any_pod, at, cpu_pod, node, on, pod, processor_time, with};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, proptest};
use serde_json::json;
use std::sync::Arc;

const TERMS: Terms = Terms { start: 0, tie: Tie::Number(0), percentage: 0 };

/// A cluster with its caches.
#[derive(Default)]
struct World {
    cache: Cache,
    snapshot: Snapshot,
}

impl World {
    fn of(cluster: &ReferenceCluster, budgets: &[ReferenceBudget]) -> Self {
        let mut world = Self::default();
        cluster.nodes.iter().for_each(|node| assert!(world.cache.set_node(Arc::clone(node)).is_none()));
        for (pod, node) in &cluster.placed {
            world.cache.set_pod(Arc::clone(pod), node);
        }
        for (pod, node) in &cluster.nominated {
            world.cache.nominations_mut().nominate(pod, Some(Arc::clone(node)));
        }
        for (app, allowed) in budgets {
            let value = json!({
                "metadata": { "namespace": "ns", "name": app, "uid": app, "resourceVersion": "3" },
                "spec": { "selector": { "matchLabels": { "app": app } } },
                "status": { "disruptionsAllowed": allowed },
            });
            world.cache.budgets_mut().apply(crate::testing::set(&value, budgets::decode));
        }
        world
    }

    fn view(&self) -> ClusterView<'_> {
        ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() }
    }

    /// The result for `pod`; `None` if it fits.
    fn preempt(&mut self, pod: &PodInfo, offset: u64) -> Option<Preemption> {
        self.snapshot.update(&self.cache);
        match decided(&self.snapshot, self.cache.inventory(), pod, TERMS).outcome {
            Outcome::Unfit(refusal) => {
                Some(preempt(&Registry::in_tree(), self.view(), pod, &refusal, offset))
            }
            Outcome::Fits(_) | Outcome::Failed(_) => None,
        }
    }

    fn place(&mut self, pod: &Arc<PodInfo>, node: &str) {
        self.cache.set_pod(on(pod, node), &Arc::from(node));
    }
}

/// A pod with this CPU request and priority.
fn ranked(name: &str, cpu: &str, priority: i32) -> Arc<PodInfo> {
    with(&cpu_pod(name, cpu), |pod| pod.priority = priority)
}

/// The node and the victims that `pod` evicts.
fn victims(world: &mut World, pod: &PodInfo) -> (String, Vec<String>) {
    match world.preempt(pod, 0) {
        Some(Preemption::Victims(candidate)) => {
            let names = candidate.victims.iter().map(|victim| victim.uid.to_string());
            (candidate.node.to_string(), names.collect())
        }
        other => panic!("expected victims, not {other:?}"),
    }
}

/// The sentence that says why `pod` evicts no pod.
fn why(world: &mut World, pod: &PodInfo) -> String {
    match world.preempt(pod, 0) {
        Some(Preemption::Unhelpful(Some(why))) => why,
        Some(Preemption::Ineligible(why)) => why.into_owned(),
        other => panic!("expected a reason, not {other:?}"),
    }
}

/// Three nodes of four cores: one cordoned, one full of a pod of priority 5, one with a pod of priority 0 and 2
/// cores beside one of priority 5.
fn three_nodes() -> World {
    let mut world = World::default();
    world.cache.set_node(node("cordoned", json!({ "unschedulable": true })));
    world.cache.set_node(node("full", json!({})));
    world.cache.set_node(node("half", json!({})));
    world.place(&ranked("high", "4", 5), "full");
    world.place(&ranked("low", "2", 0), "half");
    world.place(&ranked("other", "1500m", 5), "half");
    world
}

#[test]
fn the_preemption_message_has_a_reason_for_each_node() {
    let mut world = three_nodes();
    let expected = "0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
                    2 No preemption victims found for incoming pod.";
    assert_eq!(why(&mut world, &ranked("p", "1", 0)), expected);
    let expected = "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
                    1 Preemption is not helpful for scheduling.";
    assert_eq!(why(&mut world, &ranked("p", "3", 3)), expected);
    assert_eq!(victims(&mut world, &ranked("p", "2", 3)), ("half".to_owned(), vec!["low".to_owned()]));
    let never = with(&ranked("p", "1", 3), |pod| pod.never_preempts = true);
    assert_eq!(why(&mut world, &never), "not eligible due to preemptionPolicy=Never.");
    let huge = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(why(&mut world, &ranked("p", "5", 9)), huge);
}

#[test]
fn important_pods_come_back_first() {
    let mut world = World::default();
    world.cache.set_node(node("n", json!({})));
    let started = |pod: &Arc<PodInfo>, second| with(pod, |pod| pod.started = Some(at(second)));
    world.place(&ranked("first", "1", 3), "n");
    world.place(&started(&ranked("old", "1", 1), 1), "n");
    world.place(&started(&ranked("young", "1", 1), 2), "n");
    world.place(&ranked("waiting", "1", 1), "n");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(victims(&mut world, &ranked("p", "1", 9)).1, names(&["waiting"]));
    assert_eq!(victims(&mut world, &ranked("p", "2", 9)).1, names(&["young", "waiting"]));
    assert_eq!(victims(&mut world, &ranked("p", "4", 9)).1, names(&["first", "old", "young", "waiting"]));
}

/// The node that a pod of 4 cores and priority 9 chooses among nodes with these pods of (cores, priority, start, app).
fn chosen(nodes: &[&[(&str, i32, i64, &str)]], budgets: &[ReferenceBudget]) -> String {
    let mut cluster = ReferenceCluster::default();
    for (n, pods) in nodes.iter().enumerate() {
        let name = format!("n{n}");
        cluster.set_node(node(&name, json!({})));
        for (i, (cpu, priority, start, app)) in pods.iter().enumerate() {
            let placed = with(&ranked(&format!("{name}-{i}"), cpu, *priority), |pod| {
                pod.started = Some(at(*start));
                pod.labels.insert("app".into(), (*app).into());
            });
            cluster.placed.push((placed, name.as_str().into()));
        }
    }
    victims(&mut World::of(&cluster, budgets), &ranked("p", "4", 9)).0
}

#[test]
fn each_criterion_decides_among_the_best_of_the_one_before() {
    let budget = [("guarded".to_owned(), 0)];
    let guarded: &[_] = &[("4", 0, 0, "guarded")];
    assert_eq!(chosen(&[guarded, &[("4", 8, 0, "a")]], &budget), "n1", "fewest exceeded budgets");
    let (mixed, even): (&[_], &[_]) = (&[("1", 0, 0, "a"), ("3", 5, 0, "a")], &[("4", 4, 0, "a")]);
    assert_eq!(chosen(&[mixed, even], &[]), "n1", "lowest highest priority");
    let (more, less): (&[_], &[_]) =
        (&[("1", 5, 0, "a"), ("3", 4, 0, "a")], &[("1", 5, 0, "a"), ("3", 3, 0, "a")]);
    assert_eq!(chosen(&[more, less], &[]), "n1", "smallest sum of priorities");
    let (two, one): (&[_], &[_]) = (&[("1", -5, 0, "a"), ("3", -5, 0, "a")], &[("4", -5, 0, "a")]);
    assert_eq!(chosen(&[two, one], &[]), "n1", "a pod of negative priority counts as well");
    let (old, young): (&[_], &[_]) = (&[("4", 5, 1, "a")], &[("4", 5, 2, "a")]);
    assert_eq!(chosen(&[old, young], &[]), "n1", "latest start");
    assert_eq!(chosen(&[old, old], &[]), "n0", "the first one");
}

#[test]
fn a_pod_waits_while_pods_that_were_evicted_for_it_terminate() {
    let mut world = World::default();
    world.cache.set_node(node("n", json!({})));
    world.cache.set_node(node("m", json!({})));
    let leaving = with(&ranked("leaving", "4", 0), |pod| (pod.deleting, pod.preempted) = (true, true));
    world.place(&leaving, "n");
    world.place(&ranked("other", "4", 0), "m");
    let pod = ranked("p", "4", 9);
    world.cache.nominations_mut().nominate(&pod, Some("n".into()));
    let waits = "not eligible due to a terminating pod on the nominated node.";
    assert_eq!(why(&mut world, &pod), waits);
    world.cache.set_node(node("n", json!({ "unschedulable": true })));
    assert_eq!(victims(&mut world, &pod).0, "m", "the nominated node is out of the question now");
    world.cache.set_node(node("n", json!({})));
    world.place(&with(&leaving, |pod| pod.preempted = false), "n");
    assert!(!victims(&mut world, &pod).1.is_empty(), "the pod was deleted for another reason");
}

#[test]
fn a_nominated_pod_keeps_others_of_its_priority_from_its_node() {
    let mut world = World::default();
    world.cache.set_node(node("n", json!({})));
    let first = ranked("first", "3", 5);
    world.cache.nominations_mut().nominate(&first, Some("n".into()));
    assert!(world.preempt(&first, 0).is_none(), "it fits there itself");
    assert!(world.preempt(&ranked("above", "3", 6), 0).is_none(), "a higher one may take the node");
    let none = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(why(&mut world, &ranked("second", "3", 5)), none);
    assert!(world.preempt(&ranked("small", "1", 5), 0).is_none(), "both fit");
}

/// Follows `updateWithPod` of PodTopologySpread, which subtracts pods that `countPodsMatchSelector` never counted.
#[test]
fn a_victim_is_subtracted_from_a_constraint_that_never_counted_it() {
    let mut world = World::default();
    world.cache.set_node(node("n", json!({})));
    world.cache.set_node(node("cordoned", json!({ "unschedulable": true })));
    world.place(&ranked("low", "1", 0), "n");
    world.cache.nominations_mut().nominate(&ranked("ahead", "1", 9), Some("n".into()));
    let constraint = json!({
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {},
    });
    let spread = pod("p", json!({ "priority": 5, "topologySpreadConstraints": [constraint] }));
    assert_eq!(victims(&mut world, &spread), ("n".to_owned(), vec!["low".to_owned()]));
}

/// Pods placed on nodes, another one that is nominated, and the pod that asks.
fn any_cluster() -> impl Strategy<Value = ReferenceCluster> {
    let nodes = (any_node("n0".into()), any_node("n1".into()), any_node("n2".into()));
    let placed = vec((any_pod(String::new()), 0usize..3, 0i64..3, weighted(0.1)), 0..9);
    let nominated = vec((any_pod(String::new()), 0usize..3), 0..3);
    (nodes, placed, nominated).prop_map(|(nodes, placed, nominated)| {
        let mut cluster = ReferenceCluster::default();
        [nodes.0, nodes.1, nodes.2].into_iter().for_each(|node| cluster.set_node(node));
        for (i, (pod, node, start, deleting)) in placed.into_iter().enumerate() {
            let pod = with(&pod, |pod| {
                pod.uid = format!("placed-{i}").into();
                pod.started = Some(at(start));
                pod.deleting = deleting;
            });
            cluster.placed.push((pod, format!("n{node}").into()));
        }
        for (i, (pod, node)) in nominated.into_iter().enumerate() {
            let pod = with(&pod, |pod| pod.uid = format!("nominated-{i}").into());
            cluster.nominated.push((pod, format!("n{node}").into()));
        }
        cluster
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn victims_equal_the_reference_and_have_a_lower_priority(
        cluster in any_cluster(), pod in any_pod("p".into()), priority in 1i32..4, offset in 0u64..7,
        budgets in (0i64..3, 0i64..3),
    ) {
        let budgets = [("a".to_owned(), budgets.0), ("b".to_owned(), budgets.1)];
        let pod = with(&pod, |pod| pod.priority = priority);
        let Some(found) = World::of(&cluster, &budgets).preempt(&pod, offset) else { return Ok(()) };
        let mut expected = cluster.candidates(&pod, &budgets);
        // The order of the search: from the offset among the nodes on which evictions may help.
        let helped = World::of(&cluster, &budgets).helped(&pod);
        let turn = |node: &str| {
            let at = helped.iter().position(|name| **name == *node).unwrap();
            (at + helped.len() - offset as usize % helped.len()) % helped.len()
        };
        expected.sort_by_key(|candidate| turn(&candidate.node));
        let expected = choice(expected);
        let found = match found {
            Preemption::Victims(Candidate { node, victims, violations }) => {
                assert!(victims.iter().all(|victim| victim.priority < pod.priority));
                Some(ReferenceCandidate { node, victims, violations })
            }
            Preemption::Ineligible(_) | Preemption::Unhelpful(_) => None,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn no_victim_can_stay_if_only_resources_count(
        sizes in vec((1i64..5, 0i32..4, 0usize..3), 1..12), wants in 1i64..5, allowed in 0i64..3,
    ) {
        let mut cluster = ReferenceCluster::default();
        (0..3).for_each(|n| cluster.set_node(node(&format!("n{n}"), json!({}))));
        for (i, (cpu, priority, n)) in sizes.into_iter().enumerate() {
            let pod = with(&ranked(&format!("placed-{i}"), &cpu.to_string(), priority), |pod| {
                pod.labels.insert("app".into(), "a".into());
            });
            cluster.placed.push((pod, format!("n{n}").into()));
        }
        let pod = ranked("p", &wants.to_string(), 3);
        let found = World::of(&cluster, &[("a".to_owned(), allowed)]).preempt(&pod, 0);
        let Some(Preemption::Victims(candidate)) = found else { return Ok(()) };
        let node = Arc::clone(cluster.nodes.iter().find(|node| node.name == candidate.node).unwrap());
        let remaining = |stays: Option<&PodInfo>| {
            let mut rest = cluster.clone();
            rest.placed.retain(|(other, _)| {
                let is_victim = candidate.victims.iter().any(|victim| victim.uid == other.uid);
                !is_victim || stays.is_some_and(|stays| stays.uid == other.uid)
            });
            rest.reasons(&pod, &node)
        };
        assert!(remaining(None).is_empty(), "the pod fits without the victims");
        for victim in &candidate.victims {
            assert!(!remaining(Some(victim)).is_empty(), "{} need not go", victim.uid);
        }
    }
}

impl World {
    /// The nodes on which evictions may help `pod`, in search order.
    fn helped(&mut self, pod: &PodInfo) -> Vec<Arc<str>> {
        self.snapshot.update(&self.cache);
        let Outcome::Unfit(refusal) = decided(&self.snapshot, self.cache.inventory(), pod, TERMS).outcome
        else {
            return Vec::new();
        };
        let mut slots: Vec<usize> =
            refusal.rejections.iter().filter(|(_, why)| why.is_resolvable()).map(|(slot, _)| *slot).collect();
        slots.sort_unstable();
        slots.into_iter().map(|slot| Arc::clone(&self.snapshot.nodes()[slot].info().name)).collect()
    }
}

#[test]
fn a_refusal_by_a_full_cluster_takes_time_linear_in_its_nodes() {
    let spread = json!([{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "a" } } }]);
    let alone = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "a" } } }] } });
    let spec = |cpu: &str| {
        json!({ "topologySpreadConstraints": spread, "affinity": alone,
        "containers": [{ "resources": { "requests": { "cpu": cpu } } }] })
    };
    let took = |nodes: usize, times: usize| {
        let mut world = World::default();
        for n in 0..nodes {
            let name = format!("n{n}");
            world.cache.set_node(node(&name, json!({})));
            for (kind, cpu, priority) in [("low", "1", 0), ("high", "2500m", 9)] {
                let placed = with(&pod(&format!("{kind}-{n}"), spec(cpu)), |pod| {
                    pod.priority = priority;
                    pod.labels.insert("app".into(), "a".into());
                });
                world.cache.set_pod(placed, &Arc::from(name.as_str()));
            }
        }
        world.snapshot.update(&world.cache);
        let pod = with(&pod("p", spec("2")), |pod| pod.priority = 5);
        let Outcome::Unfit(refusal) = decided(&world.snapshot, world.cache.inventory(), &pod, TERMS).outcome
        else {
            panic!("the cluster is full");
        };
        let measure = || {
            let began = processor_time();
            for _ in 0..times {
                let found = preempt(&Registry::in_tree(), world.view(), &pod, &refusal, 0);
                assert!(matches!(found, Preemption::Unhelpful(Some(_))));
            }
            processor_time() - began
        };
        (0..10).map(|_| measure()).min().unwrap()
    };
    // Both sides do the same amount of work; a quadratic algorithm would take eight times as long.
    let (few, many) = (took(125, 8), took(1000, 1));
    assert!(many < few * 4, "eight times 125 nodes took {few:?}, 1000 took {many:?}");
}
