//! Codes, reasons, messages and headers of error answers.

use super::{CONFIG_MAPS, PODS, case, run, send, send_with};
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

#[test]
fn unknown_paths_and_methods_answer_404_and_405() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        let not_allowed = json!({"kind": "Status", "reason": "MethodNotAllowed", "code": 405,
            "message": "the server does not allow this method on the requested resource"});
        let not_there = json!({"kind": "Status", "reason": "NotFound", "message": "the server could not find the requested resource"});
        let one = format!("{CONFIG_MAPS}/a");
        run(
            cluster,
            [
                case("no such resource", ("GET", "/api/v1/dogs"), Value::Null, 404, not_there.clone()),
                case(
                    "no such version",
                    ("GET", "/apis/apps/v9/deployments"),
                    Value::Null,
                    404,
                    not_there.clone(),
                ),
                case("no such subresource", ("GET", &format!("{one}/scale")), Value::Null, 404, not_there),
                case("POST to an object", ("POST", &one), json!({}), 405, not_allowed.clone()),
                case("PUT to a list", ("PUT", CONFIG_MAPS), json!({}), 405, not_allowed.clone()),
                case("PATCH of a list", ("PATCH", CONFIG_MAPS), json!({}), 405, not_allowed.clone()),
                case(
                    "GET of a create-only resource",
                    ("GET", &format!("{PODS}/p/binding")),
                    Value::Null,
                    405,
                    not_allowed.clone(),
                ),
                case(
                    "LIST of reviews",
                    ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
                    Value::Null,
                    405,
                    not_allowed,
                ),
            ],
        )
        .await;
        for path in ["/apis/none.io/v1/dogs", "/nowhere"] {
            let reply = send_with(cluster, "GET", path, &[]).await;
            assert_eq!((reply.code, &reply.body[..]), (404, &b"404 page not found\n"[..]), "{path}");
            assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
        }
    });
}

#[test]
fn every_answer_has_audit_id_and_cache_headers() {
    simulate(Setup::api_alone(), async |cluster| {
        for path in [CONFIG_MAPS, "/version", "/nowhere", "/api/v1/dogs"] {
            let reply = send_with(cluster, "GET", path, &[]).await;
            assert_eq!(reply.headers["audit-id"].len(), 36, "{path}: a uuid");
            assert_eq!(reply.headers["cache-control"], "no-cache, private", "{path}");
        }
        let given = send_with(cluster, "GET", CONFIG_MAPS, &[("audit-id", "mine")]).await;
        assert_eq!(given.headers["audit-id"], "mine");
        let other = send_with(cluster, "GET", CONFIG_MAPS, &[("audit-id", &"x".repeat(65))]).await;
        assert_eq!(other.headers["audit-id"].len(), 36);
        let later = send_with(cluster, "GET", &format!("{CONFIG_MAPS}?resourceVersion=9999999"), &[]).await;
        assert_eq!(later.headers["retry-after"], "1");
    });
}

#[test]
fn oversized_bodies_are_refused_with_the_limit() {
    simulate(Setup::api_alone(), async |cluster| {
        let body = "x".repeat(3 * 1024 * 1024 + 1);
        let reply = cluster.rest().call("POST", CONFIG_MAPS, body).await;
        assert_eq!((reply.code, reply.text("/reason")), (413, "RequestEntityTooLarge".to_owned()));
        assert_eq!(reply.text("/message"), "Request entity too large: limit is 3145728");
    });
}

#[test]
fn deprecated_watch_paths_serve_watches() {
    simulate(Setup::api_alone(), async |cluster| {
        let made = cluster.create(manifests::config_map("a", "1")).await;
        cluster.create(manifests::config_map("b", "1")).await;
        let version = made["metadata"]["resourceVersion"].as_str().unwrap();
        for (path, added) in [
            ("/api/v1/watch/configmaps", 1),
            ("/api/v1/watch/namespaces/default/configmaps", 1),
            ("/api/v1/watch/namespaces/default/configmaps/b", 1),
            ("/api/v1/watch/namespaces/default/configmaps/a", 0),
        ] {
            let query = format!("{path}?resourceVersion={version}&timeoutSeconds=1");
            let reply = send(cluster, "GET", &query, &Value::Null).await;
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert_eq!((reply.code, text.matches("\"ADDED\"").count()), (200, added), "{path}: {text}");
        }
    });
}
