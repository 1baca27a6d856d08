//! Tests of the graph and the plan, with tables and a fixpoint over random ownership graphs.

mod kinds;
mod orphaning;

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, Uid, WorkItem};
use super::plan::{CollectDecision, Kinds, OwnerKind, Presence, collect, orphan};
use crate::action::{Action, Propagation};
use crate::resource::{NODES, PODS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;
use serde_json::from_value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn kinds() -> Kinds {
    let pod = OwnerKind { resource: PODS, namespaced: true };
    let node = OwnerKind { resource: NODES, namespaced: false };
    [((String::new(), "Pod".to_owned()), pod), ((String::new(), "Node".to_owned()), node)].into()
}

fn owner(uid: &str, blocks: bool) -> OwnerReference {
    owner_of_kind("Pod", uid, blocks)
}

fn owner_of_kind(kind: &str, uid: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: kind.into(),
        name: format!("name-{uid}"),
        uid: uid.into(),
        block_owner_deletion: Some(blocks),
        controller: None,
    }
}

fn node(uid: &str, owners: &[OwnerReference]) -> Node {
    Node {
        group: "".into(),
        kind: "Pod".into(),
        namespace: "default".into(),
        name: format!("name-{uid}"),
        resource_version: "1".into(),
        owners: owners.to_vec(),
        finalizers: vec![],
        deleting: false,
    }
}

fn going(uid: &str, owners: &[OwnerReference], finalizer: &str) -> Node {
    Node { deleting: true, finalizers: vec![finalizer.into()], ..node(uid, owners) }
}

/// Simulated server: its objects, the graph, and the work queue.
#[derive(Default)]
struct SimulatedCluster {
    graph: Graph,
    queue: BTreeSet<WorkItem>,
}

impl SimulatedCluster {
    fn put(&mut self, uid: &str, node: Node) {
        let work = self.graph.put(uid, Arc::new(node));
        self.queue.extend(work);
    }

    fn gone(&mut self, uid: &str) {
        let work = self.graph.gone(uid);
        self.queue.extend(work);
    }

    fn uids(&self) -> BTreeSet<String> {
        self.graph.uids().iter().map(ToString::to_string).collect()
    }

    /// Deletes an object like the server.
    fn delete(&mut self, uid: &str, propagation: Propagation) {
        let Some(old) = self.graph.get(uid).cloned() else { return };
        let mut node = old;
        match propagation {
            Propagation::Foreground => node.finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => node.finalizers.push(ORPHAN.into()),
            Propagation::Background | Propagation::Default => {}
        }
        node.finalizers.dedup();
        if node.finalizers.is_empty() {
            return self.gone(uid);
        }
        node.deleting = true;
        self.put(uid, node);
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Delete { target, propagation, .. } => self.delete(&target.uid, propagation),
            Action::Patch { target, patch, .. } => {
                let mut node =
                    self.graph.get(&target.uid).cloned().expect("patches go to objects that are there");
                if let Some(owners) = patch["metadata"].get("ownerReferences") {
                    node.owners = from_value(owners.clone()).unwrap();
                }
                if let Some(finalizers) = patch["metadata"].get("finalizers") {
                    node.finalizers = from_value(finalizers.clone()).unwrap();
                }
                if node.deleting && node.finalizers.is_empty() {
                    self.gone(&target.uid);
                } else {
                    self.put(&target.uid, node);
                }
            }
            Action::Event(_) => {}
            other => panic!("the collector does not do {other:?}"),
        }
    }

    fn one(&mut self, work: &WorkItem) {
        let actions = match work {
            WorkItem::Orphan(uid) => orphan(&self.graph, &kinds(), uid),
            WorkItem::Collect(uid) => {
                let mut answers = BTreeMap::new();
                loop {
                    match collect(&self.graph, &kinds(), &answers, uid) {
                        CollectDecision::Act(actions, work) => {
                            self.queue.extend(work);
                            break actions;
                        }
                        // Objects that the graph does not know are absent.
                        CollectDecision::Ask(all) => {
                            answers.extend(all.into_iter().map(|q| (q.uid, Presence::Absent)));
                        }
                    }
                }
            }
        };
        actions.into_iter().for_each(|action| self.take(action));
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some(work) = self.queue.pop_first() else { return };
            self.one(&work);
        }
        panic!("the collector never rests");
    }
}

