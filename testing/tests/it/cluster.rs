//! Tests of [`Cluster`] in the ways that an operator's tests use it: with kube-rs, with kstore's client, in real and in virtual time.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kstore_client::Gvr;
use kstore_testing::{Cluster, Minor, eventually};
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use std::time::Duration;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

const WIDGETS: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: first}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, minimum: 1}}}}
";

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("the object is a ConfigMap")
}

#[tokio::test]
async fn kube_rs_drives_a_deployment_to_ready_pods_in_real_time() {
    let cluster = Cluster::start().await;
    let kube = cluster.kube();
    let deployments: Api<Deployment> = Api::default_namespaced(kube.clone());
    let deployment = serde_yaml_ng::from_str(DEPLOYMENT).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    let ready = json!({"status": {"readyReplicas": 3, "availableReplicas": 3}});
    cluster.wait_for(("apps", "v1", "deployments"), "default", "web", &ready).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(kube.clone());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 3);
    let replica_sets: Api<ReplicaSet> = Api::default_namespaced(kube);
    assert_eq!(replica_sets.list(&ListParams::default()).await.unwrap().items.len(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_virtual_time_is_fast_and_reproducible() {
    let mut revisions = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::builder().virtual_time(7).nodes(2).apply(DEPLOYMENT).start().await;
        cluster.advance(Duration::from_secs(60 * 60)).await;
        let ready = json!({"status": {"readyReplicas": 3}});
        let web = cluster.wait_for(("apps", "v1", "deployments"), "default", "web", &ready).await.unwrap();
        assert_eq!(web["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
        let (_, revision) =
            cluster.client().dynamic(Gvr::new("", "v1", "pods")).list("", &Default::default()).await.unwrap();
        revisions.push(revision);
        cluster.stop().await;
    }
    assert_eq!(revisions[0], revisions[1]);
}

#[tokio::test]
async fn definitions_are_applied_before_their_objects_and_refusals_name_the_object() {
    let cluster = Cluster::builder().api_only().apply(WIDGETS).start().await;
    let widgets = cluster.client().dynamic(Gvr::new("example.com", "v1", "widgets"));
    assert_eq!(widgets.get("default", "first").await.unwrap()["spec"]["size"], 3);
    let refused = cluster.apply(&WIDGETS.replace("size: 3", "size: 0")).await.unwrap_err().to_string();
    assert!(refused.starts_with("Widget first: ") && refused.contains("spec.size"), "{refused}");
    let unknown = cluster.apply("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}}").await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.starts_with("no matches for kind \"Gadget\" in version \"example.com/v1\""), "{unknown}");
    let error = Cluster::builder().apply("kind: Pod").try_start().await.unwrap_err().to_string();
    assert!(error.contains("document 1 of the manifest has no apiVersion"), "{error}");
}

#[tokio::test]
async fn other_users_have_their_own_permissions() {
    let cluster = Cluster::builder().api_only().start().await;
    let jane: Api<ConfigMap> = Api::default_namespaced(cluster.kube_as("jane", ["dev"]));
    let error = jane.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    let kube_client::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 403);
    let jane = cluster.client_as("jane", ["dev"]).dynamic(Gvr::new("", "v1", "configmaps"));
    assert!(jane.get("default", "a").await.unwrap_err().is_forbidden());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_waits_report_the_difference_and_the_causing_writes() {
    let cluster = Cluster::builder().virtual_time(1).nodes(0).apply(DEPLOYMENT).start().await;
    let wanted = json!({"status": {"replicas": 3, "readyReplicas": 3}});
    let error = cluster.wait_for(("apps", "v1", "deployments"), "default", "web", &wanted).await.unwrap_err();
    let report = error.to_string();
    for part in
        ["waited for deployments default/web", "-    \"readyReplicas\": 3", "replicasets/default/web-"]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    let causes = report.split("last writes and what led there:").nth(1).unwrap();
    assert!(
        causes.lines().nth(1).unwrap().contains("deployments/default/web by deployment-controller"),
        "{report}"
    );
    assert!(causes.contains("because of") && causes.contains("replicasets/default/web-"), "{report}");
    let error = cluster.wait_for(("", "v1", "pods"), "default", "none", &json!({})).await.unwrap_err();
    assert!(error.to_string().contains("the object does not exist"), "{error}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "waited for deployments default/web: not within 90s of the cluster's time")]
async fn eventually_panics_with_the_report_after_its_time_limit() {
    let cluster = Cluster::builder().virtual_time(1).nodes(0).apply(DEPLOYMENT).start().await;
    let deployments = ("apps", "v1", "deployments");
    eventually!(cluster, deployments, "default", "web", {"status": {"replicas": 3}});
    eventually!(cluster, deployments, "default", "none", gone);
    eventually!(within Duration::from_secs(90), cluster, deployments, "default", "web", gone);
}

#[tokio::test(start_paused = true)]
async fn a_check_runs_again_after_writes_and_its_last_error_is_in_the_report() {
    let cluster = Cluster::builder().virtual_time(1).api_only().start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
    let mut runs = 0;
    let check = async || {
        runs += 1;
        let count = maps.list(&ListParams::default()).await.unwrap().items.len();
        if count == 2 { Ok(runs) } else { Err(format!("{count} ConfigMaps")) }
    };
    let write = async {
        for name in ["a", "b"] {
            cluster.advance(Duration::from_secs(5)).await;
            maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
        }
    };
    let (runs, ()) = tokio::join!(cluster.check_within(Duration::from_secs(60), check), write);
    assert_eq!(runs.unwrap(), 3, "not more often than there were writes");
    let error = cluster.check_within(Duration::from_secs(60), async || Err::<(), _>("no")).await.unwrap_err();
    assert_eq!(error.to_string(), "not within 60s of the cluster's time: no");
}

#[tokio::test(start_paused = true)]
async fn namespaces_end_with_their_objects_and_a_stopped_node_becomes_unready() {
    let cluster = Cluster::builder().virtual_time(3).nodes(1).start().await;
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: space}}").await.unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.kube());
    namespaces.delete("space", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    assert!(namespaces.get_opt("space").await.unwrap().is_none());
    let nodes = ("", "v1", "nodes");
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    cluster.wait_for(nodes, "", "node-0", &ready("True")).await.unwrap();
    cluster.nodes().stop_node("node-0").await.unwrap();
    cluster.wait_for(nodes, "", "node-0", &ready("Unknown")).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn forty_concurrent_clusters_share_no_objects() {
    let mut clusters = Vec::new();
    for _ in 0..40 {
        let cluster = Cluster::start().await;
        // Settles each cluster first: forty sets of controllers that fill their caches at once on one thread would make requests time out.
        cluster.settled().await.unwrap();
        clusters.push(cluster);
    }
    for (at, cluster) in clusters.iter().enumerate() {
        let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
        config_maps.create(&PostParams::default(), &config_map(&format!("only-{at}"))).await.unwrap();
    }
    for (at, cluster) in clusters.into_iter().enumerate() {
        let config_maps = cluster.client().dynamic(Gvr::new("", "v1", "configmaps"));
        let (stored, _) = config_maps.list("default", &Default::default()).await.unwrap();
        let names = stored.iter().filter_map(|object| object["metadata"]["name"].as_str());
        let names: Vec<&str> = names.filter(|name| name.starts_with("only-")).collect();
        assert_eq!(names, [format!("only-{at}")]);
        cluster.stop().await;
    }
}

/// A definition of the kind in the group `example.com`.
fn definition(kind: &str) -> String {
    let singular = kind.to_lowercase();
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.example.com}}
spec:
  group: example.com
  scope: Namespaced
  names: {{plural: things, singular: {singular}, kind: {kind}}}
  versions:
  - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}
"
    )
}

