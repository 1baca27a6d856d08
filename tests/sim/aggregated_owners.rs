//! Owner references from and to objects of an aggregated API server, and deletion of namespaces that contain
//! them, in a whole cluster. The API server runs in this process and stores its objects in memory.

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kstore_client::{DeleteParams, Gvr, Patch, Propagation, RestApi};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const GROUP: &str = "wardle.example.com";
const ROOT: &str = "/apis/wardle.example.com/v1alpha1";

/// The aggregated API server: one namespaced kind without streaming lists. Clones share the objects.
#[derive(Clone)]
struct Wardle(Arc<Mutex<Flunders>>);

struct Flunders {
    objects: BTreeMap<(String, String), Value>,
    /// All watch events, with their revisions.
    events: Vec<(u64, String)>,
    /// The newest revision.
    revision: watch::Sender<u64>,
}

impl Flunders {
    fn record(&mut self, kind: &str, key: (&str, &str), mut object: Value) -> Value {
        let revision = *self.revision.borrow() + 1;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let key = (key.0.to_owned(), key.1.to_owned());
        match kind {
            "DELETED" => drop(self.objects.remove(&key)),
            _ => drop(self.objects.insert(key, object.clone())),
        }
        self.events.push((revision, format!("{}\n", json!({ "type": kind, "object": object }))));
        self.revision.send_replace(revision);
        object
    }
}

fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

fn missing(name: &str) -> Response<Body> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": format!("flunders.{GROUP} \"{name}\" not found"), "details": { "name": name, "kind": "flunders" } });
    answer(StatusCode::NOT_FOUND, &status)
}

impl Wardle {
    fn new() -> Self {
        let (objects, events, revision) = (BTreeMap::new(), Vec::new(), watch::Sender::new(1));
        Self(Arc::new(Mutex::new(Flunders { objects, events, revision })))
    }

    fn put(&self, name: &str, owner: Option<&Value>) -> Value {
        let mut object = json!({ "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Flunder",
            "metadata": { "name": name, "namespace": "default", "uid": format!("flunder-{name}") } });
        if let Some(owner) = owner {
            object["metadata"]["ownerReferences"] = owned_by(owner);
        }
        self.0.lock().record("ADDED", ("default", name), object)
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().objects.keys().map(|(_, name)| name.clone()).collect()
    }

