//! Tests of readiness and deletion of ServiceCIDRs.

use super::plan::{Observed, plan};
use crate::action::{Action, Plan};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::{Value, from_value, json};
use std::net::IpAddr;
use std::time::Duration;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

fn cidr(name: &str, cidrs: &[&str], deleting: bool) -> ServiceCIDR {
    let mut value = json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "7", "finalizers": [FINALIZER] },
        "spec": { "cidrs": cidrs } });
    if deleting {
        value["metadata"]["deletionTimestamp"] = json!(START);
    }
    from_value(value).unwrap()
}

/// The plan for the first of these, `at` seconds after the deletions.
fn planned(all: &[ServiceCIDR], taken: &[&str], at: i64) -> Plan {
    let now = START.checked_add(SignedDuration::from_secs(at)).unwrap();
    let taken: Vec<IpAddr> = taken.iter().map(|ip| ip.parse().unwrap()).collect();
    let every: Vec<&ServiceCIDR> = all.iter().collect();
    plan(Observed { cidr: &all[0], all: &every, taken: &taken }, now)
}

fn patched(plan: &Plan) -> (bool, Value) {
    let [Action::Patch { status, patch, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
    (*status, patch.clone())
}

fn goes(all: &[ServiceCIDR], taken: &[&str]) -> bool {
    let (status, patch) = patched(&planned(all, taken, 10));
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    if !status {
        assert_eq!(patch["metadata"]["finalizers"], json!([]));
    }
    !status
}

#[test]
fn a_service_cidr_gets_its_finalizer_and_becomes_ready() {
    let mut new = cidr("a", &["10.0.0.0/24"], false);
    new.metadata.finalizers = Some(vec!["mine".to_owned()]);
    let (status, patch) = patched(&planned(&[new.clone()], &[], 0));
    assert_eq!((status, &patch["metadata"]["finalizers"]), (false, &json!(["mine", FINALIZER])));
    new.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let default = "Kubernetes default Service CIDR is ready";
    new.status = from_value(json!({ "conditions": [
        { "type": "Other", "status": "True", "reason": "", "message": "", "lastTransitionTime": START },
        { "type": "Ready", "status": "True", "reason": "", "message": default, "lastTransitionTime": START }] }))
    .unwrap();
    let (status, patch) = patched(&planned(&[new.clone()], &[], 5));
    assert!(status);
    let conditions = &patch["status"]["conditions"];
    assert_eq!((&conditions[0]["type"], &conditions[1]["status"]), (&json!("Other"), &json!("True")));
    assert_eq!(conditions[1]["message"], "Kubernetes Service CIDR is ready");
    assert_eq!(conditions[1]["lastTransitionTime"], json!(START), "it was ready before");
    new.status = from_value(patch["status"].clone()).unwrap();
    assert_eq!(planned(&[new], &[], 6), Plan::nothing());
}

#[test]
fn an_unused_service_cidr_is_finalized_after_ten_seconds() {
    let gone = [cidr("a", &["10.0.0.0/24"], true)];
    assert_eq!(
        planned(&gone, &["10.0.1.1"], 4),
        Plan { wake: Some(Duration::from_secs(6)), ..Plan::nothing() }
    );
    assert!(goes(&gone, &["10.0.1.1"]));
    let mut foreign = gone;
    foreign[0].metadata.finalizers = Some(vec!["mine".to_owned()]);
    assert_eq!(planned(&foreign, &[], 10), Plan::nothing(), "the others' finalizers are theirs");
}

#[test]
fn an_address_in_no_other_service_cidr_prevents_finalization() {
    let mut kept = [cidr("a", &["10.0.0.0/24", "fd00::/112"], true)];
    assert!(!goes(&kept, &["10.0.0.7"]));
    assert!(!goes(&kept, &["fd00::7"]));
    assert!(goes(&kept, &["10.0.0.255", "10.0.0.0", "fd00::"]), "servers never allocate these addresses");
    let (_, patch) = patched(&planned(&kept, &["10.0.0.7"], 0));
    let ready = &patch["status"]["conditions"][0];
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("Terminating")));
    kept[0].status = from_value(patch["status"].clone()).unwrap();
    assert_eq!(planned(&kept, &["10.0.0.7"], 60), Plan::nothing(), "it has said so");
}

#[test]
fn another_service_cidr_with_its_addresses_allows_finalization() {
    let dying = || cidr("m", &["10.0.0.0/24"], true);
    for (other, cidrs, deleting, lets_go) in [
        ("wider", &["10.0.0.0/8"][..], false, true),
        ("same", &["10.0.0.0/24"], false, true),
        ("part", &["10.0.0.0/28"], false, true),
        ("other-part", &["10.0.0.128/25"], false, false),
        ("elsewhere", &["10.1.0.0/16", "fd00::/64"], false, false),
        ("a-dying-one-before", &["10.0.0.0/24"], true, false),
        ("z-dying-one-after", &["10.0.0.0/24"], true, true),
    ] {
        let all = [dying(), cidr(other, cidrs, deleting)];
        assert_eq!(goes(&all, &["10.0.0.7"]), lets_go, "{other}");
    }
}
