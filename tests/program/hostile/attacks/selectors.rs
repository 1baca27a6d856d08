//! Selectors as long as a request may have them, over both front ends.

use super::target::{Target, User, Writer};
use super::{Attack, Scale};
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use kstore_proto::kstore::v1 as pb;
use kstore_tests::wait::PATIENCE;
use pb::kstore_client::KstoreClient;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// Requirements of the longest permitted selector.
const REQUIREMENTS: usize = 1_000;

/// A selector that every object matches which has none of its labels.
fn longest() -> String {
    (0..REQUIREMENTS).map(|number| format!("!l{number}")).collect::<Vec<_>>().join(",")
}

/// A selector of three megabytes.
fn too_long() -> String {
    format!("a in ({})", (0..350_000).map(|number| format!("v{number}")).collect::<Vec<_>>().join(","))
}

fn config_maps(user: &User) -> pb::Ref {
    pb::Ref {
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        namespace: user.namespace.clone(),
        ..pb::Ref::default()
    }
}

/// Creates ConfigMaps with twenty labels, some at a time.
async fn fill(target: &Target, user: &User, count: usize) {
    let labels: serde_json::Map<String, Value> =
        (0..20).map(|number| (format!("own-{number}"), json!("x"))).collect();
    let path = user.path("configmaps");
    let numbers: Vec<usize> = (0..count).collect();
    for chunk in numbers.chunks(16) {
        let (labels, path) = (&labels, &path);
        let create = |number: &usize| {
            let map = json!({"metadata": {"name": format!("m-{number}"), "labels": labels}});
            async move { target.create(path, &map).await }
        };
        join_all(chunk.iter().map(create)).await;
    }
}

/// Watches over gRPC with the longest selectors, and with longer ones, while their user writes.
pub(super) const WATCHES: Attack = Attack::new("selectors of watches", 128, watches);

fn watches(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.user("eve", "edit").await;
        let channel = eve.http2().await;
        let watch = |selector: &str| {
            let selector = pb::WatchSelector {
                r#ref: Some(config_maps(&eve)),
                label_selector: selector.to_owned(),
                ..pb::WatchSelector::default()
            };
            let request = pb::WatchRequest { selectors: vec![selector], ..pb::WatchRequest::default() };
            let (mut client, call) = (KstoreClient::new(channel.clone()), eve.call(request));
            async move { timeout(PATIENCE, client.watch(call)).await.unwrap() }
        };
        target.begin(Writer::Tenant).await;
        let (longest, too_long) = (longest(), too_long());
        let refused = join_all((0..scale.number(4, 20)).map(|_| watch(&too_long))).await;
        assert!(refused.iter().all(Result::is_err));
        let mut sent = refused.len() * too_long.len();
        let watches = scale.number(16, 100);
        let mut held = Vec::new();
        for _ in 0..watches {
            held.push(watch(&longest).await.unwrap().into_inner());
        }
        sent += watches * longest.len();
        let reading = held
            .into_iter()
            .map(|mut events| async move { while let Ok(Some(_)) = events.message().await {} });
        let reading = join_all(reading);
        let end = Instant::now() + scale.time();
        let writing = join_all((0..4).map(|_| async {
            let mut bytes = 0;
            while Instant::now() < end {
                let map = json!({"metadata": {"generateName": "own-"}}).to_string();
                eve.send(("POST", &eve.path("configmaps")), "application/json", &map).await;
                bytes += map.len();
            }
            bytes
        }));
        tokio::select! {
            biased;
            written = writing => sent + written.into_iter().sum::<usize>(),
            _ = reading => panic!("the watches ended"),
        }
    }
    .boxed_local()
}

/// Lists with the longest selectors over both front ends, and with longer ones.
pub(super) const LISTS: Attack = Attack::new("selectors of lists", 128, lists);

fn lists(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.user("eve", "view").await;
        fill(target, &eve, scale.number(200, 2_000)).await;
        let channel = eve.http2().await;
        target.begin(Writer::Tenant).await;
        let (longest, too_long) = (longest(), too_long());
        let list = |selector: &str| {
            let request = pb::ListRequest {
                r#ref: Some(config_maps(&eve)),
                label_selector: selector.to_owned(),
                ..pb::ListRequest::default()
            };
            let (mut client, call) = (KstoreClient::new(channel.clone()), eve.call(request));
            async move { timeout(PATIENCE, client.list(call)).await.unwrap() }
        };
        assert!(list(&too_long).await.is_err());
        let end = Instant::now() + scale.time();
        let path = eve.path(&format!("configmaps?labelSelector={}", longest.replace('!', "%21")));
        let over_rest = join_all((0..6).map(|_| async {
            let mut requests = 0;
            while Instant::now() < end {
                eve.send(("GET", &path), "application/json", "").await;
                requests += 1;
            }
            requests
        }));
        let over_grpc = join_all((0..2).map(|_| async {
            let mut requests = 0;
            while Instant::now() < end {
                // A refusal because of too many requests is an answer as well.
                let _ = list(&longest).await;
                requests += 1;
            }
            requests
        }));
        let (rest, grpc) = tokio::join!(over_rest, over_grpc);
        too_long.len() + rest.into_iter().chain(grpc).sum::<usize>() * longest.len()
    }
    .boxed_local()
}