    async fn serve(self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some(path) = head.uri.path().strip_prefix(ROOT) else { return missing("") };
        let query = head.uri.query().unwrap_or_default();
        match path.split('/').skip(1).collect::<Vec<_>>()[..] {
            [] => answer(
                StatusCode::OK,
                &json!({ "kind": "APIResourceList", "groupVersion": format!("{GROUP}/v1alpha1"), "resources": [
                    { "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                        "verbs": ["delete", "get", "list", "patch", "watch"] }] }),
            ),
            ["flunders"] if query.contains("watch=true") => self.watch(query),
            ["flunders"] => self.list(None),
            ["namespaces", namespace, "flunders"] => self.list(Some(namespace)),
            ["namespaces", namespace, "flunders", name] => {
                self.object(head.method.as_str(), (namespace, name), &body)
            }
            _ => missing(""),
        }
    }

    /// Like lists of Kubernetes, its items do not name their kind.
    fn list(&self, namespace: Option<&str>) -> Response<Body> {
        let flunders = self.0.lock();
        let of = flunders.objects.iter().filter(|((ns, _), _)| namespace.is_none_or(|of| of == ns));
        let items: Vec<Value> = of.map(|(_, object)| json!({ "metadata": object["metadata"] })).collect();
        let revision = flunders.revision.borrow().to_string();
        answer(
            StatusCode::OK,
            &json!({ "kind": "FlunderList", "metadata": { "resourceVersion": revision }, "items": items }),
        )
    }

    fn watch(&self, query: &str) -> Response<Body> {
        if query.contains("sendInitialEvents") {
            let message = "sendInitialEvents is forbidden for watch";
            return answer(
                StatusCode::UNPROCESSABLE_ENTITY,
                &json!({ "kind": "Status", "code": 422, "message": message }),
            );
        }
        let after = query.split('&').find_map(|one| one.strip_prefix("resourceVersion=")).unwrap();
        let (server, changed) = (self.clone(), self.0.lock().revision.subscribe());
        let state = (server, changed, after.parse::<u64>().unwrap());
        let lines = futures::stream::unfold(state, async |(server, mut changed, after)| {
            changed.wait_for(|revision| *revision > after).await.ok()?;
            let now = *changed.borrow();
            let flunders = server.0.lock();
            let new = flunders.events.iter().filter(|(revision, _)| *revision > after);
            let lines: String = new.map(|(_, line)| line.as_str()).collect();
            drop(flunders);
            Some((Ok::<_, std::io::Error>(Bytes::from(lines)), (server, changed, now)))
        });
        let mut response = Response::new(Body::from_stream(lines.boxed()));
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
        response
    }

    fn object(&self, method: &str, key: (&str, &str), body: &Value) -> Response<Body> {
        let mut flunders = self.0.lock();
        let Some(mut object) = flunders.objects.get(&(key.0.to_owned(), key.1.to_owned())).cloned() else {
            return missing(key.1);
        };
        match method {
            "GET" => {}
            "DELETE" => {
                assert_eq!(
                    body["preconditions"]["uid"], object["metadata"]["uid"],
                    "deletions name the object"
                );
                if body["propagationPolicy"] == "Foreground" {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    object["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
                    object = flunders.record("MODIFIED", key, object);
                } else {
                    object = flunders.record("DELETED", key, object);
                }
            }
            "PATCH" => {
                assert_eq!(body["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
                for field in ["finalizers", "ownerReferences"] {
                    if let Some(value) = body["metadata"].get(field) {
                        object["metadata"][field] = value.clone();
                    }
                }
                let is_held = object["metadata"]["finalizers"] != json!([]);
                let ends = object["metadata"]["deletionTimestamp"].is_string() && !is_held;
                object = flunders.record(if ends { "DELETED" } else { "MODIFIED" }, key, object);
            }
            other => panic!("{other} is not sent"),
        }
        answer(StatusCode::OK, &object)
    }
}

fn start(cluster: &Cluster, wardle: &Wardle) {
    let wardle = wardle.clone();
    cluster.webhooks().serve_api("default/wardle", move |request| wardle.clone().serve(request));
}

fn api_service() -> Value {
    json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": format!("v1alpha1.{GROUP}") },
        "spec": { "group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": { "namespace": "default", "name": "wardle" } } })
}

async fn wait_available(cluster: &Cluster, status: &str) {
    let wanted = json!(status);
    let available = async || {
        let service = cluster.get("apiservices", "", &format!("v1alpha1.{GROUP}")).await.unwrap();
        service["status"]["conditions"][0]["status"] == wanted
    };
    cluster.wait_until(&format!("Available is {status}"), available).await;
}

/// Starts the API server and registers it.
async fn serve(cluster: &Cluster) -> Wardle {
    let wardle = Wardle::new();
    start(cluster, &wardle);
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "wardle", "namespace": "default" },
        "spec": { "ports": [{ "name": "https", "port": 443 }] } });
    cluster.create(service).await;
    cluster.create(json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "wardle", "namespace": "default", "labels": { "kubernetes.io/service-name": "wardle" } },
        "ports": [{ "name": "https", "port": 8443 }], "endpoints": [{ "addresses": ["192.0.2.7"] }] })).await;
    cluster.create(api_service()).await;
    wait_available(cluster, "True").await;
    wardle
}

fn flunders(cluster: &Cluster) -> RestApi {
    cluster.client().rest(Gvr::new(GROUP, "v1alpha1", "flunders"))
}

