//! Waits for states: of a simulated cluster, checked after every change and never by a timer, and of real
//! programs, with one time limit for everything.

use crate::Cluster;
use futures::StreamExt as _;
use kstore_client::{Client, Gvr, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, Start};
use serde_json::Value;
use std::time::Duration;

/// Virtual time after which a wait fails.
const VIRTUAL_PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Real time after which a wait fails: only if the event never comes, however busy the machine is. A test whose
/// contract is a shorter time measures virtual time or processor time, or uses [`within`].
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Interval of [`until`].
const INTERVAL: Duration = Duration::from_millis(20);

/// Number of attempts of [`within`].
const ATTEMPTS: usize = 5;

impl Cluster {
    /// Waits until `holds`. The condition is checked now and after every revision.
    ///
    /// # Panics
    ///
    /// The condition does not hold within half an hour of virtual time; the message lists workload objects
    /// and their states.
    pub async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let mut changes = self.store().changes();
        let deadline = tokio::time::Instant::now() + VIRTUAL_PATIENCE;
        while !holds().await {
            let next = tokio::time::timeout_at(deadline, changes.next()).await;
            if next != Ok(true) {
                panic!("timed out waiting until {what}; {}", self.picture().await);
            }
        }
    }

    /// Waits until an object of namespace `default` exists and `holds`, and returns it.
    pub async fn wait_object(
        &self,
        plural: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let state = || self.get(plural, "default", name);
        self.wait_until(&format!("{plural}/{name} {what}"), async || {
            state().await.is_some_and(|object| holds(&object))
        })
        .await;
        state().await.expect("it was there a moment ago")
    }

    /// Waits until a deployment of namespace `default` is completely rolled out, as `kubectl rollout status`
    /// decides it.
    pub async fn wait_rolled_out(&self, name: &str) -> Value {
        self.wait_object("deployments", name, "rolled out", rolled_out).await
    }

    /// Waits until a pod of namespace `default` is ready.
    pub async fn wait_ready(&self, pod: &str) -> Value {
        self.wait_object("pods", pod, "ready", is_ready).await
    }

    /// The workload objects, for failure messages.
    pub async fn picture(&self) -> String {
        let mut text = format!("at revision {}:\n", self.store().revision().0);
        for plural in ["deployments", "replicasets", "pods", "nodes"] {
            for object in self.list(plural, "").await {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                text += &format!(
                    "{plural}/{name}: {} {}\n",
                    object["metadata"]["deletionTimestamp"], object["status"]
                );
            }
        }
        text
    }
}

/// Whether the status of a deployment says that only its newest template runs.
pub fn rolled_out(deployment: &Value) -> bool {
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let status = &deployment["status"];
    let is = |field: &str| status[field].as_i64().unwrap_or(0) == wanted;
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].into_iter().all(is)
}

/// Whether a pod or node has the condition Ready.
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// A condition by its type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Repeats an attempt, in real time, until it has a result.
///
/// # Panics
///
/// It has none within [`PATIENCE`].
pub async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(result) = attempt().await {
                return result;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    let result = tokio::time::timeout(PATIENCE, attempts).await;
    result.unwrap_or_else(|_| panic!("in vain waited until {what}"))
}

/// Repeats a measurement, in real time, until it is below `bound`: a busy machine delays some attempts, a defect
/// all.
///
/// # Panics
///
/// No attempt was in time.
pub async fn within(what: &str, bound: Duration, mut measure: impl AsyncFnMut() -> Duration) {
    let mut times = Vec::new();
    while times.len() < ATTEMPTS {
        let took = measure().await;
        if took < bound {
            return;
        }
        times.push(took);
    }
    panic!("{what} never took less than {bound:?}: {times:?}");
}

/// Watches an object of a real server until `holds`, in real time.
///
/// # Panics
///
/// The condition does not hold within [`PATIENCE`].
pub async fn watch_until(
    client: &Client,
    gvr: Gvr,
    namespace: &str,
    name: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    watch_first(client, gvr, WatchParams::default().ns(namespace).name(name), holds).await
}

/// Watches objects of a real server until one of them `holds`, in real time.
///
/// # Panics
///
/// The condition does not hold within [`PATIENCE`].
pub async fn watch_first(
    client: &Client,
    gvr: Gvr,
    which: WatchParams,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    let what = format!("{gvr} {which:?}");
    let source = client.dynamic(gvr).source(which);
    let watching = async {
        let mut frames = source.watch(Start::Initial(ReadAt::Latest)).await.expect("a watch begins");
        while let Some(batch) = frames.next().await {
            for frame in batch.expect("the watch continues") {
                if let Frame::Put(object) = frame
                    && holds(object.value())
                {
                    return object.value().clone();
                }
            }
        }
        panic!("the watch of {what} ended");
    };
    tokio::time::timeout(PATIENCE, watching).await.unwrap_or_else(|_| panic!("in vain waited for {what}"))
}
