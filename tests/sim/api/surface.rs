//! The HTTP surface: meaning of URLs and methods, order of checks, decoding of bodies and encoding of
//! answers.

use super::{CONFIG_MAPS, DEPLOYMENTS, PODS, ask, case, names, run, send, send_with};
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Rest, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Grants jane this rule in `default`.
async fn allow(cluster: &Cluster, name: &str, rule: Value) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    cluster.create(role).await;
    cluster.create(binding).await;
}

fn jane(cluster: &Cluster) -> Rest {
    cluster.rest_as(UserInfo::new("jane", ["system:authenticated"]))
}

fn warnings(reply: &Reply) -> Vec<String> {
    super::warnings(reply)
}

#[test]
fn subresources_of_namespaces_take_precedence_over_resource_collections() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("status", "1")).await;
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "default"}});
        let missing = json!({"reason": "NotFound"});
        run(
            cluster,
            [
                case(
                    "the namespace",
                    ("GET", "/api/v1/namespaces/default"),
                    Value::Null,
                    200,
                    namespace.clone(),
                ),
                case("its status", ("GET", "/api/v1/namespaces/default/status"), Value::Null, 200, namespace),
                case(
                    "finalize is only written",
                    ("GET", "/api/v1/namespaces/default/finalize"),
                    Value::Null,
                    405,
                    json!({"reason": "MethodNotAllowed"}),
                ),
                case(
                    "a resource within",
                    ("GET", CONFIG_MAPS),
                    Value::Null,
                    200,
                    json!({"kind": "ConfigMapList"}),
                ),
                case(
                    "a name that is a word",
                    ("GET", &format!("{CONFIG_MAPS}/status")),
                    Value::Null,
                    200,
                    json!({"metadata": {"name": "status"}}),
                ),
                case(
                    "too deep",
                    ("GET", &format!("{CONFIG_MAPS}/status/a/b")),
                    Value::Null,
                    404,
                    missing.clone(),
                ),
                case(
                    "a cluster's resource within",
                    ("GET", "/api/v1/namespaces/default/nodes"),
                    Value::Null,
                    404,
                    missing,
                ),
                case(
                    "an escaped name",
                    ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Adiscovery"),
                    Value::Null,
                    200,
                    json!({"metadata": {"name": "system:discovery"}}),
                ),
            ],
        )
        .await;
    });
}

#[test]
fn the_watch_parameter_is_true_unless_false_or_zero() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        for (text, watches) in [
            ("watch=false", false),
            ("watch=0", false),
            ("watch=False", false),
            ("watch=1", true),
            ("watch=true", true),
            ("watch=yes", true),
            ("watch=", true),
            ("watch", true),
        ] {
            let reply =
                send(cluster, "GET", &format!("{CONFIG_MAPS}?{text}&timeoutSeconds=1"), &Value::Null).await;
            let has_event = reply.body.starts_with(b"{\"type\":\"ADDED\"");
            assert_eq!((reply.code, has_event), (200, watches), "{text}: {:?}", reply.body);
        }
    });
}

#[test]
fn authorization_sees_the_selected_namespace_and_name() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("mine", "1")).await;
        allow(cluster, "self", json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}))
            .await;
        let one = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["list", "watch", "get"]});
        allow(cluster, "one", one).await;
        let jane = jane(cluster);
        for (path, code) in [
            ("/api/v1/namespaces/default", 200),
            ("/api/v1/namespaces/kube-system", 403),
            ("/api/v1/namespaces", 403),
            (CONFIG_MAPS, 403),
            ("/api/v1/namespaces/default/configmaps/mine", 200),
            ("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dmine", 200),
            (
                "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dmine&watch=1&timeoutSeconds=1",
                200,
            ),
            ("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name!%3Dmine", 403),
            ("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dother", 403),
        ] {
            assert_eq!(jane.call("GET", path, "").await.code, code, "{path}");
        }
    });
}

