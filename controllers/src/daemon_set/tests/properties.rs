//! Properties for all user and node behaviours, with a run between any two steps.

use super::super::placement::{Eligibility, Placement};
use super::super::plan::PlannedWrites;
use super::super::pod::node_of;
use super::world::{SimulatedCluster, rolling};
use crate::revision::POD_LABEL;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Event {
    Ready(u8),
    Unready(u8),
    Fail(u8),
    Gone(u8),
    Delete(u8),
    Node(u8),
    Drop(u8),
    Taint(u8, bool),
    Untaint(u8),
    Roll(u8),
    Settle,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any::<u8>().prop_map(Event::Ready),
        1 => any::<u8>().prop_map(Event::Unready),
        1 => any::<u8>().prop_map(Event::Fail),
        6 => any::<u8>().prop_map(Event::Gone),
        1 => any::<u8>().prop_map(Event::Delete),
        2 => (0u8..6).prop_map(Event::Node),
        1 => (0u8..6).prop_map(Event::Drop),
        1 => (0u8..6, any::<bool>()).prop_map(|(node, hard)| Event::Taint(node, hard)),
        1 => (0u8..6).prop_map(Event::Untaint),
        1 => (0u8..3).prop_map(Event::Roll),
        1 => Just(Event::Settle),
    ]
}

fn happen(world: &mut SimulatedCluster, event: &Event) {
    let choose = |world: &SimulatedCluster, number: u8, leaving: bool| {
        let fitting: Vec<_> = world
            .pods
            .values()
            .filter(|pod| pod.metadata.is_deleting() == leaving && !pod.status.phase.is_terminal())
            .collect();
        fitting.get(usize::from(number) % fitting.len().max(1)).map(|pod| pod.metadata.name.clone())
    };
    let node = |number: &u8| format!("n{number}");
    match event {
        Event::Ready(n) => choose(world, *n, false).into_iter().for_each(|pod| world.make_ready(&pod, 9)),
        Event::Unready(n) => choose(world, *n, false).into_iter().for_each(|pod| world.unready(&pod)),
        Event::Fail(n) => choose(world, *n, false).into_iter().for_each(|pod| world.fail(&pod)),
        Event::Gone(n) => choose(world, *n, true).into_iter().for_each(|pod| drop(world.pods.remove(&pod))),
        Event::Delete(n) => choose(world, *n, false).into_iter().for_each(|pod| world.terminate(&pod)),
        Event::Node(n) => world.node(&node(n)),
        Event::Drop(n) => drop(world.nodes.remove(&node(n))),
        Event::Taint(n, hard) if world.nodes.contains_key(&node(n)) => {
            world.taint(&node(n), if *hard { "NoExecute" } else { "NoSchedule" });
        }
        Event::Untaint(n) if world.nodes.contains_key(&node(n)) => world.untaint(&node(n)),
        Event::Taint(..) | Event::Untaint(_) => {}
        Event::Roll(image) => world.roll(&format!("agent:{image}")),
        Event::Settle => world.settle(),
    }
}

fn eligible(world: &SimulatedCluster) -> Vec<String> {
    let spec = world.set.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let runs = |name: &&String| Placement::of(spec).evaluate(&world.nodes[*name]) == Eligibility::Run;
    world.nodes.keys().filter(runs).cloned().collect()
}

fn evaluate(
    world: &SimulatedCluster,
    work: &PlannedWrites,
    most_unavailable: usize,
    surge: usize,
) -> Result<(), TestCaseError> {
    let wanted = eligible(world);
    let mut after = world.clone();
    after.apply(work);
    let is_available = |w: &SimulatedCluster, node: &str| w.on(node).iter().any(|pod| w.pods[pod].ready());
    // Nodes on which several pods of old templates came together while the node was away: the oldest stays, available or not.
    let several_old = |node: &str| {
        let is_old = |pod: &&String| world.pods[*pod].metadata.labels[POD_LABEL] != world.hash();
        world.on(node).iter().filter(is_old).count() > 1
    };
    // Available pods of eligible nodes that the run deletes without a replacement.
    let is_lost =
        |node: &&String| is_available(world, node) && !is_available(&after, node) && !several_old(node);
    let lost: Vec<_> = wanted.iter().filter(is_lost).collect();
    if !lost.is_empty() {
        let missing = wanted.iter().filter(|node| !is_available(&after, node)).count();
        prop_assert!(surge == 0, "surge never makes an available node unavailable: {:?}", lost);
        prop_assert!(
            missing <= most_unavailable.max(1),
            "{} of {} > {}",
            missing,
            wanted.len(),
            most_unavailable
        );
    }
    let before: BTreeSet<_> = world.pods.keys().collect();
    for node in world.nodes.keys() {
        let new = after.on(node).iter().filter(|pod| !before.contains(pod)).count();
        prop_assert!(new <= 1, "several pods for one node at once");
        if new > 0 {
            prop_assert!(wanted.contains(node), "a pod for a node that is to have none");
            let running =
                after.on(node).iter().filter(|p| !after.pods[*p].status.phase.is_terminal()).count();
            prop_assert!(
                running <= 1 + usize::from(surge > 0),
                "more pods than one, or than two under surge"
            );
        }
    }
    if surge > 0 && work.revisions.is_empty() {
        let hash = world.hash();
        let is_surging = |node: &&String| {
            let pods: Vec<_> = after.on(node).into_iter().map(|pod| after.pods[&pod].clone()).collect();
            let is_new = |p: &crate::view::Pod| p.metadata.labels[POD_LABEL] == hash;
            pods.iter().any(|p| !is_new(p) && p.ready()) && pods.iter().any(|p| is_new(p) && !p.ready())
        };
        let surging = wanted.iter().filter(is_surging).count();
        let had = wanted.iter().filter(|node| world.on(node).len() > 1).count();
        prop_assert!(surging <= surge.max(had), "{} surging > {}", surging, surge);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn availability_is_kept_and_every_eligible_node_ends_with_one_pod(
        surges in any::<bool>(),
        bound in 1usize..3,
        events in prop::collection::vec(event(), 1..60),
    ) {
        let (unavailable, surge) = if surges { (0, bound) } else { (bound, 0) };
        let mut world = SimulatedCluster::new(rolling(json!(unavailable), json!(surge)), &["n0", "n1", "n2", "n3"]);
        for event in &events {
            happen(&mut world, event);
            let work = world.plan();
            evaluate(&world, &work, unavailable, surge)?;
            world.apply(&work);
        }
        world.settle();
        let wanted = eligible(&world);
        for node in world.nodes.keys() {
            let pods = world.on(node);
            let is_kept = world.nodes[node].spec.is_some();
            prop_assert!(pods.len() == 1 || is_kept && pods.len() <= 1, "{}: {:?}", node, pods);
            prop_assert!(!wanted.contains(node) || world.pods[&pods[0]].metadata.labels[POD_LABEL] == world.hash());
        }
        prop_assert!(world.pods.values().all(|pod| node_of(pod).is_some_and(|n| world.nodes.contains_key(n))));
        let rest = world.plan();
        prop_assert!(rest.create.is_empty() && rest.delete.is_empty() && rest.revisions.is_empty());
        prop_assert!(rest.status.is_none() && rest.history.is_empty() && rest.events.is_empty(), "it is at rest");
    }
}
