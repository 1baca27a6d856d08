//! One changed pod through an informer: reflector, cache with an index, a subscriber.

use super::virtual_time::in_virtual_time;
use crate::feed::Feed;
use crate::pods;
use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kstore_client::Obj;
use kstore_informer::{Builder, Frame, Index, Revision};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Pods in the cache.
const PODS: usize = 1_000;
/// Pods that are decoded before the count, for any number of changes.
const CHANGES: usize = 1_200;

/// One message with one change, until the subscriber has it. The pods are decoded before.
pub(super) fn run(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let by_node = Index::new(|pod: &Obj<Pod>, emit: &mut dyn FnMut(Box<str>)| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            node.map(Box::from).into_iter().for_each(emit);
        });
        let (feed, mut senders) = Feed::new(1);
        let sender = senders.pop().context("a stream")?;
        let informer = Builder::new(feed).name("ratchet").index(&by_node).spawn(&CancellationToken::new());
        let mut subscription = informer.subscribe();
        let decoded = (0..PODS + CHANGES).map(|at| anyhow::Ok(Frame::Put(Obj::new(pod(at)?))));
        let mut frames: Vec<Frame<Obj<Pod>>> = decoded.collect::<anyhow::Result<_>>()?;
        let changes = frames.split_off(PODS);
        frames.push(Frame::Progress { revision: revision(PODS - 1), initial_done: true });
        sender.send(Ok(frames)).await.ok().context("the informer runs")?;
        informer.synced().await?;
        ensure!(subscription.try_next().len() == PODS, "all pods are delivered");
        ensure!(usize::try_from(times)? <= CHANGES, "at most {CHANGES} changes");
        for (change, at) in changes.into_iter().zip(PODS..PODS + usize::try_from(times)?) {
            sender.send(Ok(vec![change])).await.ok().context("the informer runs")?;
            informer.wait_for(revision(at)).await?;
            ensure!(subscription.try_next().len() == 1, "the change is delivered");
        }
        Ok(())
    })
}

/// The pod of the change with this number: one that is in the cache, on another node.
fn pod(at: usize) -> anyhow::Result<Pod> {
    let mut pod: Value = serde_json::from_slice(&pods::pod(at * 7 % PODS))?;
    let number = at * 7 % PODS;
    let metadata = pod["metadata"].as_object_mut().context("metadata")?;
    metadata.insert("namespace".to_owned(), json!("default"));
    metadata.insert("uid".to_owned(), json!(format!("8f14e45f-ceea-467f-a0e6-{number:012x}")));
    metadata.insert("resourceVersion".to_owned(), json!(revision(at).0.to_string()));
    pod["spec"]["nodeName"] = json!(pods::node(at / 7));
    Ok(serde_json::from_value(pod)?)
}

fn revision(at: usize) -> Revision {
    Revision(at as u64 + 1)
}