fn world(nodes: &[(&str, Node)]) -> SimulatedCluster {
    let mut world = SimulatedCluster::default();
    nodes.iter().for_each(|(uid, node)| world.put(uid, node.clone()));
    world.queue = world.graph.review();
    world
}

fn left(world: &SimulatedCluster) -> Vec<String> {
    world.uids().into_iter().collect()
}

#[test]
fn background_deletion_deletes_a_chain_of_dependents() {
    let mut w = world(&[
        ("a", node("a", &[])),
        ("b", node("b", &[owner("a", true)])),
        ("c", node("c", &[owner("b", true)])),
    ]);
    w.settle();
    assert_eq!(left(&w), ["a", "b", "c"]);
    w.delete("a", Propagation::Background);
    w.settle();
    assert_eq!(left(&w), [""; 0]);
}

#[test]
fn foreground_deletion_deletes_the_owner_last() {
    let mut w = world(&[
        ("a", node("a", &[])),
        ("b", node("b", &[owner("a", true)])),
        ("c", node("c", &[owner("b", true)])),
    ]);
    w.put("held", Node { finalizers: vec!["x/y".into()], ..node("held", &[owner("c", true)]) });
    w.delete("a", Propagation::Foreground);
    w.settle();
    assert_eq!(left(&w), ["a", "b", "c", "held"], "the last dependent still has a finalizer of its own");
    w.gone("held");
    w.settle();
    assert_eq!(left(&w), [""; 0]);
}

#[test]
fn non_blocking_dependents_do_not_delay_foreground_deletion() {
    let mut w = world(&[("a", node("a", &[]))]);
    w.put("b", Node { finalizers: vec!["x/y".into()], ..node("b", &[owner("a", false)]) });
    w.delete("a", Propagation::Foreground);
    w.settle();
    assert_eq!(left(&w), ["b"]);
    assert!(w.graph.get("b").unwrap().deleting, "it goes all the same");
}

#[test]
fn orphaning_sets_dependents_free() {
    let mut w = world(&[("a", node("a", &[])), ("b", node("b", &[owner("a", true), owner("x", true)]))]);
    w.put("x", node("x", &[]));
    w.delete("a", Propagation::Orphan);
    w.settle();
    assert_eq!(left(&w), ["b", "x"]);
    assert_eq!(w.graph.get("b").unwrap().owners, [owner("x", true)]);
}

#[test]
fn one_solid_owner_keeps_an_object_and_dangling_references_are_removed() {
    let mut w = world(&[("a", node("a", &[])), ("b", node("b", &[owner("a", true), owner("lost", true)]))]);
    w.settle();
    assert_eq!(w.graph.get("b").unwrap().owners, [owner("a", true)]);
}

#[test]
fn a_circle_of_foreground_deletions_opens() {
    let mut w = world(&[
        ("a", node("a", &[owner("c", true)])),
        ("b", node("b", &[owner("a", true)])),
        ("c", node("c", &[owner("b", true)])),
    ]);
    w.delete("a", Propagation::Foreground);
    w.settle();
    assert_eq!(left(&w), [""; 0]);
}

#[test]
fn an_owner_must_match_uid_name_kind_and_scope() {
    let cluster = |uid: &str, owners: &[OwnerReference]| Node {
        kind: "Node".into(),
        namespace: String::new(),
        ..node(uid, owners)
    };
    let elsewhere = Node { namespace: "other".into(), ..node("far", &[]) };
    let mut wrong = owner("a", true);
    wrong.name = "other".into();
    let mut unknown = owner("lost", true);
    unknown.kind = "Widget".into();
    let mut w = world(&[
        ("a", node("a", &[])),
        ("far", elsewhere),
        ("n", cluster("n", &[])),
        ("of-cluster", node("of-cluster", &[owner_of_kind("Node", "n", true)])),
        ("of-far", node("of-far", &[owner("far", true)])),
        ("of-wrong", node("of-wrong", &[wrong])),
        ("of-unknown", node("of-unknown", &[unknown])),
        ("cluster-of-pod", cluster("cluster-of-pod", &[owner("lost", true)])),
    ]);
    w.settle();
    assert_eq!(left(&w), ["a", "cluster-of-pod", "far", "n", "of-cluster", "of-unknown"]);
}

