//! Server-side apply over REST and gRPC: field ownership after two managers, updates, resets, and writes of
//! status and scale.

use kstore_proto::kstore::v1 as pb;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use pb::kstore_client::KstoreClient;
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

fn config(spec: &Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": spec })
}

/// An applied configuration of one manager; `extra` is merged into the spec.
fn wanted(extra: &Value) -> Value {
    let labels = json!({ "app": "web" });
    let mut spec = json!({ "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } } });
    for (name, value) in extra.as_object().unwrap() {
        spec[name] = value.clone();
    }
    config(&spec)
}

async fn patch(cluster: &Cluster, path: &str, kind: &str, query: &str, body: &Value) -> Reply {
    cluster.rest().call_as("PATCH", &format!("{path}?{query}"), kind, body.to_string()).await
}

async fn apply(cluster: &Cluster, query: &str, body: &Value) -> Reply {
    patch(cluster, WEB, APPLY, query, body).await
}

async fn apply_ok(cluster: &Cluster, query: &str, body: &Value) -> Value {
    let reply = apply(cluster, query, body).await;
    assert!(reply.code < 300, "{} {}", reply.code, reply.text("/message"));
    reply.json()
}

/// Manager, operation, subresource and apiVersion of each managed fields entry, in order.
fn managed_entries(object: &Value) -> Vec<String> {
    let books = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let line = |entry: &Value| {
        ["manager", "operation", "subresource", "apiVersion"].map(|n| text(entry, n)).join(" ")
    };
    books.iter().map(line).collect()
}

fn owned_fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let books = object["metadata"]["managedFields"].as_array().unwrap();
    let mut found = books.iter().filter(|entry| entry["manager"] == manager);
    let entry = found.next().unwrap_or_else(|| panic!("{manager} owns nothing of {object}"));
    assert!(found.next().is_none(), "{manager} has two entries");
    &entry["fieldsV1"]
}

#[test]
fn two_managers_share_fields_conflict_force_and_release_ownership() {
    simulate(Setup::api_alone(), async |cluster| {
        let created = apply(cluster, "fieldManager=one", &wanted(&json!({ "replicas": 3 }))).await;
        assert_eq!(
            (created.code, managed_entries(&created.json())),
            (201, vec!["one Apply  apps/v1".to_owned()])
        );
        assert!(
            owned_fields(&created.json(), "one")["f:spec"].get("f:strategy").is_none(),
            "defaults have no owner"
        );
        let shared = apply_ok(cluster, "fieldManager=two", &config(&json!({ "replicas": 3 }))).await;
        assert_eq!(owned_fields(&shared, "two"), &json!({ "f:spec": { "f:replicas": {} } }));
        let refused = apply(cluster, "fieldManager=two", &config(&json!({ "replicas": 4 }))).await;
        assert_eq!((refused.code, refused.text("/reason").as_str()), (409, "Conflict"));
        let text = "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas";
        assert_eq!(refused.text("/message"), text);
        let cause = json!({ "reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.replicas" });
        assert_eq!(refused.json()["details"], json!({ "causes": [cause] }));
        let forced =
            apply_ok(cluster, "fieldManager=two&force=true", &config(&json!({ "replicas": 4 }))).await;
        assert_eq!(forced["spec"]["replicas"], 4);
        assert!(owned_fields(&forced, "one")["f:spec"].get("f:replicas").is_none());
        let left = apply_ok(cluster, "fieldManager=one", &wanted(&json!({}))).await;
        assert_eq!(left["spec"]["replicas"], 4, "two still wants it");
        let nothing = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
        let gone = apply_ok(cluster, "fieldManager=two", &nothing).await;
        assert_eq!(gone["spec"]["replicas"], 1, "no manager sets it: the default");
        assert_eq!(managed_entries(&gone), ["one Apply  apps/v1"]);
    });
}

#[test]
fn applying_the_same_again_writes_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        // Zero values that the stored object omits, and quantities in another notation than the stored one.
        let resources = json!({ "requests": { "cpu": "1000m" } });
        let containers = json!([{ "name": "c", "image": "i", "resources": resources, "tty": false }]);
        let labels = json!({ "app": "web" });
        let spec = json!({ "paused": false, "minReadySeconds": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } } });
        let first = apply_ok(cluster, "fieldManager=one", &config(&spec)).await;
        let revision = cluster.store().revision();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let again = apply_ok(cluster, "fieldManager=one", &config(&spec)).await;
        assert_eq!((again, cluster.store().revision()), (first, revision));
    });
}

