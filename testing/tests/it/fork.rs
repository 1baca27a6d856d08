//! Tests of [`Cluster::fork`] and images: copies share the state of the original, and later changes do not affect each other.

use futures::StreamExt as _;
use kstore_client::{Client, Gvr, ListParams, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, Start};
use kstore_testing::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

const DEPLOYMENTS: (&str, &str, &str) = ("apps", "v1", "deployments");

fn config_maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn config_map(name: &str, value: u8) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"value": value.to_string()},
    })
}

/// The values of all ConfigMaps in `default`, and the revision of the list.
async fn contents(client: &Client) -> (BTreeMap<String, String>, u64) {
    let (objects, revision) = client
        .dynamic(config_maps())
        .list("default", &ListParams::default())
        .await
        .expect("the cluster serves the request");
    let text = |value: &Value| value.as_str().expect("the cluster serves the request").to_owned();
    let all =
        objects.iter().map(|object| (text(&object["metadata"]["name"]), text(&object["data"]["value"])));
    (all.collect(), revision.0)
}

#[derive(Clone, Debug)]
enum Step {
    Put { cluster: usize, name: u8, value: u8 },
    Delete { cluster: usize, name: u8 },
    Fork { cluster: usize },
    Stop { cluster: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<usize>(), 0..6u8, any::<u8>())
            .prop_map(|(cluster, name, value)| Step::Put { cluster, name, value }),
        2 => (any::<usize>(), 0..6u8).prop_map(|(cluster, name)| Step::Delete { cluster, name }),
        2 => any::<usize>().prop_map(|cluster| Step::Fork { cluster }),
        1 => any::<usize>().prop_map(|cluster| Step::Stop { cluster }),
    ]
}

/// Model of one cluster: its values, and the number of writes since the first cluster started.
type Model = (BTreeMap<String, String>, u64);