#[test]
fn deletes_and_patches_have_preconditions() {
    let w = world(&[("b", node("b", &[owner("lost", true)]))]);
    let answers = BTreeMap::from([("lost".to_owned(), Presence::Absent)]);
    let CollectDecision::Act(actions, _) = collect(&w.graph, &kinds(), &answers, &Uid::from("b")) else {
        panic!()
    };
    let [Action::Delete { target, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((target.uid.as_str(), target.resource_version.as_deref()), ("b", Some("1")));
}

#[test]
fn unknown_owners_are_read_before_they_count_as_absent() {
    let w = world(&[("b", node("b", &[owner("new", true)]))]);
    let none = BTreeMap::new();
    let CollectDecision::Ask(questions) = collect(&w.graph, &kinds(), &none, &Uid::from("b")) else {
        panic!()
    };
    assert_eq!((questions[0].name.as_str(), questions[0].namespace.as_str()), ("name-new", "default"));
    let there = BTreeMap::from([("new".to_owned(), Presence::Present)]);
    assert_eq!(collect(&w.graph, &kinds(), &there, &Uid::from("b")), CollectDecision::Act(vec![], vec![]));
}

#[test]
fn a_status_write_creates_no_work_item() {
    let mut w = world(&[("a", node("a", &[])), ("b", node("b", &[owner("a", true)]))]);
    w.queue.clear();
    w.put("b", Node { resource_version: "2".into(), ..node("b", &[owner("a", true)]) });
    assert!(w.queue.is_empty());
    assert_eq!(w.graph.get("b").unwrap().resource_version, "2");
    w.put("b", going("b", &[owner("a", true)], FOREGROUND));
    assert!(!w.queue.is_empty());
}

/// Model: the final objects, which are the undeleted objects without owners and all that they keep alive.
fn fixpoint(objects: &BTreeMap<u8, BTreeSet<u8>>, deleted: &BTreeSet<u8>) -> BTreeSet<String> {
    let mut alive: BTreeSet<u8> = objects.keys().copied().filter(|o| !deleted.contains(o)).collect();
    loop {
        let stays = |o: &u8| objects[o].is_empty() || objects[o].iter().any(|owner| alive.contains(owner));
        let next: BTreeSet<u8> = alive.iter().copied().filter(stays).collect();
        if next == alive {
            return alive.iter().map(ToString::to_string).collect();
        }
        alive = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn garbage_collection_equals_a_fixpoint(
        // Owners have smaller numbers: cycles keep themselves alive by design, and have their own test.
        edges in prop::collection::btree_set((1u8..12, 0u8..14), 0..30),
        deleted in prop::collection::btree_map(0u8..12, any::<bool>(), 0..5),
        missing in 12u8..14,
    ) {
        let mut objects: BTreeMap<u8, BTreeSet<u8>> = (0..12).map(|o| (o, BTreeSet::new())).collect();
        for (dependent, owner) in edges {
            if owner < dependent || owner >= missing {
                objects.get_mut(&dependent).unwrap().insert(owner);
            }
        }
        let mut w = SimulatedCluster::default();
        for (uid, owners) in objects.iter().rev() {
            let owners: Vec<_> = owners.iter().map(|o| owner(&o.to_string(), o % 2 == 0)).collect();
            let uid = uid.to_string();
            let node = node(&uid, &owners);
            drop(w.graph.put(&*uid, Arc::new(node)));
        }
        w.queue = w.graph.review();
        for (uid, foreground) in &deleted {
            let how = if *foreground { Propagation::Foreground } else { Propagation::Background };
            w.delete(&uid.to_string(), how);
            let first = w.queue.pop_first();
            if let Some(work) = first { w.one(&work) }
        }
        w.settle();
        let deleted: BTreeSet<u8> = deleted.into_keys().collect();
        let expected = fixpoint(&objects, &deleted);
        prop_assert_eq!(w.uids(), expected);
    }
}

#[test]
fn work_items_round_trip_through_their_keys() {
    for work in [WorkItem::Collect("u1".into()), WorkItem::Orphan("u1".into())] {
        assert_eq!(WorkItem::of(&work.key()), Some(work));
    }
    assert_eq!(WorkItem::of(&super::known::review_key()), None);
}
