//! Custom resources over REST: how a CustomResourceDefinition changes the served API, and how objects and
//! watches follow its changes and its deletion. Messages are those of kube-apiserver. Schemas, names and
//! columns have their tests in the crate `api`.

use super::query;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const LAMPS: &str = "/apis/shop.example.com/v1/namespaces/default/lamps";
const APPLY: &str = "application/apply-patch+yaml";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";

/// A namespaced kind `Lamp` with the subresources status and scale.
pub(super) fn lamps() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["watts"], "properties": {
            "watts": {"type": "integer", "minimum": 1, "maximum": 100},
            "colour": {"type": "string", "default": "white"},
            "bulbs": {"type": "integer", "default": 1},
            "rooms": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "floor": {"type": "integer"}}}}}},
        "status": {"type": "object", "properties": {"lit": {"type": "integer"}, "selector": {"type": "string"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.shop.example.com"},
        "spec": {"group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "shortNames": ["lp"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.bulbs",
                    "statusReplicasPath": ".status.lit", "labelSelectorPath": ".status.selector"}},
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "additionalPrinterColumns": [{"name": "Watts", "type": "integer", "jsonPath": ".spec.watts"}]}]}})
}

pub(super) fn lamp(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "shop.example.com/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec})
}

pub(super) async fn call(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call(method, path, body).await
}

pub(super) async fn patch(cluster: &Cluster, path: &str, form: &str, body: &Value) -> Reply {
    cluster.rest().call_as("PATCH", path, form, body.to_string()).await
}

pub(super) async fn define(cluster: &Cluster, definition: &Value) -> Value {
    let made = call(cluster, "POST", DEFINITIONS, definition).await;
    assert_eq!(made.code, 201, "{}", made.json());
    made.json()
}

pub(super) async fn create(cluster: &Cluster, name: &str, spec: Value) -> Value {
    let made = call(cluster, "POST", LAMPS, &lamp(name, spec)).await;
    assert_eq!(made.code, 201, "{}", made.json());
    made.json()
}

pub(super) async fn get(cluster: &Cluster, path: &str) -> Value {
    let got = call(cluster, "GET", path, &Value::Null).await;
    assert_eq!(got.code, 200, "{path}: {}", got.json());
    got.json()
}

fn condition<'v>(definition: &'v Value, kind: &str) -> &'v Value {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

#[test]
fn an_object_of_a_custom_kind_says_its_kind_as_json_and_as_yaml() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let text = r#"{"apiVersion":"shop.example.com/v1","metadata":{"name":"a"},"spec":{"watts":5}}"#;
        for form in ["application/json", "application/yaml"] {
            let refused = cluster.rest().call_as("POST", LAMPS, form, text.to_owned()).await;
            let said = refused.json()["message"].as_str().unwrap().to_owned();
            let want = format!("Object 'Kind' is missing in '{text}'");
            assert!(refused.code == 400 && said.contains(&want), "{form}: {} {said}", refused.code);
        }
    });
}