#[test]
fn forbidden_takes_precedence_over_other_errors() {
    simulate(Setup::api_alone(), async |cluster| {
        let jane = jane(cluster);
        let said = |verb: &str, resource: &str, rest: &str| {
            format!(
                "{resource} is forbidden: User \"jane\" cannot {verb} resource \"{resource}\" in API group {rest}"
            )
        };
        let here = "\"\" in the namespace \"default\"";
        let one = format!("{CONFIG_MAPS}/a");
        let named = |verb: &str| {
            format!(
                "configmaps \"a\" is forbidden: User \"jane\" cannot {verb} resource \"configmaps\" in API group {here}"
            )
        };
        let body = "application/json";
        let table: [(&str, &str, &str, &str, String); 12] = [
            ("POST", CONFIG_MAPS, "text/plain", "x", said("create", "configmaps", here)),
            ("POST", CONFIG_MAPS, body, "{", said("create", "configmaps", here)),
            ("POST", &format!("{CONFIG_MAPS}?dryRun=Some"), body, "{}", said("create", "configmaps", here)),
            ("PUT", CONFIG_MAPS, body, "{}", said("update", "configmaps", here)),
            ("PATCH", &one, body, "{}", named("patch")),
            ("DELETE", &format!("{one}?propagationPolicy=Sideways"), body, "", named("delete")),
            ("DELETE", &format!("{CONFIG_MAPS}?limit=x"), body, "", said("deletecollection", "configmaps", here)),
            ("GET", &format!("{CONFIG_MAPS}?labelSelector=%3D"), body, "", said("list", "configmaps", here)),
            ("GET", &format!("{CONFIG_MAPS}?watch=1&limit=x"), body, "", said("watch", "configmaps", here)),
            ("GET", "/api/v1/dogs", body, "", said("list", "dogs", "\"\" at the cluster scope")),
            ("GET", "/apis/none.io/v1/namespaces/n/dogs", body, "", said("list", "dogs", "\"none.io\" in the namespace \"n\"")),
            ("GET", "/apis/none.io/v1/dogs/rex", body, "",
                "dogs.none.io \"rex\" is forbidden: User \"jane\" cannot get resource \"dogs\" in API group \"none.io\" at the cluster scope".into()),
        ];
        for (method, path, content_type, body, message) in table {
            let reply = jane.call_as(method, path, content_type, body.to_owned()).await;
            let message = match message.starts_with("dogs is") && path.starts_with("/apis") {
                true => message.replacen("dogs is", "dogs.none.io is", 1),
                false => message,
            };
            assert_eq!((reply.code, reply.text("/message")), (403, message), "{method} {path}");
            assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        }
        let large = "x".repeat(3 * 1024 * 1024 + 1);
        assert_eq!(jane.call("POST", CONFIG_MAPS, large).await.code, 403);
        let table = [("accept", "image/png")];
        assert_eq!(
            ask(cluster, "GET", CONFIG_MAPS, &table).await.code,
            406,
            "permitted users get the other errors"
        );
    });
}

#[test]
fn requests_refused_before_routing_are_counted() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.rest().call_as("POST", CONFIG_MAPS, "text/plain", "x").await;
        cluster.rest().call("GET", &format!("{CONFIG_MAPS}?limit=x"), "").await;
        let page = cluster.rest().call("GET", "/metrics", "").await;
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        for wanted in [
            "verb=\"POST\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"resource\",component=\"apiserver\",dry_run=\"\",code=\"415\"} 1\n",
            "verb=\"LIST\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"namespace\",component=\"apiserver\",dry_run=\"\",code=\"400\"} 1\n",
        ] {
            assert!(page.contains(wanted), "{wanted}\n{page}");
        }
    });
}

#[test]
fn a_watch_without_a_timeout_lasts_30_to_60_minutes() {
    let lengths: Vec<u64> = (1..4)
        .map(|seed| {
            let setup = Setup { seed, ..Setup::api_alone() };
            simulate(setup, async |cluster| {
                let began = Instant::now();
                let reply = send(cluster, "GET", &format!("{CONFIG_MAPS}?watch=1"), &Value::Null).await;
                assert_eq!(reply.code, 200);
                began.elapsed().as_secs()
            })
        })
        .collect();
    assert!(lengths.iter().all(|seconds| (1800..=3600).contains(seconds)), "{lengths:?}");
    assert!(lengths.iter().any(|seconds| *seconds != lengths[0]), "not all at once: {lengths:?}");
}

#[test]
fn a_watch_ends_at_its_timeout() {
    simulate(Setup::api_alone(), async |cluster| {
        for (text, seconds) in
            [("timeoutSeconds=7", 7), ("timeoutSeconds=7&timeout=3s", 7), ("timeoutSeconds=90", 90)]
        {
            let began = Instant::now();
            let reply = send(cluster, "GET", &format!("{CONFIG_MAPS}?watch=1&{text}"), &Value::Null).await;
            assert_eq!((reply.code, began.elapsed().as_secs()), (200, seconds), "{text}");
        }
        let capped = send(cluster, "GET", &format!("{CONFIG_MAPS}?timeout=1000h"), &Value::Null).await;
        assert_eq!(capped.code, 200, "a longer timeout is capped");
    });
}

