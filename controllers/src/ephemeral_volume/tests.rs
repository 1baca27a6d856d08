//! Which claims are made for which pods.

use super::plan::{create, foreign, needs_claims};
use crate::action::Action;
use crate::view;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as WholePod};
use serde_json::{Value, from_value, json};

fn pod(more: Value) -> Value {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let mut pod = json!({
        "metadata": {"namespace": "n", "name": "p", "uid": "u"},
        "spec": {"volumes": [
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
        ]},
    });
    pod["status"] = more;
    pod
}

fn slim(pod: &Value) -> view::Pod {
    view::decode_pod(pod.to_string().as_bytes()).unwrap()
}

#[test]
fn a_claim_is_made_from_the_template_and_owned_by_its_pod() {
    let whole: WholePod = from_value(pod(json!({}))).unwrap();
    let made = create(&whole, |_| false);
    assert_eq!(made.len(), 1, "{made:?}");
    let claim = json!(made[0].created::<PersistentVolumeClaim>().unwrap());
    assert_eq!(
        (&claim["metadata"]["name"], &claim["metadata"]["namespace"]),
        (&json!("p-scratch"), &json!("n"))
    );
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(claim["metadata"]["annotations"], json!({"c": "d"}));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("Pod"), &json!("u"), &json!(true))
    );
    assert!(create(&whole, |claim| claim == "p-scratch").is_empty());
}

#[test]
fn pods_that_end_get_no_claims_and_count_the_claims_that_they_have() {
    let running = slim(&pod(json!({"phase": "Pending"})));
    assert!(needs_claims(&running));
    assert_eq!(running.ephemeral_claims().collect::<Vec<_>>(), ["p-scratch"]);
    assert_eq!(running.claims().collect::<Vec<_>>(), ["p-scratch", "shared"]);
    assert!(!needs_claims(&slim(&pod(json!({"phase": "Succeeded"})))));
    let mut leaving = pod(json!({}));
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(!needs_claims(&slim(&leaving)));
}

#[test]
fn a_claim_of_the_name_that_is_not_the_pods_is_told() {
    let claim = |owner: Value| -> PersistentVolumeClaim {
        from_value(json!({"metadata": {"namespace": "n", "name": "p-scratch", "ownerReferences": owner}}))
            .unwrap()
    };
    let owner =
        |uid: &str| json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]);
    let running = slim(&pod(json!({})));
    assert!(foreign(&running, &claim(owner("u"))).is_none());
    for other in [claim(owner("old")), claim(json!([]))] {
        let told = foreign(&running, &other);
        assert!(
            matches!(&told, Some(Action::Event(event)) if event.message.ends_with("(pod is not owner)")),
            "{told:?}"
        );
    }
}
