//! Server-side apply to custom objects, and their Scale.

use super::custom::{JSON_PATCH, LAMPS, MERGE, call, create, define, get, lamp, lamps, patch};
use kstore_tests::{Setup, simulate};
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";

/// Kubernetes merges a configuration without the decoder that drops nulls, so validation refuses them.
#[test]
fn applied_nulls_are_refused_where_the_schema_has_none() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = lamps();
        let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let properties = definition.pointer_mut(properties).unwrap();
        properties["maybe"] = json!({"type": "string", "nullable": true});
        properties["size"] = json!({"type": "object", "properties": {"w": {"type": "integer"}}});
        define(cluster, &definition).await;
        let path = format!("{LAMPS}/a?fieldManager=one&force=true");
        let applied = async |spec: Value| patch(cluster, &path, APPLY, &lamp("a", spec)).await;
        let refused = async |spec: Value| {
            let reply = applied(spec.clone()).await;
            assert_eq!(reply.code, 422, "{spec}: {}", reply.json());
            reply.text("/message")
        };
        let text = "spec.watts in body must be of type integer: \"null\"";
        assert!(refused(json!({"watts": null})).await.contains(text), "at the creation");
        let made = applied(json!({"watts": 5, "colour": null, "maybe": null, "size": {"w": 1}})).await.json();
        assert_eq!((&made["spec"]["colour"], &made["spec"]["maybe"]), (&json!("white"), &Value::Null));
        assert!(made["spec"].as_object().unwrap().contains_key("maybe"), "{made}");
        assert!(
            refused(json!({"watts": 5, "rooms": null}))
                .await
                .contains("spec.rooms in body must be of type array")
        );
        let emptied = applied(json!({"watts": 5, "size": {}})).await.json();
        assert_eq!(emptied["spec"]["size"], json!({}), "a parent that is stated stays");
        let gone = applied(json!({"watts": 5})).await.json();
        assert_eq!(gone["spec"]["size"], Value::Null, "one that is not goes with its last field");
        let whole = patch(cluster, &format!("{LAMPS}/a"), MERGE, &json!({"spec": {"rooms": null}})).await;
        assert_eq!(whole.code, 200, "a merge patch removes by null: {}", whole.json());
    });
}

/// Go clients send empty maps of labels; ownership is that of what was sent.
#[test]
fn empty_labels_and_annotations_of_an_applied_custom_object_are_owned() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let mut config = lamp("a", json!({"watts": 5}));
        config["metadata"]["labels"] = json!({});
        config["metadata"]["annotations"] = json!({});
        let made = patch(cluster, &format!("{LAMPS}/a?fieldManager=one"), APPLY, &config).await.json();
        let fields = &made["metadata"]["managedFields"][0]["fieldsV1"];
        let want = json!({"f:metadata": {"f:annotations": {}, "f:labels": {}}, "f:spec": {"f:watts": {}}});
        assert_eq!(fields, &want, "{made}");
    });
}

/// GET of the Scale is an error then, and a write is not.
#[test]
fn a_custom_object_without_replicas_can_be_scaled() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = lamps();
        let bulbs = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/bulbs";
        definition.pointer_mut(bulbs).unwrap().as_object_mut().unwrap().remove("default");
        define(cluster, &definition).await;
        for (name, form) in [("a", MERGE), ("b", JSON_PATCH), ("c", "PUT")] {
            create(cluster, name, json!({"watts": 5})).await;
            let path = format!("{LAMPS}/{name}/scale");
            let unset = call(cluster, "GET", &path, &Value::Null).await;
            assert_eq!(
                (unset.code, unset.text("/message")),
                (
                    500,
                    "Internal error occurred: the spec replicas field \".spec.bulbs\" does not exist".into()
                )
            );
            let scaled = match form {
                MERGE => patch(cluster, &path, form, &json!({"spec": {"replicas": 3}})).await,
                JSON_PATCH => {
                    let add = json!([{"op": "add", "path": "/spec/replicas", "value": 3}]);
                    patch(cluster, &path, form, &add).await
                }
                _ => {
                    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": 3}});
                    call(cluster, "PUT", &path, &scale).await
                }
            };
            assert_eq!(
                (scaled.code, &scaled.json()["spec"]["replicas"]),
                (200, &json!(3)),
                "{form}: {}",
                scaled.json()
            );
            assert_eq!(get(cluster, &format!("{LAMPS}/{name}")).await["spec"]["bulbs"], 3);
        }
    });
}

/// kube-apiserver cannot convert the Scale, and says so after the conflicts.
#[test]
fn the_scale_of_a_custom_object_cannot_be_applied() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        create(cluster, "a", json!({"watts": 5})).await;
        let path = |query: &str| format!("{LAMPS}/a/scale?fieldManager=one{query}");
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
        let conflict = patch(cluster, &path(""), APPLY, &scale).await;
        assert_eq!(conflict.code, 409, "{}", conflict.json());
        let refused = patch(cluster, &path("&force=true"), APPLY, &scale).await;
        let text = "failed to convert new object (/a; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1";
        assert_eq!((refused.code, refused.text("/message")), (500, text.into()));
        assert_eq!(get(cluster, &format!("{LAMPS}/a")).await["spec"]["bulbs"], 1);
    });
}

#[test]
fn apply_of_custom_objects_creates_and_detects_conflicts() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let path = |manager: &str| format!("{LAMPS}/a?fieldManager={manager}");
        let config = lamp("a", json!({"watts": 5, "rooms": [{"name": "hall", "floor": 1}]}));
        let made = patch(cluster, &path("one"), APPLY, &config).await;
        assert_eq!(made.code, 201, "{}", made.json());
        let rooms = lamp("a", json!({"rooms": [{"name": "attic"}]}));
        let merged = patch(cluster, &path("three"), APPLY, &rooms).await;
        assert_eq!(
            merged.json()["spec"]["rooms"],
            json!([{"name": "hall", "floor": 1}, {"name": "attic"}]),
            "lists merge by key"
        );
        let unknown = patch(cluster, &path("four"), APPLY, &lamp("a", json!({"zz": 1}))).await;
        assert_eq!(
            (unknown.code, unknown.text("/message")),
            (
                500,
                "failed to create typed patch object (/a; shop.example.com/v1, Kind=Lamp): .spec.zz: field not declared in schema"
                    .into()
            )
        );
        let other = lamp("a", json!({"watts": 6}));
        let refused = patch(cluster, &path("two"), APPLY, &other).await;
        assert_eq!((refused.code, refused.text("/details/causes/0/field")), (409, ".spec.watts".into()));
    });
}
