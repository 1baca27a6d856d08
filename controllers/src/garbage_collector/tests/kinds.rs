//! Tests of owners and dependents of custom kinds that are added, changed and removed, against the plan
//! alone.

use super::{Node, node, owner};
use crate::action::{Action, Propagation};
use crate::aggregated::{AggregatedKind, AggregatedKinds};
use crate::definition::CustomKind;
use crate::garbage_collector::graph::{FOREGROUND, ORPHAN, Uid, WorkItem};
use crate::garbage_collector::known::{KnownObjects, Shared};
use crate::garbage_collector::plan::{CollectDecision, Presence, collect, orphan};
use crate::resource::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME: &str = "lamps.example.com";

fn lamps(version: &'static str, namespaced: bool) -> Arc<CustomKind> {
    let resource = Resource::named("example.com", version, "lamps");
    Arc::new(CustomKind { kind: "Lamp".into(), resource, namespaced })
}

fn lamp(uid: &str, owners: &[OwnerReference]) -> Node {
    Node { group: "example.com".into(), kind: "Lamp".into(), ..node(uid, owners) }
}

fn lamp_owner(api_version: &str, uid: &str) -> OwnerReference {
    OwnerReference { api_version: api_version.into(), kind: "Lamp".into(), ..owner(uid, true) }
}

/// Successive states of the definition of a kind; `None` while it did not exist.
type KindHistory = [Option<Arc<CustomKind>>];

/// The collector's knowledge after these states of the kind.
fn known(life: &KindHistory, nodes: &[(&str, Node)]) -> KnownObjects {
    let shared = Shared::new(&super::kinds());
    let mut known = std::mem::take(&mut *shared.lock());
    nodes.iter().for_each(|(uid, node)| drop(known.graph.put(*uid, Arc::new(node.clone()))));
    life.iter().for_each(|kind| drop(known.define(NAME, kind.clone().map(|kind| ("uid".to_owned(), kind)))));
    known
}