#[test]
fn bodies_are_decoded_by_their_content_type() {
    simulate(Setup::api_alone(), async |cluster| {
        let json_body = |name: &str| json!({"metadata": {"name": name}}).to_string();
        let refused = "the body of the request was in an unknown format - accepted media types include: ";
        let table = [
            ("application/json", json_body("a"), 201),
            ("application/json; charset=utf-8", json_body("b"), 201),
            ("application/yaml", "metadata:\n  name: c\n".to_owned(), 201),
            ("application/yaml", json_body("d"), 201),
            ("application/xml", json_body("e"), 415),
            ("application/cbor", json_body("f"), 415),
        ];
        for (content_type, body, code) in table {
            let reply = cluster.rest().call_as("POST", CONFIG_MAPS, content_type, body).await;
            assert_eq!(reply.code, code, "{content_type}: {:?}", reply.body);
            assert_eq!(reply.text("/message").starts_with(refused), code == 415, "{content_type}");
        }
        let request = http::Request::builder().method("POST").uri(CONFIG_MAPS);
        let reply = cluster.rest().send(request.body(json_body("g").into()).unwrap()).await;
        assert_eq!((reply.code, reply.text("/kind")), (201, "ConfigMap".into()), "without a type it is JSON");
        let request = http::Request::builder().method("PATCH").uri(format!("{CONFIG_MAPS}/a"));
        let reply = cluster.rest().send(request.body("{}".into()).unwrap()).await;
        assert_eq!(
            (reply.code, reply.text("/message")),
            (
                415,
                format!(
                    "{refused}application/json-patch+json, \
            application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
                )
            ),
            "a patch needs a content type"
        );
    });
}

#[test]
fn json_is_decoded_strictly() {
    simulate(Setup::api_alone(), async |cluster| {
        let post = async |path: &str, body: &str| cluster.rest().call("POST", path, body.to_owned()).await;
        let reply =
            post(CONFIG_MAPS, r#"{"metadata":{"name":"a","Labels":{"x":"y"}},"Data":{"k":"v"},"data":null}"#)
                .await;
        assert_eq!((reply.code, &reply.json()["data"]), (201, &Value::Null), "null is absent");
        assert_eq!(
            warnings(&reply),
            ["299 - \"unknown field \\\"metadata.Labels\\\"\"", "299 - \"unknown field \\\"Data\\\"\"",],
            "case counts"
        );
        assert_eq!(reply.body.last(), Some(&b'\n'));
        let mut web = manifests::deployment("web", 1);
        web["spec"]["progressDeadlineSeconds"] = json!(2_147_483_647);
        let reply = post(DEPLOYMENTS, &web.to_string()).await;
        assert!(
            String::from_utf8_lossy(&reply.body).contains("\"progressDeadlineSeconds\":2147483647,"),
            "{:?}",
            reply.body
        );
        for (value, what) in [
            ("1.5", "number 1.5"),
            ("\"1\"", "string"),
            ("99999999999", "number 99999999999"),
            ("true", "bool"),
        ] {
            let body = web.to_string().replace("2147483647", value);
            let reply = post(DEPLOYMENTS, &body).await;
            let want = format!(
                "json: cannot unmarshal {what} into Go struct field DeploymentSpec.spec.progressDeadlineSeconds of type int32"
            );
            assert_eq!(
                (reply.code, reply.text("/message").contains(&want)),
                (400, true),
                "{value}: {}",
                reply.text("/message")
            );
        }
    });
}

/// Empty members that kubectl and typed clients write into every object.
#[test]
fn empty_members_sent_by_clients_are_accepted_and_dropped() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut web = manifests::deployment("web", 1);
        web["metadata"]["creationTimestamp"] = Value::Null;
        web["spec"]["strategy"] = json!({});
        web["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        web["status"] = json!({});
        let reply = send(cluster, "POST", &format!("{DEPLOYMENTS}?fieldValidation=Strict"), &web).await;
        assert_eq!((reply.code, warnings(&reply)), (201, vec![]), "{}", reply.text("/message"));
        let pod = json!({"metadata": {"name": "p", "creationTimestamp": null}, "status": {},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}], "nodeSelector": {}, "tolerations": null}});
        let reply = send(cluster, "POST", &format!("{PODS}?fieldValidation=Strict"), &pod).await;
        assert_eq!(
            (reply.code, warnings(&reply), &reply.json()["spec"]["nodeSelector"]),
            (201, vec![], &Value::Null)
        );
    });
}

