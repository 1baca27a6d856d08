//! Control planes in virtual time: starts, images, components, further servers, and their end.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, NetworkConfig};
use kstore_client::{Client, Gvr, ListParams, Patch};
use kstore_cluster::{
    ClientParts, ClusterConfig, Component, Components, ControlPlane, ControlPlaneImage, Ended, ImageError,
    InitialObjects, Middleware, NODES_LEASE, Phases, Storage, server_without_listener,
};
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::sim_api;
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn server(seed: u64) -> ServerConfig {
    server_without_listener(&Nondet::simulated(seed))
}

fn api_alone() -> ClusterConfig {
    ClusterConfig { initial_objects: InitialObjects::Shared, ..ClusterConfig::default() }
}

fn whole() -> ClusterConfig {
    ClusterConfig { components: Components::all(2), ..api_alone() }
}

fn admin() -> UserInfo {
    UserInfo::new("kubernetes-admin", ["system:masters"])
}

fn client(plane: &ControlPlane) -> Client {
    plane.client(admin(), "test")
}

async fn names(client: &Client, gvr: Gvr) -> Vec<String> {
    let (objects, _) =
        client.dynamic(gvr).list("", &ListParams::default()).await.expect("objects are listed");
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn create_map(client: &Client, name: Value) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name});
    client
        .dynamic(Gvr::new("", "v1", "configmaps"))
        .create("default", &map)
        .await
        .expect("the object is accepted")
}

async fn settle(plane: &ControlPlane) {
    let mut writes = plane.writes().expect("the store is here");
    let end = Instant::now() + Duration::from_secs(600);
    while !writes.is_quiet(Duration::from_secs(1), end).await.expect("the store is open")
        || !plane.pending_work().await.expect("pods are read").is_empty()
    {
        assert!(Instant::now() < end, "{:?}", plane.pending_work().await);
    }
}

#[tokio::test(start_paused = true)]
async fn pending_work_is_named_until_the_components_have_done_it() {
    let plane = ControlPlane::start(server(1), whole()).await.unwrap();
    let pending = plane.pending_work().await.unwrap().into_reasons();
    assert_eq!(pending[0], "controllers, scheduler or nodes have not started");
    assert!(pending.contains(&"node-1 has not registered".to_owned()), "{pending:?}");
    settle(&plane).await;
    assert_eq!(names(&client(&plane), Gvr::new("", "v1", "nodes")).await, ["node-0", "node-1"]);
    plane.end(None).await;
}

async fn image_with_map() -> ControlPlaneImage {
    let plane = ControlPlane::start(server(1), whole()).await.expect("it starts");
    settle(&plane).await;
    create_map(&client(&plane), json!({"name": "of-the-image"})).await;
    let image = plane.image().expect("it has not ended");
    plane.end(None).await;
    image
}

#[tokio::test(start_paused = true)]
async fn copies_continue_from_the_image_with_other_components_and_equal_values_for_equal_seeds() {
    let image = image_with_map().await;
    let mut uids = Vec::new();
    for seed in [7, 7, 8] {
        let copy = image.start(server(seed), api_alone()).await.unwrap();
        assert_eq!(copy.store().unwrap().revision(), image.revision());
        assert!(copy.nondet().clock.now() >= image.time());
        assert!(copy.pending_work().await.unwrap().is_empty(), "the API alone has no work");
        let client = client(&copy);
        let own = create_map(&client, json!({"name": "of-the-copy"})).await;
        uids.push(own["metadata"]["uid"].clone());
        let maps = names(&client, Gvr::new("", "v1", "configmaps")).await;
        assert!(maps.contains(&"of-the-image".to_owned()) && maps.contains(&"of-the-copy".to_owned()));
        copy.end(None).await;
    }
    assert_eq!(uids[0], uids[1]);
    assert_ne!(uids[0], uids[2]);
    let forked = image.start(server(7), whole()).await.unwrap();
    settle(&forked).await;
    let image = forked.image().unwrap();
    let again = image.start(server(7), api_alone()).await.unwrap();
    let other = create_map(&client(&again), json!({"name": "of-the-copy"})).await;
    assert_ne!(other["metadata"]["uid"], uids[0], "a copy of a copy draws other values");
}

