//! Kinds of the groups core, apps and batch over REST: defaults of a minimal object, a write of the answer
//! that changes nothing, and the messages for invalid objects.

use kstore_tests::{Cluster, Setup, simulate};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct KindCase {
    path: String,
    object: Value,
    adds: Value,
}

/// Collects the paths at which `got` lacks or differs from a wanted value.
fn missing(want: &Value, got: &Value, at: &str, found: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(members), _) => {
            for (name, value) in members {
                missing(value, &got[name], &format!("{at}.{name}"), found);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (i, (item, other)) in items.iter().zip(others).enumerate() {
                missing(item, other, &format!("{at}[{i}]"), found);
            }
        }
        _ if want == got => {}
        _ => found.push(format!("{at}: {got} instead of {want}")),
    }
}

async fn write_twice(cluster: &Cluster, kind: &KindCase) -> Vec<String> {
    let (rest, mut wrong) = (cluster.rest(), Vec::new());
    let created = rest.call("POST", &kind.path, kind.object.to_string()).await;
    let (name, at) = (kind.object["metadata"]["name"].as_str().unwrap(), &kind.path);
    if created.code != 201 {
        return vec![format!("{at}/{name}: {}", created.json())];
    }
    missing(&kind.adds, &created.json(), &format!("{at}/{name}"), &mut wrong);
    let put = rest.call("PUT", &format!("{at}/{name}"), created.body.clone()).await;
    let (before, after) = (created.json(), put.json());
    if put.code != 200 || after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
        wrong.push(format!("{at}/{name}: the answer written back is not the same: {before} and {after}"));
    }
    wrong
}

#[test]
fn a_minimal_object_of_each_kind_is_defaulted_and_can_be_written_back_unchanged() {
    let kinds: Vec<KindCase> = serde_yaml_ng::from_str(include_str!("kinds_core.yaml")).unwrap();
    simulate(Setup::api_alone(), async |cluster| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = "/api/v1/namespaces/default/serviceaccounts";
        let _ = cluster.rest().call("POST", path, account.to_string()).await;
        let mut wrong = Vec::new();
        for kind in &kinds {
            wrong.extend(write_twice(cluster, kind).await);
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn an_invalid_object_is_refused_with_every_error_as_a_cause() {
    simulate(Setup::api_alone(), async |cluster| {
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a"}, {"name": "a", "image": "i"}]}}}});
        let path = "/apis/apps/v1/namespaces/default/deployments";
        let answer = cluster.rest().call("POST", path, web.to_string()).await;
        assert_eq!(answer.code, 422);
        assert_eq!(
            answer.text("/message"),
            "Deployment.apps \"web\" is invalid: [spec.template.spec.containers[0].image: Required value, spec.template.spec.containers[1].name: Duplicate value: \"a\"]"
        );
        assert_eq!(
            answer.json()["details"]["causes"],
            json!([
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.template.spec.containers[0].image"},
                {"reason": "FieldValueDuplicate", "message": "Duplicate value: \"a\"", "field": "spec.template.spec.containers[1].name"},
            ])
        );
    });
}
