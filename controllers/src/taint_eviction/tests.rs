//! Tests of evictions.

use super::plan::{TimedTaint, evaluate};
use crate::eviction::Verdict;
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, from_value, json};
use std::time::Duration;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn pod(tolerations: Value) -> Pod {
    from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "x", "tolerations": tolerations}})).unwrap()
}

fn after(tolerations: Value, seconds: i64) -> Verdict {
    let taints = ["node.kubernetes.io/unreachable", "dedicated"].map(|key| TimedTaint {
        taint: from_value(json!({"key": key, "value": "v", "effect": "NoExecute"})).unwrap(),
        at: START,
    });
    evaluate(&pod(tolerations), &taints, START.checked_add(SignedDuration::from_secs(seconds)).unwrap())
}

#[test]
fn the_shortest_toleration_counts() {
    let all = json!({"operator": "Exists"});
    let unreachable = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let dedicated = |value: &str| json!({"key": "dedicated", "value": value});
    let table = [
        (json!([]), 0, Verdict::Leave),
        (json!([all]), 100_000, Verdict::Stay),
        (json!([unreachable]), 0, Verdict::Leave),
        (json!([unreachable, all]), 0, Verdict::StayFor(Duration::from_secs(300))),
        (json!([unreachable, dedicated("v")]), 299, Verdict::StayFor(Duration::from_secs(1))),
        (json!([unreachable, dedicated("v")]), 300, Verdict::Leave),
        (json!([unreachable, dedicated("w")]), 0, Verdict::Leave),
        (json!([{"operator": "Exists", "tolerationSeconds": -1}]), 0, Verdict::Leave),
        (json!([{"operator": "Exists", "effect": "NoSchedule"}]), 0, Verdict::Leave),
    ];
    for (tolerations, seconds, expected) in table {
        assert_eq!(after(tolerations.clone(), seconds), expected, "{tolerations} after {seconds} s");
    }
}

#[test]
fn pods_without_taints_and_terminating_pods_are_not_evicted() {
    assert_eq!(evaluate(&pod(json!([])), &[], START), Verdict::Stay);
    let mut leaving = pod(json!([]));
    leaving.status.phase = crate::view::Phase::Succeeded;
    let taint =
        TimedTaint { taint: from_value(json!({"key": "k", "effect": "NoExecute"})).unwrap(), at: START };
    assert_eq!(evaluate(&leaving, &[taint], START), Verdict::Stay);
}