#[test]
fn a_dry_run_apply_reports_the_result_and_stores_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        let revision = cluster.store().revision();
        let reply = apply(cluster, "fieldManager=one&dryRun=All", &wanted(&json!({}))).await;
        assert_eq!((reply.code, managed_entries(&reply.json()).len()), (201, 1));
        assert_eq!(cluster.store().revision(), revision);
        assert_eq!(cluster.rest().call("GET", WEB, "").await.code, 404);
    });
}

#[test]
fn invalid_apply_configurations_are_refused_with_the_reason() {
    simulate(Setup::api_alone(), async |cluster| {
        apply_ok(cluster, "fieldManager=one", &wanted(&json!({}))).await;
        let two = json!([{ "name": "c", "image": "i" }, { "name": "c", "image": "j" }]);
        let mut named = wanted(&json!({}));
        named["metadata"]["name"] = json!("other");
        let mut books = wanted(&json!({}));
        books["metadata"]["managedFields"] = json!([]);
        let object = "(/web; apps/v1, Kind=Deployment)";
        let cases = [
            (json!({ "kind": "Deployment" }), "invalid object type: /, Kind=Deployment".to_owned()),
            (json!({ "apiVersion": "v1", "kind": "Deployment" }), "invalid object type: /v1, Kind=Deployment".to_owned()),
            (json!(null), "invalid object type: /, Kind=".to_owned()),
            (
                json!([]),
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of \
                 type map[string]interface {}".to_owned(),
            ),
            (named, "the name of the object (other) does not match the name on the URL (web)".to_owned()),
            (books, "metadata.managedFields must be nil".to_owned()),
            (
                config(&json!({ "template": { "spec": { "containers": two } } })),
                format!("failed to create typed patch object {object}: .spec.template.spec.containers: duplicate entries for key [name=\"c\"]"),
            ),
            (
                config(&json!({ "replicaz": 1 })),
                format!("failed to create typed patch object {object}: .spec.replicaz: field not declared in schema"),
            ),
            (
                config(&json!({ "replicas": "three" })),
                format!("failed to create typed patch object {object}: .spec.replicas: expected numeric (int or float), got string"),
            ),
        ];
        let revision = cluster.store().revision();
        for (body, want) in cases {
            let reply = apply(cluster, "fieldManager=one", &body).await;
            let answer = (reply.code, reply.text("/reason"), reply.text("/message"));
            // Kubernetes uses no specific status for a configuration that does not match its schema.
            let (code, reason) =
                if want.contains("typed patch object") { (500, "") } else { (400, "BadRequest") };
            assert_eq!(answer, (code, reason.to_owned(), want));
        }
        let anonymous = cluster.rest().call_as("PATCH", WEB, APPLY, wanted(&json!({})).to_string()).await;
        assert_eq!(anonymous.code, 422, "{}", anonymous.text("/message"));
        assert_eq!(cluster.store().revision(), revision);
    });
}

