//! Tests of the pod CIDRs of nodes.

use super::plan::{networks, plan};
use crate::action::Action;
use crate::networks::PodNetworks;
use k8s_openapi::api::core::v1::Node;
use kstore_api::cidr::Cidr;
use proptest::prelude::*;
use serde_json::{from_value, json};

fn node() -> Node {
    from_value(json!({"metadata": {"name": "n", "uid": "u"}})).unwrap()
}

fn cluster(text: &str, v4: u8) -> PodNetworks {
    PodNetworks::new(text.parse().unwrap(), Some(v4), None).unwrap()
}

fn cidrs(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_node_gets_the_first_free_cidr_of_each_network() {
    let dual = cluster("10.1.0.0/16,fd00:1::/48", 24);
    let table: [(&[&str], &[&str]); 4] = [
        (&[], &["10.1.0.0/24", "fd00:1::/64"]),
        (&["10.1.0.0/24", "fd00:1::/64", "10.9.0.0/16"], &["10.1.1.0/24", "fd00:1:0:1::/64"]),
        (&["10.1.0.0/22"], &["10.1.4.0/24", "fd00:1::/64"]),
        (&["10.1.1.7/32", "10.1.0.0/24"], &["10.1.2.0/24", "fd00:1::/64"]),
    ];
    for (taken, expected) in table {
        let (chosen, action) = plan(&node(), &dual, &cidrs(taken));
        assert_eq!(chosen, cidrs(expected), "{taken:?}");
        let Action::Patch { patch, .. } = action else { panic!("a patch") };
        assert_eq!(patch, json!({"spec": {"podCIDR": expected[0], "podCIDRs": expected}}));
    }
}

#[test]
fn an_exhausted_network_records_an_event() {
    let (chosen, action) =
        plan(&node(), &cluster("10.1.0.0/24", 25), &cidrs(&["10.1.0.0/25", "10.1.0.128/25"]));
    assert!(chosen.is_empty() && matches!(action, Action::Event(_)));
}

#[test]
fn node_cidrs_are_read_from_the_spec() {
    let node: Node =
        from_value(json!({"metadata": {}, "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}))
            .unwrap();
    assert_eq!(networks(&node), cidrs(&["10.1.0.0/24", "10.1.0.0/24"]));
}

proptest! {
    #[test]
    fn networks_of_nodes_are_disjoint(count in 1..40_usize, foreign in 16..32_u8, at in 0..255_u8) {
        let networks = cluster("10.1.0.0/20", 25);
        let mut taken = cidrs(&[&format!("10.1.{at}.0/{foreign}")]);
        for _ in 0..count {
            let (chosen, _) = plan(&node(), &networks, &taken);
            for own in chosen {
                prop_assert!(taken.iter().all(|other| !other.overlaps(own)), "{own} {taken:?}");
                taken.push(own);
            }
        }
    }
}