fn owned_by(owner: &Value) -> Value {
    json!([{ "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true }])
}

async fn config_map(cluster: &Cluster, name: &str, owner: Option<&Value>) -> Value {
    let mut object = manifests::config_map(name, "1");
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = owned_by(owner);
    }
    cluster.create(object).await
}

async fn has_map(cluster: &Cluster, name: &str) -> bool {
    cluster.get("configmaps", "default", name).await.is_some()
}

async fn wait_no_map(cluster: &Cluster, name: &str) {
    cluster.wait_until(&format!("{name} is collected"), async || !has_map(cluster, name).await).await;
}

async fn delete_map(cluster: &Cluster, name: &str) {
    cluster.delete("configmaps", name, DeleteParams::default()).await;
}

/// Longer than the interval at which discovery is read.
async fn rest() {
    tokio::time::sleep(Duration::from_secs(90)).await;
}

#[test]
fn objects_of_an_aggregated_api_server_are_owners_and_dependents() {
    simulate(Setup::controllers(), async |cluster| {
        let wardle = serve(cluster).await;
        // A config map owns a flunder, which owns another config map.
        let first = config_map(cluster, "first", None).await;
        let middle = wardle.put("middle", Some(&first));
        config_map(cluster, "last", Some(&middle)).await;
        let other = wardle.put("other", None);
        config_map(cluster, "stays", Some(&other)).await;
        rest().await;
        assert_eq!(wardle.names(), ["middle", "other"]);
        assert!(has_map(cluster, "last").await, "its owner exists");
        delete_map(cluster, "first").await;
        wait_no_map(cluster, "last").await;
        assert_eq!(wardle.names(), ["other"]);
        // A deletion in the foreground ends when its dependents have ended.
        let foreground = DeleteParams::default().uid("flunder-other").propagation(Propagation::Foreground);
        let hold = Patch::Merge(json!({ "metadata": { "finalizers": ["example.com/held"] } }));
        cluster.resource("configmaps").patch("default", "stays", "", &hold).await.unwrap();
        flunders(cluster).delete("default", "other", &foreground).await.unwrap();
        rest().await;
        assert_eq!(wardle.names(), ["other"], "it waits for its dependent");
        cluster.merge("configmaps", "stays", json!({ "metadata": { "finalizers": null } })).await;
        wait_no_map(cluster, "stays").await;
        cluster.wait_until("the owner is deleted", async || wardle.names().is_empty()).await;
    });
}

#[test]
fn an_unavailable_aggregated_api_server_delays_only_its_own_objects_and_their_dependents() {
    simulate(Setup::controllers(), async |cluster| {
        let wardle = serve(cluster).await;
        let gone = wardle.put("gone", None);
        let owner = config_map(cluster, "owner", None).await;
        wardle.put("dependent", Some(&owner));
        rest().await;
        cluster.webhooks().end_api("default/wardle");
        wait_available(cluster, "False").await;
        // Its owner is unknown to the collector, and cannot be read.
        let mut never = gone.clone();
        never["metadata"]["uid"] = json!("flunder-never");
        config_map(cluster, "of-unreadable", Some(&never)).await;
        config_map(cluster, "of-owner", Some(&owner)).await;
        delete_map(cluster, "owner").await;
        wait_no_map(cluster, "of-owner").await;
        rest().await;
        assert!(has_map(cluster, "of-unreadable").await, "an unread owner may exist");
        assert_eq!(wardle.names(), ["dependent", "gone"]);
        start(cluster, &wardle);
        wait_no_map(cluster, "of-unreadable").await;
        cluster.wait_until("the dependent is collected", async || wardle.names() == ["gone"]).await;
    });
}

#[test]
fn dependents_of_an_aggregated_api_server_stay_when_it_is_no_longer_registered() {
    simulate(Setup::controllers(), async |cluster| {
        let wardle = serve(cluster).await;
        let owner = wardle.put("owner", None);
        config_map(cluster, "map", Some(&owner)).await;
        rest().await;
        let name = format!("v1alpha1.{GROUP}");
        cluster.resource("apiservices").delete("", &name, &DeleteParams::default()).await.unwrap();
        rest().await;
        let late = config_map(cluster, "late", Some(&owner)).await;
        assert!(late["metadata"]["uid"].is_string());
        rest().await;
        assert!(has_map(cluster, "map").await && has_map(cluster, "late").await);
        // Registered again, its owner has been deleted meanwhile.
        wardle.0.lock().record("DELETED", ("default", "owner"), owner);
        cluster.create(api_service()).await;
        wait_no_map(cluster, "map").await;
        wait_no_map(cluster, "late").await;
    });
}

#[test]
fn a_namespace_is_deleted_after_the_objects_of_aggregated_api_servers_in_it() {
    simulate(Setup::controllers(), async |cluster| {
        let wardle = serve(cluster).await;
        cluster.create(manifests::namespace("shop")).await;
        let object = json!({ "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Flunder",
            "metadata": { "name": "sold", "namespace": "shop", "uid": "flunder-sold" } });
        wardle.0.lock().record("ADDED", ("shop", "sold"), object);
        wardle.put("kept", None);
        let mut map = manifests::config_map("map", "1");
        map["metadata"]["namespace"] = json!("shop");
        cluster.create(map).await;
        cluster.webhooks().end_api("default/wardle");
        wait_available(cluster, "False").await;
        cluster.resource("namespaces").delete("", "shop", &DeleteParams::default()).await.unwrap();
        rest().await;
        let shop = cluster.get("namespaces", "", "shop").await.expect("its content is unknown");
        let conditions = shop["status"]["conditions"].as_array().unwrap();
        let failed: Vec<_> = conditions.iter().filter(|one| one["status"] == "True").collect();
        assert_eq!(failed.len(), 1, "{conditions:?}");
        assert_eq!(failed[0]["type"], "NamespaceDeletionDiscoveryFailure");
        let message = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                       wardle.example.com/v1alpha1: stale GroupVersion discovery: wardle.example.com/v1alpha1";
        assert_eq!(
            (&failed[0]["reason"], &failed[0]["message"]),
            (&json!("DiscoveryFailed"), &json!(message))
        );
        let map = async || cluster.get("configmaps", "shop", "map").await;
        assert!(map().await.is_none(), "content of other servers is deleted meanwhile");
        start(cluster, &wardle);
        let gone = async || cluster.get("namespaces", "", "shop").await.is_none();
        cluster.wait_until("the namespace is deleted", gone).await;
        assert_eq!(wardle.names(), ["kept"]);
    });
}

#[test]
fn events_are_not_collected_with_their_owners_and_are_owners_themselves() {
    simulate(Setup::controllers(), async |cluster| {
        let owner = config_map(cluster, "owner", None).await;
        let event = cluster
            .create(json!({ "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Sold",
                "metadata": { "name": "event", "namespace": "default", "ownerReferences": owned_by(&owner) },
                "involvedObject": { "kind": "ConfigMap", "namespace": "default", "name": "owner" } }))
            .await;
        config_map(cluster, "of-owner", Some(&owner)).await;
        // The group "" forbids events as owners, as in Kubernetes.
        let mut named_elsewhere = event;
        named_elsewhere["apiVersion"] = json!("events.k8s.io/v1");
        config_map(cluster, "of-event", Some(&named_elsewhere)).await;
        delete_map(cluster, "owner").await;
        wait_no_map(cluster, "of-owner").await;
        rest().await;
        assert!(cluster.get("events", "default", "event").await.is_some(), "Kubernetes ignores events, too");
        assert!(has_map(cluster, "of-event").await, "its owner exists");
        cluster.resource("events").delete("default", "event", &DeleteParams::default()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1_100)).await;
        assert!(!has_map(cluster, "of-event").await);
    });
}