#[test]
fn duplicate_keys_of_a_configuration_are_reported_with_their_lines() {
    simulate(Setup::api_alone(), async |cluster| {
        let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: u\n  l: v\n  k: w\n";
        let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=one";
        let send =
            async |query: &str| cluster.rest().call_as("PATCH", &format!("{path}{query}"), APPLY, yaml).await;
        let strict = send("&fieldValidation=Strict").await;
        let text = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 8: key \"k\" already set in map";
        assert_eq!((strict.code, strict.text("/message").as_str()), (400, text));
        let warned = send("").await;
        assert_eq!((warned.code, warned.text("/data/k").as_str()), (201, "w"));
        assert_eq!(
            warned.headers["warning"].to_str().unwrap(),
            r#"299 - "line 8: key \"k\" already set in map""#
        );
        let created = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict";
        let again = cluster.rest().call_as("POST", created, "application/yaml", yaml).await;
        let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 8: key \"k\" already set in map";
        assert_eq!((again.code, again.text("/message").as_str()), (400, text));
    });
}

/// A pod manifest with further fields after its containers.
fn pod(spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, image: i}}]{spec}}}\n"
    )
}

const OLD: &str = ", nodeSelector: {beta.kubernetes.io/os: linux}";
const DEPRECATED: &str =
    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead";
const TWICE: &str = ", nodeSelector: {x: a, x: b}";
const REPEATED: &str = "line 4: key \"x\" already set in map";
const REFUSED: &str = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 4: key \"x\" already set in map";

#[test]
fn apply_returns_warnings_about_the_applied_object() {
    simulate(Setup::api_alone(), async |cluster| {
        // Fields after the containers, query options, code and message of the answer, and its warnings.
        let cases: [(&str, &str, u16, &str, &[&str]); 9] = [
            (TWICE, "&fieldValidation=Strict", 400, REFUSED, &[]),
            (OLD, "&dryRun=All", 201, "", &[DEPRECATED]),
            (TWICE, "&dryRun=All", 201, "", &[REPEATED]),
            (TWICE, "&fieldValidation=Ignore&dryRun=All", 201, "", &[]),
            (&format!(", restartPolicy: Maybe{OLD}"), "", 422, "restartPolicy", &[]),
            (OLD, "", 201, "", &[DEPRECATED]),
            (OLD, "&fieldValidation=Strict", 200, "", &[]),
            (&format!(", nodeName: elsewhere{TWICE}"), "", 422, "Forbidden", &[REPEATED]),
            (", odd: 1", "&fieldValidation=Ignore", 500, ".spec.odd: field not declared in schema", &[]),
        ];
        for (spec, query, code, message, said) in cases {
            let path = format!("/api/v1/namespaces/default/pods/p?fieldManager=one{query}");
            let reply = cluster.rest().call_as("PATCH", &path, APPLY, pod(spec)).await;
            let text = reply.text("/message");
            assert!(reply.code == code && text.contains(message), "{spec} {query}: {} {text}", reply.code);
            let headers = reply.headers.get_all("warning").iter();
            let warnings: Vec<_> = headers.map(|w| w.to_str().unwrap().replace('\\', "")).collect();
            let said: Vec<_> = said.iter().map(|text| format!("299 - \"{text}\"")).collect();
            assert_eq!(warnings, said, "{spec} {query}");
        }
    });
}