/// The decision in short form, with the version in the object's path.
fn evaluated(known: &KnownObjects, uid: &str, absent: bool) -> String {
    let answers =
        if absent { BTreeMap::from([("lost".to_owned(), Presence::Absent)]) } else { BTreeMap::new() };
    match collect(&known.graph, &known.kinds, &answers, &Uid::from(uid)) {
        CollectDecision::Ask(questions) => {
            format!("ask for {} in {}", questions[0].name, questions[0].resource.version)
        }
        CollectDecision::Act(actions, _) => match &actions[..] {
            [] => "keep".to_owned(),
            [Action::Delete { target, propagation: Propagation::Background, .. }] => {
                format!("delete {} in {}", target.resource.plural, target.resource.version)
            }
            [Action::Delete { propagation, .. }] => format!("delete {propagation:?}"),
            [Action::Patch { target, patch, .. }] => {
                let left = patch["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
                format!("patch {} in {}: {left} owners", target.resource.plural, target.resource.version)
            }
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn a_custom_owner_is_resolved_by_the_current_kind() {
    let (v1, v2, cluster) = (lamps("v1", true), lamps("v2", true), lamps("v1", false));
    let lives: [(&str, &KindHistory, bool, &str); 7] = [
        ("never defined", &[], false, "keep"),
        ("defined, owner unknown", &[Some(v1.clone())], false, "ask for name-lost in v1"),
        ("defined, owner absent", &[Some(v1.clone())], true, "delete pods in v1"),
        ("served in another version", &[Some(v1.clone()), Some(v2)], false, "ask for name-lost in v2"),
        ("withdrawn", &[Some(v1.clone()), None], false, "ask for name-lost in v1"),
        ("withdrawn, owner absent", &[Some(v1), None], true, "delete pods in v1"),
        ("cluster-scoped, owner absent", &[Some(cluster)], true, "delete pods in v1"),
    ];
    for (what, life, absent, verdict) in lives {
        let known = known(life, &[("pod", node("pod", &[lamp_owner("example.com/v1", "lost")]))]);
        assert_eq!(evaluated(&known, "pod", absent), verdict, "{what}");
    }
}

#[test]
fn owners_match_across_versions_but_not_across_groups() {
    let table =
        [("example.com/v1", "keep"), ("example.com/v2", "keep"), ("example.org/v1", "keep"), ("v1", "keep")];
    for (api_version, verdict) in table {
        let nodes = [("a", lamp("a", &[])), ("b", node("b", &[lamp_owner(api_version, "a")]))];
        assert_eq!(
            evaluated(&known(&[Some(lamps("v1", true))], &nodes), "b", false),
            verdict,
            "{api_version}"
        );
    }
    // Another served group has no object of this uid: the reference is dangling.
    let mut other = owner("a", true);
    other.kind = "Pod".into();
    let nodes = [("a", lamp("a", &[])), ("b", node("b", &[other]))];
    assert_eq!(evaluated(&known(&[Some(lamps("v1", true))], &nodes), "b", false), "delete pods in v1");
}

#[test]
fn custom_dependents_use_the_served_version() {
    let nodes = [
        ("b", lamp("b", &[owner("lost", true)])),
        ("c", lamp("c", &[owner("lost", true), owner("a", true)])),
        ("a", node("a", &[])),
    ];
    let mut known = known(&[Some(lamps("v1", true))], &nodes);
    assert_eq!(evaluated(&known, "b", true), "delete lamps in v1");
    assert_eq!(evaluated(&known, "c", true), "patch lamps in v1: 1 owners");
    let work = known.define(NAME, Some(("uid".to_owned(), lamps("v2", true))));
    assert!(
        work.contains(&WorkItem::Collect("b".into())),
        "a write to the old version may have met no object"
    );
    assert_eq!(evaluated(&known, "b", true), "delete lamps in v2");
}

#[test]
fn a_new_kind_processes_its_waiting_dependents() {
    let nodes =
        [("b", node("b", &[lamp_owner("example.com/v1", "lost")])), ("c", node("c", &[owner("b", true)]))];
    let mut known = known(&[], &nodes);
    let work = known.define(NAME, Some(("uid".to_owned(), lamps("v1", true))));
    assert_eq!(Vec::from_iter(work), [WorkItem::Collect("b".into())]);
    assert!(
        known.define(NAME, Some(("uid".to_owned(), lamps("v1", true)))).is_empty(),
        "nothing has changed"
    );
}

#[test]
fn custom_owners_carry_foreground_and_orphan_deletions_through() {
    let owner =
        |finalizer: &str| Node { deleting: true, finalizers: vec![finalizer.into()], ..lamp("a", &[]) };
    let dependent =
        |blocks| OwnerReference { block_owner_deletion: Some(blocks), ..lamp_owner("example.com/v1", "a") };
    let life = [Some(lamps("v1", true))];
    for (blocks, verdict) in [(true, "keep"), (false, "patch lamps in v1: 0 owners")] {
        let nodes = [("a", owner(FOREGROUND)), ("b", node("b", &[dependent(blocks)]))];
        assert_eq!(evaluated(&known(&life, &nodes), "a", false), verdict, "blockOwnerDeletion: {blocks}");
    }
    let nodes =
        [("a", owner(ORPHAN)), ("b", node("b", &[dependent(true)])), ("c", lamp("c", &[dependent(true)]))];
    let known = known(&life, &nodes);
    let writes = orphan(&known.graph, &known.kinds, &"a".into());
    let targets = writes.iter().map(|write| match write {
        Action::Patch { target, .. } => target.resource.plural.to_string(),
        other => panic!("{other:?}"),
    });
    assert_eq!(targets.collect::<Vec<_>>(), ["pods", "lamps"]);
}

/// The kinds of an aggregated API server: lamps in this version, if it serves them.
fn aggregated(version: Option<&'static str>) -> AggregatedKinds {
    let kind = |version| AggregatedKind {
        kind: "Lamp".into(),
        resource: Resource { is_aggregated: true, ..Resource::named("example.com", version, "lamps") },
        namespaced: true,
        verbs: vec![],
    };
    AggregatedKinds { kinds: version.into_iter().map(kind).collect(), ..AggregatedKinds::default() }
}

#[test]
fn aggregated_kinds_are_addressed_while_their_server_is_registered() {
    let mut known = known(&[], &[("pod", node("pod", &[lamp_owner("example.com/v1", "lost")]))]);
    let work = known.aggregate(&aggregated(Some("v1")));
    assert_eq!(Vec::from_iter(work), [WorkItem::Collect("pod".into())]);
    assert_eq!(evaluated(&known, "pod", false), "ask for name-lost in v1");
    assert!(known.aggregate(&aggregated(Some("v1"))).is_empty(), "nothing has changed");
    known.aggregate(&aggregated(Some("v2")));
    assert_eq!(evaluated(&known, "pod", false), "ask for name-lost in v2");
    let unavailable = [("example.com".to_owned(), "v2".to_owned())].into();
    known.aggregate(&AggregatedKinds { unavailable, ..aggregated(None) });
    assert_eq!(evaluated(&known, "pod", false), "ask for name-lost in v2", "its server may answer again");
    known.aggregate(&aggregated(None));
    assert_eq!(evaluated(&known, "pod", true), "keep", "objects of an unregistered server may exist");
}

#[test]
fn an_aggregated_kind_takes_precedence_over_a_custom_one_of_its_name() {
    let pod = ("pod", node("pod", &[lamp_owner("example.com/v1", "lost")]));
    let mut known = known(&[Some(lamps("v1", true))], &[pod]);
    known.aggregate(&aggregated(Some("v9")));
    known.define(NAME, Some(("uid".to_owned(), lamps("v2", true))));
    assert_eq!(evaluated(&known, "pod", false), "ask for name-lost in v9");
    known.aggregate(&aggregated(None));
    assert_eq!(evaluated(&known, "pod", false), "ask for name-lost in v2");
}
