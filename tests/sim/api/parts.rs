//! Subresources that write parts of pods, signing requests, namespaces and workloads, and the fields that
//! they leave unchanged.

use super::{CONFIG_MAPS, DEPLOYMENTS, PODS, case, run, send, warnings};
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

const BOUND: &str = "/api/v1/namespaces/default/pods/p";

#[test]
fn adding_ephemeral_containers_changes_nothing_else() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::pod("p", json!({"nodeName": "n"}))).await;
        let path = format!("{PODS}/p/ephemeralcontainers");
        let debug = |name: &str, image: &str| json!({"name": name, "image": image});
        let set = |containers: Value| json!({"spec": {"ephemeralContainers": containers}});
        let pod = |containers: Value| {
            let mut pod = manifests::pod("p", json!({"nodeName": "m", "hostNetwork": true}));
            pod["spec"]["ephemeralContainers"] = containers;
            pod
        };
        run(cluster, [
            case("not through the pod itself", ("PATCH", BOUND), set(json!([debug("d", "i")])), 422, json!({"reason": "Invalid"})),
            case("added", ("PATCH", &path), set(json!([debug("d", "i")])), 200, json!({"spec": {"nodeName": "n"}})),
            case("not changed", ("PATCH", &path), set(json!([debug("d", "other")])), 422, json!({"message": "~spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be changed"})),
            case("not removed", ("PATCH", &path), set(json!([])), 422, json!({"message": "~spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed"})),
            case("no name of a container", ("PATCH", &path), json!([{"op": "add", "path": "/spec/ephemeralContainers/-", "value": debug("main", "i")}]), 422,
                json!({"message": "~Duplicate value: \"main\""})),
        ]).await;
        let version =
            cluster.get("pods", "default", "p").await.unwrap()["metadata"]["resourceVersion"].clone();
        let mut put = pod(json!([debug("d", "i"), debug("e", "i")]));
        put["metadata"]["resourceVersion"] = version;
        put["spec"]["ephemeralContainers"][0] =
            cluster.get("pods", "default", "p").await.unwrap()["spec"]["ephemeralContainers"][0].clone();
        let put = send(cluster, "PUT", &path, &put).await;
        let spec = put.json()["spec"].clone();
        assert_eq!(
            (
                put.code,
                &spec["nodeName"],
                &spec["hostNetwork"],
                spec["ephemeralContainers"].as_array().map(Vec::len)
            ),
            (200, &json!("n"), &Value::Null, Some(2)),
            "{}",
            put.text("/message")
        );
    });
}

#[test]
fn resizing_containers_changes_nothing_else() {
    simulate(Setup::api_alone(), async |cluster| {
        let metadata = json!({"name": "n", "labels": {"kubernetes.io/os": "linux"}});
        let status = json!({"allocatable": {"cpu": "4", "memory": "1Gi"}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status});
        cluster.create(node).await;
        let mut pod = manifests::pod("p", json!({"nodeName": "n"}));
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        pod["spec"]["containers"][0]["resources"] = resources("1");
        let made = cluster.create(pod).await;
        let path = format!("{PODS}/p/resize");
        let set = |cpu: &str| json!([{"op": "replace", "path": "/spec/containers/0/resources", "value": resources(cpu)}]);
        let generation = made["metadata"]["generation"].as_i64().unwrap();
        run(
            cluster,
            [
                case(
                    "not through the pod itself",
                    ("PATCH", BOUND),
                    set("2"),
                    422,
                    json!({"reason": "Invalid"}),
                ),
                case(
                    "resized",
                    ("PATCH", &path),
                    set("2"),
                    200,
                    json!({"metadata": {"generation": generation + 1}}),
                ),
                case(
                    "another image does not count",
                    ("PATCH", &path),
                    json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]),
                    200,
                    json!({"kind": "Pod"}),
                ),
            ],
        )
        .await;
        let now = cluster.get("pods", "default", "p").await.unwrap();
        assert_eq!(
            (&now["spec"]["containers"][0]["resources"], &now["spec"]["containers"][0]["image"]),
            (&resources("2"), &made["spec"]["containers"][0]["image"])
        );
    });
}