#[tokio::test]
async fn discovery_documents_of_clusters_with_one_origin_are_independent() {
    let origin = Cluster::builder().api_only().start().await;
    let clusters = [origin.fork().await, origin.fork().await, Cluster::builder().api_only().start().await];
    let kinds = ["Red", "Blue", "Pink"];
    for (cluster, kind) in clusters.iter().zip(kinds) {
        cluster.apply(&definition(kind)).await.unwrap();
    }
    for (cluster, kind) in clusters.iter().zip(kinds) {
        // The fork of a cluster has its documents.
        for cluster in [cluster, &cluster.fork().await] {
            let resources = cluster.kube().list_api_group_resources("example.com/v1").await.unwrap();
            let found: Vec<&str> = resources.resources.iter().map(|resource| &*resource.kind).collect();
            assert_eq!(found, [kind]);
            let groups = cluster.kube().list_api_groups().await.unwrap().groups;
            assert!(groups.iter().any(|group| group.name == "example.com"));
        }
    }
    let groups = origin.kube().list_api_groups().await.unwrap().groups;
    assert!(groups.iter().all(|group| group.name != "example.com"), "the origin has no custom kind");
}

/// A second profile, which packs pods.
const PACKED: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packed
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}], enabled: [{name: NodeResourcesFit, weight: 5}]}}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}
";