#[test]
fn a_kind_is_served_by_every_endpoint_from_the_revision_of_its_definition() {
    simulate(Setup::api_alone(), async |cluster| {
        assert_eq!(call(cluster, "GET", LAMPS, &Value::Null).await.code, 404);
        let made = define(cluster, &lamps()).await;
        assert_eq!(condition(&made, "Established")["status"], "True", "in the answer to the POST");
        assert_eq!(made["status"]["acceptedNames"]["shortNames"], json!(["lp"]));
        assert_eq!(made["status"]["storedVersions"], json!(["v1"]));

        let lamp = create(cluster, "a", json!({"watts": 5})).await;
        assert_eq!(lamp["spec"], json!({"watts": 5, "colour": "white", "bulbs": 1}));
        assert_eq!(lamp["metadata"]["generation"], 1);
        let groups = get(cluster, "/apis").await;
        let names: Vec<_> = groups["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
        assert!(names.contains(&&json!("shop.example.com")), "{names:?}");
        let resources = get(cluster, "/apis/shop.example.com/v1").await;
        let names: Vec<_> =
            resources["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["lamps", "lamps/status", "lamps/scale"]);
        let index = get(cluster, "/openapi/v3").await;
        let document =
            index["paths"]["apis/shop.example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let document = get(cluster, &document).await;
        let schemas = &document["components"]["schemas"];
        let watts = &schemas["com.example.shop.v1.Lamp"]["properties"]["spec"]["properties"]["watts"];
        assert_eq!(watts["maximum"], 100, "{}", schemas["com.example.shop.v1.Lamp"]);
        let revision: i64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let watch =
            query(cluster, LAMPS, &format!("watch=1&timeoutSeconds=2&resourceVersion={revision}")).await;
        let events = String::from_utf8_lossy(&watch.body).into_owned();
        assert!(events.starts_with(r#"{"type":"ADDED""#), "watchable from the definition on: {events}");
    });
}

#[test]
fn defaults_below_status_are_in_the_answer_to_a_create() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = lamps();
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["status"]["default"] = json!({"lit": 0});
        schema["properties"]["status"]["properties"]["phase"] =
            json!({"type": "string", "default": "Pending"});
        define(cluster, &definition).await;
        let mut lamp = lamp("a", json!({"watts": 5}));
        lamp["status"] = json!({"lit": 9});
        let made = call(cluster, "POST", LAMPS, &lamp).await.json();
        let expected = json!({"lit": 0, "phase": "Pending"});
        assert_eq!(made["status"], expected, "the client's status is dropped, then defaults are set again");
        assert_eq!(get(cluster, &format!("{LAMPS}/a")).await["status"], expected);
        assert_eq!(get(cluster, LAMPS).await["items"][0]["status"], expected);
        lamp["metadata"]["name"] = json!("b");
        let path = format!("{LAMPS}/b?fieldManager=one");
        let applied = patch(cluster, &path, APPLY, &lamp).await;
        assert_eq!((applied.code, &applied.json()["status"]), (201, &expected));
    });
}

/// Go's decoder replaces what is no Unicode text.
#[test]
fn bodies_that_are_not_unicode_are_read_with_replacement_characters() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let head = r#"{"apiVersion": "shop.example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"watts": 5, "#;
        let body = [head.as_bytes(), br#""colour": "x\ud83d"#, &[0xe2, 0x82], br#""}}"#].concat();
        let made = cluster.rest().call("POST", LAMPS, body).await;
        assert_eq!((made.code, made.text("/spec/colour")), (201, "x\u{fffd}\u{fffd}\u{fffd}".into()));
        let (path, patch) = (format!("{LAMPS}/a"), &b"{\"spec\": {\"colour\": \"\xff\"}}"[..]);
        let patched = cluster.rest().call_as("PATCH", &path, MERGE, patch).await;
        assert_eq!(patched.text("/spec/colour"), "\u{fffd}");
    });
}

/// kube-apiserver serves a kind from the acceptance of its names on, and lists it once its definition is established.
#[test]
fn a_kind_that_is_not_established_is_served_and_not_listed() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = lamps();
        let client = json!({"url": "https://h", "caBundle": "Cg=="});
        definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
        let made = define(cluster, &definition).await;
        assert_eq!(condition(&made, "Established")["reason"], "InvalidCABundle");
        create(cluster, "a", json!({"watts": 5})).await;
        for path in
            ["/apis/shop.example.com", "/apis/shop.example.com/v1", "/openapi/v3/apis/shop.example.com/v1"]
        {
            assert_eq!(call(cluster, "GET", path, &Value::Null).await.code, 404, "{path}");
        }
        let groups = get(cluster, "/apis").await["groups"].to_string();
        assert!(!groups.contains("shop.example.com"), "{groups}");
        let own = format!("{DEFINITIONS}/lamps.shop.example.com");
        let valid = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
        let changed = patch(cluster, &own, MERGE, &valid).await.json();
        assert_eq!(condition(&changed, "Established")["status"], "True", "{changed}");
        assert_eq!(get(cluster, "/apis/shop.example.com/v1").await["resources"][0]["name"], "lamps");
    });
}

