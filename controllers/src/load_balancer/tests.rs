//! Tests of load balancer addresses, and that no two Services share one.

use super::plan::{Observed, Planned, concerns, plan};
use crate::action::Action;
use k8s_openapi::api::core::v1::Service;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

fn service(spec: Value, ingress: &[&str], finalizers: &[&str]) -> Service {
    let mut whole = json!({"type": "LoadBalancer", "ipFamilies": ["IPv4"]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let ingress: Vec<Value> = ingress.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect();
    from_value(json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u", "resourceVersion": "3", "finalizers": finalizers},
        "spec": whole, "status": {"loadBalancer": {"ingress": ingress}}}))
    .unwrap()
}

fn run(service: &Service, pool: &str, taken: &[&str]) -> Planned {
    let taken: BTreeSet<IpAddr> = taken.iter().map(|ip| ip.parse().unwrap()).collect();
    plan(Observed { service, pool: &pool.parse().unwrap(), taken: &taken })
}

/// The planned patch, if any.
fn patch(planned: &Planned) -> Option<Value> {
    planned.actions.iter().find_map(|action| match action {
        Action::Patch { patch, status: true, .. } => Some(patch.clone()),
        _ => None,
    })
}

#[test]
fn a_service_gets_one_address_per_family_of_the_pool() {
    let pool = "192.0.2.0/29,2001:db8::/120";
    let dual = json!({"ipFamilies": ["IPv6", "IPv4"]});
    let table: [(Service, &[&str], &[&str]); 7] = [
        (service(json!({}), &[], &[]), &[], &["192.0.2.1"]),
        (service(json!({}), &[], &[]), &["192.0.2.1", "192.0.2.2"], &["192.0.2.3"]),
        (service(dual, &[], &[]), &[], &["2001:db8::1", "192.0.2.1"]),
        (service(json!({"loadBalancerIP": "192.0.2.5"}), &[], &[]), &[], &["192.0.2.5"]),
        (service(json!({"loadBalancerIP": "192.0.2.5"}), &[], &[]), &["192.0.2.5"], &["192.0.2.1"]),
        (service(json!({"loadBalancerIP": "198.51.100.1"}), &[], &[]), &[], &["192.0.2.1"]),
        (service(json!({}), &["192.0.2.4"], &[FINALIZER]), &[], &["192.0.2.4"]),
    ];
    for (service, taken, expected) in table {
        let planned = run(&service, pool, taken);
        let addresses: Vec<String> = planned.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, expected, "{service:?}");
    }
}

#[test]
fn address_and_finalizer_are_written_once() {
    let planned = run(&service(json!({}), &[], &["x"]), "192.0.2.0/29", &[]);
    let expected = json!({"metadata": {"finalizers": ["x", FINALIZER], "resourceVersion": "3"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}});
    assert_eq!(patch(&planned), Some(expected));
    let done = run(&service(json!({}), &["192.0.2.1"], &["x", FINALIZER]), "192.0.2.0/29", &[]);
    assert!(done.actions.is_empty());
}

#[test]
fn services_that_change_their_type_lose_address_and_finalizer() {
    let gone = json!({"metadata": {"finalizers": ["x"], "resourceVersion": "3"}, "status": {"loadBalancer": {"ingress": null}}});
    let changed = service(json!({"type": "ClusterIP"}), &["192.0.2.1"], &["x", FINALIZER]);
    assert_eq!(patch(&run(&changed, "192.0.2.0/29", &[])), Some(gone.clone()));
    let mut leaving = service(json!({}), &["192.0.2.1"], &["x", FINALIZER]);
    leaving.metadata.deletion_timestamp = Some(from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(patch(&run(&leaving, "192.0.2.0/29", &[])), Some(gone));
    let plain = service(json!({"type": "ClusterIP"}), &[], &[]);
    assert!(!concerns(&plain) && run(&plain, "192.0.2.0/29", &[]).actions.is_empty());
    let of_class = service(json!({"loadBalancerClass": "example.com/lb"}), &["203.0.113.1"], &[]);
    assert!(!concerns(&of_class) && run(&of_class, "192.0.2.0/29", &[]).actions.is_empty());
}

#[test]
fn an_exhausted_pool_records_one_event() {
    let taken = ["192.0.2.1", "192.0.2.2"];
    let planned = run(&service(json!({}), &[], &[]), "192.0.2.0/30", &taken);
    assert!(planned.is_short);
    assert!(matches!(planned.actions.last(), Some(Action::Event(_))), "{planned:?}");
    let again = run(&service(json!({}), &[], &[FINALIZER]), "192.0.2.0/30", &taken);
    assert!(again.is_short && again.actions.is_empty());
}

proptest! {
    #[test]
    fn load_balancer_addresses_are_unique(asks in prop::collection::vec(prop::option::of(0..9_u8), 1..12)) {
        let mut taken = BTreeSet::new();
        for ask in asks {
            let spec = ask.map_or(json!({}), |last| json!({"loadBalancerIP": format!("192.0.2.{last}")}));
            let service = service(spec, &[], &[]);
            let planned = plan(Observed { service: &service, pool: &"192.0.2.0/29".parse().unwrap(), taken: &taken });
            prop_assert_eq!(planned.is_short, taken.len() == 6);
            for address in planned.addresses {
                prop_assert!(taken.insert(address), "{}", address);
            }
        }
    }
}
