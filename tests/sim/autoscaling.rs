//! HorizontalPodAutoscalers in a whole cluster: a metrics server behind the apiserver reports the usage of
//! pods, and workloads are scaled up and down. The metrics server is a fake, or kstore's own, which queries
//! simulated nodes.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use kstore_api::version::Minor;
use kstore_client::{Client, DeleteParams, Gvr, ListParams};
use kstore_metrics_server::{API_SERVICE, MetricsServer};
use kstore_registry::user::UserInfo;
use kstore_tests::wait::condition;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

/// Total usage of all pods of a namespace, in thousandths of a CPU.
pub(crate) type Load = Arc<AtomicI64>;

fn reply(body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

/// A fake metrics server: it distributes the load evenly over the running pods that the request selects.
async fn metrics_server(request: Request<Body>, pods: Client, load: Load) -> Response<Body> {
    let path = request.uri().path();
    if path == METRICS {
        return reply(
            &json!({"kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
            {"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]}]}),
        );
    }
    if path != format!("{METRICS}/namespaces/default/pods") {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let query = request.uri().query().unwrap_or_default();
    let selector = query.strip_prefix("labelSelector=").unwrap_or_default().replace("%3D", "=");
    let api = pods.dynamic(Gvr::new("", "v1", "pods"));
    let (pods, _) = api.list("default", &ListParams::default().labels(&selector)).await.unwrap();
    let running: Vec<&Value> = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").collect();
    let each = load.load(Ordering::Relaxed) / i64::try_from(running.len().max(1)).unwrap();
    let items: Vec<Value> = running
        .iter()
        .map(|pod| {
            json!({"metadata": {"name": pod["metadata"]["name"], "namespace": "default"},
                "timestamp": "2026-01-02T00:00:00Z", "window": "15s",
                "containers": [{"name": "nginx", "usage": {"cpu": format!("{each}m"), "memory": "1Mi"}}]})
        })
        .collect();
    reply(
        &json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}),
    )
}

/// Installs the fake metrics server.
pub(crate) async fn measure(cluster: &Cluster) -> Load {
    let load = Load::default();
    let (client, of_server) = (cluster.client().clone(), load.clone());
    cluster.webhooks().serve_api("default/metrics", move |request| {
        metrics_server(request, client.clone(), of_server.clone())
    });
    reach(cluster, "default", "metrics").await;
    cluster.create(api_service("metrics")).await;
    wait_available(cluster).await;
    load
}

/// Creates a Service with an address that the simulated network can reach.
async fn reach(cluster: &Cluster, namespace: &str, name: &str) {
    cluster
        .create(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": [{"name": "https", "port": 443}]}}),
        )
        .await;
    cluster
        .create(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "https", "port": 8443}], "endpoints": [{"addresses": ["192.0.2.7"]}]}))
        .await;
}

/// The APIService of a metrics server behind a Service of the namespace `default`.
fn api_service(service: &str) -> Value {
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API_SERVICE},
        "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": service}}})
}

async fn wait_available(cluster: &Cluster) {
    cluster
        .wait_until("the metrics API is available", async || {
            let service = cluster.get("apiservices", "", API_SERVICE).await.unwrap();
            condition(&service, "Available").is_some_and(|available| available["status"] == "True")
        })
        .await;
}

/// Installs kstore's own metrics server, as `kstore-server` does, behind a Service.
async fn measure_nodes(cluster: &Cluster) {
    let user = UserInfo::new("system:kstore:metrics-server", None::<&str>);
    let server = MetricsServer::new(
        Client::over(cluster.apiserver().in_process(user), "metrics-server"),
        Minor::DEFAULT,
    );
    cluster.webhooks().serve_api("kube-system/metrics-server", move |request: Request<Body>| {
        let server = server.clone();
        async move { server.answer(&request.into_parts().0).await.map(Body::from) }
    });
    reach(cluster, "kube-system", "metrics-server").await;
    kstore_metrics_server::install(cluster.client(), Minor::DEFAULT).await.unwrap();
    wait_available(cluster).await;
}

