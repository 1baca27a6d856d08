//! Subresources: status, scale, binding, and eviction with disruption budgets.

use super::{DEPLOYMENTS, PODS, case, run, send};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const BLOCKED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

#[test]
fn status_and_spec_are_written_by_separate_paths() {
    simulate(Setup::api_alone(), async |cluster| {
        let web = format!("{DEPLOYMENTS}/web");
        let status = format!("{web}/status");
        cluster.create(manifests::deployment("web", 1)).await;
        let both = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"replicas": 9}, "status": {"replicas": 4}});
        run(cluster, [
            case("only the status", ("PATCH", &status), both, 200,
                json!({"spec": {"replicas": 1}, "status": {"replicas": 4}, "metadata": {"labels": {"app": "web", "a": null}, "annotations": {"c": "d"}}})),
            case("GET of it", ("GET", &status), Value::Null, 200, json!({"kind": "Deployment", "status": {"replicas": 4}})),
            case("none for ConfigMaps", ("GET", "/api/v1/namespaces/default/configmaps/a/status"), Value::Null, 404, json!({})),
        ]).await;
        let old = cluster.get("deployments", "default", "web").await.unwrap();
        cluster.merge("deployments", "web", json!({"metadata": {"annotations": {"e": "f"}}})).await;
        run(
            cluster,
            [case("an old revision", ("PUT", &status), old.clone(), 409, json!({"reason": "Conflict"}))],
        )
        .await;
    });
}

#[test]
fn scale_is_read_replaced_and_patched() {
    simulate(Setup::api_alone(), async |cluster| {
        let web = cluster.create(manifests::deployment("web", 1)).await;
        let scale = format!("{DEPLOYMENTS}/web/scale");
        let put =
            |metadata: Value, replicas: i64| json!({"metadata": metadata, "spec": {"replicas": replicas}});
        let version = &web["metadata"]["resourceVersion"];
        run(cluster, [
            case("read", ("GET", &scale), Value::Null, 200, json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "web", "namespace": "default", "uid": web["metadata"]["uid"], "resourceVersion": version},
                "spec": {"replicas": 1}, "status": {"selector": "~app=web"}})),
            case("another uid", ("PUT", &scale), put(json!({"name": "web", "uid": "else"}), 2), 409, json!({"message": "~Precondition failed: UID in precondition: else"})),
            case("an old revision", ("PUT", &scale), put(json!({"name": "web", "resourceVersion": "1"}), 2), 409, json!({"reason": "Conflict"})),
            case("the current one", ("PUT", &scale), put(json!({"name": "web", "resourceVersion": version}), 2), 200, json!({"spec": {"replicas": 2}})),
            case("none", ("PUT", &scale), put(json!({"name": "web"}), 3), 200, json!({"spec": {"replicas": 3}})),
            case("another name", ("PUT", &scale), put(json!({"name": "else"}), 3), 400, json!({"reason": "BadRequest"})),
            case("patched", ("PATCH", &scale), json!({"spec": {"replicas": 4}}), 200, json!({"kind": "Scale", "spec": {"replicas": 4}})),
            case("negative", ("PATCH", &scale), json!({"spec": {"replicas": -1}}), 422, json!({"message": "~spec.replicas: Invalid value: -1: must be greater than or equal to 0"})),
            case("the workload has it", ("GET", &format!("{DEPLOYMENTS}/web")), Value::Null, 200, json!({"spec": {"replicas": 4}})),
        ]).await;
    });
}