#[test]
fn objects_of_a_custom_kind_called_events_do_not_expire() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = lamps();
        definition["metadata"]["name"] = json!("events.shop.example.com");
        definition["spec"]["names"] = json!({"plural": "events", "kind": "Event"});
        define(cluster, &definition).await;
        let path = "/apis/shop.example.com/v1/namespaces/default/events";
        let mut event = lamp("a", json!({"watts": 5}));
        event["kind"] = json!("Event");
        let made = call(cluster, "POST", path, &event).await;
        assert_eq!(made.code, 201, "{}", made.json());
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        get(cluster, &format!("{path}/a")).await;
    });
}

#[test]
fn objects_are_pruned_defaulted_and_checked_by_their_schema() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let odd = lamp("odd", json!({"watts": 5, "zz": 1, "rooms": [{"name": "a"}, {"name": "a"}]}));
        let refused = call(cluster, "POST", &format!("{LAMPS}?fieldValidation=Strict"), &odd).await;
        assert_eq!(refused.code, 400);
        assert_eq!(
            refused.text("/message"),
            "Lamp in version \"v1\" cannot be handled as a Lamp: strict decoding error: unknown field \"spec.zz\""
        );
        let refused = call(cluster, "POST", LAMPS, &odd).await;
        assert_eq!(
            refused.text("/message"),
            "Lamp.shop.example.com \"odd\" is invalid: spec.rooms[1]: Duplicate value: {\"name\":\"a\"}"
        );
        let refused = call(cluster, "POST", LAMPS, &lamp("odd", json!({"watts": 0, "colour": 3}))).await;
        assert_eq!(refused.code, 422);
        let causes = refused.json()["details"]["causes"].clone();
        let causes =
            causes.as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap().to_owned());
        let mut causes: Vec<_> = causes.collect();
        causes.sort();
        assert_eq!(causes, ["spec.colour", "spec.watts"]);
        let kind = json!({"apiVersion": "shop.example.com/v1", "kind": "Lampp", "metadata": {"name": "x"}});
        let refused = call(cluster, "POST", LAMPS, &kind).await;
        assert_eq!(
            refused.text("/message"),
            "Lampp.shop.example.com \"x\" is invalid: kind: Invalid value: \"Lampp\": must be Lamp"
        );
        create(cluster, "a", json!({"watts": 5, "zz": 1})).await;
        let lamp = get(cluster, &format!("{LAMPS}/a")).await;
        assert_eq!(lamp["spec"], json!({"watts": 5, "colour": "white", "bulbs": 1}));
    });
}

#[test]
fn status_scale_patches_and_generation_follow_the_definition() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        create(cluster, "a", json!({"watts": 5})).await;
        let path = format!("{LAMPS}/a");
        let changed =
            patch(cluster, &path, MERGE, &json!({"spec": {"watts": 6}, "status": {"lit": 9}})).await;
        let changed = changed.json();
        assert_eq!((&changed["metadata"]["generation"], &changed["status"]), (&json!(2), &Value::Null));
        let status = json!({"status": {"lit": 1}, "spec": {"watts": 99}});
        let changed = patch(cluster, &format!("{path}/status"), MERGE, &status).await.json();
        assert_eq!((&changed["metadata"]["generation"], &changed["spec"]["watts"]), (&json!(2), &json!(6)));
        let scale = get(cluster, &format!("{path}/scale")).await;
        assert_eq!(
            (&scale["kind"], &scale["spec"], &scale["status"]),
            (&json!("Scale"), &json!({"replicas": 1}), &json!({"replicas": 1}))
        );
        let scaled = patch(cluster, &format!("{path}/scale"), MERGE, &json!({"spec": {"replicas": 4}})).await;
        assert_eq!(scaled.json()["spec"]["replicas"], 4);
        let lamp = get(cluster, &path).await;
        assert_eq!((&lamp["spec"]["bulbs"], &lamp["metadata"]["generation"]), (&json!(4), &json!(3)));
        let replace = json!([{"op": "replace", "path": "/spec/watts", "value": 7}]);
        assert_eq!(patch(cluster, &path, JSON_PATCH, &replace).await.json()["spec"]["watts"], 7);
        let moved = patch(cluster, &path, MERGE, &json!({"apiVersion": "shop.example.com/v2"})).await;
        let text = "Lamp.shop.example.com \"a\" is invalid: apiVersion: Invalid value: \"shop.example.com/v2\": must be shop.example.com/v1";
        assert_eq!((moved.code, moved.text("/message")), (422, text.into()));
        let strategic = patch(cluster, &path, "application/strategic-merge-patch+json", &json!({})).await;
        assert_eq!(strategic.code, 415);
        let mut stale = lamp.clone();
        stale["spec"]["watts"] = json!(8);
        assert_eq!(call(cluster, "PUT", &path, &stale).await.code, 409);
        stale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let refused = call(cluster, "PUT", &path, &stale).await;
        assert!(refused.text("/message").contains("must be specified for an update"), "{}", refused.json());
    });
}