#[test]
fn grpc_apply_decodes_configurations_as_strictly_as_rest() {
    simulate(Setup::api_alone(), async |cluster| {
        let place = pb::Ref {
            version: "v1".into(),
            resource: "pods".into(),
            namespace: "default".into(),
            name: "p".into(),
            ..pb::Ref::default()
        };
        let patch = |spec: &str, validation: pb::FieldValidation| pb::PatchRequest {
            r#ref: Some(place.clone()),
            r#type: pb::patch_request::Type::Apply.into(),
            patch: pod(spec).into(),
            field_validation: validation.into(),
            force: true,
            dry_run: true,
        };
        let mut grpc = KstoreClient::new(cluster.in_process());
        let applied = grpc.patch(patch(OLD, pb::FieldValidation::Warn)).await.unwrap();
        let said = |metadata: &tonic::metadata::MetadataMap| {
            let texts = metadata.get_all_bin("kstore-warning-bin").iter();
            texts
                .map(|text| String::from_utf8(text.to_bytes().unwrap().to_vec()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(said(applied.metadata()), [DEPRECATED]);
        let twice = grpc.patch(patch(TWICE, pb::FieldValidation::Warn)).await.unwrap();
        assert_eq!(said(twice.metadata()), [REPEATED]);
        let ignored = grpc.patch(patch(TWICE, pb::FieldValidation::Ignore)).await.unwrap();
        assert_eq!(said(ignored.metadata()), [""; 0]);
        let strict = grpc.patch(patch(TWICE, pb::FieldValidation::Strict)).await.unwrap_err();
        assert_eq!((strict.code(), strict.message()), (tonic::Code::InvalidArgument, REFUSED));
    });
}

#[test]
fn an_apply_with_the_identity_of_another_object_is_a_conflict() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut foreign = wanted(&json!({}));
        foreign["metadata"]["uid"] = json!("other");
        let absent = apply(cluster, "fieldManager=one", &foreign).await;
        assert_eq!(absent.code, 409);
        let text = "uid mismatch: the provided object specified uid other, and no existing object was found";
        assert!(absent.text("/message").ends_with(text), "{}", absent.text("/message"));
        let mut versioned = wanted(&json!({}));
        versioned["metadata"]["resourceVersion"] = json!("1");
        assert_eq!(apply(cluster, "fieldManager=one", &versioned).await.code, 201);
        assert_eq!(apply(cluster, "fieldManager=one", &foreign).await.code, 409);
        assert_eq!(
            apply(cluster, "fieldManager=one", &versioned).await.code,
            409,
            "the object has been modified"
        );
    });
}

#[test]
fn updates_own_the_fields_they_change_and_release_those_they_remove() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut object = wanted(&json!({ "replicas": 3, "minReadySeconds": 7 }));
        object["metadata"]["labels"] = json!({ "a": "1", "b": "1" });
        apply_ok(cluster, "fieldManager=one", &object).await;
        let body = json!({ "metadata": { "labels": { "a": null, "b": "2" } }, "spec": { "replicas": 5 } });
        let merged = patch(cluster, WEB, MERGE, "fieldManager=two", &body).await.json();
        assert_eq!(
            owned_fields(&merged, "two"),
            &json!({ "f:metadata": { "f:labels": { "f:b": {} } }, "f:spec": { "f:replicas": {} } })
        );
        let one = owned_fields(&merged, "one");
        assert_eq!((one["f:metadata"].get("f:labels"), one["f:spec"].get("f:replicas")), (None, None));
        assert!(one["f:spec"].get("f:minReadySeconds").is_some());
        assert_eq!(managed_entries(&merged), ["one Apply  apps/v1", "two Update  apps/v1"]);
        let refused = apply(cluster, "fieldManager=one", &object).await;
        let text = "Apply failed with 2 conflicts: conflicts with \"two\" using apps/v1:\n- .metadata.labels.b\n- .spec.replicas";
        assert_eq!((refused.code, refused.text("/message").as_str()), (409, text));
    });
}

#[test]
fn managed_fields_start_at_creation_without_fields_that_admission_adds() {
    simulate(Setup::api_alone(), async |cluster| {
        let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
            "status": { "phase": "Running" } });
        let created = cluster
            .rest()
            .call("POST", "/api/v1/namespaces/default/pods?fieldManager=me", pod.to_string())
            .await;
        let created = created.json();
        assert!(created["spec"]["tolerations"].is_array(), "admission adds tolerations");
        let spec = json!({
            "f:containers": { "k:{\"name\":\"c\"}": { ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {} } },
            "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
            "f:securityContext": {}, "f:terminationGracePeriodSeconds": {} });
        assert_eq!(owned_fields(&created, "me"), &json!({ "f:spec": spec }));
    });
}

