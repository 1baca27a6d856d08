//! Tests of the expiry of CertificateSigningRequests.

use super::plan::plan;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, from_value, json};

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn request(conditions: &[&str], certificate: Value) -> CertificateSigningRequest {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|type_| json!({"type": type_, "status": "True", "lastUpdateTime": START}))
        .collect();
    from_value(json!({"metadata": {"name": "r", "uid": "u", "creationTimestamp": START},
        "spec": {"request": "", "signerName": "example.com/s"}, "status": {"conditions": conditions, "certificate": certificate}}))
    .unwrap()
}

#[test]
fn certificate_requests_expire_an_hour_after_the_answer_or_after_a_day() {
    let (hour, day) = (Some(3600), Some(24 * 3600));
    let table = [
        (request(&[], Value::Null), day),
        (request(&["Denied"], Value::Null), hour),
        (request(&["Failed"], Value::Null), hour),
        (request(&["Approved", "Failed"], Value::Null), hour),
        (request(&["Approved"], json!("YQ==")), hour),
        (request(&["Approved"], json!("")), None),
        (request(&["Approved"], Value::Null), None),
    ];
    for (request, after) in table {
        let at =
            |seconds: i64| plan(&request, START.checked_add(SignedDuration::from_secs(seconds)).unwrap());
        let Some(after) = after else {
            let plan = at(1_000_000);
            assert!(plan.actions.is_empty() && plan.wake.is_none(), "{request:?}");
            continue;
        };
        let before = at(after - 1);
        assert_eq!(
            (before.actions.len(), before.wake.map(|wait| wait.as_secs())),
            (0, Some(1)),
            "{request:?}"
        );
        assert_eq!(at(after).actions.len(), 1, "{request:?}");
    }
}
