//! Tests of the TTL annotation.

use super::plan::{ClusterSizes, plan};
use crate::action::Action;
use k8s_openapi::api::core::v1::Node;
use serde_json::{from_value, json};

#[test]
fn larger_clusters_have_a_longer_ttl_with_overlapping_steps() {
    let mut sizes = ClusterSizes::default();
    let table = [
        (1, 0, false),
        (100, 0, false),
        (101, 15, true),
        (90, 15, false),
        (89, 0, true),
        (501, 30, true),
        (450, 30, false),
        (449, 15, true),
        (20_000, 600, true),
        (0, 0, true),
    ];
    for (nodes, seconds, changed) in table {
        assert_eq!(sizes.count(nodes), changed, "{nodes}");
        assert_eq!(sizes.seconds(), seconds, "{nodes}");
    }
}

#[test]
fn a_node_with_another_ttl_annotation_is_patched() {
    let node = |annotations| -> Node {
        from_value(json!({"metadata": {"name": "n", "annotations": annotations}})).unwrap()
    };
    let patch = |node: &Node, seconds| match plan(node, seconds) {
        Some(Action::Patch { patch, status: false, .. }) => Some(patch),
        None => None,
        other => panic!("{other:?}"),
    };
    let said =
        |seconds: &str| json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": seconds}}});
    assert_eq!(patch(&node(json!({})), 0), Some(said("0")));
    assert_eq!(patch(&node(json!({"node.alpha.kubernetes.io/ttl": "15"})), 15), None);
    assert_eq!(patch(&node(json!({"node.alpha.kubernetes.io/ttl": "x"})), 15), Some(said("15")));
}
