//! Requests exactly as clients send them, with bodies, parameters and headers: those of kubectl's commands,
//! and those of other clients. One test per command; the checked fields are those that the client reads next.

use super::{CONFIG_MAPS, DEPLOYMENTS, PODS, ask, case, names, run, send};
use kstore_api::wire::protobuf;
use kstore_tests::{Cluster, Reply, Setup, manifests, simulate};
use serde_json::{Value, json};

const ROWS: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A request with a typed body, as a typed client sends it.
async fn typed(
    cluster: &Cluster,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<bytes::Bytes>,
) -> Reply {
    let request = http::Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    cluster.rest().send(request.body(http_body_util::Full::new(body.into())).unwrap()).await
}

/// A create as current typed clients send it: in protobuf, with JSON as the alternative for the answer.
async fn proto(cluster: &Cluster, path: &str, object: &Value) -> Reply {
    let headers =
        [("content-type", PROTOBUF), ("accept", "application/vnd.kubernetes.protobuf,application/json")];
    typed(cluster, "POST", path, &headers, protobuf::encode(object).unwrap()).await
}

fn decoded(reply: &Reply) -> Value {
    protobuf::decode(&reply.body).map_or(Value::Null, |decoded| decoded.1)
}

async fn strategic(cluster: &Cluster, path: &str, patch: &Value) -> Reply {
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    typed(cluster, "PATCH", path, &headers, patch.to_string()).await
}

#[test]
fn typed_clients_create_objects_in_protobuf() {
    simulate(Setup::api_alone(), async |cluster| {
        let parameters = "fieldManager=kubectl-create&fieldValidation=Strict";
        let mut web = manifests::deployment("web", 2);
        web["spec"]["strategy"] = json!({});
        let web = proto(cluster, &format!("{DEPLOYMENTS}?{parameters}"), &web).await;
        assert_eq!(
            (web.code, &decoded(&web)["spec"]["replicas"]),
            (201, &json!(2)),
            "kubectl create deployment"
        );
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "cQ=="}});
        let secret =
            proto(cluster, &format!("/api/v1/namespaces/default/secrets?{parameters}"), &secret).await;
        assert_eq!(
            (secret.code, &decoded(&secret)["type"]),
            (201, &json!("Opaque")),
            "kubectl create secret"
        );
        let tried = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}});
        let tried = proto(cluster, &format!("{CONFIG_MAPS}?dryRun=All&{parameters}"), &tried).await;
        assert_eq!(
            (tried.code, cluster.get("configmaps", "default", "dry").await),
            (201, None),
            "kubectl create --dry-run=server"
        );
        let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 3}});
        let scaler = proto(
            cluster,
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers?fieldManager=kubectl-autoscale",
            &scaler,
        )
        .await;
        assert_eq!(
            (scaler.code, &decoded(&scaler)["spec"]["minReplicas"]),
            (201, &json!(1)),
            "kubectl autoscale"
        );
        let can = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"namespace": "default", "verb": "create", "resource": "pods"}}});
        let can = proto(cluster, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &can).await;
        assert_eq!(
            (can.code, &decoded(&can)["status"]["allowed"]),
            (201, &json!(true)),
            "kubectl auth can-i"
        );
        let reviewed =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}});
        let reviewed = proto(cluster, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &reviewed).await;
        assert_eq!(
            (reviewed.code, &decoded(&reviewed)["status"]["userInfo"]["username"]),
            (201, &json!("kubernetes-admin")),
            "kubectl auth whoami"
        );
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "r", "message": "m", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
        assert_eq!(
            proto(cluster, "/api/v1/namespaces/default/events", &event).await.code,
            201,
            "recorders of events"
        );
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}});
        assert_eq!(
            proto(cluster, "/apis/coordination.k8s.io/v1/namespaces/default/leases", &lease).await.code,
            201,
            "leader election"
        );
    });
}

