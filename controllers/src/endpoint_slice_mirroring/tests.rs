//! Tests of mirrored Endpoints and of convergence.

use super::plan::{Observed, is_ours, plan};
use crate::action::Action;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, from_value, json};

fn service(selector: Value) -> Service {
    from_value(json!({"metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": selector}})).unwrap()
}

fn endpoints(metadata: Value, subsets: Value) -> Endpoints {
    let mut whole = json!({"name": "s", "namespace": "ns", "uid": "u"});
    whole.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    from_value(json!({"metadata": whole, "subsets": subsets})).unwrap()
}

fn run(service: Option<&Service>, endpoints: Option<&Endpoints>, slices: &[EndpointSlice]) -> Vec<Action> {
    let slices: Vec<&EndpointSlice> = slices.iter().collect();
    plan(Observed { service, endpoints, slices: &slices })
}

/// The slices that a run creates from nothing, with names.
fn made(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let actions = run(Some(&service(Value::Null)), Some(endpoints), &[]);
    let created = actions.iter().map(|action| action.created::<EndpointSlice>().unwrap());
    let mut slices: Vec<EndpointSlice> = created.collect();
    for (number, slice) in slices.iter_mut().enumerate() {
        slice.metadata.name = Some(format!("s-{number}"));
    }
    slices
}

fn two_families() -> Endpoints {
    endpoints(
        json!({"labels": {"a": "b"}, "annotations": {"note": "x", "endpoints.kubernetes.io/last-change-trigger-time": "y"}}),
        json!([{"addresses": [{"ip": "192.0.2.2", "hostname": "h"}, {"ip": "2001:db8::1"}], "notReadyAddresses": [{"ip": "192.0.2.1"}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}]),
    )
}

#[test]
fn each_family_and_set_of_ports_has_a_slice_with_its_addresses() {
    let slices = made(&two_families());
    let shown: Vec<_> = slices
        .iter()
        .map(|slice| {
            let endpoints = slice.endpoints.as_ref().unwrap().iter();
            let endpoints = endpoints
                .map(|one| (one.addresses[0].clone(), one.conditions.as_ref().unwrap().ready.unwrap()));
            (
                slice.address_type.clone(),
                slice.ports.as_ref().unwrap()[0].port.unwrap(),
                endpoints.collect::<Vec<_>>(),
            )
        })
        .collect();
    let of = |ip: &str, ready| (ip.to_owned(), ready);
    assert_eq!(
        shown,
        [
            ("IPv4".to_owned(), 53, vec![of("192.0.2.2", true)]),
            ("IPv4".to_owned(), 80, vec![of("192.0.2.1", false), of("192.0.2.2", true)]),
            ("IPv6".to_owned(), 80, vec![of("2001:db8::1", true)]),
        ]
    );
    for slice in &slices {
        assert!(is_ours(slice));
        let labels = slice.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["a"].as_str(), labels["kubernetes.io/service-name"].as_str()), ("b", "s"));
        assert_eq!(slice.metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(), ["note"]);
        let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Endpoints", "u"));
    }
}

#[test]
fn mirroring_settles_and_follows_changes() {
    let seen = two_families();
    let have = made(&seen);
    let service = service(Value::Null);
    assert!(run(Some(&service), Some(&seen), &have).is_empty(), "nothing left to do");
    let mut fewer = seen.clone();
    fewer.subsets.as_mut().unwrap().pop();
    let actions = run(Some(&service), Some(&fewer), &have);
    assert!(matches!(&actions[..], [Action::Delete { target, .. }] if target.name == "s-0"), "{actions:?}");
    let mut ready = seen;
    let subset = &mut ready.subsets.as_mut().unwrap()[0];
    subset.addresses.as_mut().unwrap().extend(subset.not_ready_addresses.take().unwrap());
    let actions = run(Some(&service), Some(&ready), &have);
    assert_eq!(actions.len(), 1);
    let updated = actions[0].updated::<EndpointSlice>().unwrap();
    assert_eq!(updated.metadata.name.as_deref(), Some("s-1"));
}

#[test]
fn unmanaged_endpoints_are_not_mirrored_and_their_slices_deleted() {
    let seen = two_families();
    let have = made(&seen);
    let subsets = serde_json::to_value(&seen.subsets).unwrap();
    let skipped =
        endpoints(json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}), subsets.clone());
    let leader =
        endpoints(json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}), subsets);
    let (manual, selecting) = (service(Value::Null), service(json!({"a": "b"})));
    let table = [
        ("no service", None, Some(&seen)),
        ("a selector", Some(&selecting), Some(&seen)),
        ("a label", Some(&manual), Some(&skipped)),
        ("a record of a leader", Some(&manual), Some(&leader)),
        ("no endpoints", Some(&manual), None),
    ];
    for (what, service, endpoints) in table {
        let actions = run(service, endpoints, &have);
        assert_eq!(actions.len(), have.len(), "{what}");
        assert!(actions.iter().all(|action| matches!(action, Action::Delete { .. })), "{what}");
        assert!(run(service, endpoints, &[]).is_empty(), "{what}");
    }
}

#[test]
fn a_subset_is_mirrored_up_to_a_thousand_addresses() {
    let addresses: Vec<Value> =
        (0..1200).map(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)})).collect();
    let seen = endpoints(json!({}), json!([{"addresses": addresses, "ports": [{"port": 80}]}]));
    let slices = made(&seen);
    assert_eq!(
        slices.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect::<Vec<_>>(),
        [1000]
    );
}