/// The stored `serviceName: ""` once counted as a change of the spec.
#[test]
fn a_stateful_set_without_a_service_is_scaled() {
    simulate(Setup::api_alone(), async |cluster| {
        let sets = "/apis/apps/v1/namespaces/default/statefulsets";
        let labels = json!({"app": "db"});
        let containers = json!([{"name": "db", "image": "busybox"}]);
        let set = json!({
            "metadata": {"name": "db"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
        });
        let scale = format!("{sets}/db/scale");
        run(
            cluster,
            [
                case(
                    "created",
                    ("POST", sets),
                    set,
                    201,
                    json!({"spec": {"serviceName": "", "replicas": 1}}),
                ),
                case(
                    "patched",
                    ("PATCH", &scale),
                    json!({"spec": {"replicas": 0}}),
                    200,
                    json!({"kind": "Scale", "spec": {"replicas": 0}}),
                ),
                case(
                    "replaced",
                    ("PUT", &scale),
                    json!({"metadata": {"name": "db"}, "spec": {"replicas": 2}}),
                    200,
                    json!({"spec": {"replicas": 2}}),
                ),
                case(
                    "the set has it",
                    ("GET", &format!("{sets}/db")),
                    Value::Null,
                    200,
                    json!({"spec": {"serviceName": "", "replicas": 2}}),
                ),
            ],
        )
        .await;
    });
}

#[test]
fn a_pod_is_bound_once_by_either_binding_path() {
    simulate(Setup::api_alone(), async |cluster| {
        for name in ["a", "b"] {
            cluster.create(manifests::pod(name, json!({}))).await;
        }
        cluster.create(manifests::pod("gated", json!({"schedulingGates": [{"name": "g"}]}))).await;
        let binding = |name: &str, target: Value| json!({"metadata": {"name": name, "annotations": {"by": "me"}, "labels": {"zone": "z", "app": "taken"}}, "target": target});
        let node = json!({"kind": "Node", "name": "n"});
        let path = |name: &str| format!("{PODS}/{name}/binding");
        let mut foreign = binding("a", node.clone());
        foreign["metadata"]["uid"] = json!("else");
        run(cluster, [
            case("no node", ("POST", &path("a")), binding("a", json!({"kind": "Node"})), 500, json!({"message": "~target.name: Required value"})),
            case("no such kind", ("POST", &path("a")), binding("a", json!({"kind": "Bed", "name": "n"})), 500, json!({"message": "~target.kind: Unsupported value: \"Bed\""})),
            case("another pod's uid", ("POST", &path("a")), foreign, 409, json!({"message": "~Precondition failed: UID in precondition: else"})),
            case("gated", ("POST", &path("gated")), binding("gated", node.clone()), 409,
                json!({"message": "Operation cannot be fulfilled on pods/binding \"gated\": pod gated has non-empty .spec.schedulingGates"})),
            case("bound", ("POST", &path("a")), binding("a", node.clone()), 201, json!({"kind": "Status", "status": "Success", "code": 201})),
            case("twice", ("POST", &path("a")), binding("a", node.clone()), 409,
                json!({"reason": "Conflict", "message": "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n\""})),
            case("by the old path", ("POST", "/api/v1/namespaces/default/bindings"), binding("b", node), 201, json!({"status": "Success"})),
            case("as bound", ("GET", &format!("{PODS}/b")), Value::Null, 200,
                json!({"spec": {"nodeName": "n"}, "metadata": {"annotations": {"by": "me"}, "labels": {"app": "b", "zone": "z"}}})),
        ]).await;
        let bound = cluster.get("pods", "default", "a").await.unwrap();
        let conditions = bound["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|c| c["type"] == "PodScheduled" && c["status"] == "True"));
    });
}

/// Creates a pod on a node, in a phase, ready or not.
async fn pod(cluster: &Cluster, name: &str, phase: &str, ready: &str) {
    cluster.create(manifests::pod(name, json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}))).await;
    let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
    assert_eq!(send(cluster, "PATCH", &format!("{PODS}/{name}/status"), &status).await.code, 200);
}

