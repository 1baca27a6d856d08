//! Tests of [`Cluster::settled`] in virtual and in real time.

use kstore_client::{Gvr, ListParams};
use kstore_testing::{Cluster, Faults, SettleError};
use serde_json::{Value, json};
use std::time::Duration;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

async fn web(cluster: &Cluster) -> Value {
    cluster
        .client()
        .dynamic(Gvr::new("apps", "v1", "deployments"))
        .get("default", "web")
        .await
        .expect("the cluster serves the request")
}

async fn pods(cluster: &Cluster) -> usize {
    let pods = cluster.client().dynamic(Gvr::new("", "v1", "pods"));
    pods.list("default", &ListParams::default()).await.expect("the cluster serves the request").0.len()
}

/// Applies, scales and deletes a Deployment, and checks the result each time the cluster has settled.
async fn rollout(cluster: Cluster) {
    cluster.settled().await.expect("the cluster serves the request");
    cluster.apply(DEPLOYMENT).await.expect("the cluster serves the request");
    cluster.settled().await.expect("the cluster serves the request");
    assert_eq!(web(&cluster).await["status"]["readyReplicas"], 4);
    cluster
        .apply(&DEPLOYMENT.replace("replicas: 4", "replicas: 1"))
        .await
        .expect("the cluster serves the request");
    cluster.settled().await.expect("the cluster serves the request");
    assert_eq!((pods(&cluster).await, &web(&cluster).await["status"]["readyReplicas"]), (1, &json!(1)));
    let deployments = cluster.client().dynamic(Gvr::new("apps", "v1", "deployments"));
    deployments.delete("default", "web", &Default::default()).await.expect("the cluster serves the request");
    cluster.settled().await.expect("the cluster serves the request");
    assert_eq!(pods(&cluster).await, 0, "garbage collection is part of it");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settled_waits_for_all_pending_work_in_virtual_time() {
    for seed in 1..6 {
        rollout(Cluster::builder().virtual_time(seed).nodes(3).start().await).await;
    }
}

#[tokio::test]
async fn settled_waits_for_all_pending_work_in_real_time() {
    rollout(Cluster::builder().nodes(2).start().await).await;
}

#[tokio::test]
async fn settled_returns_at_once_without_other_components() {
    let cluster = Cluster::builder().api_only().start().await;
    cluster.apply(DEPLOYMENT).await.unwrap();
    cluster.settled().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn settled_does_not_wait_for_unschedulable_pods() {
    let cluster = Cluster::builder().virtual_time(1).nodes(0).apply(DEPLOYMENT).start().await;
    cluster.settled().await.unwrap();
    assert_eq!(pods(&cluster).await, 4);
}

#[tokio::test(start_paused = true)]
async fn settled_error_names_busy_components() {
    let faults = Faults::seeded(1).server_errors(1.0).client("kube-scheduler");
    let cluster = Cluster::builder().virtual_time(1).apply(DEPLOYMENT).faults(faults).start().await;
    let begin = tokio::time::Instant::now();
    let error = cluster.settled().await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(2000));
    let SettleError::Busy { busy, .. } = &error else { panic!("{error}") };
    assert_eq!(
        busy.iter().filter(|reason| reason.starts_with("scheduler: pod default/web-")).count(),
        4,
        "{error}"
    );
    // Of the scheduler's caches the first in the alphabet are named.
    assert!(busy.contains(&"cache scheduler-claims is being filled".to_owned()), "{error}");
}