/// As `kubectl autoscale deployment NAME --min=1 --max=MAX --cpu=50%`.
pub(crate) fn autoscaler(name: &str, max: u32) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "minReplicas": 1, "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}})
}

pub(crate) fn requesting(name: &str) -> Value {
    let mut deployment = manifests::deployment(name, 1);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "100m"}});
    deployment
}

/// The reason of a condition.
fn reason(autoscaler: &Value, kind: &str) -> String {
    condition(autoscaler, kind).map(|one| one["reason"].as_str().unwrap().to_owned()).unwrap_or_default()
}

async fn events_about(cluster: &Cluster, name: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = cluster.list("events", "default").await;
    let about = events.iter().filter(|event| {
        let object =
            if event["involvedObject"].is_null() { &event["regarding"] } else { &event["involvedObject"] };
        object["kind"] == "HorizontalPodAutoscaler" && object["name"] == name
    });
    about
        .map(|event| {
            let message = if event["message"].is_null() { &event["note"] } else { &event["message"] };
            (text(&event["reason"]), text(message))
        })
        .collect()
}

#[test]
fn a_deployment_is_scaled_with_the_load_of_its_pods() {
    simulate(Setup::seed(81), async |cluster| {
        let load = measure(cluster).await;
        cluster.create(requesting("web")).await;
        cluster.wait_rolled_out("web").await;
        cluster.create(autoscaler("web", 10)).await;
        load.store(400, Ordering::Relaxed);
        let has = |replicas: i64| {
            move |object: &Value| object["status"]["readyReplicas"].as_i64() == Some(replicas)
        };
        cluster.wait_object("deployments", "web", "grew to eight pods", has(8)).await;
        let settled = |hpa: &Value| {
            hpa["status"]["currentReplicas"] == 8 && reason(hpa, "AbleToScale") == "ReadyForNewScale"
        };
        let hpa =
            cluster.wait_object("horizontalpodautoscalers", "web", "found the size right", settled).await;
        assert_eq!(hpa["status"]["desiredReplicas"], 8);
        assert_eq!(
            hpa["status"]["currentMetrics"][0]["resource"]["current"],
            json!({"averageUtilization": 50, "averageValue": "50m"})
        );
        assert_eq!(reason(&hpa, "ScalingActive"), "ValidMetricFound");
        let grown = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
        let grown = ("SuccessfulRescale".to_owned(), grown.to_owned());
        let is_reported = async || events_about(cluster, "web").await.contains(&grown);
        cluster.wait_until("an event reports the first step", is_reported).await;

        load.store(90, Ordering::Relaxed);
        let began = cluster.nondet().clock.now();
        cluster.wait_object("deployments", "web", "shrank to two pods", has(2)).await;
        let took = cluster.nondet().clock.now().duration_since(began).as_secs();
        assert!((240..400).contains(&took), "the recommendations of five minutes count: {took} s");

        // Without a stabilization window it scales down at once.
        let rules = json!({"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]});
        cluster
            .merge("horizontalpodautoscalers", "web", json!({"spec": {"behavior": {"scaleDown": rules}}}))
            .await;
        load.store(30, Ordering::Relaxed);
        let began = cluster.nondet().clock.now();
        cluster.wait_object("deployments", "web", "shrank to one pod", has(1)).await;
        assert!(cluster.nondet().clock.now().duration_since(began).as_secs() < 60);
    });
}

#[test]
fn without_metrics_an_autoscaler_reports_it_and_enforces_its_bounds() {
    simulate(Setup::seed(82), async |cluster| {
        cluster.create(requesting("web")).await;
        let mut hpa = autoscaler("web", 5);
        hpa["spec"]["minReplicas"] = json!(2);
        cluster.create(hpa).await;
        cluster
            .wait_object("deployments", "web", "has as many pods as the lower bound", |object| {
                object["status"]["readyReplicas"] == 2
            })
            .await;
        let failed = |hpa: &Value| reason(hpa, "ScalingActive") == "FailedGetResourceMetric";
        let hpa = cluster.wait_object("horizontalpodautoscalers", "web", "misses its metrics", failed).await;
        let expected = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: \
            unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
        assert_eq!(condition(&hpa, "ScalingActive").unwrap()["message"], expected);
        let is_reported = async || {
            events_about(cluster, "web")
                .await
                .iter()
                .any(|(reason, _)| reason == "FailedComputeMetricsReplicas")
        };
        cluster.wait_until("an event says that the metrics are missing", is_reported).await;

        let mut lost = autoscaler("lost", 5);
        lost["spec"]["scaleTargetRef"]["name"] = json!("nothing");
        cluster.create(lost).await;
        let gone = |hpa: &Value| reason(hpa, "AbleToScale") == "FailedGetScale";
        cluster.wait_object("horizontalpodautoscalers", "lost", "misses its target", gone).await;
    });
}

#[test]
fn custom_kinds_with_a_scale_are_scaled() {
    simulate(Setup::seed(83), async |cluster| {
        let subresources = json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
            "labelSelectorPath": ".status.selector"}});
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        cluster
            .create(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "fleets.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "fleets", "kind": "Fleet"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources}]}}))
            .await;
        let fleets = cluster.client().dynamic(Gvr::new("example.com", "v1", "fleets"));
        let fleet = json!({"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "a"}, "spec": {"size": 1}});
        cluster
            .wait_until("the kind is served", async || fleets.create("default", &fleet).await.is_ok())
            .await;
        let mut hpa = autoscaler("fleet", 9);
        hpa["spec"]["minReplicas"] = json!(3);
        hpa["spec"]["scaleTargetRef"] = json!({"apiVersion": "example.com/v1", "kind": "Fleet", "name": "a"});
        cluster.create(hpa).await;
        cluster
            .wait_until("the fleet has its size", async || {
                fleets.get("default", "a").await.unwrap()["spec"]["size"] == 3
            })
            .await;
        let unselecting = |hpa: &Value| reason(hpa, "ScalingActive") == "InvalidSelector";
        cluster.wait_object("horizontalpodautoscalers", "fleet", "misses the selector", unselecting).await;
    });
}

/// Sets the annotated usage of all pods of the namespace `default`.
async fn annotate_pods(cluster: &Cluster, cpu: &str) {
    for pod in cluster.list("pods", "default").await {
        let patch = json!({"metadata": {"annotations": {"kubelet-sim.kstore.io/cpu": cpu}}});
        cluster.merge("pods", pod["metadata"]["name"].as_str().unwrap(), patch).await;
    }
}

#[test]
fn simulated_pods_are_scaled_by_their_usage_annotations() {
    simulate(Setup::seed(84), async |cluster| {
        measure_nodes(cluster).await;
        let mut deployment = requesting("web");
        deployment["spec"]["template"]["metadata"]["annotations"] =
            json!({"kubelet-sim.kstore.io/cpu": "200m", "kubelet-sim.kstore.io/memory": "64Mi"});
        cluster.create(deployment).await;
        cluster.wait_rolled_out("web").await;
        cluster.create(autoscaler("web", 3)).await;
        let has = |replicas: i64| {
            move |object: &Value| object["status"]["readyReplicas"].as_i64() == Some(replicas)
        };
        cluster.wait_object("deployments", "web", "grew to its bound", has(3)).await;
        let limited = |hpa: &Value| {
            hpa["status"]["currentReplicas"] == 3 && reason(hpa, "ScalingLimited") == "TooManyReplicas"
        };
        let hpa = cluster.wait_object("horizontalpodautoscalers", "web", "is at its bound", limited).await;
        let current = &hpa["status"]["currentMetrics"][0]["resource"]["current"];
        assert_eq!(current, &json!({"averageUtilization": 200, "averageValue": "200m"}));

        annotate_pods(cluster, "10m").await;
        let usage = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
        let pods = cluster.rest().call("GET", &format!("{METRICS}/namespaces/default/pods"), "").await;
        for index in 0..3 {
            assert_eq!(pods.text(&format!("/items/{index}/containers/0/usage/cpu")), "10m", "at once");
        }
        let nodes: Value =
            serde_json::from_slice(&cluster.rest().call("GET", &format!("{METRICS}/nodes"), "").await.body)
                .unwrap();
        let usages: Vec<&Value> =
            nodes["items"].as_array().unwrap().iter().map(|node| &node["usage"]).collect();
        assert_eq!(usages, [&usage("10m", "64Mi"); 3], "the scheduler spreads three pods over three nodes");
        cluster.wait_object("deployments", "web", "shrank to its bound", has(1)).await;

        let node = cluster.list("pods", "default").await[0]["spec"]["nodeName"].clone();
        let node = node.as_str().unwrap();
        let summary = format!("/api/v1/nodes/{node}/proxy/stats/summary");
        let reply = cluster.rest().call("GET", &summary, "").await;
        assert_eq!(reply.text("/pods/0/podRef/namespace"), "default");
        let page = format!("/api/v1/nodes/{node}/proxy/metrics/resource");
        let page = cluster.rest().call("GET", &page, "").await.body;
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert!(page.contains("\npod_memory_working_set_bytes{namespace=\"default\",pod=\"web-"), "{page}");
    });
}

#[test]
fn the_openapi_documents_include_those_of_the_metrics_server() {
    simulate(Setup::seed(86).nodes(1), async |cluster| {
        measure_nodes(cluster).await;
        let read = async |path: &str| cluster.rest().call("GET", path, "").await.json();
        let index = read("/openapi/v3").await;
        let url = index["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"].clone();
        let v3 = read(url.as_str().unwrap()).await;
        let model = "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics";
        assert_eq!(v3["components"]["schemas"][model]["required"], json!(["timestamp", "window", "usage"]));
        let v2 = read("/openapi/v2").await;
        assert_eq!(v2["definitions"][model]["required"], json!(["timestamp", "window", "usage"]));
        assert!(v2["paths"][format!("{METRICS}/nodes")]["get"].is_object());
        let renamed = |name: &&String| name.ends_with("_v2");
        let definitions = v2["definitions"].as_object().unwrap();
        assert_eq!(definitions.keys().find(renamed), None, "it has the same models of metadata");
    });
}

#[test]
fn a_metrics_server_installed_by_the_user_is_not_replaced() {
    simulate(Setup::seed(85).nodes(1), async |cluster| {
        let client = cluster.client();
        cluster.create(api_service("of-the-user")).await;
        kstore_metrics_server::install(client, Minor::DEFAULT).await.unwrap();
        kstore_metrics_server::uninstall(client).await.unwrap();
        let kept = cluster.get("apiservices", "", API_SERVICE).await.unwrap();
        assert_eq!(kept["spec"]["service"]["name"], "of-the-user");
        let services = client.dynamic(Gvr::new("apiregistration.k8s.io", "v1", "apiservices"));
        services.delete("", API_SERVICE, &DeleteParams::default()).await.unwrap();

        for _ in 0..2 {
            kstore_metrics_server::install(client, Minor::DEFAULT).await.unwrap();
        }
        let own = cluster.get("apiservices", "", API_SERVICE).await.unwrap();
        assert_eq!(
            own["spec"]["service"],
            json!({"namespace": "kube-system", "name": "metrics-server", "port": 443})
        );
        let reader = cluster.get("clusterroles", "", "system:aggregated-metrics-reader").await.unwrap();
        assert_eq!(reader["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"], "true");
        kstore_metrics_server::uninstall(client).await.unwrap();
        kstore_metrics_server::uninstall(client).await.unwrap();
        assert!(cluster.get("apiservices", "", API_SERVICE).await.is_none());
    });
}