#[tokio::test(start_paused = true)]
async fn clusters_that_share_initial_objects_have_namespaces_of_their_own() {
    let mut uids = Vec::new();
    for seed in [1, 2] {
        let plane = ControlPlane::start(server(seed), api_alone()).await.unwrap();
        let client = client(&plane);
        let namespace =
            client.dynamic(Gvr::new("", "v1", "namespaces")).get("", "kube-system").await.unwrap();
        uids.push(namespace["metadata"]["uid"].clone());
        let roles = names(&client, Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles")).await;
        assert!(roles.contains(&"cluster-admin".to_owned()));
        plane.end(None).await;
    }
    assert_ne!(uids[0], uids[1]);
}

#[tokio::test(start_paused = true)]
async fn an_external_storage_has_no_image_and_its_writes_are_not_observed() {
    let nondet = Nondet::simulated(1);
    let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
    let storage = Storage::External(Arc::new(Embedded::new(store.clone())));
    let config = ClusterConfig { storage, ..ClusterConfig::default() };
    let phases = config.phases.clone();
    let closing = store.clone();
    let stop = phases.core.stop();
    phases.core.spawn("store", async move {
        stop.cancelled().await;
        closing.close().await;
    });
    let plane = ControlPlane::start(server_without_listener(&nondet), config).await.unwrap();
    assert!(matches!(plane.image(), Err(ImageError::External)));
    assert!(matches!(plane.writes(), Err(Ended)));
    plane.end(None).await;
    assert!(!phases.failed().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_second_api_server_shows_the_objects_of_the_first() {
    let plane = ControlPlane::start(server(1), api_alone()).await.unwrap();
    create_map(&client(&plane), json!({"name": "shared"})).await;
    let storage = Storage::Opened(plane.store().unwrap().clone());
    let second = plane.start_server(storage, server(2)).await.unwrap();
    let client = Client::over(second.in_process(admin()), "test");
    let map = client.dynamic(Gvr::new("", "v1", "configmaps")).get("default", "shared").await.unwrap();
    assert_eq!(map["metadata"]["name"], "shared");
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn components_work_as_leaders_and_the_server_keeps_its_lease_if_configured() {
    let config = ClusterConfig { elects_leaders: true, host: Some("host-a".to_owned()), ..whole() };
    let plane = ControlPlane::start(server(1), config).await.unwrap();
    let api = client(&plane).dynamic(Gvr::new("coordination.k8s.io", "v1", "leases"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    for name in ["kube-controller-manager", "kube-scheduler"] {
        let lease = api.get("kube-system", name).await.unwrap();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
        assert!(holder.starts_with("host-a_"), "{holder}");
    }
    let (leases, _) = api.list("kube-system", &ListParams::default()).await.unwrap();
    assert!(leases.iter().any(|lease| lease["metadata"]["labels"]["kubernetes.io/hostname"] == "host-a"));
    settle(&plane).await;
    plane.end(None).await;
}

/// Counts requests, and clients by whether they belong to a component.
#[derive(Default)]
struct Counter {
    requests: Arc<AtomicUsize>,
    components: AtomicUsize,
    has_store: AtomicUsize,
}

impl Middleware for Counter {
    fn layer(&self, router: Router, store: Option<&Store>) -> Router {
        self.has_store.fetch_add(usize::from(store.is_some()), Ordering::Relaxed);
        let requests = self.requests.clone();
        router.layer(from_fn(move |request: Request, next: Next| {
            requests.fetch_add(1, Ordering::Relaxed);
            next.run(request)
        }))
    }

    fn client(&self, parts: ClientParts<'_>) -> Client {
        self.components.fetch_add(usize::from(parts.user.starts_with("system:")), Ordering::Relaxed);
        parts.direct()
    }
}

#[tokio::test(start_paused = true)]
async fn all_clients_of_a_control_plane_pass_its_middleware_and_checks_for_pending_work_do_not() {
    let counter = Arc::new(Counter::default());
    let config = ClusterConfig { middleware: counter.clone(), ..whole() };
    let plane = ControlPlane::start(server(1), config).await.unwrap();
    settle(&plane).await;
    assert_eq!(counter.has_store.load(Ordering::Relaxed), 1);
    assert!(counter.components.load(Ordering::Relaxed) > 10, "controllers, scheduler, two nodes");
    let before = counter.requests.load(Ordering::Relaxed);
    assert!(before > 0);
    plane.pending_work().await.unwrap();
    assert_eq!(counter.requests.load(Ordering::Relaxed), before);
    names(&client(&plane), Gvr::new("", "v1", "nodes")).await;
    assert_eq!(counter.requests.load(Ordering::Relaxed), before + 1);
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn taken_controllers_are_run_by_the_caller() {
    let mut plane = ControlPlane::start_api(server(1), whole()).await.unwrap();
    let controllers = plane.take_controllers().unwrap();
    assert!(plane.take_controllers().is_none());
    plane.run_components();
    let unowned = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    client(&plane).dynamic(Gvr::new("", "v1", "namespaces")).create("", &unowned).await.unwrap();
    settle(&plane).await;
    let accounts = Gvr::new("", "v1", "serviceaccounts");
    assert!(client(&plane).dynamic(accounts.clone()).get("a", "default").await.is_err());
    controllers.start(None, &plane.phases().loops);
    settle(&plane).await;
    client(&plane).dynamic(accounts).get("a", "default").await.unwrap();
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_share_a_user_where_no_node_authorizer_judges_them() {
    use kstore_access::authz::{Mode, Modes};
    let access = AccessConfig { authorization: Modes::new([Mode::AlwaysAllow]), ..AccessConfig::default() };
    let network = NetworkConfig { advertised: "192.0.2.2:6443".to_owned(), ..NetworkConfig::default() };
    let counter = Arc::new(Counter::default());
    let nodes = Components::all(5).nodes;
    let config = ClusterConfig {
        components: Components { nodes, ..Components::default() },
        middleware: counter.clone(),
        ..api_alone()
    };
    let plane = ControlPlane::start(ServerConfig { access, network, ..server(1) }, config).await.unwrap();
    settle(&plane).await;
    assert_eq!(counter.components.load(Ordering::Relaxed), 1);
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn the_phases_end_in_order_and_a_dropped_control_plane_stops_all() {
    let phases = Phases::default();
    let config = ClusterConfig { phases: phases.clone(), ..whole() };
    let plane = ControlPlane::start(server(1), config).await.unwrap();
    let (ended, order) = (Arc::new(AtomicUsize::new(0)), [&phases.listeners, &phases.loops, &phases.core]);
    for (nth, phase) in order.into_iter().enumerate() {
        let (stop, ended) = (phase.stop(), ended.clone());
        phase.spawn("test", async move {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(ended.fetch_add(1, Ordering::Relaxed), nth);
        });
    }
    plane.end(Some(Instant::now() + Duration::from_secs(60))).await;
    assert_eq!(ended.load(Ordering::Relaxed), 3);
    assert!(!phases.failed().is_cancelled());
    assert!(plane.store().unwrap().put("key", "value").await.is_err(), "the store is closed");

    let phases = Phases::default();
    let config = ClusterConfig { phases: phases.clone(), ..whole() };
    drop(ControlPlane::start(server(1), config).await.unwrap());
    phases.end(None).await;
    assert!(!phases.failed().is_cancelled());
}

/// A process that simulates the NodeGroups of the cluster, with the end of its tasks.
struct NodesProcess {
    task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    /// Cancelled once its nodes have registered.
    registered: CancellationToken,
}

fn nodes_process(plane: &ControlPlane, identity: &str, seed: u64) -> NodesProcess {
    let (stop, registered) = (CancellationToken::new(), CancellationToken::new());
    let config = kstore_kubelet_sim::Config {
        nodes: 0,
        has_sim_api: true,
        registered: registered.clone(),
        ..kstore_kubelet_sim::Config::default()
    };
    let client = client(plane);
    let component = Component::nodes(config, client.clone(), &Nondet::simulated(seed));
    let elector = component.elector(&client, identity, &Registry::new());
    let task = tokio::spawn(component.run(elector, stop.clone()));
    NodesProcess { task, stop, registered }
}

/// The process that simulates the NodeGroups.
async fn owner(plane: &ControlPlane) -> String {
    let leases = client(plane).dynamic(Gvr::new("coordination.k8s.io", "v1", "leases"));
    let lease = leases.get("kube-system", NODES_LEASE).await.expect("the Lease exists");
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn one_of_two_processes_simulates_the_node_groups_and_the_other_takes_over_after_its_end() {
    let plane = ControlPlane::start(server(1), api_alone()).await.unwrap();
    let client = client(&plane);
    sim_api::install(&client, &[]).await.unwrap();
    let groups = client.dynamic(Gvr::new("sim.kstore.io", "v1alpha1", "nodegroups"));
    let group = json!({"apiVersion": "sim.kstore.io/v1alpha1", "kind": "NodeGroup", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
    groups.create("", &group).await.unwrap();
    let first = nodes_process(&plane, "first", 2);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let second = nodes_process(&plane, "second", 3);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let nodes = Gvr::new("", "v1", "nodes");
    assert_eq!(names(&client, nodes.clone()).await, ["web-0", "web-1"]);
    assert_eq!(owner(&plane).await, "first");
    assert!(first.registered.is_cancelled() && !second.registered.is_cancelled(), "the second one waits");

    // A crash: the Lease stays, and the other process waits for its end.
    first.task.abort();
    let crashed = Instant::now();
    second.registered.cancelled().await;
    assert!(crashed.elapsed() <= Duration::from_secs(25), "{:?}", crashed.elapsed());
    assert_eq!(owner(&plane).await, "second");
    let size = json!({"spec": {"replicas": 3}});
    groups.patch("", "web", "", &Patch::Merge(size)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&client, nodes.clone()).await, ["web-0", "web-1", "web-2"]);

    // An orderly end releases the Lease: a third process need not wait for its end.
    let third = nodes_process(&plane, "third", 4);
    tokio::time::sleep(Duration::from_secs(5)).await;
    second.stop.cancel();
    let stopped = Instant::now();
    third.registered.cancelled().await;
    assert!(stopped.elapsed() <= Duration::from_secs(10), "{:?}", stopped.elapsed());
    let events = client.dynamic(Gvr::new("", "v1", "events"));
    let (events, _) = events.list("default", &ListParams::default()).await.unwrap();
    assert!(events.iter().all(|event| event["reason"] != "SimulatedTwice"), "{events:?}");
    third.stop.cancel();
    let _ = third.task.await;
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_of_the_process_of_the_store_hold_their_lease_and_another_process_waits() {
    let nodes = kstore_kubelet_sim::Config { nodes: 0, has_sim_api: true, ..Default::default() };
    let components = Components { nodes: Some(Box::new(nodes)), ..Components::default() };
    let config = ClusterConfig { components, elects_nodes: true, ..api_alone() };
    let mut plane = ControlPlane::start(server(1), config).await.unwrap();
    plane.run_components();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(owner(&plane).await, "embedded-store");
    let other = nodes_process(&plane, "other", 2);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(owner(&plane).await, "embedded-store");
    assert!(!other.registered.is_cancelled());
    other.stop.cancel();
    let _ = other.task.await;
    plane.end(None).await;
}