#[test]
fn removed_and_invalid_options_are_refused() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        let one = format!("{CONFIG_MAPS}/a");
        let gone = json!({"reason": "BadRequest", "message": "the export parameter, deprecated since v1.14, is no longer supported"});
        run(
            cluster,
            [
                case("export", ("GET", &format!("{one}?export=true")), Value::Null, 400, gone),
                case(
                    "no export",
                    ("GET", &format!("{one}?export=false")),
                    Value::Null,
                    200,
                    json!({"kind": "ConfigMap"}),
                ),
                case(
                    "an object in no table",
                    ("GET", &format!("{CONFIG_MAPS}?includeObject=All")),
                    Value::Null,
                    200,
                    json!({"kind": "ConfigMapList"}),
                ),
                case(
                    "a delete with a broken body",
                    ("DELETE", &one),
                    json!("x"),
                    400,
                    json!({"reason": "BadRequest"}),
                ),
            ],
        )
        .await;
        let rows = async |include: &str| {
            let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
            ask(cluster, "GET", &format!("{CONFIG_MAPS}?includeObject={include}"), &accept).await
        };
        for (include, kind, data) in [
            ("", "PartialObjectMetadata", false),
            ("Metadata", "PartialObjectMetadata", false),
            ("Object", "ConfigMap", true),
        ] {
            let object = rows(include).await.json()["rows"][0]["object"].clone();
            assert_eq!((&object["kind"], object["data"].is_object()), (&json!(kind), data), "{include:?}");
        }
        assert_eq!(rows("None").await.json()["rows"][0]["object"], Value::Null);
        let odd = rows("All").await;
        let text = "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty";
        assert_eq!((odd.code, odd.text("/message").as_str()), (400, text));
    });
}

#[test]
fn list_items_are_sorted_by_key_and_omit_their_kind() {
    simulate(Setup::api_alone(), async |cluster| {
        assert_eq!(
            send(cluster, "GET", CONFIG_MAPS, &Value::Null).await.json()["items"],
            json!([]),
            "never null"
        );
        cluster.create(manifests::namespace("another")).await;
        for (namespace, name) in [("default", "b"), ("default", "a-1"), ("default", "a"), ("another", "z")] {
            let mut map = manifests::config_map(name, "1");
            map["metadata"]["namespace"] = json!(namespace);
            cluster.create(map).await;
        }
        let list = send(cluster, "GET", CONFIG_MAPS, &Value::Null).await.json();
        assert_eq!(
            (names(&list), &list["kind"], &list["apiVersion"]),
            (vec!["a".into(), "a-1".into(), "b".into()], &json!("ConfigMapList"), &json!("v1"))
        );
        let bare = |item: &Value| item["kind"].is_null() && item["apiVersion"].is_null();
        assert!(list["items"].as_array().unwrap().iter().all(bare));
        let all = send(
            cluster,
            "GET",
            "/api/v1/configmaps?fieldSelector=metadata.namespace!%3Dkube-system",
            &Value::Null,
        )
        .await
        .json();
        assert_eq!(names(&all).first().map(String::as_str), Some("z"), "by namespace first");
    });
}

#[test]
fn browsers_get_indented_json_and_programs_compact_json() {
    simulate(Setup::api_alone(), async |cluster| {
        for (agent, query, indented) in [
            ("curl/8.5", "", true),
            ("Wget/1.21", "", true),
            ("Mozilla/5.0 (X11)", "", true),
            ("kubectl/v1.33.0", "", false),
            ("kubectl/v1.33.0", "?pretty=true", true),
            ("curl/8.5", "?pretty=false", false),
        ] {
            let reply = send_with(
                cluster,
                "GET",
                &format!("/api/v1/namespaces/default{query}"),
                &[("user-agent", agent)],
            )
            .await;
            assert_eq!(reply.body.starts_with(b"{\n  \""), indented, "{agent} {query}");
        }
    });
}

#[test]
fn a_get_may_require_a_minimum_revision() {
    simulate(Setup::api_alone(), async |cluster| {
        let made = cluster.create(manifests::config_map("a", "1")).await;
        let version = made["metadata"]["resourceVersion"].as_str().unwrap();
        let one = format!("{CONFIG_MAPS}/a");
        for (text, code) in [
            ("", 200),
            ("resourceVersion=", 200),
            ("resourceVersion=0", 200),
            (&format!("resourceVersion={version}"), 200),
            ("resourceVersion=x", 400),
        ] {
            assert_eq!(
                send(cluster, "GET", &format!("{one}?{text}"), &Value::Null).await.code,
                code,
                "{text}"
            );
        }
        let path = format!("{one}?resourceVersion=999999");
        let asked = send(cluster, "GET", &path, &Value::Null);
        let later = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("it answers in time");
        assert_eq!(
            (later.code, later.text("/details/causes/0/reason")),
            (504, "ResourceVersionTooLarge".into())
        );
    });
}