#[test]
fn kubectl_get_requests_tables_in_pages_and_falls_back_to_objects() {
    simulate(Setup::api_alone(), async |cluster| {
        for name in ["a", "b", "c"] {
            cluster.create(manifests::config_map(name, "1")).await;
        }
        let rows = ask(cluster, "GET", &format!("{CONFIG_MAPS}?limit=500"), &[("accept", ROWS)]).await.json();
        assert_eq!(
            (&rows["kind"], rows["rows"].as_array().map(Vec::len), &rows["metadata"]["continue"]),
            (&json!("Table"), Some(3), &Value::Null)
        );
        let page = ask(cluster, "GET", &format!("{CONFIG_MAPS}?limit=2"), &[("accept", ROWS)]).await.json();
        assert_eq!(
            (page["rows"].as_array().map(Vec::len), &page["metadata"]["remainingItemCount"]),
            (Some(2), &json!(1)),
            "--chunk-size=2"
        );
        let token = page["metadata"]["continue"].as_str().unwrap();
        let rest =
            ask(cluster, "GET", &format!("{CONFIG_MAPS}?continue={token}&limit=2"), &[("accept", ROWS)])
                .await
                .json();
        assert_eq!(
            (&rest["rows"][0]["cells"][0], rest["rows"].as_array().map(Vec::len)),
            (&json!("c"), Some(1))
        );
        let one = ask(cluster, "GET", &format!("{CONFIG_MAPS}/a"), &[("accept", ROWS)]).await.json();
        assert_eq!(
            (&one["kind"], &one["rows"][0]["object"]["kind"]),
            (&json!("Table"), &json!("PartialObjectMetadata"))
        );
        let none = ask(cluster, "GET", &format!("{CONFIG_MAPS}/none"), &[("accept", ROWS)]).await;
        assert_eq!(
            (none.code, none.text("/kind"), none.headers["content-type"].to_str().unwrap()),
            (404, "Status".into(), "application/json")
        );
        let sorted = ask(cluster, "GET", &format!("{CONFIG_MAPS}?includeObject=Object"), &[("accept", ROWS)])
            .await
            .json();
        assert_eq!(sorted["rows"][2]["object"]["data"]["value"], "1", "--sort-by");
        let plain =
            ask(cluster, "GET", &format!("{CONFIG_MAPS}?limit=500"), &[("accept", "application/json")])
                .await
                .json();
        assert_eq!((&plain["kind"], names(&plain).len()), (&json!("ConfigMapList"), 3), "-o yaml");
        // A limit also applies to lists at any revision.
        let any = send(cluster, "GET", &format!("{CONFIG_MAPS}?limit=2&resourceVersion=0"), &Value::Null)
            .await
            .json();
        assert!(names(&any).len() == 3 || any["metadata"]["continue"].is_string(), "{any}");
    });
}

#[test]
fn kubectl_get_watch_continues_from_the_list() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        let list = ask(cluster, "GET", &format!("{CONFIG_MAPS}?limit=500"), &[("accept", ROWS)]).await;
        let version = list.text("/metadata/resourceVersion");
        cluster.merge("configmaps", "a", json!({"data": {"value": "2"}})).await;
        cluster.create(manifests::config_map("b", "1")).await;
        let watch = ask(
            cluster,
            "GET",
            &format!("{CONFIG_MAPS}?resourceVersion={version}&watch=true&timeoutSeconds=1"),
            &[("accept", ROWS)],
        )
        .await;
        assert_eq!(watch.headers["content-type"], "application/json", "not `;stream=watch`");
        let events: Vec<Value> =
            watch.body.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let delivered: Vec<_> = events
            .iter()
            .map(|event| {
                (event["type"].as_str().unwrap(), event["object"]["rows"][0]["cells"][0].as_str().unwrap())
            })
            .collect();
        assert_eq!(delivered, [("MODIFIED", "a"), ("ADDED", "b")]);
        assert!(
            events[0]["object"]["columnDefinitions"].is_array()
                && events[1]["object"]["columnDefinitions"].as_array().is_none_or(Vec::is_empty),
            "columns once"
        );
        let single = format!(
            "{CONFIG_MAPS}?fieldSelector=metadata.name%3Da&resourceVersion={version}&watch=true&timeoutSeconds=1"
        );
        let single = ask(cluster, "GET", &single, &[("accept", "application/json")]).await;
        assert_eq!(String::from_utf8_lossy(&single.body).matches("\"type\"").count(), 1, "one object's");
    });
}

