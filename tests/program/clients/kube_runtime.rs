//! kube-rs's runtime: watchers with both list strategies, a reflector, a controller with owned children and a
//! finalizer, awaited conditions, recorded events.

use super::{KubeRsFixture, from};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod, Secret};
use k8s_openapi::api::events::v1::Event as RecordedEvent;
use kstore_tests::wait::PATIENCE;
use kube_client::Client;
use kube_client::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Resource as _, ResourceExt as _,
};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use kube_runtime::finalizer::{Event as Finalizer, finalizer};
use kube_runtime::wait::{await_condition, conditions};
use kube_runtime::{WatchStreamExt as _, reflector, watcher};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name, "labels": {"test": "yes"}}}))
}

fn in_time<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    // kube-rs's futures are large.
    let what = Box::pin(what);
    async { tokio::time::timeout(PATIENCE, what).await.unwrap() }
}

async fn watched(config: watcher::Config) {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    let mut events = watcher(maps.clone(), config.labels("test")).boxed();
    let mut delivered = Vec::new();
    loop {
        match in_time(events.try_next()).await.unwrap().unwrap() {
            watcher::Event::Init => delivered.push("init".to_owned()),
            watcher::Event::InitApply(map) => delivered.push(map.name_any()),
            watcher::Event::InitDone => break,
            other => panic!("before the initial state was complete: {other:?}"),
        }
    }
    assert_eq!(delivered, ["init", "a", "b", "c"]);
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "1"}}))).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    let next = in_time(events.try_next()).await.unwrap().unwrap();
    assert!(matches!(next, watcher::Event::Apply(map) if map.name_any() == "a"));
    let next = in_time(events.try_next()).await.unwrap().unwrap();
    assert!(matches!(next, watcher::Event::Delete(map) if map.name_any() == "b"));
}

#[tokio::test]
async fn a_watcher_lists_in_pages_then_follows() {
    watched(watcher::Config::default().page_size(2)).await;
}

#[tokio::test]
async fn a_watcher_streams_the_list_then_follows() {
    watched(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test]
async fn a_reflector_holds_the_current_objects() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let (reader, writer) = reflector::store();
    let events = watcher(maps.clone(), watcher::Config::default().labels("test"));
    let running = tokio::spawn(reflector(writer, events).applied_objects().for_each(|_| async {}));
    in_time(reader.wait_until_ready()).await.unwrap();
    assert_eq!(reader.state().iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["a"]);
    running.abort();
}

#[tokio::test]
async fn conditions_of_deployments_and_pods_can_be_awaited() {
    let world = KubeRsFixture::new().await;
    let deployments = Api::<Deployment>::default_namespaced(world.client.clone());
    let web = from(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        }},
    }));
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let complete = await_condition(deployments, "web", conditions::is_deployment_completed());
    in_time(complete).await.unwrap();
    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    let pod = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items.remove(0);
    in_time(await_condition(pods.clone(), &pod.name_any(), conditions::is_pod_running())).await.unwrap();
    pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
    let uid = pod.uid().unwrap();
    in_time(await_condition(pods, &pod.name_any(), conditions::is_deleted(&uid))).await.unwrap();
}

/// Reconciles a ConfigMap: a Secret that it owns, and a note that its finalizer leaves.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Failure> {
    let maps = Api::<ConfigMap>::default_namespaced((*client).clone());
    let outcome = finalizer(&maps, "tests.kstore.io/kube-rs", map, |event| async {
        match event {
            Finalizer::Apply(map) => apply(&client, &map).await,
            Finalizer::Cleanup(map) => note(&client, &map).await,
        }
    });
    outcome.await.map_err(|error| Failure(error.to_string()))
}

async fn apply(client: &Client, map: &ConfigMap) -> Result<Action, kube_client::Error> {
    let owner = map.controller_owner_ref(&()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": map.name_any(), "ownerReferences": [owner]}, "stringData": map.data});
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    secrets.patch(&map.name_any(), &PatchParams::apply("kube-rs").force(), &Patch::Apply(secret)).await?;
    Ok(Action::await_change())
}

async fn note(client: &Client, map: &ConfigMap) -> Result<Action, kube_client::Error> {
    let note = from(json!({"metadata": {"name": format!("{}-was-here", map.name_any())}}));
    Api::<ConfigMap>::default_namespaced(client.clone()).create(&PostParams::default(), &note).await?;
    Ok(Action::await_change())
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

#[tokio::test]
async fn a_controller_creates_repairs_and_cleans_up() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let secrets = Api::<Secret>::default_namespaced(world.client.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new(maps.clone(), watcher::Config::default().labels("test"))
        .owns(secrets.clone(), watcher::Config::default())
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(world.client.clone()),
        );
    let running = tokio::spawn(controller.for_each(|_| async {}));

    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    in_time(await_condition(secrets.clone(), "a", conditions::is_created())).await.unwrap();
    let first = secrets.get("a").await.unwrap().uid().unwrap();
    secrets.delete("a", &DeleteParams::default()).await.unwrap();
    let healed = |secret: Option<&Secret>| secret.is_some_and(|secret| secret.uid() != Some(first.clone()));
    in_time(await_condition(secrets.clone(), "a", healed)).await.unwrap();

    let uid = maps.get("a").await.unwrap().uid().unwrap();
    let secret = secrets.get("a").await.unwrap().uid().unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    in_time(await_condition(maps.clone(), "a", conditions::is_deleted(&uid))).await.unwrap();
    in_time(await_condition(maps.clone(), "a-was-here", conditions::is_created())).await.unwrap();
    in_time(await_condition(secrets, "a", conditions::is_deleted(&secret))).await.unwrap();
    stop.send(()).unwrap();
    in_time(running).await.unwrap();
}

#[tokio::test]
async fn a_recorder_posts_events_and_counts_repeats() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let about: ObjectReference =
        maps.create(&PostParams::default(), &map("a")).await.unwrap().object_ref(&());
    let reporter = Reporter { controller: "kube-rs".into(), instance: Some("one".into()) };
    let recorder = Recorder::new(world.client.clone(), reporter);
    let event = Event {
        type_: EventType::Normal,
        reason: "Seen".into(),
        note: Some("it is there".into()),
        action: "Look".into(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder.publish(&event, &about).await.unwrap();
    }
    let events = Api::<RecordedEvent>::default_namespaced(world.client.clone());
    let found = events.list(&ListParams::default().fields("reason=Seen,regarding.name=a")).await.unwrap();
    assert_eq!(found.items.len(), 1);
    assert_eq!(found.items[0].series.as_ref().unwrap().count, 2);
}
