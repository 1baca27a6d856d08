//! Prepares the cluster of `run` before its command starts: stores the objects and waits until they are
//! available.

use super::manifests::SourcedObject;
use super::readiness::{Readiness, conditions, pod_state, readiness};
use crate::watched_object::watch_until;
use kstore_client::manifest::{Applied, Applier, ApplyError};
use kstore_client::{ApiError, Client, Gvr, ListParams, WatchParams};
use serde_json::Value;
use std::num::NonZeroU32;
use std::time::Duration;

/// Number of pods per object that a report describes. Pods of one ReplicaSet mostly wait for the same reason.
const PODS_SHOWN: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");

/// The object that could not be stored. All objects before it were stored.
#[derive(Debug, thiserror::Error)]
#[error("{source_file}: document {document}: {error}")]
pub(super) struct SetupError {
    source_file: String,
    document: usize,
    error: ApplyError,
}

/// A stored object, and the name of its file.
pub(super) struct StoredObject {
    source: String,
    kind: String,
    name: String,
    applied: Applied,
}

/// Stores all objects, one after the other.
///
/// # Errors
/// The first object that is refused.
pub(super) async fn store(
    client: &Client,
    objects: Vec<SourcedObject>,
) -> Result<Vec<StoredObject>, SetupError> {
    let applier = Applier::new(client);
    let mut stored = Vec::new();
    for SourcedObject { source, object } in objects {
        let (document, kind) = (object.document, object.kind().to_owned());
        match applier.create_or_apply(object).await {
            Ok(applied) => {
                let name = applied.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                stored.push(StoredObject { source, kind, name, applied });
            }
            Err(error) => return Err(SetupError { source_file: source, document, error }),
        }
    }
    Ok(stored)
}

/// Waits until all objects are available.
///
/// # Errors
/// A report of the objects that are not available, when one of them cannot become available or `timeout` is
/// over.
pub(super) async fn wait_available(
    client: &Client,
    stored: &[StoredObject],
    timeout: Duration,
) -> Result<(), String> {
    let waiting = async {
        // Objects are awaited one after the other: the last one to become available ends the wait, in any
        // order.
        for object in stored {
            object.until_available(client).await?;
        }
        Ok(())
    };
    let why = match tokio::time::timeout(timeout, waiting).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(why)) => why,
        Err(_) => format!("not available after {timeout:?}"),
    };
    let mut report = vec![why];
    for object in stored {
        object.report(client, &mut report).await;
    }
    Err(report.join("\n  "))
}

impl StoredObject {
    /// The object in messages: `web.yaml: Deployment default/web`.
    fn title(&self) -> String {
        let namespace = &self.applied.namespace;
        let name =
            if namespace.is_empty() { self.name.clone() } else { format!("{namespace}/{}", self.name) };
        format!("{}: {} {name}", self.source, self.kind)
    }

    /// Watches the object until it is available.
    ///
    /// # Errors
    /// The object cannot become available, or cannot be watched.
    async fn until_available(&self, client: &Client) -> Result<(), String> {
        if readiness(&self.applied.object) == Readiness::Ready {
            return Ok(());
        }
        let which = WatchParams::default().ns(&self.applied.namespace).name(&self.name);
        let decide = |object: &Value| match readiness(object) {
            Readiness::Ready => Some(Ok(())),
            Readiness::Failed(_) => Some(Err("an object cannot become available".to_owned())),
            Readiness::Pending(_) => None,
        };
        let decided = watch_until(&client.dynamic(self.applied.gvr.clone()), which, decide).await;
        decided.map_err(|error| format!("cannot watch {}: {error}", self.title()))?
    }

    /// Appends to `report` why the object is not available: its conditions and the state of its pods. Appends
    /// nothing if it is available.
    async fn report(&self, client: &Client, report: &mut Vec<String>) {
        let title = self.title();
        let gvr = self.applied.gvr.clone();
        let object = match client.dynamic(gvr).get(&self.applied.namespace, &self.name).await {
            Ok(object) => object,
            Err(error) => return report.push(format!("{title}: {error}")),
        };
        match readiness(&object) {
            Readiness::Ready => return,
            Readiness::Pending(why) | Readiness::Failed(why) => report.push(format!("{title}: {why}")),
        }
        if self.kind == "Pod" {
            return;
        }
        report.extend(conditions(&object).into_iter().map(|condition| format!("  {condition}")));
        match pods(client, &object).await {
            Ok(pods) => report.extend(pods),
            Err(error) => report.push(format!("  its pods: {error}")),
        }
    }
}

/// Describes the pods of a workload that are not ready, one a line.
async fn pods(client: &Client, workload: &Value) -> Result<Vec<String>, ApiError> {
    let labels = match workload.pointer("/spec/selector/matchLabels").and_then(Value::as_object) {
        Some(labels) if !labels.is_empty() => labels,
        _ => return Ok(Vec::new()),
    };
    let labels: Vec<_> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let namespace = workload["metadata"]["namespace"].as_str().unwrap_or_default();
    let which = ListParams::default().labels(&labels.join(","));
    let pods = client.dynamic(Gvr::new("", "v1", "pods")).list_first(namespace, &which, PODS_SHOWN).await?;
    let waiting = pods.iter().filter(|pod| readiness(pod) != Readiness::Ready);
    let line = |pod: &Value| {
        format!("  pod {}: {}", pod["metadata"]["name"].as_str().unwrap_or_default(), pod_state(pod))
    };
    Ok(waiting.map(line).collect())
}