#[test]
fn lists_tables_and_selectors_read_what_the_definition_declares() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        create(cluster, "a", json!({"watts": 5, "colour": "red"})).await;
        create(cluster, "b", json!({"watts": 6})).await;
        let list = get(cluster, LAMPS).await;
        assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("LampList"), &json!("Lamp")));
        let red = query(cluster, LAMPS, "fieldSelector=spec.colour%3Dred").await.json();
        assert_eq!(red["items"].as_array().unwrap().len(), 1);
        let refused = query(cluster, LAMPS, "fieldSelector=spec.watts%3D5").await;
        assert_eq!(
            (refused.code, refused.text("/message")),
            (400, "field label not supported: spec.watts".into())
        );
        let table = http::Request::builder()
            .uri(LAMPS)
            .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
        let table = cluster.rest().send(table.body(Default::default()).unwrap()).await.json();
        assert_eq!(table["columnDefinitions"][1]["name"], "Watts");
        assert_eq!(table["rows"][1]["cells"], json!(["b", 6]));
        let all = get(cluster, "/apis/shop.example.com/v1/lamps?limit=1").await;
        assert_eq!(all["metadata"]["remainingItemCount"], 1);
    });
}

#[test]
fn stored_objects_are_read_with_the_newest_schema_and_watches_continue() {
    simulate(Setup::api_alone(), async |cluster| {
        let made = define(cluster, &lamps()).await;
        let old = create(cluster, "a", json!({"watts": 5})).await;
        let revision = old["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let text = format!("watch=1&timeoutSeconds=5&resourceVersion={revision}");
        let watching = query(cluster, LAMPS, &text);
        let changing = async {
            let mut changed = made.clone();
            let spec = &mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["properties"]["shade"] = json!({"type": "string", "default": "linen"});
            spec["properties"].as_object_mut().unwrap().remove("colour");
            changed["spec"]["versions"][0].as_object_mut().unwrap().remove("selectableFields");
            let path = format!("{DEFINITIONS}/lamps.shop.example.com");
            let done = call(cluster, "PUT", &path, &changed).await;
            assert_eq!(done.code, 200, "{}", done.json());
            let shown = get(cluster, &format!("{LAMPS}/a")).await;
            assert_eq!(shown["spec"], json!({"watts": 5, "bulbs": 1, "shade": "linen"}));
            assert_eq!(shown["metadata"]["resourceVersion"], json!(revision), "nothing was written");
            assert_eq!(get(cluster, LAMPS).await["items"][0]["spec"]["shade"], "linen");
            create(cluster, "b", json!({"watts": 1, "colour": "red"})).await;
        };
        let (watched, ()) = tokio::join!(watching, changing);
        let events: Vec<Value> = String::from_utf8_lossy(&watched.body)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["object"]["spec"], json!({"watts": 1, "bulbs": 1, "shade": "linen"}));
    });
}