#[test]
fn a_binding_with_another_uid_binds_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        let pod = cluster.create(manifests::pod("p", json!({}))).await;
        cluster.create(manifests::pod("going", json!({}))).await;
        send(cluster, "PATCH", &format!("{PODS}/going"), &json!({"metadata": {"finalizers": ["x/y"]}})).await;
        send(cluster, "DELETE", &format!("{PODS}/going"), &Value::Null).await;
        let binding =
            |metadata: Value| json!({"metadata": metadata, "target": {"kind": "Node", "name": "n"}});
        let path = format!("{PODS}/p/binding");
        let version = &pod["metadata"]["resourceVersion"];
        run(cluster, [
            case("an old revision", ("POST", &path), binding(json!({"name": "p", "resourceVersion": "1"})), 409, json!({"reason": "Conflict",
                "message": "~Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: "})),
            case("another name", ("POST", &path), binding(json!({"name": "q"})), 400, json!({"reason": "BadRequest"})),
            case("no such pod", ("POST", &format!("{PODS}/none/binding")), binding(json!({"name": "none"})), 404, json!({"reason": "NotFound"})),
            case("one on its way out", ("POST", &format!("{PODS}/going/binding")), binding(json!({"name": "going"})), 409,
                json!({"message": "Operation cannot be fulfilled on pods/binding \"going\": pod going is being deleted, cannot be assigned to a host"})),
            case("tried", ("POST", &format!("{path}?dryRun=All")), binding(json!({"name": "p"})), 201, json!({"status": "Success"})),
            case("still free", ("GET", BOUND), Value::Null, 200, json!({"spec": {"nodeName": null}})),
            case("meant", ("POST", &path), binding(json!({"name": "p", "uid": pod["metadata"]["uid"], "resourceVersion": version})), 201, json!({"status": "Success"})),
        ]).await;
    });
}

/// Fields that the server itself writes for a binding or an eviction have no manager, as in Kubernetes.
#[test]
fn bindings_and_evictions_do_not_change_managed_fields() {
    simulate(Setup::api_alone(), async |cluster| {
        let made = cluster.create(manifests::pod("p", json!({}))).await;
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        assert_eq!(send(cluster, "POST", &format!("{PODS}/p/binding"), &binding).await.code, 201);
        assert_eq!(
            send(cluster, "PATCH", &format!("{PODS}/p"), &json!({"metadata": {"finalizers": ["x/y"]}}))
                .await
                .code,
            200
        );
        let before = cluster.get("pods", "default", "p").await.unwrap()["metadata"]["managedFields"].clone();
        assert_eq!(before[0], made["metadata"]["managedFields"][0]);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}, "dada": 1});
        let evicted = send(cluster, "POST", &format!("{PODS}/p/eviction"), &eviction).await;
        assert_eq!(
            (evicted.code, warnings(&evicted)),
            (201, vec!["299 - \"unknown field \\\"dada\\\"\"".to_owned()])
        );
        let after = cluster.get("pods", "default", "p").await.unwrap();
        assert_eq!(after["metadata"]["managedFields"], before);
        assert!(after["metadata"]["deletionTimestamp"].is_string());
    });
}