/// Performs the steps on clusters and on maps, and compares every cluster after each step.
async fn run(steps: Vec<Step>) {
    let first = Cluster::builder().api_only().virtual_time(1).start().await;
    let begin = contents(first.client()).await.1;
    let mut clusters: Vec<(Cluster, Model)> = vec![(first, (BTreeMap::new(), begin))];
    for step in steps {
        match step {
            Step::Put { cluster, name, value } => {
                let at = cluster % clusters.len();
                let (cluster, (map, revision)) = &mut clusters[at];
                let (api, name) = (cluster.client().dynamic(config_maps()), format!("map-{name}"));
                let object = config_map(&name, value);
                let old = map.insert(name, value.to_string());
                match &old {
                    None => {
                        drop(api.create("default", &object).await.expect("the cluster serves the request"));
                    }
                    Some(_) => drop(api.update(&object).await.expect("the cluster serves the request")),
                }
                // A write that changes nothing makes no revision.
                *revision += u64::from(old.as_deref() != Some(&value.to_string()));
            }
            Step::Delete { cluster, name } => {
                let at = cluster % clusters.len();
                let (cluster, (map, revision)) = &mut clusters[at];
                let name = format!("map-{name}");
                let deleted = cluster
                    .client()
                    .dynamic(config_maps())
                    .delete("default", &name, &Default::default())
                    .await;
                assert_eq!(deleted.is_ok(), map.remove(&name).is_some());
                *revision += u64::from(deleted.is_ok());
            }
            Step::Fork { cluster } if clusters.len() < 6 => {
                let (cluster, model) = &clusters[cluster % clusters.len()];
                let fork = (cluster.fork().await, model.clone());
                clusters.push(fork);
            }
            Step::Stop { cluster } if clusters.len() > 1 => {
                let at = cluster % clusters.len();
                clusters.swap_remove(at).0.stop().await;
            }
            Step::Fork { .. } | Step::Stop { .. } => {}
        }
        for (cluster, model) in &clusters {
            assert_eq!(&contents(cluster.client()).await, model);
        }
    }
    for (cluster, _) in clusters {
        cluster.stop().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]
    #[test]
    fn clusters_and_forks_agree_with_a_model_of_separate_maps(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(run(steps));
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_and_nodes_of_a_fork_work_independently() {
    let origin = Cluster::builder().virtual_time(1).nodes(2).apply(DEPLOYMENT).start().await;
    let ready = |replicas: u8| json!({"status": {"readyReplicas": replicas, "replicas": replicas}});
    origin.wait_for(DEPLOYMENTS, "default", "web", &ready(2)).await.unwrap();
    origin.advance(Duration::from_secs(3600)).await;
    let fork = origin.fork().await;
    fork.apply(&DEPLOYMENT.replace("replicas: 2", "replicas: 5")).await.unwrap();
    fork.wait_for(DEPLOYMENTS, "default", "web", &ready(5)).await.unwrap();
    let (pods, _) =
        fork.client().dynamic(Gvr::new("", "v1", "pods")).list("default", &Default::default()).await.unwrap();
    let created = pods.iter().filter_map(|pod| pod["metadata"]["creationTimestamp"].as_str()).max().unwrap();
    assert!(created.starts_with("2026-01-01T01:"), "the clock goes on: {created}");
    origin.advance(Duration::from_secs(600)).await;
    origin.wait_for(DEPLOYMENTS, "default", "web", &ready(2)).await.unwrap();
    origin.stop().await;
    fork.apply(&DEPLOYMENT.replace("replicas: 2", "replicas: 1")).await.unwrap();
    fork.wait_for(DEPLOYMENTS, "default", "web", &ready(1)).await.unwrap();
    fork.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watches_stay_with_their_cluster_and_resume_in_a_fork() {
    let origin = Cluster::builder().api_only().virtual_time(1).start().await;
    let api = origin.client().dynamic(config_maps());
    let first = api.create("default", &config_map("a", 1)).await.unwrap();
    api.create("default", &config_map("b", 1)).await.unwrap();
    let source = api.source(WatchParams::default().ns("default"));
    let mut watch = source.watch(Start::Initial(kstore_informer::ReadAt::Latest)).await.unwrap();
    let fork = origin.fork().await;
    fork.client().dynamic(config_maps()).create("default", &config_map("c", 1)).await.unwrap();
    api.create("default", &config_map("d", 1)).await.unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|name| name != "d") {
        for frame in watch.next().await.unwrap().unwrap() {
            if let Frame::Put(object) = frame {
                seen.push(object.value()["metadata"]["name"].as_str().unwrap().to_owned());
            }
        }
    }
    assert!(!seen.contains(&"c".to_owned()), "{seen:?}");

    let revision: u64 = first["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let source = fork.client().dynamic(config_maps()).source(WatchParams::default().ns("default"));
    let mut watch = source.watch(Start::After(kstore_informer::Revision(revision))).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        for frame in watch.next().await.unwrap().unwrap() {
            if let Frame::Put(object) = frame {
                seen.push(object.value()["metadata"]["name"].as_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(seen, ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn forks_expire_events_and_enforce_roles() {
    let origin = Cluster::builder().api_only().virtual_time(1).start().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Testing", "type": "Normal",
    });
    origin.client().dynamic(Gvr::new("", "v1", "events")).create("default", &event).await.unwrap();
    origin.advance(Duration::from_secs(1800)).await;
    let fork = origin.fork().await;
    let events = fork.client().dynamic(Gvr::new("", "v1", "events"));
    fork.advance(Duration::from_secs(1700)).await;
    assert!(events.get("default", "e").await.is_ok());
    fork.advance(Duration::from_secs(200)).await;
    assert!(events.get("default", "e").await.unwrap_err().is_not_found());
    let jane = fork.client_as("jane", ["dev"]).dynamic(config_maps());
    assert!(jane.get("default", "a").await.unwrap_err().is_forbidden());
    fork.apply(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: jane}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]}",
    )
    .await
    .unwrap();
    assert!(jane.get("default", "a").await.unwrap_err().is_not_found());
    let elsewhere = origin.client_as("jane", ["dev"]).dynamic(config_maps());
    assert!(elsewhere.get("default", "a").await.unwrap_err().is_forbidden());
}

#[tokio::test(start_paused = true)]
async fn forks_have_custom_kinds_and_causes_of_writes() {
    let origin = Cluster::builder().virtual_time(1).nodes(0).apply(DEPLOYMENT).start().await;
    origin.apply(include_str!("widgets.yaml")).await.unwrap();
    origin.advance(Duration::from_secs(60)).await;
    let fork = origin.fork().await;
    let widgets = fork.client().dynamic(Gvr::new("example.com", "v1", "widgets"));
    assert_eq!(widgets.get("default", "first").await.unwrap()["spec"]["size"], 3);
    fork.apply(&include_str!("widgets.yaml").replace("size: 3", "size: 4")).await.unwrap();
    let wanted = json!({"status": {"readyReplicas": 9}});
    let report = fork.wait_for(DEPLOYMENTS, "default", "web", &wanted).await.unwrap_err().to_string();
    assert!(report.contains("replicasets/default/web-"), "{report}");
}

/// Each test of a binary has its own runtime, and the original cluster may have ended.
#[test]
fn images_start_equal_clusters_on_any_runtime() {
    let on_runtime = |future: std::pin::Pin<Box<dyn Future<Output = String>>>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(future)
    };
    let image = std::sync::Mutex::new(None);
    let image = &*Box::leak(Box::new(image));
    on_runtime(Box::pin(async {
        let cluster = Cluster::builder().virtual_time(1).nodes(1).start().await;
        cluster.advance(Duration::from_secs(3600)).await;
        *image.lock().unwrap() = Some(cluster.image().unwrap());
        String::new()
    }));
    let image = &*Box::leak(Box::new(image.lock().unwrap().take().unwrap()));
    let states: Vec<String> = (0..3)
        .map(|_| {
            on_runtime(Box::pin(async {
                let cluster = image.start().await;
                cluster.apply(DEPLOYMENT).await.unwrap();
                cluster.settled().await.unwrap();
                let pods = cluster.client().dynamic(Gvr::new("", "v1", "pods"));
                let (pods, revision) = pods.list("default", &ListParams::default()).await.unwrap();
                format!("{revision:?} {pods:?}")
            }))
        })
        .collect();
    assert!(states[0].contains("2026-01-01T01:00:0"), "the clock goes on: {}", states[0]);
    assert_eq!((&states[0], &states[0]), (&states[1], &states[2]));
}

#[tokio::test]
async fn forks_outlive_their_original_cluster() {
    let cluster = Cluster::builder().api_only().start().await;
    let fork = cluster.fork().await;
    let again = fork.fork().await;
    fork.stop().await;
    cluster.stop().await;
    assert_eq!(contents(again.client()).await.0, BTreeMap::new());
    again.stop().await;
}

/// UIDs of all namespaces, and the list's revision.
async fn namespaces(cluster: &Cluster) -> (BTreeMap<String, String>, u64) {
    let namespaces = cluster.client().dynamic(Gvr::new("", "v1", "namespaces"));
    let (objects, revision) =
        namespaces.list("", &ListParams::default()).await.expect("namespaces can be listed");
    let text = |value: &Value| value.as_str().expect("names and UIDs are strings").to_owned();
    let uids = objects.iter().map(|object| {
        let metadata = &object["metadata"];
        (text(&metadata["name"]), text(&metadata["uid"]))
    });
    (uids.collect(), revision.0)
}

#[tokio::test]
async fn real_time_clusters_share_initial_objects_but_not_namespace_uids() {
    let mut uids = Vec::new();
    for _ in 0..4 {
        let cluster = Cluster::builder().api_only().start().await;
        // The first responses already have the new UIDs, both for a list and for a single object.
        let (all, revision) = namespaces(&cluster).await;
        let namespaces = cluster.client().dynamic(Gvr::new("", "v1", "namespaces"));
        let kube_system = namespaces.get("", "kube-system").await.unwrap();
        assert_eq!(kube_system["metadata"]["uid"], all["kube-system"]);
        assert!(revision > 0);
        assert_eq!(all.len(), 4, "{all:?}");
        uids.extend(all.into_values());
        // Objects of one cluster do not exist in the next one.
        assert_eq!(contents(cluster.client()).await.0, BTreeMap::new());
        let written = cluster.client().dynamic(config_maps()).create("default", &config_map("a", 1)).await;
        written.unwrap();
        cluster.stop().await;
    }
    let all = uids.len();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), all, "two clusters have a namespace of the same UID");
}

