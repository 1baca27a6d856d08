//! Tests of the client against a small gRPC server, in process and behind TLS.

pub(crate) mod fake;
mod network;

use crate::{
    Client, ClientLease, DeleteParams, Gvr, ListParams, Patch, WatchParams, key_of, on_conflict, reference,
    revision_of,
};
use fake::Fake;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kstore_informer::{
    Builder, Causes, Delta, Elector, Index, Key, Modified, Object, Revision, Tries, modify,
};
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn pod(name: &str) -> Pod {
    let metadata =
        ObjectMeta { name: Some(name.into()), namespace: Some("default".into()), ..Default::default() };
    Pod { metadata, ..Pod::default() }
}

#[tokio::test(start_paused = true)]
async fn an_object_round_trips_through_every_call() {
    let fake = Fake::default();
    let pods = fake.client().api::<Pod>();
    let created = pods.create("default", &pod("web")).await.unwrap();
    assert_eq!((revision_of(&created), key_of(&created)), (Revision(1), Key::new("default", "web")));
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    let patched = pods.patch("default", "web", &Patch::Merge(labels)).await.unwrap();
    assert_eq!(pods.get("default", "web").await.unwrap(), patched);
    let mut next = patched.clone();
    next.status.get_or_insert_default().phase = Some("Running".into());
    let updated = pods.update_status(&next).await.unwrap();
    assert_eq!(updated.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(pods.bind("default", "web", "", "node-1").await.unwrap(), Revision(4));
    let (all, at) = pods.list("", &ListParams::default()).await.unwrap();
    assert_eq!((all.len(), at), (1, Revision(4)));
    let deleted = pods.delete("default", "web", &DeleteParams::default().grace(0)).await.unwrap();
    assert_eq!(deleted, Revision(5));
    assert!(pods.get("default", "web").await.unwrap_err().is_not_found());
    let verbs: Vec<_> = fake.calls().into_iter().map(|call| call.verb).collect();
    let expected = ["create", "patch", "get", "update-status", "bind", "list", "delete", "get"];
    assert_eq!(verbs, expected);
}

#[tokio::test(start_paused = true)]
async fn calls_carry_the_agent_and_the_causes() {
    let fake = Fake::default();
    let client = fake.client();
    let causes: Causes = [Revision(9), Revision(4)].into_iter().collect();
    let deployments = client.agent("deployment-controller").causes(&causes);
    deployments.api::<Pod>().create("default", &pod("a")).await.unwrap();
    client.dynamic(Gvr::of::<Pod>()).get("default", "a").await.unwrap();
    let delivered: Vec<_> = fake.calls().into_iter().map(|call| (call.agent, call.causes)).collect();
    assert_eq!(delivered[0], ("deployment-controller/kstore".into(), "4,9".into()));
    assert_eq!(delivered[1], ("test/kstore".into(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_stale_update_conflicts_and_is_retried_with_a_fresh_object() {
    let fake = Fake::default();
    let pods = fake.client().api::<Pod>();
    let old = pods.create("default", &pod("a")).await.unwrap();
    pods.update(&old).await.unwrap();
    let error = pods.update(&old).await.unwrap_err();
    assert!(error.is_conflict() && error.code() == Some(409), "{error:?}");
    assert!(pods.create("default", &old).await.unwrap_err().is_already_exists());
    let mut rivals = 3;
    let outcome = on_conflict(|| {
        let (pods, rival) = (pods.clone(), rivals > 0);
        rivals -= i32::from(rival);
        async move {
            let mine = pods.get("default", "a").await?;
            if rival {
                pods.update(&mine).await?;
            }
            pods.update(&mine).await
        }
    });
    assert_eq!(revision_of(&outcome.await.unwrap()), Revision(6));
}

/// B1 for the client's calls.
#[tokio::test(start_paused = true)]
async fn modify_uses_the_cached_object_first_and_the_newest_after_a_conflict() {
    let fake = Fake::default();
    let pods = fake.client().api::<Pod>();
    let old = pods.create("default", &pod("a")).await.unwrap();
    pods.update(&old).await.unwrap();
    let (mut seen, key) = (Vec::new(), key_of(&old));
    let done = Box::pin(modify(&pods, &key, Some(old.clone()), Tries::DEFAULT, |pod| {
        seen.push(revision_of(pod));
        true
    }));
    let Modified::Wrote(stored) = done.await.unwrap() else { panic!("there was something to write") };
    assert_eq!((revision_of(&stored), seen), (Revision(3), vec![Revision(1), Revision(2)]));
    pods.delete("default", "a", &DeleteParams::default()).await.unwrap();
    let gone = Box::pin(modify(&pods, &key, None, Tries::DEFAULT, |_| true)).await.unwrap();
    assert_eq!(gone, Modified::Gone);
}

#[tokio::test(start_paused = true)]
async fn an_informer_survives_watch_failures_and_compaction() {
    let (fake, stop) = (Fake::default(), CancellationToken::new());
    let pods = fake.client().api::<Pod>();
    for name in ["a", "b"] {
        pods.create("default", &pod(name)).await.unwrap();
    }
    let by_owner = Index::by_controller();
    let cache = Builder::new(pods.source(WatchParams::default())).index(&by_owner).spawn(&stop);
    cache.synced().await.unwrap();
    assert_eq!((cache.len(), cache.revision()), (2, Revision(2)));
    let mut subscription = cache.subscribe();
    subscription.try_next();

    let mut owned = pod("c");
    let owner =
        OwnerReference { uid: "u".into(), name: "set".into(), controller: Some(true), ..Default::default() };
    owned.metadata.owner_references = Some(vec![owner]);
    let created = pods.create("default", &owned).await.unwrap();
    cache.wait_for(revision_of(&created)).await.unwrap();
    assert_eq!(cache.by(&by_owner, "u").iter().map(|p| p.key()).collect::<Vec<_>>(), [key_of(&owned)]);
    fake.cut();
    pods.create("default", &pod("d")).await.unwrap();
    fake.cut();
    fake.compact();
    let deleted = pods.delete("default", "a", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(600), cache.wait_for(deleted)).await.unwrap().unwrap();
    let names: Vec<_> = cache.list().iter().map(|pod| pod.key().name().to_owned()).collect();
    assert_eq!(names, ["b", "c", "d"]);
    let mut delivered: Vec<_> = subscription.try_next().iter().map(describe).collect();
    delivered.sort();
    // The deletion was compacted: the cache infers it and has only the last state that it saw.
    assert_eq!(delivered, ["+c", "+d", "-a@1"]);
}

fn describe<T: Object>(delta: &Delta<T>) -> String {
    let name = delta.object().key().name().to_owned();
    match delta {
        Delta::Added(_) => format!("+{name}"),
        Delta::Updated { .. } => format!("~{name}"),
        Delta::Deleted(last) => format!("-{name}@{}", last.revision()),
        Delta::Resync(_) => format!("={name}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_does_not_affect_others() {
    let (fake, stop) = (Fake::default(), CancellationToken::new());
    let dynamic = fake.client().dynamic(Gvr::of::<Pod>());
    let bad = json!({"metadata": {"name": "bad", "namespace": "default"}, "spec": {"containers": 7}});
    dynamic.create("default", &bad).await.unwrap();
    let pods = fake.client().api::<Pod>();
    pods.create("default", &pod("good")).await.unwrap();
    let cache = Builder::new(pods.source(WatchParams::default())).spawn(&stop);
    cache.synced().await.unwrap();
    assert_eq!(cache.list().iter().map(|p| p.key()).collect::<Vec<_>>(), [Key::new("default", "good")]);
    assert_eq!(cache.undecodable()[0].key, Key::new("default", "bad"));
    dynamic.patch("default", "bad", "", &Patch::Merge(json!({"spec": {"containers": []}}))).await.unwrap();
    cache.wait_for(Revision(3)).await.unwrap();
    assert_eq!((cache.len(), cache.undecodable().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_projection_holds_only_the_projected_fields() {
    #[derive(serde::Deserialize)]
    struct Slim {
        metadata: ObjectMeta,
    }
    impl Object for Slim {
        fn key(&self) -> Key {
            Key::new("", self.metadata.name.as_deref().unwrap_or_default())
        }
        fn uid(&self) -> &str {
            self.metadata.uid.as_deref().unwrap_or_default()
        }
        fn revision(&self) -> Revision {
            Revision(
                self.metadata.resource_version.as_deref().unwrap_or_default().parse().unwrap_or_default(),
            )
        }
    }
    let (fake, stop) = (Fake::default(), CancellationToken::new());
    let nodes = fake.client().api::<Node>();
    let mut node = Node::default();
    node.metadata.name = Some("node-1".into());
    nodes.create("", &node).await.unwrap();
    let source = nodes.project(WatchParams::default(), |json| serde_json::from_slice::<Slim>(json));
    let cache = Builder::new(source).spawn(&stop);
    cache.synced().await.unwrap();
    assert!(cache.get(&Key::new("", "node-1")).is_some());
}

#[tokio::test(start_paused = true)]
async fn recorded_events_are_created_once_and_then_counted() {
    let (fake, stop) = (Fake::default(), CancellationToken::new());
    let client = fake.client();
    let about = client.api::<Pod>().create("default", &pod("a")).await.unwrap();
    let recorder = client.agent("kubelet").recorder("kubelet", &Nondet::simulated(1), &stop);
    for _ in 0..3 {
        recorder.normal(&reference(&about), "Pulled", "image is there");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let (events, _) = client.api::<Event>().list("default", &ListParams::default()).await.unwrap();
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((event.count, event.reason.as_deref()), (Some(3), Some("Pulled")));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Pod"));
    assert_eq!(event.involved_object.name.as_deref(), Some("a"));
    assert!(event.first_timestamp < event.last_timestamp);
}

#[tokio::test(start_paused = true)]
async fn a_call_to_an_unresponsive_server_times_out() {
    let silent = tower::service_fn(|_: http::Request<tonic::body::Body>| {
        std::future::pending::<Result<http::Response<tonic::body::Body>, Infallible>>()
    });
    let error = Client::over(silent, "test").api::<Pod>().get("default", "a").await.unwrap_err();
    assert!(matches!(error, crate::ApiError::Transport(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn candidates_elect_a_leader_with_a_lease_object() {
    let (fake, leading) = (Fake::default(), Arc::new(Mutex::new(Vec::new())));
    let stops: Vec<CancellationToken> = ["a", "b"]
        .map(|name| {
            let lease = ClientLease::new(&fake.client(), "kube-system", "scheduler");
            let (stop, leading) = (CancellationToken::new(), leading.clone());
            let elector = Elector::new(lease, name, Nondet::simulated(1));
            tokio::spawn(elector.run(stop.clone(), move |leadership| {
                leading.lock().push(name);
                async move { leadership.lost().cancelled().await }
            }));
            stop
        })
        .into();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*leading.lock(), ["a"]);
    let lease = fake.client().api::<Lease>().get("kube-system", "scheduler").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("a"));
    stops[0].cancel();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(*leading.lock(), ["a", "b"]);
}