#[test]
fn kubectl_apply_patches_the_last_applied_state_and_sends_nothing_without_changes() {
    simulate(Setup::api_alone(), async |cluster| {
        let parameters = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict";
        let mut web = manifests::deployment("web", 1);
        let last = web.to_string();
        web["metadata"]["annotations"] = json!({APPLIED: last});
        let made = send(cluster, "POST", &format!("{DEPLOYMENTS}?{parameters}"), &web).await;
        assert_eq!(
            (made.code, &made.json()["metadata"]["managedFields"][0]["manager"]),
            (201, &json!("kubectl-client-side-apply"))
        );
        let one = format!("{DEPLOYMENTS}/web?{parameters}");
        let patch = json!({"metadata": {"annotations": {APPLIED: "{}"}}, "spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "side"}, {"name": "c"}],
            "containers": [{"name": "side", "image": "s"}, {"name": "c", "image": "new"}]}}}});
        let patched = strategic(cluster, &one, &patch).await;
        let containers = patched.json()["spec"]["template"]["spec"]["containers"].clone();
        assert_eq!(patched.code, 200, "{}", patched.text("/message"));
        let order: Vec<&str> =
            containers.as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
        assert_eq!(order.first(), Some(&"side"), "{containers}");
        let gone = json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"$patch": "delete", "name": "side"}]}}}});
        assert_eq!(strategic(cluster, &one, &gone).await.code, 200);
        // kubectl diff: a dry run with the revision of the live object.
        let version =
            cluster.get("deployments", "default", "web").await.unwrap()["metadata"]["resourceVersion"]
                .clone();
        for (version, code) in [(version, 200), (json!("1"), 409)] {
            let diff = json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": 7}});
            let diff = strategic(cluster, &format!("{one}&dryRun=All"), &diff).await;
            assert_eq!(diff.code, code, "{}", diff.text("/message"));
        }
        assert_eq!(cluster.get("deployments", "default", "web").await.unwrap()["spec"]["replicas"], 1);
        // kubectl apply --server-side: JSON under a YAML content type, and force=false.
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}});
        let headers = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{CONFIG_MAPS}/m?fieldManager=kubectl&fieldValidation=Strict&force=false");
        for code in [201, 200] {
            let applied = typed(cluster, "PATCH", &path, &headers, config.to_string()).await;
            assert_eq!(
                (applied.code, &applied.json()["metadata"]["managedFields"][0]["operation"]),
                (code, &json!("Apply"))
            );
        }
    });
}

