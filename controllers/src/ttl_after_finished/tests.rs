//! Tests of the expiry of finished Jobs.

use super::plan::{expires, plan};
use crate::action::{Action, Propagation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, from_value, json};
use std::time::Duration;

const END: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn job(ttl: Value, type_: &str, status: &str) -> Job {
    let condition = json!({"type": type_, "status": status, "lastTransitionTime": END});
    from_value(json!({
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "spec": {"ttlSecondsAfterFinished": ttl, "template": {}}, "status": {"conditions": [condition]},
    }))
    .unwrap()
}

#[test]
fn a_finished_job_is_deleted_after_its_ttl() {
    let table = [
        (json!(60), "Complete", "True", 0, Some(60)),
        (json!(60), "Failed", "True", 59, Some(1)),
        (json!(60), "Failed", "True", 60, Some(0)),
        (json!(0), "Complete", "True", 0, Some(0)),
        (json!(60), "Complete", "False", 99, None),
        (json!(60), "FailureTarget", "True", 99, None),
        (Value::Null, "Complete", "True", 99, None),
        (json!(i32::MAX), "Complete", "True", 99, Some(u64::from(i32::MAX.unsigned_abs()) - 99)),
    ];
    for (ttl, type_, status, passed, left) in table {
        let job = job(ttl.clone(), type_, status);
        let plan = plan(&job, END.checked_add(SignedDuration::from_secs(passed)).unwrap());
        assert_eq!(expires(&job), left.is_some(), "{ttl} {type_} {passed}");
        assert_eq!(
            plan.wake,
            left.filter(|left| *left > 0).map(Duration::from_secs),
            "{ttl} {type_} {passed}"
        );
        assert_eq!(plan.actions.len(), usize::from(left == Some(0)), "{ttl} {type_} {passed}");
    }
}

#[test]
fn an_expired_job_is_deleted_with_its_pods_at_the_observed_version() {
    let Action::Delete { target, propagation, force } =
        plan(&job(json!(0), "Complete", "True"), END).actions.remove(0)
    else {
        panic!("a deletion")
    };
    assert_eq!((propagation, force), (Propagation::Foreground, false));
    assert_eq!((target.uid.as_str(), target.resource_version.as_deref()), ("u", Some("7")));
    let mut leaving = job(json!(0), "Complete", "True");
    leaving.metadata.deletion_timestamp = Some(crate::view::seconds(END));
    assert!(!expires(&leaving));
}
