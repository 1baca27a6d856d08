//! Tests of [`Faults`]: clients observe the injected faults, and a cluster keeps working despite them.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{Gvr, ListParams, WatchParams};
use kstore_informer::{ListerWatcher as _, ReadAt, SourceError, Start};
use kstore_testing::{Cluster, Faults};
use kube_client::api::{
    ListParams as KubeListParams, PostParams, WatchEvent, WatchParams as KubeWatchParams,
};
use kube_client::{Api, Client, Error};
use serde_json::{Value, json};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("the object is a ConfigMap")
}

fn code(error: Error) -> u16 {
    match error {
        Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

/// Status codes of a client's successive updates.
async fn storm(client: Client) -> Vec<u16> {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut map = loop {
        if let Ok(map) = api.create(&PostParams::default(), &config_map("a")).await {
            break map;
        }
    };
    let mut codes = Vec::new();
    for nth in 0..40 {
        map.data = Some([("nth".to_owned(), nth.to_string())].into());
        match api.replace("a", &PostParams::default(), &map).await {
            Ok(replaced) => {
                map = replaced;
                codes.push(200);
            }
            Err(error) => {
                codes.push(code(error));
                // A conflict is one with another writer: the client goes on from the newer object, as clients do.
                while codes.last() == Some(&409) {
                    if let Ok(newer) = api.get("a").await {
                        map = newer;
                        break;
                    }
                }
            }
        }
    }
    codes
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_faults_that_can_be_disabled() {
    let faults = |seed| Faults::seeded(seed).conflicts(0.4).too_many_requests(0.2).server_errors(0.2);
    let mut storms = Vec::new();
    for seed in [7, 7, 8] {
        let cluster = Cluster::builder().api_only().virtual_time(1).faults(faults(seed)).start().await;
        storms.push(storm(cluster.kube()).await);
        let counts = cluster.fault_counts();
        assert!(
            counts.conflicts > 5 && counts.too_many_requests > 0 && counts.server_errors > 0,
            "{counts:?}"
        );
        cluster.set_faults(None);
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
        for nth in 0..40 {
            api.create(&PostParams::default(), &config_map(&format!("b-{nth}"))).await.unwrap();
        }
    }
    assert_eq!(storms[0], storms[1]);
    assert_ne!(storms[0], storms[2]);
    for code in [200, 409, 429, 500] {
        assert!(storms[0].contains(&code), "no {code}: {storms:?}");
    }
}

/// No real server answers 409 without a newer object, so neither does an injected conflict; for clients of either API.
#[tokio::test(start_paused = true)]
async fn an_injected_conflict_has_a_newer_object_behind_it() {
    let cluster = Cluster::builder().api_only().virtual_time(1).start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    cluster.set_faults(Some(Faults::seeded(1).conflicts(1.0)));
    assert_eq!(code(api.replace("a", &PostParams::default(), &created).await.unwrap_err()), 409);
    let newer = api.get("a").await.unwrap();
    assert_ne!(newer.metadata.resource_version, created.metadata.resource_version);
    let mut unconditional = newer.clone();
    unconditional.metadata.resource_version = None;
    assert!(api.replace("a", &PostParams::default(), &unconditional).await.is_ok());
    assert_eq!(cluster.fault_counts().conflicts, 1);
    let jane = cluster.client_as("jane", ["system:masters"]).dynamic(Gvr::new("", "v1", "configmaps"));
    let before = jane.get("default", "a").await.unwrap();
    assert_eq!(jane.update(&before).await.unwrap_err().code(), Some(409));
    let after = jane.get("default", "a").await.unwrap();
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_named_client_gets_faults() {
    let faults = Faults::seeded(1).server_errors(1.0).client("operator").client("jane");
    let cluster = Cluster::builder().api_only().virtual_time(1).faults(faults).start().await;
    let list = async |client: Client| {
        Api::<ConfigMap>::default_namespaced(client).list(&KubeListParams::default()).await
    };
    assert!(list(cluster.kube()).await.is_ok());
    assert_eq!(code(list(cluster.kube_named("operator/v1")).await.unwrap_err()), 500);
    assert_eq!(code(list(cluster.kube_as("jane", ["system:masters"])).await.unwrap_err()), 500);
    let jane = cluster.client_as("jane", ["system:masters"]).dynamic(Gvr::new("", "v1", "configmaps"));
    assert_eq!(jane.list("default", &ListParams::default()).await.unwrap_err().code(), Some(500));
    let own = cluster.client().dynamic(Gvr::new("", "v1", "configmaps"));
    assert!(own.list("default", &ListParams::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lost_responses_hide_completed_writes() {
    let faults = Faults::seeded(1).lost_answers(1.0);
    let cluster = Cluster::builder().api_only().virtual_time(1).faults(faults).start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
    assert_eq!(code(api.create(&PostParams::default(), &config_map("a")).await.unwrap_err()), 504);
    assert!(api.get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn watches_expire_and_break_for_rest_and_grpc_clients() {
    let cluster = Cluster::builder().api_only().virtual_time(1).start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
    let jane = cluster.client_as("jane", ["system:masters"]).dynamic(Gvr::new("", "v1", "configmaps"));
    let source = jane.source(WatchParams::default().ns("default"));

    cluster.set_faults(Some(Faults::seeded(1).expired_watches(1.0)));
    let mut watch = api.watch(&KubeWatchParams::default(), "0").await.unwrap().boxed();
    match watch.next().await {
        Some(Ok(WatchEvent::Error(status))) => assert_eq!(status.code, 410),
        other => panic!("{other:?}"),
    }
    let expired = source.watch(Start::Initial(ReadAt::Latest)).await.err();
    assert!(matches!(expired, Some(SourceError::Expired)), "{expired:?}");

    cluster.set_faults(Some(Faults::seeded(1).cut_watches(1.0, 60 * SECOND)));
    let begin = tokio::time::Instant::now();
    let mut ends = Vec::new();
    for _ in 0..8 {
        let mut watch = api.watch(&KubeWatchParams::default(), "0").await.unwrap().boxed();
        let mut broken = false;
        while let Some(event) = watch.next().await {
            broken |= event.is_err();
        }
        ends.push(broken);
    }
    assert!(begin.elapsed() > 8 * SECOND && begin.elapsed() < 480 * SECOND);
    assert!(ends.contains(&true) && ends.contains(&false), "{ends:?}");
    let mut watch = source.watch(Start::Initial(ReadAt::Latest)).await.unwrap();
    while watch.next().await.is_some_and(|batch| batch.is_ok()) {}
    assert_eq!(cluster.fault_counts().cut_watches, 9);
}

#[tokio::test(start_paused = true)]
async fn lists_are_delayed_and_those_that_accept_any_version_are_stale() {
    let faults = Faults::seeded(1).delayed_lists(1.0, 60 * SECOND).stale_lists(1.0).slow_answers(0.0, SECOND);
    let cluster = Cluster::builder().api_only().virtual_time(1).start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
    for nth in 0..30 {
        api.create(&PostParams::default(), &config_map(&format!("a-{nth}"))).await.unwrap();
    }
    cluster.set_faults(Some(faults));
    let begin = tokio::time::Instant::now();
    let current = api.list(&KubeListParams::default()).await.unwrap();
    let old = api.list(&KubeListParams::default().match_any()).await.unwrap();
    assert!(begin.elapsed() > SECOND);
    assert_eq!(current.items.len(), 30);
    assert!((10..30).contains(&old.items.len()), "{} ConfigMaps", old.items.len());
    let revision = |version: Option<String>| version.unwrap().parse::<i64>().unwrap();
    assert!(revision(old.metadata.resource_version) < revision(current.metadata.resource_version));
}

#[tokio::test(start_paused = true)]
async fn controllers_complete_a_rollout_despite_faults() {
    let faults =
        ["deployment-controller", "replicaset-controller", "kube-scheduler", "system:kstore:kubelet-sim"]
            .into_iter()
            .fold(Faults::seeded(3), Faults::client)
            .conflicts(0.3)
            .too_many_requests(0.1)
            .server_errors(0.1)
            .lost_answers(0.1)
            .expired_watches(0.3)
            .cut_watches(0.5, 30 * SECOND)
            .slow_answers(0.2, 2 * SECOND);
    let cluster = Cluster::builder().virtual_time(5).nodes(2).faults(faults).start().await;
    cluster.apply(DEPLOYMENT).await.unwrap();
    let ready: Value = json!({"status": {"readyReplicas": 5, "replicas": 5}});
    cluster.wait_for(("apps", "v1", "deployments"), "default", "web", &ready).await.unwrap();
    let counts = cluster.fault_counts();
    assert!(counts.conflicts + counts.server_errors + counts.too_many_requests > 5, "{counts:?}");
    cluster.stop().await;
}