#[test]
fn kubectl_delete_reads_the_uid_and_waits_for_the_deletion() {
    simulate(Setup::api_alone(), async |cluster| {
        let map = cluster.create(manifests::config_map("a", "1")).await;
        let one = format!("{CONFIG_MAPS}/a");
        let background = json!({"propagationPolicy": "Background"});
        run(cluster, [
            case("gone at once", ("DELETE", &one), background.clone(), 200, json!({"kind": "Status", "status": "Success", "details": {"uid": map["metadata"]["uid"]}})),
            case("not there", ("GET", &one), Value::Null, 404, json!({"reason": "NotFound"})),
            case("not there twice", ("DELETE", &one), background, 404, json!({"reason": "NotFound"})),
        ]).await;
        // If the object has a finalizer, kubectl lists and watches by name until it is deleted.
        let finalized = cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["x/y"]}})).await;
        let pending = send(cluster, "DELETE", &one, &json!({"propagationPolicy": "Foreground"})).await;
        assert_eq!((pending.code, &pending.json()["metadata"]["uid"]), (200, &finalized["metadata"]["uid"]));
        let list = send(
            cluster,
            "GET",
            &format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da&limit=500&resourceVersion=0"),
            &Value::Null,
        )
        .await;
        let version = list.text("/metadata/resourceVersion");
        let path = format!(
            "{CONFIG_MAPS}?allowWatchBookmarks=true&fieldSelector=metadata.name%3Da&resourceVersion={version}&timeoutSeconds=2&watch=true"
        );
        let none = json!({"metadata": {"finalizers": null}});
        let (watch, freed) =
            tokio::join!(send(cluster, "GET", &path, &Value::Null), send(cluster, "PATCH", &one, &none));
        assert_eq!(freed.code, 200);
        assert!(String::from_utf8_lossy(&watch.body).contains("\"type\":\"DELETED\""), "{:?}", watch.body);
        // kubectl delete --force, and replace --force.
        cluster.create(manifests::pod("p", json!({"nodeName": "n"}))).await;
        let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        run(
            cluster,
            [
                case("by force", ("DELETE", &format!("{PODS}/p")), now, 200, json!({"kind": "Pod"})),
                case("gone", ("GET", &format!("{PODS}/p")), Value::Null, 404, json!({})),
            ],
        )
        .await;
    });
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn kubectl_scale_rollout_and_set_patch_the_deployment() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut web = manifests::deployment("web", 1);
        web["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
        let web = cluster.create(web).await;
        let one = format!("{DEPLOYMENTS}/web");
        let scale = format!("{one}/scale");
        let current = send(cluster, "GET", &scale, &Value::Null).await.json();
        let mut wanted = current.clone();
        wanted["spec"]["replicas"] = json!(4);
        let template = web["spec"]["template"].clone();
        run(
            cluster,
            [
                case(
                    "scale",
                    ("PATCH", &scale),
                    json!({"spec": {"replicas": 3}}),
                    200,
                    json!({"kind": "Scale", "spec": {"replicas": 3}}),
                ),
                case(
                    "scale --current-replicas, too late",
                    ("PUT", &scale),
                    wanted,
                    409,
                    json!({"reason": "Conflict"}),
                ),
                case(
                    "rollout undo",
                    ("PATCH", &one),
                    json!([{"op": "replace", "path": "/spec/template", "value": template},
                {"op": "replace", "path": "/metadata/annotations", "value": {"a": "b"}}]),
                    200,
                    json!({"metadata": {"annotations": {"a": "b"}}}),
                ),
                case(
                    "annotate",
                    ("PATCH", &format!("{one}?fieldManager=kubectl-annotate")),
                    json!({"metadata": {"annotations": {"a": null, "c": "d"}}}),
                    200,
                    json!({"metadata": {"annotations": {"a": null, "c": "d"}}}),
                ),
            ],
        )
        .await;
        for (what, patch, pointer, value) in [
            (
                "rollout restart",
                json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}}),
                "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt",
                json!("2026-01-01T00:00:00Z"),
            ),
            ("rollout pause", json!({"spec": {"paused": true}}), "/spec/paused", json!(true)),
            ("rollout resume", json!({"spec": {"paused": null}}), "/spec/paused", Value::Null),
            (
                "set image",
                json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "c", "image": "i:2"}]}}}}),
                "/spec/template/spec/containers/0/image",
                json!("i:2"),
            ),
            (
                "set env",
                json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}],
                "containers": [{"name": "c", "$setElementOrder/env": [{"name": "A"}], "env": [{"name": "A", "value": "b"}]}]}}}}),
                "/spec/template/spec/containers/0/env/0/value",
                json!("b"),
            ),
        ] {
            let reply = strategic(cluster, &format!("{one}?fieldManager=kubectl-rollout"), &patch).await;
            let found = reply.json().pointer(pointer).cloned().unwrap_or_default();
            assert_eq!((reply.code, found), (200, value), "{what}: {}", reply.text("/message"));
        }
    });
}

