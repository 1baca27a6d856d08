//! kubernetes-sigs/cluster-api#13649: a child is found in the cache by a hash, or made with a generated name and waited for; after a second
//! of the cluster in vain the reconcile fails, and its repetition makes another one, which stays. Later repetitions wait longer.
//!
//! Fixed: the name is made of the hash.

use crate::{Failure, thing_type, things};
use futures::StreamExt as _;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_client::api::{Api, DynamicObject, Patch, PatchParams, PostParams, ResourceExt as _};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::reflector::{self, Store};
use kube_runtime::{WatchStreamExt as _, watcher};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The wait for the last child: its length, and when it ends.
type ChildWait = Option<(Duration, Timestamp)>;

struct Operator {
    client: Client,
    children: Store<ConfigMap>,
    /// Each message reconciles all Things.
    changes: mpsc::Sender<()>,
    wait: Mutex<ChildWait>,
    is_fixed: bool,
}

/// Reconciles Things until the process ends.
pub(crate) async fn run(client: Client, is_fixed: bool) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let (children, writer) = reflector::store();
    let (changes, changed) = mpsc::channel(1);
    let events = watcher(maps, watcher::Config::default().any_semantic()).default_backoff();
    let cached = changes.clone();
    let caching = reflector::reflector(writer, events).for_each(move |_| {
        // A message that waits is enough.
        let _ = cached.try_send(());
        std::future::ready(())
    });
    let triggers = futures::stream::unfold(changed, async |mut changed: mpsc::Receiver<()>| {
        changed.recv().await.map(|()| ((), changed))
    });
    let operator = Operator { client, children, changes, wait: Mutex::new(None), is_fixed };
    let config = watcher::Config::default().any_semantic();
    let controller = Controller::new_with(things(&operator.client), config, thing_type())
        .reconcile_all_on(triggers)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(20)), Arc::new(operator));
    tokio::join!(
        caching,
        controller.for_each(async |outcome| {
            if let Err(error) = outcome {
                println!("reconciling: {error}");
            }
        })
    );
}

async fn reconcile(thing: Arc<DynamicObject>, operator: Arc<Operator>) -> Result<Action, Failure> {
    let config = thing.data["spec"]["config"].as_str().unwrap_or_default();
    let hash =
        format!("{:08x}", config.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte)));
    operator.children.wait_until_ready().await.map_err(|error| Failure::Unusable(error.to_string()))?;
    if operator.children.state().iter().any(|child| child.labels().get("hash") == Some(&hash)) {
        return Ok(Action::await_change());
    }
    let maps = Api::<ConfigMap>::default_namespaced(operator.client.clone());
    let mut child = ConfigMap::default();
    child.labels_mut().insert("hash".to_owned(), hash.clone());
    if operator.is_fixed {
        let name = format!("{}-{hash}", thing.name_any());
        maps.patch(&name, &PatchParams::apply("operator"), &Patch::Apply(&child)).await?;
        return Ok(Action::await_change());
    }
    let (now, wait) = (operator.now().await?, *operator.wait.lock());
    if wait.is_none_or(|(_, end)| now >= end) {
        child.metadata.generate_name = Some(format!("{}-", thing.name_any()));
        maps.create(&PostParams::default(), &child).await?;
        let length = wait.map_or(Duration::from_secs(1), |(length, _)| 60 * length);
        *operator.wait.lock() = Some((length, now + length));
        tokio::spawn(async move { operator.after(length).await });
    }
    Ok(Action::await_change())
}

impl Operator {
    /// The lab's API, which serves administrators.
    async fn lab(&self, path: &str) -> Result<String, Failure> {
        let request = Request::get(format!("/kstore/lab/v1/{path}")).body(Vec::new());
        let request = request.map_err(|error| Failure::Unusable(error.to_string()))?;
        Ok(self.client.request_text(request).await?)
    }

    /// The time of the cluster, which passes without real time.
    async fn now(&self) -> Result<Timestamp, Failure> {
        let clock: Value = serde_json::from_str(&self.lab("clock").await?).unwrap_or_default();
        let time = clock["time"].as_str().unwrap_or_default();
        time.parse().map_err(|error| Failure::Unusable(format!("{time}: {error}")))
    }

    /// Reconciles all Things after a time of the cluster.
    async fn after(&self, length: Duration) {
        if let Err(error) = self.lab(&format!("clock/wait?for={}s", length.as_secs())).await {
            println!("waiting: {error}");
        }
        let _ = self.changes.try_send(());
    }
}