#[test]
fn an_update_that_changes_nothing_writes_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        let object = apply_ok(cluster, "fieldManager=one", &wanted(&json!({}))).await;
        let revision = cluster.store().revision();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        // This endpoint does not write the status: a status in the body is attributed to no manager.
        let mut body = object.clone();
        body["status"]["replicas"] = json!(9);
        let put = cluster.rest().call("PUT", &format!("{WEB}?fieldManager=two"), body.to_string()).await;
        assert_eq!((put.code, put.json()), (200, object));
        assert_eq!(cluster.store().revision(), revision);
    });
}

#[test]
fn clients_may_reset_managed_fields_but_not_through_a_subresource_or_with_invalid_entries() {
    simulate(Setup::api_alone(), async |cluster| {
        let put = async |path: &str, object: &Value| {
            let reply =
                cluster.rest().call("PUT", &format!("{path}?fieldManager=two"), object.to_string()).await;
            assert_eq!(reply.code, 200, "{}", reply.text("/message"));
            reply.json()
        };
        for reset in [json!([]), json!([{}])] {
            let mut object = apply_ok(cluster, "fieldManager=one", &wanted(&json!({}))).await;
            object["metadata"]["managedFields"] = json!([{ "manager": "x", "operation": "Sideways" }]);
            assert_eq!(managed_entries(&put(WEB, &object).await), ["one Apply  apps/v1"]);
            object["metadata"]["managedFields"] = reset.clone();
            assert_eq!(
                managed_entries(&put(&format!("{WEB}/status"), &object).await),
                ["one Apply  apps/v1"]
            );
            assert_eq!(managed_entries(&put(WEB, &object).await), Vec::<String>::new());
            let patched =
                patch(cluster, WEB, MERGE, "fieldManager=two", &json!({ "spec": { "paused": true } })).await;
            assert_eq!(
                managed_entries(&patched.json()),
                Vec::<String>::new(),
                "not kept until the next apply"
            );
            let begun = apply_ok(cluster, "fieldManager=one&force=true", &wanted(&json!({}))).await;
            assert_eq!(managed_entries(&begun), ["one Apply  apps/v1", "before-first-apply Update  apps/v1"]);
            assert_eq!(cluster.rest().call("DELETE", WEB, "").await.code, 200);
        }
        let mut object = apply_ok(cluster, "fieldManager=one", &wanted(&json!({}))).await;
        object["metadata"]["managedFields"][0]["manager"] = json!("renamed");
        assert_eq!(managed_entries(&put(WEB, &object).await), ["renamed Apply  apps/v1"]);
    });
}

#[test]
fn status_fields_have_their_own_managers() {
    simulate(Setup::api_alone(), async |cluster| {
        apply_ok(cluster, "fieldManager=one", &wanted(&json!({ "replicas": 2 }))).await;
        let condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": "R", "message": "m" });
        let status = |conditions: Value| {
            let mut body = config(&json!({ "replicas": 9 }));
            body["status"] = json!({ "conditions": conditions });
            body
        };
        let path = format!("{WEB}/status");
        let first =
            patch(cluster, &path, APPLY, "fieldManager=a", &status(json!([condition("A")]))).await.json();
        assert_eq!(first["spec"]["replicas"], 2);
        let both =
            patch(cluster, &path, APPLY, "fieldManager=b", &status(json!([condition("B")]))).await.json();
        assert_eq!(both["status"]["conditions"].as_array().unwrap().len(), 2);
        assert_eq!(
            managed_entries(&both),
            ["a Apply status apps/v1", "b Apply status apps/v1", "one Apply  apps/v1"]
        );
        let only = owned_fields(&both, "a");
        assert_eq!(
            (only.get("f:spec"), only["f:status"]["f:conditions"].as_object().unwrap().len()),
            (None, 1)
        );
        let mut other = condition("A");
        other["status"] = json!("False");
        let refused =
            patch(cluster, &path, APPLY, "fieldManager=b", &status(json!([condition("B"), other]))).await;
        let text = "Apply failed with 1 conflict: conflict with \"a\" with subresource \"status\": .status.conditions[type=\"A\"].status";
        assert_eq!((refused.code, refused.text("/message").as_str()), (409, text));
        let absent = patch(
            cluster,
            &format!("{DEPLOYMENTS}/none/status"),
            APPLY,
            "fieldManager=a",
            &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "status": {} }),
        )
        .await;
        assert_eq!(absent.code, 404);
    });
}