#[test]
fn every_served_version_shows_every_object_and_deprecated_ones_warn() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = lamps();
        let mut beta = definition["spec"]["versions"][0].clone();
        beta["name"] = json!("v1beta1");
        beta["storage"] = json!(false);
        beta["deprecated"] = json!(true);
        beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            .as_object_mut()
            .unwrap()
            .remove("colour");
        beta.as_object_mut().unwrap().remove("selectableFields");
        definition["spec"]["versions"].as_array_mut().unwrap().push(beta);
        define(cluster, &definition).await;
        create(cluster, "a", json!({"watts": 5})).await;
        let old = "/apis/shop.example.com/v1beta1/namespaces/default/lamps/a";
        let got = call(cluster, "GET", old, &Value::Null).await;
        assert_eq!(
            got.headers["warning"],
            "299 - \"shop.example.com/v1beta1 Lamp is deprecated; use shop.example.com/v1 Lamp\""
        );
        let got = got.json();
        assert_eq!(got["apiVersion"], "shop.example.com/v1beta1");
        assert_eq!(got["spec"], json!({"watts": 5, "bulbs": 1}), "pruned by the schema of its version");
        let changed = patch(cluster, old, MERGE, &json!({"spec": {"watts": 9}})).await;
        assert_eq!(changed.code, 200, "{}", changed.json());
        let stored = get(cluster, &format!("{LAMPS}/a")).await;
        assert_eq!(
            (&stored["apiVersion"], &stored["spec"]["watts"]),
            (&json!("shop.example.com/v1"), &json!(9))
        );
    });
}

#[test]
fn conflicting_names_are_accepted_when_their_owner_is_deleted() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let mut rival = lamps();
        rival["metadata"]["name"] = json!("torches.shop.example.com");
        rival["spec"]["names"] =
            json!({"plural": "torches", "singular": "torch", "kind": "Lamp", "listKind": "TorchList"});
        let made = define(cluster, &rival).await;
        assert_eq!(condition(&made, "NamesAccepted")["reason"], "KindConflict");
        assert_eq!(condition(&made, "Established")["status"], "False");
        assert_eq!(call(cluster, "GET", "/apis/shop.example.com/v1/torches", &Value::Null).await.code, 404);
        let gone =
            call(cluster, "DELETE", &format!("{DEFINITIONS}/lamps.shop.example.com"), &Value::Null).await;
        assert_eq!(gone.code, 200, "{}", gone.json());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let rival = get(cluster, &format!("{DEFINITIONS}/torches.shop.example.com")).await;
        assert_eq!(condition(&rival, "Established")["status"], "True");
        get(cluster, "/apis/shop.example.com/v1/torches").await;
    });
}

#[test]
fn a_finalizer_without_a_domain_causes_a_warning() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let warned = |reply: &Reply| {
            let texts = reply.headers.get_all("warning").iter().map(|text| text.to_str().unwrap().to_owned());
            texts.collect::<Vec<_>>()
        };
        let said = |name: &str, path: &str| {
            format!(
                "299 - \"metadata.finalizers: \\\"{name}\\\": prefer a domain-qualified finalizer name{path} to avoid accidental \
                 conflicts with other finalizer writers\""
            )
        };
        let mut held = lamp("held", json!({"watts": 5}));
        held["metadata"]["finalizers"] = json!(["hold", "finalizer.example.com", "example.com/x", "orphan"]);
        let made = call(cluster, "POST", LAMPS, &held).await;
        assert_eq!(made.code, 201, "{}", made.json());
        let dotted = said("finalizer.example.com", " including a path (/)");
        assert_eq!(warned(&made), [dotted, said("hold", "")]);
        let path = format!("{LAMPS}/held");
        let labelled = patch(cluster, &path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!((labelled.code, warned(&labelled)), (200, vec![]), "it has them already");
        let more = patch(cluster, &path, MERGE, &json!({"metadata": {"finalizers": ["hold", "more"]}})).await;
        assert_eq!((more.code, warned(&more)), (200, vec![said("more", "")]));
        let wrong = patch(cluster, &path, MERGE, &json!({"metadata": {"finalizers": ["a b"]}})).await;
        assert_eq!(wrong.code, 422, "{}", wrong.json());
    });
}