#[tokio::test(start_paused = true)]
async fn pods_of_a_packing_profile_share_a_node_and_others_are_spread_over_the_rest() {
    let cluster = Cluster::builder().nodes(3).virtual_time(1).scheduler_config(PACKED).start().await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.kube());
    for scheduler in ["packed", "default-scheduler"] {
        for number in 0..3 {
            let requests = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
            let container = json!({"name": "main", "image": "nginx", "resources": requests});
            let name = format!("{scheduler}-{number}");
            let pod = json!({
                "metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]},
            });
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
            let running = json!({"status": {"phase": "Running"}});
            cluster.wait_for(("", "v1", "pods"), "default", &name, &running).await.unwrap();
        }
    }
    let all = pods.list(&ListParams::default()).await.unwrap().items;
    let nodes = |scheduler: &str| {
        let specs = all.iter().filter_map(|pod| pod.spec.as_ref());
        let of = specs.filter(|spec| spec.scheduler_name.as_deref() == Some(scheduler));
        of.filter_map(|spec| spec.node_name.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let (packed, spread) = (nodes("packed"), nodes("default-scheduler"));
    assert_eq!((packed.len(), spread.len()), (1, 2));
    assert!(packed.is_disjoint(&spread), "{packed:?} {spread:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_configuration_with_errors_does_not_start() {
    let wrong = PACKED.replace("MostAllocated", "MostlyAllocated");
    let refused = Cluster::builder().nodes(0).virtual_time(1).scheduler_config(wrong).try_start().await;
    let error = refused.expect_err("it is refused").to_string();
    let start = "the scheduler cannot use its configuration: initializing profiles: creating profile for scheduler name packed: ";
    assert!(error.starts_with(start) && error.contains("Unsupported value: \"MostlyAllocated\""), "{error}");
}

#[tokio::test]
async fn clusters_of_one_process_have_different_versions_of_kubernetes() {
    let start = |version| Cluster::builder().api_only().kubernetes(version).start();
    let (old, new) = (start(Minor::V33).await, start(Minor::V36).await);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"hostnameOverride": "b", "containers": [{"name": "c", "image": "d"}]}});
    for (cluster, kept) in [(&old, false), (&new, true)] {
        let made =
            cluster.client().dynamic(Gvr::new("", "v1", "pods")).create("default", &pod).await.unwrap();
        assert_eq!(made["spec"]["hostnameOverride"] == "b", kept);
    }
    old.stop().await;
    new.stop().await;
}
