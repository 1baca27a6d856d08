//! Options in queries and bodies: the effect of each value, and validation of options.

use super::{CONFIG_MAPS, DEPLOYMENTS, case, run, send, warnings};
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "dada": {}})
}

#[test]
fn invalid_options_are_refused_with_their_kind() {
    simulate(Setup::api_alone(), async |cluster| {
        let one = format!("{CONFIG_MAPS}/a");
        let with = |path: &str, query: &str| format!("{path}?{query}");
        let invalid = |kind: &str, text: &str| {
            json!({"reason": "Invalid", "message": format!("{kind}.meta.k8s.io \"\" is invalid: {text}"),
                "details": {"kind": kind, "group": "meta.k8s.io"}})
        };
        let dry = "dryRun: Unsupported value: [\"some\"]: supported values: \"All\"";
        let long = "m".repeat(129);
        run(cluster, [
            case("dryRun of create", ("POST", &with(CONFIG_MAPS, "dryRun=some")), map("a"), 422, invalid("CreateOptions", dry)),
            case("dryRun of update", ("PUT", &with(&one, "dryRun=some")), map("a"), 422, invalid("UpdateOptions", dry)),
            case("dryRun of patch", ("PATCH", &with(&one, "dryRun=some")), json!({}), 422, invalid("PatchOptions", dry)),
            case("dryRun of delete", ("DELETE", &with(&one, "dryRun=some")), Value::Null, 422, invalid("DeleteOptions", dry)),
            case("dryRun in a body", ("DELETE", &one), json!({"dryRun": ["some"]}), 422, invalid("DeleteOptions", dry)),
            case("fieldValidation", ("POST", &with(CONFIG_MAPS, "fieldValidation=maybe")), map("a"), 422,
                invalid("CreateOptions", "fieldValidation: Unsupported value: \"maybe\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"")),
            case("a long manager", ("PATCH", &with(&one, &format!("fieldManager={long}"))), json!({}), 422,
                invalid("PatchOptions", "fieldManager: Too long: may not be more than 128 bytes")),
            case("an unprintable manager", ("POST", &with(CONFIG_MAPS, "fieldManager=a%07")), map("a"), 422,
                json!({"message": "~fieldManager: Invalid value: "})),
            case("force without apply", ("PATCH", &with(&one, "force=true")), json!({}), 422,
                invalid("PatchOptions", "force: Forbidden: may not be specified for non-apply patch")),
            case("a policy", ("DELETE", &with(&one, "propagationPolicy=Sideways")), Value::Null, 422, invalid("DeleteOptions",
                "propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"")),
            case("two policies", ("DELETE", &one), json!({"propagationPolicy": "Orphan", "orphanDependents": true}), 422,
                invalid("DeleteOptions", "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set")),
            case("a timeout without unit", ("GET", &with(CONFIG_MAPS, "timeout=5")), Value::Null, 400,
                json!({"reason": "BadRequest", "message": "invalid timeout specified in the request URL - time: missing unit in duration \"5\""})),
            case("a timeout", ("GET", &with(CONFIG_MAPS, "timeout=32s")), Value::Null, 200, json!({})),
        ]).await;
    });
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn a_dry_run_does_everything_except_storing() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("there", "1")).await;
        cluster.create(manifests::deployment("web", 1)).await;
        let before = cluster.store().revision();
        let there = format!("{CONFIG_MAPS}/there?dryRun=All");
        let service =
            json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        run(
            cluster,
            [
                case(
                    "create",
                    ("POST", &format!("{CONFIG_MAPS}?dryRun=All")),
                    json!({"metadata": {"name": "a"}}),
                    201,
                    json!({"metadata": {"name": "a", "resourceVersion": null}}),
                ),
                case(
                    "of a taken name",
                    ("POST", &format!("{CONFIG_MAPS}?dryRun=All")),
                    json!({"metadata": {"name": "there"}}),
                    409,
                    json!({}),
                ),
                case(
                    "of nonsense",
                    ("POST", &format!("{CONFIG_MAPS}?dryRun=All")),
                    json!({"metadata": {"name": "Not Good"}}),
                    422,
                    json!({}),
                ),
                case(
                    "update",
                    ("PUT", &there),
                    manifests::config_map("there", "2"),
                    200,
                    json!({"data": {"value": "2"}}),
                ),
                case(
                    "patch",
                    ("PATCH", &there),
                    json!({"data": {"value": "3"}}),
                    200,
                    json!({"data": {"value": "3"}}),
                ),
                case(
                    "scale",
                    ("PATCH", &format!("{DEPLOYMENTS}/web/scale?dryRun=All")),
                    json!({"spec": {"replicas": 5}}),
                    200,
                    json!({"spec": {"replicas": 5}}),
                ),
                case("delete", ("DELETE", &there), Value::Null, 200, json!({"status": "Success"})),
                case(
                    "delete by body",
                    ("DELETE", &format!("{CONFIG_MAPS}/there")),
                    json!({"dryRun": ["All"]}),
                    200,
                    json!({"status": "Success"}),
                ),
                case(
                    "delete collection",
                    ("DELETE", &format!("{CONFIG_MAPS}?dryRun=All")),
                    Value::Null,
                    200,
                    json!({"kind": "ConfigMapList"}),
                ),
                case(
                    "a service, with its addresses",
                    ("POST", "/api/v1/namespaces/default/services?dryRun=All"),
                    service,
                    201,
                    json!({"spec": {"clusterIP": "~10."}}),
                ),
            ],
        )
        .await;
        assert_eq!(cluster.store().revision(), before, "nothing was written, no address or port was taken");
    });
}

#[test]
fn unknown_fields_are_ignored_warned_of_or_refused() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = |validation: &str| format!("{CONFIG_MAPS}?fieldValidation={validation}");
        let quiet = send(cluster, "POST", &path("Ignore"), &map("a")).await;
        assert_eq!((quiet.code, warnings(&quiet)), (201, vec![]));
        for (name, query) in [("b", ""), ("c", "Warn")] {
            let warned = send(cluster, "POST", &path(query), &map(name)).await;
            assert_eq!(
                (warned.code, warnings(&warned)),
                (201, vec!["299 - \"unknown field \\\"dada\\\"\"".to_owned()]),
                "Warn is the default"
            );
        }
        let strict = send(cluster, "POST", &path("Strict"), &map("d")).await;
        let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dada\"";
        assert_eq!((strict.code, strict.text("/message")), (400, text.to_owned()));
        let twice = r#"{"metadata":{"name":"e"},"data":{"a":"1"},"data":{"a":"2"}}"#;
        let warned = cluster.rest().call("POST", CONFIG_MAPS, twice).await;
        assert_eq!(
            (warned.code, warnings(&warned)),
            (201, vec!["299 - \"duplicate field \\\"data\\\"\"".to_owned()])
        );
        let patch =
            send(cluster, "PATCH", &format!("{CONFIG_MAPS}/a?fieldValidation=Strict"), &json!({"dada": 1}))
                .await;
        assert_eq!((patch.code, patch.text("/reason")), (422, "Invalid".to_owned()));
    });
}