/// Creates a budget for pods `app=<app>` with this status.
async fn budget(cluster: &Cluster, name: &str, app: &str, policy: Value, status: Value) {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": app}}, "unhealthyPodEvictionPolicy": policy});
    let made = send(cluster, "POST", BUDGETS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{:?}", made.json());
    let set = send(cluster, "PATCH", &format!("{BUDGETS}/{name}/status"), &json!({ "status": status })).await;
    assert_eq!(set.code, 200, "{:?}", set.json());
}

fn counted(allowed: i64, healthy: i64, desired: i64, generation: i64) -> Value {
    json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": 3, "observedGeneration": generation})
}

fn eviction(version: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

async fn evict(cluster: &Cluster, name: &str) -> kstore_tests::Reply {
    send(cluster, "POST", &format!("{PODS}/{name}/eviction"), &eviction("policy/v1", name)).await
}

#[test]
fn an_eviction_charges_the_budget_and_deletes_in_one_commit() {
    simulate(Setup::api_alone(), async |cluster| {
        pod(cluster, "web", "Running", "True").await;
        budget(cluster, "b", "web", Value::Null, counted(1, 3, 2, 1)).await;
        let before = cluster.store().revision();
        let dry =
            send(cluster, "POST", &format!("{PODS}/web/eviction?dryRun=All"), &eviction("policy/v1", "web"))
                .await;
        assert_eq!((dry.code, cluster.store().revision()), (201, before));
        let done = evict(cluster, "web").await;
        assert_eq!((done.code, done.text("/status")), (201, "Success".to_owned()));
        let changes: Vec<_> =
            cluster.history().into_iter().filter(|change| change.revision > before.0).collect();
        let keys: Vec<_> =
            changes.iter().map(|change| (change.revision - before.0, change.key.as_str())).collect();
        assert_eq!(
            keys,
            [(1, "/registry/poddisruptionbudgets/default/b"), (1, "/registry/pods/default/web")]
        );
        let charged = cluster.get("poddisruptionbudgets", "default", "b").await.unwrap();
        assert_eq!(charged["status"]["disruptionsAllowed"], 0);
        assert!(charged["status"]["disruptedPods"]["web"].is_string());
        assert_eq!(charged["status"]["conditions"][0]["reason"], "InsufficientPods");
        let going = cluster.get("pods", "default", "web").await.unwrap();
        assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
        let why = going["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["type"] == "DisruptionTarget")
            .unwrap();
        assert_eq!((&why["status"], &why["reason"]), (&json!("True"), &json!("EvictionByEvictionAPI")));
        assert_eq!(evict(cluster, "web").await.code, 201, "a terminating pod needs no budget");
    });
}

#[test]
fn an_exhausted_or_unobserved_budget_blocks_evictions() {
    simulate(Setup::api_alone(), async |cluster| {
        for name in ["full", "stale", "two"] {
            pod(cluster, name, "Running", "True").await;
        }
        budget(cluster, "full", "full", Value::Null, counted(0, 2, 2, 1)).await;
        budget(cluster, "stale", "stale", Value::Null, counted(1, 3, 2, 0)).await;
        for name in ["two-a", "two-b"] {
            budget(cluster, name, "two", Value::Null, counted(1, 3, 2, 1)).await;
        }
        let before = cluster.store().revision();
        let path = |name: &str| format!("{PODS}/{name}/eviction");
        run(cluster, [
            case("used up", ("POST", &path("full")), eviction("policy/v1", "full"), 429, json!({"reason": "TooManyRequests", "message": BLOCKED,
                "details": {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget full needs 2 healthy pods and has 2 currently"}]}})),
            case("an older body", ("POST", &path("full")), eviction("policy/v1beta1", "full"), 429, json!({"message": BLOCKED})),
            case("not counted yet", ("POST", &path("stale")), eviction("policy/v1", "stale"), 429, json!({"message": BLOCKED,
                "details": {"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget stale is still being processed by the server."}]}})),
            case("several", ("POST", &path("two")), eviction("policy/v1", "two"), 500,
                json!({"message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."})),
            case("another name", ("POST", &path("full")), eviction("policy/v1", "else"), 400, json!({"message": "name in URL does not match name in Eviction object"})),
            case("no such pod", ("POST", &path("none")), eviction("policy/v1", "none"), 404, json!({"message": "pods \"none\" not found"})),
        ]).await;
        assert_eq!(cluster.store().revision(), before, "nothing was written");
    });
}

#[test]
fn unready_pods_are_evicted_by_policy_and_terminal_ones_always() {
    simulate(Setup::api_alone(), async |cluster| {
        for (name, phase, ready) in [
            ("healthy-rest", "Running", "False"),
            ("sick-rest", "Running", "False"),
            ("always", "Running", "False"),
            ("pending", "Pending", "False"),
            ("done", "Succeeded", "False"),
            ("free", "Running", "True"),
        ] {
            pod(cluster, name, phase, ready).await;
        }
        budget(cluster, "healthy", "healthy-rest", Value::Null, counted(0, 2, 2, 1)).await;
        budget(cluster, "sick", "sick-rest", json!("IfHealthyBudget"), counted(0, 1, 2, 1)).await;
        budget(cluster, "always", "always", json!("AlwaysAllow"), counted(0, 0, 2, 1)).await;
        budget(cluster, "pending", "pending", Value::Null, counted(0, 0, 2, 1)).await;
        budget(cluster, "done", "done", Value::Null, counted(0, 0, 2, 1)).await;
        for (name, code) in [
            ("healthy-rest", 201),
            ("sick-rest", 429),
            ("always", 201),
            ("pending", 201),
            ("done", 201),
            ("free", 201),
        ] {
            let reply = evict(cluster, name).await;
            assert_eq!(reply.code, code, "{name}: {}", reply.text("/message"));
        }
        let spared = cluster.get("poddisruptionbudgets", "default", "always").await.unwrap();
        assert_eq!(spared["status"]["disruptionsAllowed"], 0, "an unhealthy pod is not charged");
        assert!(cluster.get("pods", "default", "done").await.is_none(), "a terminal pod is deleted at once");
    });
}

#[test]
fn signing_request_subresources_write_only_their_part() {
    simulate(Setup::api_alone(), async |cluster| {
        let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        // A certificate request for the user jane, signed with Ed25519.
        let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHT01FSUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEFxTUFVR0F5dGxjQU1oQUVtSGRFMG1ZSzJEL2lVWQpaZHFjeGg5TnIxRTEvdWJaOEI2b3ZDK0J6Ym9ib0FBd0JRWURLMlZ3QTBFQTdnajBsQ1FCUmFPall4Qm05OUIzCis4MWIzTlIvVXRpbWoxSFlVejNrVTQ4ODdPYnZlQ25hUHBpTS9HVHNsejRZWGdJRVowTyt0UXlFbXcrdWpBbFcKRGc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
        let body = json!({"metadata": {"name": "r"}, "spec": {"request": pem, "signerName": "example.com/s", "usages": ["client auth"]}});
        let made = send(cluster, "POST", requests, &body).await;
        assert_eq!(made.code, 201, "{}", made.json());
        let approve = json!({"status": {"certificate": "AAAA", "conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}});
        run(
            cluster,
            [
                case(
                    "approval",
                    ("PATCH", &format!("{requests}/r/approval")),
                    approve,
                    200,
                    json!({"status": {"certificate": null}}),
                ),
                case(
                    "read",
                    ("GET", &format!("{requests}/r/approval")),
                    Value::Null,
                    200,
                    json!({"kind": "CertificateSigningRequest"}),
                ),
            ],
        )
        .await;
        let approved = cluster.get("certificatesigningrequests", "", "r").await.unwrap();
        let conditions = approved["status"]["conditions"].as_array().unwrap();
        let said =
            ["type", "status", "reason", "message"].map(|member| conditions[0][member].as_str().unwrap());
        assert_eq!((conditions.len(), said), (1, ["Approved", "True", "r", "m"]));
        for time in ["lastUpdateTime", "lastTransitionTime"] {
            assert!(conditions[0][time].is_string(), "conditions are dated: {conditions:?}");
        }
    });
}

#[test]
fn pod_subresources_write_ephemeral_containers_and_resources() {
    simulate(Setup::api_alone(), async |cluster| {
        pod(cluster, "p", "Running", "True").await;
        let debug = json!([{"op": "add", "path": "/spec/ephemeralContainers", "value": [{"name": "d", "image": "busybox"}]}]);
        let resize = json!([{"op": "add", "path": "/spec/containers/0/resources", "value": {}}]);
        run(
            cluster,
            [
                case(
                    "read",
                    ("GET", &format!("{PODS}/p/ephemeralcontainers")),
                    Value::Null,
                    200,
                    json!({"kind": "Pod"}),
                ),
                case(
                    "added",
                    ("PATCH", &format!("{PODS}/p/ephemeralcontainers")),
                    debug,
                    200,
                    json!({"metadata": {"generation": 2}, "spec": {"nodeName": "n"}}),
                ),
                case(
                    "read for resize",
                    ("GET", &format!("{PODS}/p/resize")),
                    Value::Null,
                    200,
                    json!({"kind": "Pod"}),
                ),
                case(
                    "nothing resized",
                    ("PATCH", &format!("{PODS}/p/resize")),
                    resize,
                    200,
                    json!({"kind": "Pod"}),
                ),
            ],
        )
        .await;
        let pod = cluster.get("pods", "default", "p").await.unwrap();
        assert_eq!(pod["spec"]["ephemeralContainers"][0]["name"], "d");
    });
}

#[test]
fn component_statuses_are_readable_with_a_deprecation_warning() {
    simulate(Setup::api_alone(), async |cluster| {
        let all = "/api/v1/componentstatuses";
        let list = send(cluster, "GET", all, &Value::Null).await;
        assert_eq!((list.code, list.text("/kind")), (200, "ComponentStatusList".to_owned()));
        assert_eq!(super::warnings(&list), ["299 - \"v1 ComponentStatus is deprecated in v1.19+\""]);
        run(
            cluster,
            [
                case(
                    "one",
                    ("GET", &format!("{all}/etcd-0")),
                    Value::Null,
                    200,
                    json!({"conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]}),
                ),
                case(
                    "none",
                    ("GET", &format!("{all}/none")),
                    Value::Null,
                    404,
                    json!({"reason": "NotFound"}),
                ),
            ],
        )
        .await;
    });
}
