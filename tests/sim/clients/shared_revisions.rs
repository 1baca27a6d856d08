//! Clients that list and watch, and whose connection ends between events of one revision. In process, so that
//! the connection can end after every single byte.

use futures::StreamExt as _;
use http_body_util::{BodyDataStream, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_apiserver::InProcess;
use kstore_client::{DeleteParams, Patch, Transaction};
use kstore_tests::{Cluster, Setup, simulate};
use kube_client::api::{Api, ListParams, ResourceExt as _};
use kube_runtime::{WatchStreamExt as _, reflector, watcher};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tower::ServiceExt as _;

/// Upper bound in virtual time of every step.
const PATIENCE: Duration = Duration::from_secs(60);

/// The point at which the first watch of a connection ends.
#[derive(Clone, Copy, Debug)]
enum CutPosition {
    Nowhere,
    /// After this many bytes.
    Byte(usize),
    /// After an event, counted from 1, plus this many bytes.
    Event(usize, usize),
}

impl CutPosition {
    /// The number of bytes of the first chunk that arrive before the cut.
    fn of(self, chunk: &[u8]) -> usize {
        match self {
            Self::Nowhere => chunk.len(),
            Self::Byte(bytes) => bytes.min(chunk.len()),
            Self::Event(event, behind) => {
                let mut ends = chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
                (ends.nth(event - 1).unwrap() + behind).min(chunk.len())
            }
        }
    }
}

/// A connection whose first watch ends after its first chunk, or within it.
#[derive(Clone)]
struct CutConnection {
    api: InProcess,
    cut: CutPosition,
    /// Whether the first watch has begun.
    is_used: Arc<AtomicBool>,
    /// Size of the first chunk in bytes, whether or not all of it arrived.
    sent: Arc<AtomicUsize>,
}

impl CutConnection {
    async fn answer(
        self,
        request: http::Request<kube_client::client::Body>,
    ) -> Result<http::Response<axum::body::Body>, Infallible> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let response = self.api.oneshot(request).await?;
        if !is_watch || self.is_used.swap(true, Ordering::Relaxed) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let (cut, sent) = (self.cut, self.sent);
        let first = BodyDataStream::new(body).take(1).map(move |chunk| {
            let chunk = chunk.unwrap();
            sent.store(chunk.len(), Ordering::Relaxed);
            Ok::<_, Infallible>(http_body::Frame::data(chunk.slice(..cut.of(&chunk))))
        });
        Ok(http::Response::from_parts(parts, axum::body::Body::new(StreamBody::new(first))))
    }

    fn client(&self) -> kube_client::Client {
        let connection = self.clone();
        let service = tower::service_fn(move |request| connection.clone().answer(request));
        kube_client::Client::new(service, "default")
    }
}

fn map(name: &str, round: &str) -> ConfigMap {
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"round": round}}}))
    .unwrap()
}

/// Names and versions.
fn contents<'a>(maps: impl Iterator<Item = &'a ConfigMap>) -> BTreeMap<String, Option<String>> {
    maps.map(|map| (map.name_any(), map.resource_version())).collect()
}

/// Runs a reflector whose connection ends within a revision that changes five objects. Returns the size of
/// the revision's events in bytes.
async fn reflected(cluster: &Cluster, cut: CutPosition) -> usize {
    let round = format!("round-{}", cluster.store().revision().0);
    let name = |object: &str| format!("{round}-{object}");
    let config_map = |object: &str| map(&name(object), &round);
    for object in ["changed", "left", "gone"] {
        cluster.create(serde_json::to_value(config_map(object)).unwrap()).await;
    }
    let connection =
        CutConnection { api: cluster.in_process(), cut, is_used: Arc::default(), sent: Arc::default() };
    let maps = Api::<ConfigMap>::namespaced(connection.client(), "default");
    let selected = format!("round={round}");
    let (reader, writer) = reflector::store();
    let events = watcher(maps.clone(), watcher::Config::default().labels(&selected));
    let running = tokio::spawn(reflector(writer, events).applied_objects().for_each(|_| async {}));
    tokio::time::timeout(PATIENCE, reader.wait_until_ready()).await.unwrap().unwrap();
    // The watch is open before the revision is written, so that the revision is its first chunk.
    while !connection.is_used.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Transaction::new(cluster.client())
        .create("default", &config_map("first"))
        .patch::<ConfigMap>("default", &name("changed"), "", &Patch::Merge(json!({"data": {"value": "2"}})))
        .patch::<ConfigMap>(
            "default",
            &name("left"),
            "",
            &Patch::Merge(json!({"metadata": {"labels": {"round": "none"}}})),
        )
        .delete::<ConfigMap>("default", &name("gone"), &DeleteParams::default())
        .create("default", &config_map("last"))
        .commit()
        .await
        .unwrap();
    // The connection ends and the client resumes before any other write.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sent = connection.sent.load(Ordering::Relaxed);
    cluster.create(serde_json::to_value(config_map("marker")).unwrap()).await;
    let has_marker = async {
        while !reader.state().iter().any(|map| map.name_any() == name("marker")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, has_marker).await.unwrap();
    let listed = maps.list(&ListParams::default().labels(&selected)).await.unwrap();
    let state = reader.state();
    assert_eq!(contents(state.iter().map(AsRef::as_ref)), contents(listed.items.iter()), "{cut:?}");
    assert_eq!(listed.items.len(), 4);
    running.abort();
    sent
}

#[test]
fn a_reflector_loses_nothing_when_its_connection_ends_within_a_shared_revision() {
    /// Bytes within an event are equivalent, so only some are tried.
    const STEP: usize = 23;
    simulate(Setup::api_alone(), async |cluster| {
        let whole = reflected(cluster, CutPosition::Nowhere).await;
        assert!(whole > 1000, "five events are in one chunk: {whole}");
        for event in 1..=5 {
            for behind in 0..3 {
                reflected(cluster, CutPosition::Event(event, behind)).await;
            }
        }
        for bytes in (0..whole).step_by(STEP) {
            reflected(cluster, CutPosition::Byte(bytes)).await;
        }
    });
}