#[test]
fn replicas_have_one_manager_whether_written_through_scale_or_not() {
    simulate(Setup::api_alone(), async |cluster| {
        apply_ok(cluster, "fieldManager=one", &wanted(&json!({ "replicas": 2 }))).await;
        let scale = format!("{WEB}/scale");
        let number = |n: i64| json!({ "spec": { "replicas": n } });
        let scaled = patch(cluster, &scale, MERGE, "fieldManager=hpa", &number(5)).await;
        assert_eq!((scaled.code, scaled.json()["spec"]["replicas"].as_i64()), (200, Some(5)));
        let object = cluster.rest().call("GET", WEB, "").await.json();
        assert_eq!(managed_entries(&object), ["one Apply  apps/v1", "hpa Update scale apps/v1"]);
        assert_eq!(owned_fields(&object, "hpa"), &json!({ "f:spec": { "f:replicas": {} } }));
        assert!(owned_fields(&object, "one")["f:spec"].get("f:replicas").is_none());
        let refused = apply(cluster, "fieldManager=one", &wanted(&json!({ "replicas": 2 }))).await;
        let text = "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas";
        assert_eq!((refused.code, refused.text("/message").as_str()), (409, text));

        let config = |n: i64| json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "web" }, "spec": { "replicas": n } });
        let refused = patch(cluster, &scale, APPLY, "fieldManager=two", &config(7)).await;
        let text = "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using autoscaling/v1: .spec.replicas";
        assert_eq!((refused.code, refused.text("/message").as_str()), (409, text));
        assert_eq!(patch(cluster, &scale, APPLY, "fieldManager=two&force=true", &config(7)).await.code, 200);
        let object = cluster.rest().call("GET", WEB, "").await.json();
        assert_eq!(managed_entries(&object), ["two Apply scale apps/v1", "one Apply  apps/v1"]);

        let revision = cluster.store().revision();
        let same = patch(cluster, &scale, MERGE, "fieldManager=other", &number(7)).await;
        assert_eq!((same.code, cluster.store().revision()), (200, revision));
        let wrong =
            patch(cluster, &scale, MERGE, "fieldManager=x", &json!({ "spec": { "replicas": "x" } })).await;
        assert_eq!((wrong.code, wrong.text("/details/causes/0/field").as_str()), (422, "patch"));
        let negative = patch(cluster, &scale, MERGE, "fieldManager=x", &number(-1)).await;
        assert_eq!((negative.code, negative.text("/reason").as_str()), (422, "Invalid"));
        assert_eq!(cluster.store().revision(), revision);
    });
}

#[test]
fn entries_in_another_version_of_the_kind_own_the_same_fields() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = |version: &str| {
            format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/web")
        };
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let one = json!({ "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
            "spec": { "scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80 } });
        let created = patch(cluster, &path("v1"), APPLY, "fieldManager=one", &one).await;
        assert_eq!(created.code, 201, "{}", created.text("/message"));
        let metric = |percent: i64| {
            json!({ "type": "Resource", "resource": { "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": percent } } })
        };
        let two = |max: i64, percent: i64| {
            json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "spec": { "scaleTargetRef": target, "maxReplicas": max, "metrics": [metric(percent)] } })
        };
        let shared = patch(cluster, &path("v2"), APPLY, "fieldManager=two", &two(5, 80)).await;
        assert_eq!(shared.code, 200, "{}", shared.text("/message"));
        assert_eq!(
            managed_entries(&shared.json()),
            ["two Apply  autoscaling/v2", "one Apply  autoscaling/v1"]
        );
        let refused = patch(cluster, &path("v2"), APPLY, "fieldManager=two", &two(5, 50)).await;
        let text =
            "Apply failed with 1 conflict: conflict with \"one\": .spec.targetCPUUtilizationPercentage";
        assert_eq!((refused.code, refused.text("/message").as_str()), (409, text));
        let forced =
            patch(cluster, &path("v2"), APPLY, "fieldManager=two&force=true", &two(7, 50)).await.json();
        let left = owned_fields(&forced, "one");
        assert_eq!(
            (left["f:spec"].get("f:maxReplicas"), left["f:spec"].get("f:targetCPUUtilizationPercentage")),
            (None, None)
        );
        let seen = cluster.rest().call("GET", &path("v1"), "").await.json();
        assert_eq!(seen["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(managed_entries(&seen), managed_entries(&forced));
    });
}