#[test]
fn deleting_a_definition_deletes_its_objects_and_waits_for_their_finalizers() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        create(cluster, "a", json!({"watts": 5})).await;
        let held = create(cluster, "held", json!({"watts": 5})).await;
        let path = format!("{LAMPS}/held");
        let finalizers = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        assert_eq!(patch(cluster, &path, MERGE, &finalizers).await.code, 200);
        let definition = format!("{DEFINITIONS}/lamps.shop.example.com");
        let revision = held["metadata"]["resourceVersion"].as_str().unwrap();
        let text = format!("watch=1&timeoutSeconds=60&resourceVersion={revision}");
        let watching = query(cluster, LAMPS, &text);
        let ending = async {
            let marked = call(cluster, "DELETE", &definition, &Value::Null).await.json();
            assert_eq!(condition(&marked, "Terminating")["reason"], "InstanceDeletionPending");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let waiting = get(cluster, &definition).await;
            assert_eq!(condition(&waiting, "Terminating")["reason"], "InstanceDeletionInProgress");
            let left = get(cluster, LAMPS).await;
            assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
            let refused = call(cluster, "POST", LAMPS, &lamp("late", json!({"watts": 5}))).await;
            let text = "create not allowed while custom resource definition is terminating";
            assert_eq!(refused.code, 403);
            assert!(refused.text("/message").ends_with(text), "{}", refused.json());
            let freed = patch(cluster, &path, MERGE, &json!({"metadata": {"finalizers": null}})).await;
            assert_eq!(freed.code, 200, "{}", freed.json());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(call(cluster, "GET", &definition, &Value::Null).await.code, 404);
            assert_eq!(call(cluster, "GET", LAMPS, &Value::Null).await.code, 404);
        };
        let (watched, ()) = tokio::join!(watching, ending);
        let text = String::from_utf8_lossy(&watched.body).into_owned();
        assert_eq!(text.lines().filter(|line| line.contains(r#""type":"DELETED""#)).count(), 2, "{text}");
        define(cluster, &lamps()).await;
        assert_eq!(get(cluster, LAMPS).await["items"], json!([]), "no object returns");
    });
}

#[test]
fn deleting_a_namespace_deletes_its_custom_objects() {
    simulate(Setup::seed(1), async |cluster| {
        define(cluster, &lamps()).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "attic"}});
        assert_eq!(call(cluster, "POST", "/api/v1/namespaces", &namespace).await.code, 201);
        let attic = LAMPS.replace("default", "attic");
        assert_eq!(call(cluster, "POST", &attic, &lamp("a", json!({"watts": 5}))).await.code, 201);
        assert_eq!(call(cluster, "DELETE", "/api/v1/namespaces/attic", &Value::Null).await.code, 200);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(call(cluster, "GET", "/api/v1/namespaces/attic", &Value::Null).await.code, 404);
        assert_eq!(get(cluster, "/apis/shop.example.com/v1/lamps").await["items"], json!([]));
    });
}

#[test]
fn a_write_is_stored_only_under_the_definition_that_validated_it() {
    simulate(Setup::api_alone(), async |cluster| {
        let revision =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap();
        let made = define(cluster, &lamps()).await;
        let mut defaults = vec![(revision(&made), "white".to_owned())];
        let mut stored = Vec::new();
        for round in 0..20 {
            let colour = format!("shade-{round}");
            let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour/default";
            let change = json!([{"op": "replace", "path": pointer, "value": colour}]);
            let path = format!("{DEFINITIONS}/lamps.shop.example.com");
            let names: Vec<String> = (0..4).map(|n| format!("lamp-{round}-{n}")).collect();
            let creations = names.iter().map(|name| create(cluster, name, json!({"watts": 5})));
            let (changed, created) = tokio::join!(
                patch(cluster, &path, JSON_PATCH, &change),
                futures::future::join_all(creations)
            );
            assert_eq!(changed.code, 200, "{}", changed.json());
            defaults.push((revision(&changed.json()), colour));
            stored.extend(created);
        }
        for lamp in stored {
            let (_, colour) = defaults.iter().rev().find(|(since, _)| *since < revision(&lamp)).unwrap();
            assert_eq!(lamp["spec"]["colour"], json!(colour), "revision {}", revision(&lamp));
        }
    });
}