#[test]
fn status_updates_change_only_the_status() {
    simulate(Setup::api_alone(), async |cluster| {
        let web = cluster.create(manifests::deployment("web", 1)).await;
        let mut put = web.clone();
        put["spec"]["replicas"] = json!(9);
        put["metadata"]["labels"] = json!({"new": "label"});
        put["metadata"]["annotations"] = json!({"new": "annotation"});
        put["status"] = json!({"replicas": 1, "observedGeneration": 1});
        let done = send(cluster, "PUT", &format!("{DEPLOYMENTS}/web/status"), &put).await;
        let got = done.json();
        assert_eq!(
            (done.code, &got["spec"], &got["metadata"]["labels"], &got["metadata"]["generation"]),
            (200, &web["spec"], &web["metadata"]["labels"], &json!(1))
        );
        assert_eq!(
            (&got["metadata"]["annotations"]["new"], &got["status"]["replicas"]),
            (&json!("annotation"), &json!(1))
        );
        let again = send(cluster, "PUT", &format!("{DEPLOYMENTS}/web/status"), &got).await;
        assert_eq!(
            again.json()["metadata"]["resourceVersion"],
            got["metadata"]["resourceVersion"],
            "the same again is no write"
        );
        let mut whole = got.clone();
        whole["status"] = json!({"replicas": 77});
        let whole = send(cluster, "PUT", &format!("{DEPLOYMENTS}/web"), &whole).await;
        assert_eq!(
            (whole.code, &whole.json()["status"]),
            (200, &got["status"]),
            "and the object's own path keeps the status"
        );
    });
}

#[test]
fn namespaces_always_have_their_name_label_and_finalizer() {
    simulate(Setup::api_alone(), async |cluster| {
        let one = "/api/v1/namespaces/n";
        let label = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "n"}}});
        run(cluster, [
            case("made", ("POST", "/api/v1/namespaces"), json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "other"}}, "status": {"phase": "Terminating"}}), 201,
                json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "n"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})),
            case("its label is restored", ("PATCH", one), json!({"metadata": {"labels": null}}), 200, label),
            case("no finalize by patch", ("PATCH", &format!("{one}/finalize")), json!({"spec": {"finalizers": []}}), 405, json!({"reason": "MethodNotAllowed"})),
            case("finalizers of a living one may go", ("PUT", &format!("{one}/finalize")), json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}}), 200,
                json!({"kind": "Namespace", "status": {"phase": "Active"}})),
            case("then its deletion is its end", ("DELETE", one), Value::Null, 200, json!({"kind": "Namespace"})),
            case("kube-public stays", ("DELETE", "/api/v1/namespaces/kube-public"), Value::Null, 403, json!({"reason": "Forbidden"})),
            case("kube-system stays", ("DELETE", "/api/v1/namespaces/kube-system"), Value::Null, 403, json!({"reason": "Forbidden"})),
        ]).await;
    });
}

#[test]
fn a_dry_run_deletion_answers_like_a_real_one() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        cluster
            .create(manifests::pod("p", json!({"nodeName": "n", "terminationGracePeriodSeconds": 30})))
            .await;
        assert_eq!(
            send(cluster, "PATCH", &format!("{PODS}/p/status"), &json!({"status": {"phase": "Running"}}))
                .await
                .code,
            200
        );
        let before = cluster.store().revision();
        run(
            cluster,
            [
                case(
                    "a kind that is not given back",
                    ("DELETE", &format!("{CONFIG_MAPS}/a?dryRun=All")),
                    Value::Null,
                    200,
                    json!({"kind": "Status", "details": {"name": "a"}}),
                ),
                case(
                    "grace",
                    ("DELETE", &format!("{PODS}/p?dryRun=All")),
                    Value::Null,
                    200,
                    json!({"kind": "Pod", "metadata": {"deletionGracePeriodSeconds": 30}}),
                ),
                case(
                    "preconditions",
                    ("DELETE", &format!("{CONFIG_MAPS}/a?dryRun=All")),
                    json!({"preconditions": {"uid": "else"}}),
                    409,
                    json!({"reason": "Conflict"}),
                ),
                case(
                    "a body that is another object",
                    ("DELETE", &format!("{CONFIG_MAPS}/a")),
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
                    400,
                    json!({"reason": "BadRequest"}),
                ),
                case(
                    "a grace that is no number",
                    ("DELETE", &format!("{CONFIG_MAPS}/a")),
                    json!({"gracePeriodSeconds": "5"}),
                    400,
                    json!({"reason": "BadRequest"}),
                ),
            ],
        )
        .await;
        assert_eq!(cluster.store().revision(), before);
    });
}
