//! Tests of repairs.

use super::plan::{Observed, plan};
use crate::action::Action;
use crate::service_ips::addresses_of;
use crate::view::Address;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use serde_json::{Value, from_value, json};

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn service(name: &str, born: i64) -> Service {
    let born = START.checked_add(SignedDuration::from_secs(born)).unwrap();
    from_value(json!({ "metadata": { "name": name, "namespace": "n", "creationTimestamp": born } })).unwrap()
}

fn record(parent: Value, manager: &str) -> Address {
    from_value(json!({
        "metadata": { "name": "10.0.0.7", "uid": "u", "resourceVersion": "3", "creationTimestamp": START,
            "labels": { "ipaddress.kubernetes.io/managed-by": manager, "ipaddress.kubernetes.io/ip-family": "IPv4" } },
        "spec": { "parentRef": parent } }))
    .unwrap()
}

fn of_service(name: &str) -> Address {
    record(json!({ "resource": "services", "namespace": "n", "name": name }), "ipallocator.k8s.io")
}

/// Planned actions in words, and the delay until the next check.
fn done(
    record: Option<&Address>,
    holders: &[&Service],
    owner_is_there: bool,
    at: i64,
) -> (Vec<String>, Option<u64>) {
    evaluate(
        Observed { address: "10.0.0.7".parse().unwrap(), record, holders, owner_is_there, in_range: true },
        at,
    )
}

fn evaluate(seen: Observed<'_>, at: i64) -> (Vec<String>, Option<u64>) {
    let plan = plan(seen, START.checked_add(SignedDuration::from_secs(at)).unwrap());
    let word = |action: &Action| match action {
        Action::Create(_) => {
            let made: IPAddress = action.created().unwrap();
            let parent = &made.spec.parent_ref;
            format!("create {} for {}", made.metadata.name.as_deref().unwrap(), parent.name)
        }
        Action::Delete { target, .. } => {
            assert_eq!((&*target.uid, target.resource_version.as_deref()), ("u", Some("3")));
            format!("delete {}", target.name)
        }
        Action::Event(event) => format!("{} to {}", event.reason, event.about.name),
        other => panic!("{other:?}"),
    };
    (plan.actions.iter().map(word).collect(), plan.wake.map(|wake| wake.as_secs()))
}

fn nothing() -> (Vec<String>, Option<u64>) {
    (vec![], None)
}

fn words(all: &[&str]) -> (Vec<String>, Option<u64>) {
    (all.iter().map(|&word| word.to_owned()).collect(), None)
}

#[test]
fn a_consistent_service_and_ip_address_need_no_repair() {
    assert_eq!(done(Some(&of_service("a")), &[&service("a", 0)], true, 0), nothing());
    assert_eq!(done(None, &[], false, 0), nothing());
}

#[test]
fn a_missing_ip_address_is_recreated() {
    let wanted = words(&["create 10.0.0.7 for a", "ClusterIPNotAllocated to a"]);
    assert_eq!(done(None, &[&service("b", 5), &service("a", 4)], false, 0), wanted, "the older one has it");
}

#[test]
fn an_ip_address_of_the_wrong_service_is_recreated() {
    let anew = words(&["delete 10.0.0.7", "create 10.0.0.7 for a", "ClusterIPNotAllocated to a"]);
    let a = service("a", 0);
    assert_eq!(done(Some(&of_service("other")), &[&a], true, 0), anew);
    let gateway = record(json!({ "group": "g", "resource": "gateways", "name": "a" }), "another-manager");
    assert_eq!(done(Some(&gateway), &[&a], false, 0), anew);
    let unlabelled =
        record(json!({ "resource": "services", "namespace": "n", "name": "a" }), "another-manager");
    let again = words(&["delete 10.0.0.7", "create 10.0.0.7 for a"]);
    assert_eq!(done(Some(&unlabelled), &[&a], true, 0), again);
}

#[test]
fn a_duplicate_address_records_an_event_on_the_service_without_ip_address() {
    let told = words(&["ClusterIPAlreadyAllocated to a"]);
    assert_eq!(done(Some(&of_service("b")), &[&service("a", 0), &service("b", 1)], true, 0), told);
}

#[test]
fn an_ip_address_without_service_is_deleted_after_a_minute() {
    let leaked = of_service("gone");
    assert_eq!(done(Some(&leaked), &[], false, 20), (vec![], Some(40)));
    let gone = words(&["delete 10.0.0.7", "IPAddressNotAllocated to 10.0.0.7"]);
    assert_eq!(done(Some(&leaked), &[], false, 60), gone);
    let wrong = words(&["delete 10.0.0.7", "IPAddressWrongReference to 10.0.0.7"]);
    assert_eq!(done(Some(&leaked), &[], true, 0), wrong, "its service has another address");
    let modified = record(json!({ "group": "g", "resource": "gateways", "name": "a" }), "ipallocator.k8s.io");
    assert_eq!(done(Some(&modified), &[], false, 0), gone);
    let theirs = record(json!({ "group": "g", "resource": "gateways", "name": "a" }), "another-manager");
    assert_eq!(done(Some(&theirs), &[], false, 99), nothing(), "others look after their own");
}

#[test]
fn an_address_outside_all_service_cidrs_only_records_an_event() {
    let a = service("a", 0);
    let seen = Observed {
        address: "10.0.0.7".parse().unwrap(),
        record: None,
        holders: &[&a],
        owner_is_there: false,
        in_range: false,
    };
    assert_eq!(evaluate(seen, 0), words(&["ClusterIPOutOfRange to a"]));
}

#[test]
fn external_name_services_have_no_address() {
    for (spec, wanted) in [
        (json!({ "clusterIPs": ["10.0.0.1", "fd00:0::01"] }), vec!["10.0.0.1", "fd00::1"]),
        (json!({ "clusterIPs": ["None"] }), vec![]),
        (json!({ "type": "ExternalName", "clusterIPs": ["10.0.0.1"] }), vec![]),
        (json!({}), vec![]),
    ] {
        let service: Service = from_value(json!({ "spec": spec })).unwrap();
        let shown: Vec<String> = addresses_of(&service).map(|ip| ip.to_string()).collect();
        assert_eq!(shown, wanted);
    }
}
