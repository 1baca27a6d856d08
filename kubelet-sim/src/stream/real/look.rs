//! Looks at a container runtime: whether it is ready, which containers run, and which sandboxes belong to no pod. Runtimes with a stream of
//! events are asked again after each event, and all of them each second, as kubelets ask.

use super::{PROCESS, RealNode, RuntimeState, has_ended};
use crate::limits::{RUNTIME_LOOK, RUNTIME_ORPHAN, RUNTIME_STATE_LOOKS};
use crate::stream::{ManagerMessage, Streams};
use kstore_cri::client::Phase;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

impl Streams {
    /// Looks at the runtime until `stop`; then removes the sandboxes if they are not to be kept.
    pub(crate) async fn watch_runtime(&self, stop: &CancellationToken) {
        let Some(real) = &self.real else { return };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.look_on(real) => {}
            () = real.listen() => {}
        }
        if !real.config.keeps_pods {
            real.remove_all().await;
        }
    }

    async fn look_on(&self, real: &Arc<RealNode>) {
        let mut orphans = BTreeMap::new();
        let mut is_ready = false;
        let mut is_first = true;
        for number in 0_u64.. {
            if !is_ready || number.is_multiple_of(RUNTIME_STATE_LOOKS) {
                is_ready = self.look_at_state(real).await;
            }
            if is_ready && std::mem::take(&mut is_first) {
                real.remove_left().await;
            }
            if is_ready && let Ok(found) = real.client.containers(&real.labels, None).await {
                let is_running = |phase: Phase| matches!(phase, Phase::Running | Phase::Created);
                let running = found.into_iter().filter(|one| is_running(one.phase));
                real.running.set(running.map(|one| one.id).collect());
                real.remove_orphans(&mut orphans).await;
            }
            tokio::select! {
                biased;
                () = real.wake.notified() => {}
                () = tokio::time::sleep(RUNTIME_LOOK) => {}
            }
        }
    }

    /// Asks the runtime whether it is ready, and reports that.
    async fn look_at_state(&self, real: &RealNode) -> bool {
        let asked = async {
            let version = real.client.version().await?;
            Ok::<_, kstore_cri::RuntimeError>((version, real.client.problem().await?))
        };
        let (version, problem) = match asked.await {
            Ok((version, problem)) => {
                *real.name.lock().unwrap_or_else(PoisonError::into_inner) = version.name.clone();
                (format!("{}://{}", version.name, version.version.trim_start_matches('v')), problem)
            }
            Err(error) => {
                let socket = real.config.socket.display();
                (String::new(), Some(format!("container runtime is down: unix://{socket}: {error}")))
            }
        };
        let is_ready = problem.is_none();
        let state = RuntimeState { node: real.config.node.clone(), version, problem };
        // The manager may have ended.
        let _ = self.messages.send(ManagerMessage::RuntimeState(Box::new(state))).await;
        is_ready
    }
}

impl RealNode {
    /// Lets a look begin after each event of the runtime, as long as it reports events. Does not return.
    async fn listen(&self) {
        loop {
            match self.client.events().await {
                Ok(mut events) => {
                    while events.next().await {
                        self.wake.notify_one();
                    }
                }
                // Looks at intervals have to do.
                Err(error) if error.is_unimplemented() => std::future::pending().await,
                Err(_) => {}
            }
            tokio::time::sleep(RUNTIME_LOOK).await;
        }
    }

    /// Removes sandboxes of this cluster whose pod has been unknown for a while.
    async fn remove_orphans(&self, since: &mut BTreeMap<String, Instant>) {
        let Ok(found) = self.client.sandboxes(&self.labels).await else { return };
        let known: BTreeSet<Arc<str>> = self.pods().keys().cloned().collect();
        let orphans: Vec<_> =
            found.into_iter().filter(|sandbox| !known.contains(sandbox.uid.as_str())).collect();
        since.retain(|id, _| orphans.iter().any(|sandbox| sandbox.id == *id));
        for sandbox in orphans {
            let at = *since.entry(sandbox.id.clone()).or_insert_with(Instant::now);
            if at.elapsed() < RUNTIME_ORPHAN {
                continue;
            }
            match self.client.remove_sandbox(&sandbox.id).await {
                Ok(()) => tracing::info!(uid = sandbox.uid, "removed the containers of a pod that is gone"),
                Err(error) => {
                    tracing::warn!(%error, uid = sandbox.uid, "the containers of a pod that is gone are left");
                }
            }
        }
    }

    /// Removes the sandboxes of processes that have ended without removing them.
    async fn remove_left(&self) {
        let Ok(found) = self.client.sandboxes(&BTreeMap::new()).await else { return };
        for sandbox in found {
            let Some(process) = sandbox.labels.get(PROCESS) else { continue };
            if has_ended(process)
                && let Err(error) = self.client.remove_sandbox(&sandbox.id).await
            {
                tracing::warn!(%error, uid = sandbox.uid, "the containers of an ended process are left");
            }
        }
    }

    /// Removes all sandboxes of this node.
    async fn remove_all(&self) {
        let found = self.client.sandboxes(&self.labels).await.unwrap_or_default();
        let mut removals = JoinSet::new();
        for sandbox in found {
            let client = self.client.clone();
            removals.spawn(async move { (client.remove_sandbox(&sandbox.id).await, sandbox.uid) });
        }
        while let Some(done) = removals.join_next().await {
            if let Ok((Err(error), uid)) = done {
                tracing::warn!(%error, uid, "the containers of a pod are left");
            }
        }
    }
}
