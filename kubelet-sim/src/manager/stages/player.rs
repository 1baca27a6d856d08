//! [`Player`]: plays the stages of one kind. It wakes for an event or the next deadline and decides nothing.

use super::addresses::{NodeAddress, StageNodes};
use super::jobs::{Job, Jobs, Played};
use super::object::StageObject;
use super::play::PlayContext;
use crate::limits::STAGE_PLAYS;
use jiff::Timestamp;
use kstore_api::kind::lookup_api_version;
use kstore_client::{Client, Gvr, Source, WatchParams};
use kstore_container_sim::time::between;
use kstore_informer::{Delta, Object as _, Recorder, Subscription};
use kstore_kwok::{Kind, StageSet};
use kstore_nondet::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The resource of a built-in kind, and whether it is namespaced.
pub(super) fn resource(kind: &Kind) -> Option<(Gvr, bool)> {
    let row = lookup_api_version(&kind.api_version, &kind.kind)?;
    Some((Gvr::new(row.group, row.version, row.plural), row.namespaced))
}

/// The objects of a kind that follow stages, and those that are being played.
pub(crate) struct Player {
    kind: Kind,
    jobs: Jobs,
    context: PlayContext,
    clock: Clock,
    plays: JoinSet<(Job, Played)>,
    /// The nodes at the last look, with the number of that state.
    nodes: (u64, Arc<BTreeMap<String, NodeAddress>>),
}

/// What the players of all kinds share.
#[derive(Clone)]
pub(crate) struct PlayerParts {
    pub(crate) stages: Arc<StageSet>,
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) nodes: Arc<StageNodes>,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    /// The version of the simulated kubelets.
    pub(crate) version: Arc<str>,
}

impl Player {
    pub(crate) fn new(kind: Kind, parts: PlayerParts) -> Self {
        let PlayerParts { stages, client, recorder, nodes, clock, seed, version } = parts;
        let first = nodes.nodes.get();
        let start = clock.now();
        let jobs = Jobs::new(kind.clone(), Arc::clone(&stages), seed);
        let context = PlayContext { kind: kind.clone(), stages, client, recorder, nodes, start, version };
        Self { kind, jobs, context, clock, plays: JoinSet::new(), nodes: first }
    }

    /// The objects of the kind.
    pub(crate) fn source(&self) -> Option<Source<StageObject>> {
        let (gvr, _) = resource(&self.kind)?;
        Some(self.context.client.dynamic(gvr).project(WatchParams::default(), StageObject::decode))
    }

    /// Plays stages until `stop` is cancelled.
    pub(crate) async fn run(mut self, mut objects: Subscription<StageObject>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let now = self.clock.now();
            while self.plays.len() < STAGE_PLAYS
                && let Some(job) = self.jobs.take_due(now)
            {
                self.plays.spawn(self.context.clone().play(job, now));
            }
            let is_open = self.plays.len() < STAGE_PLAYS;
            let deadline = self.jobs.deadline().filter(|_| is_open).map(|at| between(now, at));
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(done) = self.plays.join_next() => {
                    let (job, played) = done.expect("a play neither panics nor is cancelled while this runs");
                    self.jobs.played(job, played, &self.nodes.1, self.clock.now());
                }
                Some(deltas) = objects.next() => self.observe(deltas),
                nodes = self.context.nodes.nodes.after(self.nodes.0) => {
                    let before = std::mem::replace(&mut self.nodes, nodes);
                    self.jobs.change_nodes(&before.1, &self.nodes.1, self.clock.now());
                }
                () = tokio::time::sleep(deadline.unwrap_or_default()), if deadline.is_some() => {}
            }
        }
        self.plays.shutdown().await;
    }

    fn observe(&mut self, deltas: Vec<Delta<StageObject>>) {
        let now: Timestamp = self.clock.now();
        for delta in deltas {
            match delta {
                Delta::Added(object) | Delta::Updated { new: object, .. } | Delta::Resync(object) => {
                    let object = match object.has_kind() {
                        true => object,
                        false => Arc::new(StageObject::new(object.value().clone(), &self.kind)),
                    };
                    if self.kind.is_pod() {
                        let ip = object.text(["status", "podIP"]);
                        self.context.nodes.reserve(object.text(["spec", "nodeName"]), object.uid(), ip);
                    }
                    self.jobs.observe(object, &self.nodes.1, now);
                }
                Delta::Deleted(object) => {
                    self.context.nodes.release(object.uid());
                    self.jobs.forget(&object.key());
                }
            }
        }
    }
}