#[test]
fn kubectl_cordon_taint_and_drain_update_nodes_and_evict_pods() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).await;
        let node = "/api/v1/nodes/n";
        let cordoned = strategic(cluster, node, &json!({"spec": {"unschedulable": true}})).await;
        assert_eq!((cordoned.code, &cordoned.json()["spec"]["unschedulable"]), (200, &json!(true)));
        let freed = strategic(cluster, node, &json!({"spec": {"unschedulable": null}})).await;
        assert_eq!((freed.code, &freed.json()["spec"]["unschedulable"]), (200, &Value::Null));
        let taints = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}});
        let tainted = strategic(cluster, &format!("{node}?fieldManager=kubectl-taint"), &taints).await;
        assert_eq!((tainted.code, &tainted.json()["spec"]["taints"]), (200, &taints["spec"]["taints"]));
        cluster.create(manifests::pod("p", json!({"nodeName": "n"}))).await;
        let pods =
            send(cluster, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&limit=500", &Value::Null)
                .await
                .json();
        assert_eq!(names(&pods), ["p"]);
        let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p", "namespace": "default", "creationTimestamp": null}});
        let evicted = send(cluster, "POST", &format!("{PODS}/p/eviction"), &eviction).await;
        assert_eq!((evicted.code, evicted.text("/status")), (201, "Success".into()));
    });
}

#[test]
fn kubectl_top_and_cluster_info_find_nothing_on_a_bare_apiserver() {
    simulate(Setup::api_alone(), async |cluster| {
        let accept = [("accept", "application/vnd.kubernetes.protobuf, */*")];
        let metrics = ask(cluster, "GET", "/apis/metrics.k8s.io/v1beta1/nodes", &accept).await;
        assert_eq!((metrics.code, &metrics.body[..]), (404, &b"404 page not found\n"[..]));
        let services =
            "/api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue";
        assert_eq!(names(&send(cluster, "GET", services, &Value::Null).await.json()), Vec::<String>::new());
    });
}

/// Python's typed client sends no content type, no kind, and deletion options in the query.
#[test]
fn python_client_requests_without_kind_and_content_type_are_accepted() {
    simulate(Setup::api_alone(), async |cluster| {
        let headers = [("accept", "application/json"), ("user-agent", "OpenAPI-Generator/33.1.0/python")];
        let made =
            typed(cluster, "POST", CONFIG_MAPS, &headers, r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#)
                .await;
        assert_eq!(
            (made.code, &made.json()["metadata"]["managedFields"][0]["manager"]),
            (201, &json!("OpenAPI-Generator"))
        );
        let listed = [("content-type", "application/json-patch+json")];
        let patched = typed(
            cluster,
            "PATCH",
            &format!("{CONFIG_MAPS}/a"),
            &listed,
            r#"[{"op":"add","path":"/data/l","value":"w"}]"#,
        )
        .await;
        assert_eq!((patched.code, &patched.json()["data"]["l"]), (200, &json!("w")));
        let gone = typed(
            cluster,
            "DELETE",
            &format!("{CONFIG_MAPS}/a?gracePeriodSeconds=0&propagationPolicy=Background"),
            &headers,
            "",
        )
        .await;
        assert_eq!((gone.code, gone.text("/status")), (200, "Success".into()));
    });
}

/// The informers of client-go: a paginated list at any revision, then a watch with bookmarks; or a streamed
/// list.
#[test]
fn client_go_informers_list_and_watch_or_stream_the_list() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        let list =
            ask(cluster, "GET", "/api/v1/configmaps?limit=500&resourceVersion=0", &[("accept", PROTOBUF)])
                .await;
        let list = decoded(&list);
        assert_eq!(list["kind"], "ConfigMapList");
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let watch = format!(
            "/api/v1/configmaps?allowWatchBookmarks=true&resourceVersion={version}&timeout=7m0s&timeoutSeconds=3&watch=true"
        );
        let watch = send(cluster, "GET", &watch, &Value::Null).await;
        let marks: Vec<Value> =
            watch.body.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let whole = |mark: &Value| {
            mark["type"] == "BOOKMARK"
                && mark["object"]["kind"] == "ConfigMap"
                && mark["object"]["apiVersion"] == "v1"
                && mark["object"]["metadata"]["resourceVersion"].is_string()
        };
        assert!(!marks.is_empty() && marks.iter().all(whole), "{marks:?}");
        let stream = "/api/v1/configmaps?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=1&watch=true";
        let stream = send(cluster, "GET", stream, &Value::Null).await;
        assert_eq!(
            String::from_utf8_lossy(&stream.body).matches("k8s.io/initial-events-end").count(),
            1,
            "{:?}",
            stream.body
        );
    });
}