#[test]
fn an_object_too_large_with_managed_fields_is_stored_without_them_unless_applied() {
    simulate(Setup::api_alone(), async |cluster| {
        let map = |keys: usize, value: &str| {
            let data: serde_json::Map<String, Value> =
                (0..keys).map(|n| (format!("{n:0>100}"), json!(value))).collect();
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
        };
        let (all, one) = ("/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a");
        let large = map(9_000, "v");
        let send = async |method: &str, path: &str, kind: &str, body: &Value| {
            cluster.rest().call_as(method, &format!("{path}?fieldManager=one"), kind, body.to_string()).await
        };
        let json = "application/json";
        let made = send("POST", all, json, &large).await;
        assert_eq!((made.code, made.json()["metadata"].get("managedFields")), (201, None));
        let put = send("PUT", one, json, &map(9_000, "w")).await;
        assert_eq!(
            (put.code, managed_entries(&put.json()).len()),
            (200, 0),
            "an object without managed fields gets none"
        );
        let applied = send("PATCH", one, APPLY, &map(9_000, "w")).await;
        assert_eq!((applied.code, applied.text("/reason").as_str()), (413, "RequestEntityTooLarge"));
        let small = send("DELETE", one, json, &json!({})).await;
        assert_eq!(small.code, 200);
        let booked = send("POST", all, json, &map(10, "v")).await;
        assert_eq!((booked.code, managed_entries(&booked.json()).len()), (201, 1));
        let mut grown = large.clone();
        grown["metadata"]["labels"] = json!({ "a": "b" });
        let patched = send("PATCH", one, MERGE, &grown).await;
        assert_eq!((patched.code, managed_entries(&patched.json()).len()), (200, 0));
        let refused = send("PUT", one, json, &map(16_000, "v")).await;
        assert_eq!(refused.code, 413, "too large without them, too");
    });
}

#[test]
fn kubectl_migrates_from_client_side_apply_and_keeps_the_annotation() {
    simulate(Setup::api_alone(), async |cluster| {
        const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
        let mut object = wanted(&json!({ "replicas": 2 }));
        object["metadata"]["annotations"] = json!({ LAST: wanted(&json!({ "replicas": 2 })).to_string() });
        let query = "fieldManager=kubectl-client-side-apply";
        let created =
            cluster.rest().call("POST", &format!("{DEPLOYMENTS}?{query}"), object.to_string()).await;
        assert_eq!(created.code, 201);
        let taken = apply_ok(cluster, "fieldManager=kubectl", &wanted(&json!({ "replicas": 3 }))).await;
        assert_eq!(taken["spec"]["replicas"], 3);
        assert!(owned_fields(&taken, "kubectl-client-side-apply")["f:spec"].get("f:replicas").is_none());
        let last: Value =
            serde_json::from_str(taken["metadata"]["annotations"][LAST].as_str().unwrap()).unwrap();
        assert_eq!(last["spec"]["replicas"], 3);
        assert_eq!(last["metadata"].get("annotations"), None);
        let other = apply(cluster, "fieldManager=me", &wanted(&json!({ "replicas": 4 }))).await;
        assert_eq!(other.code, 409, "another manager takes nothing over");
    });
}