#[tokio::test(start_paused = true)]
async fn namespace_uids_follow_from_the_seed() {
    let mut seen = Vec::new();
    for seed in [7, 7, 8, 7] {
        let cluster = Cluster::builder().api_only().virtual_time(seed).start().await;
        seen.push(namespaces(&cluster).await);
        cluster.stop().await;
    }
    assert_eq!(seen[0], seen[1], "the first cluster of a seed is like the second");
    assert_eq!(seen[0], seen[3]);
    assert_ne!(seen[0].0, seen[2].0);
}

#[test]
fn a_seed_permutes_the_tasks_of_an_image_and_repeats_its_run() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let image = runtime().block_on(async {
        let cluster = Cluster::builder().virtual_time(1).permuted_tasks().start().await;
        cluster.settled().await.unwrap();
        let image = cluster.image().unwrap();
        cluster.stop().await;
        image
    });
    let run = |seed| {
        runtime().block_on(async {
            let cluster = image.start_with_seed(seed).await;
            cluster.apply(DEPLOYMENT).await.unwrap();
            cluster.settled().await.unwrap();
            let pods = cluster.client().dynamic(Gvr::new("", "v1", "pods"));
            let (pods, revision) = pods.list("default", &ListParams::default()).await.unwrap();
            cluster.stop().await;
            format!("{revision:?} {pods:?}")
        })
    };
    let (first, other, again) = (run(7), run(8), run(7));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_for_the_chosen_time_and_by_default_for_ever() {
    const KEPT: Duration = Duration::from_secs(60);
    for (builder, is_kept) in [
        (Cluster::builder().api_only().virtual_time(1), true),
        (Cluster::builder().api_only().virtual_time(1).history(KEPT), false),
    ] {
        let cluster = builder.start().await;
        cluster.apply(&config_map("a", 1).to_string()).await.unwrap();
        let (_, oldest) = contents(cluster.client()).await;
        for value in 2..=4 {
            cluster.apply(&config_map("a", value).to_string()).await.unwrap();
        }
        let at_oldest = || async {
            let params = ListParams { at: Some(kstore_informer::Revision(oldest)), ..ListParams::default() };
            cluster.client().dynamic(config_maps()).list("default", &params).await
        };
        assert!(at_oldest().await.is_ok());
        cluster.advance(3 * KEPT).await;
        assert_eq!(at_oldest().await.is_ok(), is_kept);
        cluster.stop().await;
    }
}