#[test]
fn warnings_are_truncated_to_fit_the_headers() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut body = json!({"metadata": {"name": "a"}});
        for n in 0..40 {
            body[format!("{n:0>300}")] = json!(1);
        }
        let reply = send(cluster, "POST", CONFIG_MAPS, &body).await;
        let said = warnings(&reply);
        assert_eq!((reply.code, said.len()), (201, 16));
        assert!(said.iter().all(|warning| warning.chars().count() < 256 + 20));
    });
}

#[test]
fn delete_options_are_read_from_a_body_in_any_encoding_or_from_the_query() {
    simulate(Setup::api_alone(), async |cluster| {
        for name in ["json", "yaml", "query", "old"] {
            cluster.create(manifests::deployment(name, 1)).await;
        }
        let held = json!(["foregroundDeletion"]);
        let one = |name: &str| format!("{DEPLOYMENTS}/{name}");
        let json_body =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"})
                .to_string();
        let yaml_body =
            "kind: DeleteOptions\napiVersion: meta.k8s.io/v1\npropagationPolicy: Foreground\n".to_owned();
        for (name, content_type, query, body) in [
            ("json", "application/json", "", json_body),
            ("yaml", "application/yaml", "", yaml_body),
            ("query", "application/json", "?propagationPolicy=Foreground", String::new()),
        ] {
            let reply =
                cluster.rest().call_as("DELETE", &format!("{}{query}", one(name)), content_type, body).await;
            assert_eq!((reply.code, &reply.json()["metadata"]["finalizers"]), (200, &held), "{name}");
        }
        let reply =
            send(cluster, "DELETE", &format!("{}?orphanDependents=true", one("old")), &Value::Null).await;
        assert_eq!(reply.json()["metadata"]["finalizers"], json!(["orphan"]));
    });
}
