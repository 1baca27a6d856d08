//! Executes decisions: binds pods, with the writes to their claims, evicts pods for others, and writes conditions,
//! many at a time, and never blocks on one. The [scheduler](crate::scheduler) decides what a failed bind means.

use crate::action::{Binding, Evict, GangReport, NominationChange, Notice, VolumeWrites};
use crate::devices::plan::{Deallocation, DevicePlan};
use crate::extender::{Extender, Extenders};
use crate::extender_client::ExtenderCalls;
use crate::gates::Gates;
use crate::limits::{BINDS_PER_CALL, WRITES_IN_FLIGHT};
use crate::pod::{PodInfo, ScheduledCondition, Uid};
use crate::pod_groups::PodGroupVersion;
use crate::pod_writes::PodWrites;
use devices::bind_devices;
use evict::evict;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kstore_client::{ApiError, Client, Each, Patch, ProjectedMeta, Transaction, TransactionError};
use kstore_informer::{Causes, Key, Revision};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;
use tracing::Instrument;

/// Annotation on a volume: the control plane set the reference to the claim and may remove it.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Annotation on a claim: the node for which the provisioner makes the volume.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The binds and condition writes in flight.
pub(crate) struct Writes {
    client: Client,
    gates: Gates,
    calls: ExtenderCalls,
    extenders: Extenders,
    tasks: JoinSet<FinishedWrite>,
    /// The writes that have not finished; a call of several binds counts as many.
    in_flight: usize,
    /// Binds for the next call.
    batch: Vec<Binding>,
    pod_writes: PodWrites<Write>,
}

enum Write {
    Bind(Binding),
    Claims(Binding),
    Volumes(Box<VolumeWrites>),
    Condition(Arc<PodInfo>, Patch, Causes),
    Evict(Box<Evict>, Option<Patch>, Timestamp),
    PodGroup((PodGroupVersion, Key, Uid), Patch, Causes),
}

/// A bind that failed.
#[derive(Debug)]
pub(crate) struct BindFailure {
    /// Why the pod was not bound.
    pub(crate) error: BindError,
    /// The revision at which the pod's claims of devices were written before.
    pub(crate) claimed: Option<Revision>,
}

/// Why a pod was not bound.
#[derive(Debug)]
pub(crate) enum BindError {
    /// The API refused it.
    Api(ApiError),
    /// An extender failed to bind it, for this reason.
    Extender(String),
}

/// A finished write.
pub(crate) enum FinishedWrite {
    /// A bind and its result.
    Bind(Binding, Result<(), BindFailure>),
    /// The binds of one call, and their results.
    Binds(Vec<(Binding, Result<(), BindFailure>)>),
    /// A bind with the writes to claims of devices: their revision, or the error.
    Devices(Binding, Result<Revision, ApiError>),
    /// The claims of devices of a pod that is bound later: the revision of the write, or the error.
    Claims(Binding, Result<Revision, ApiError>),
    /// The volumes of a pod's claims: the revision of the write, or the error.
    Volumes(Box<VolumeWrites>, Result<Revision, TransactionError>),
    /// A condition. Its failure is not reported: the scheduler writes the condition again when it changes
    /// again.
    Condition(Uid),
    /// The evictions for a pod, and the victims that could not be evicted.
    Evictions(Box<Evict>, Vec<Uid>),
    /// The condition of the PodGroup with this uid.
    PodGroup(Uid),
    /// A deallocation. Its failure is not reported: the claim has users then, or is gone.
    Deallocation,
}

impl FinishedWrite {
    /// The bind, and whether the API accepted it; `None` for other writes.
    pub(crate) fn bind(&self) -> Option<(&Binding, bool)> {
        match self {
            Self::Bind(binding, result) => Some((binding, result.is_ok())),
            Self::Devices(binding, result) => Some((binding, result.is_ok())),
            Self::Binds(_)
            | Self::Claims(..)
            | Self::Volumes(..)
            | Self::Condition(_)
            | Self::Evictions(..)
            | Self::PodGroup(_)
            | Self::Deallocation => None,
        }
    }

    /// The pods, or the PodGroup, whose writes have finished.
    fn uids(&self) -> Vec<Uid> {
        match self {
            Self::Binds(binds) => binds.iter().map(|(binding, _)| Arc::clone(&binding.pod.uid)).collect(),
            Self::Bind(binding, _) | Self::Devices(binding, _) | Self::Claims(binding, _) => {
                vec![Arc::clone(&binding.pod.uid)]
            }
            Self::Volumes(writes, _) => vec![Arc::clone(&writes.binding.pod.uid)],
            Self::Condition(uid) | Self::PodGroup(uid) => vec![Arc::clone(uid)],
            Self::Evictions(evictions, _) => vec![Arc::clone(&evictions.notice.pod.uid)],
            Self::Deallocation => Vec::new(),
        }
    }
}

impl Writes {
    pub(crate) fn new(client: Client, gates: Gates, (calls, extenders): (ExtenderCalls, Extenders)) -> Self {
        let (tasks, in_flight, batch, pod_writes) = (JoinSet::new(), 0, Vec::new(), PodWrites::default());
        Self { client, gates, calls, extenders, tasks, in_flight, batch, pod_writes }
    }

    /// Whether the scheduler may start another write.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < WRITES_IN_FLIGHT
    }

    /// Puts a bind into the next call, or starts it if an extender or claims of devices take part; queues it until the pod's current write
    /// has finished. The call is sent by [`Writes::send_binds`].
    pub(crate) fn bind(&mut self, binding: Binding) {
        let uid = Arc::clone(&binding.pod.uid);
        self.submit(&uid, Write::Bind(binding));
    }

    /// Sends the binds that were put into a call. Each succeeds or fails alone.
    pub(crate) fn send_binds(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        while batch.len() > 1 {
            let rest = batch.split_off(batch.len().min(BINDS_PER_CALL));
            let span = tracing::debug_span!("bind", pods = batch.len());
            self.tasks.spawn(bind_each(self.client.clone(), batch).instrument(span));
            batch = rest;
        }
        if let Some(binding) = batch.pop() {
            let span = tracing::debug_span!("bind", pod = %binding.pod.key, node = %binding.choice.node);
            self.tasks.spawn(bind(self.client.clone(), binding).instrument(span));
        }
    }

    /// Starts to write the claims of devices of a pod, or queues it until the pod's current write has finished.
    pub(crate) fn claim_devices(&mut self, binding: Binding) {
        let uid = Arc::clone(&binding.pod.uid);
        self.submit(&uid, Write::Claims(binding));
    }

    /// Starts to write which volumes the claims of a pod get, or queues it until the pod's current write has
    /// finished.
    pub(crate) fn bind_volumes(&mut self, writes: VolumeWrites) {
        let uid = Arc::clone(&writes.binding.pod.uid);
        self.submit(&uid, Write::Volumes(Box::new(writes)));
    }

    /// Starts to write `notice` into the pod's condition, unless the condition already says the same.
    pub(crate) fn report(&mut self, notice: &Notice, now: Timestamp) {
        if let Some(patch) = status(notice, now) {
            let write = Write::Condition(Arc::clone(&notice.pod), patch, notice.causes());
            self.submit(&notice.pod.uid, write);
        }
    }

    /// Starts to evict pods for a pod, or queues that until the pod's current write has finished. A later write for the
    /// pod, a bind for example, replaces queued evictions: the victims are being deleted already then.
    pub(crate) fn evict(&mut self, evict: Evict, now: Timestamp) {
        let patch = status(&evict.notice, now);
        let uid = Arc::clone(&evict.notice.pod.uid);
        self.submit(&uid, Write::Evict(Box::new(evict), patch, now));
    }

    /// Starts to write what the cycle over the pods of a gang has found into its PodGroup, or queues that until the current write of the
    /// PodGroup has finished.
    pub(crate) fn report_gang(&mut self, report: &GangReport, now: Timestamp) {
        if let Some(group) = &report.group
            && let Some(patch) = pod_group::condition(report, now)
        {
            let uid: Uid = group.uid.as_str().into();
            let causes = [report.pod.revision, group.revision].into_iter().collect();
            let named = (group.version, group.key.clone(), Arc::clone(&uid));
            self.submit(&uid, Write::PodGroup(named, patch, causes));
        }
    }

    /// Starts to take the devices of a claim away.
    pub(crate) fn deallocate(&mut self, deallocation: Deallocation, causes: &Causes) {
        self.in_flight += 1;
        self.tasks.spawn(devices::deallocate(self.client.causes(causes), deallocation));
    }

    /// The next finished write, without waiting.
    pub(crate) fn try_next(&mut self) -> Option<FinishedWrite> {
        self.tasks.try_join_next().map(|done| self.ended(done))
    }

    /// The next finished write. The future never resolves if no write is in flight. It is cancel-safe.
    pub(crate) async fn next(&mut self) -> FinishedWrite {
        match self.tasks.join_next().await {
            Some(done) => self.ended(done),
            None => std::future::pending().await,
        }
    }

    /// Cancels the writes in flight and returns when they have stopped.
    pub(crate) async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }

    fn submit(&mut self, uid: &Uid, write: Write) {
        if let Some(write) = self.pod_writes.enter(uid, write) {
            self.start(write);
        }
    }

    fn start(&mut self, write: Write) {
        self.in_flight += 1;
        let client = self.client.clone();
        match write {
            Write::Bind(binding)
                if binding.devices.is_none() && self.extenders.binder(&binding.pod).is_none() =>
            {
                self.batch.push(binding);
            }
            Write::Bind(binding) => {
                let span = tracing::debug_span!("bind", pod = %binding.pod.key, node = %binding.choice.node);
                let binder = self.extenders.binder(&binding.pod).cloned();
                match (binder, binding.devices.clone()) {
                    (None, None) => self.tasks.spawn(bind(client, binding).instrument(span)),
                    (None, Some(plan)) => {
                        self.tasks.spawn(bind_devices(client, binding, plan).instrument(span))
                    }
                    (Some(extender), plan) => {
                        let calls = self.calls.clone();
                        let bind = bind_by_extender(client, calls, extender, binding, plan);
                        self.tasks.spawn(bind.instrument(span))
                    }
                };
            }
            Write::Claims(binding) => {
                let span = tracing::debug_span!("claims", pod = %binding.pod.key);
                let nominates = self.gates.nominates_expected_node;
                self.tasks.spawn(claim_devices(client, binding, nominates).instrument(span));
            }
            Write::Volumes(writes) => {
                let span = tracing::debug_span!("volumes", pod = %writes.binding.pod.key);
                let nominates = self.gates.nominates_expected_node;
                self.tasks.spawn(bind_volumes(client, writes, nominates).instrument(span));
            }
            Write::Condition(pod, patch, causes) => {
                let span = tracing::debug_span!("condition", pod = %pod.key);
                self.tasks.spawn(write_condition(client.causes(&causes), pod, patch).instrument(span));
            }
            Write::PodGroup(group, patch, causes) => {
                self.tasks.spawn(pod_group::write(client.causes(&causes), group, patch));
            }
            Write::Evict(evictions, patch, now) => {
                let pod = &evictions.notice.pod.key;
                let span = tracing::debug_span!("evict", %pod, node = %evictions.node);
                self.tasks.spawn(evict(client, evictions, patch, now).instrument(span));
            }
        }
    }

    fn ended(&mut self, done: Result<FinishedWrite, tokio::task::JoinError>) -> FinishedWrite {
        let done = done.expect("a write neither panics nor is cancelled before the end");
        let uids = done.uids();
        self.in_flight -= uids.len().max(1);
        for uid in uids {
            if let Some(next) = self.pod_writes.leave(&uid) {
                self.start(next);
            }
        }
        done
    }
}

async fn bind(client: Client, binding: Binding) -> FinishedWrite {
    let api = client.causes(&binding.causes()).api::<Pod>();
    let (key, node) = (&binding.pod.key, &binding.choice.node);
    let answer = api.bind(key.namespace(), key.name(), &binding.pod.uid, node).await;
    let result = bind_result(&client, &binding, answer).await;
    FinishedWrite::Bind(binding, result)
}

/// Binds several pods by one call. Each bind has its own causes, revision and result.
async fn bind_each(client: Client, bindings: Vec<Binding>) -> FinishedWrite {
    let each = bindings.iter().fold(Each::new(&client), |each, binding| {
        let (key, node) = (&binding.pod.key, &binding.choice.node);
        each.bind(key.namespace(), key.name(), &binding.pod.uid, node, &binding.causes())
    });
    let answers = match each.execute().await {
        Ok(answers) => answers.into_iter().map(|answer| answer.map(|stored| stored.revision())).collect(),
        Err(error) => vec![Err(error); bindings.len()],
    };
    let mut binds = Vec::with_capacity(bindings.len());
    for (binding, answer) in bindings.into_iter().zip(answers) {
        let result = bind_result(&client, &binding, answer).await;
        binds.push((binding, result));
    }
    FinishedWrite::Binds(binds)
}

/// The result of a bind with this answer.
async fn bind_result(
    client: &Client,
    binding: &Binding,
    answer: Result<Revision, ApiError>,
) -> Result<(), BindFailure> {
    let result = match answer {
        Ok(_) => Ok(()),
        // A request without a response may have succeeded; the pod shows whether it did.
        Err(error @ ApiError::Transport(_)) => bound_revision(client, binding).await.map(|_| ()).ok_or(error),
        Err(error) => Err(error),
    };
    result.map_err(|error| BindFailure { error: BindError::Api(error), claimed: None })
}

/// Writes the claims of the pod, then lets the extender bind it. If that fails and the extender is ignorable, the pod is bound without it.
async fn bind_by_extender(
    client: Client,
    calls: ExtenderCalls,
    extender: Arc<Extender>,
    binding: Binding,
    plan: Option<Arc<DevicePlan>>,
) -> FinishedWrite {
    let claimed = match &plan {
        None => None,
        Some(plan) => match devices::claim(&client, &binding, plan).await {
            Ok(revision) => Some(revision),
            Err(error) => return FinishedWrite::Devices(binding, Err(error)),
        },
    };
    let finished = match calls.bind(&extender, &binding).await {
        Err(why) if extender.is_ignorable => {
            tracing::warn!(extender = extender.name(), why, "an extender did not bind the pod");
            bind(client, binding).await
        }
        Err(why) => {
            let error = BindError::Extender(why);
            FinishedWrite::Bind(binding, Err(BindFailure { error, claimed: None }))
        }
        Ok(()) => FinishedWrite::Bind(binding, Ok(())),
    };
    match (finished, claimed) {
        (FinishedWrite::Bind(binding, Ok(())), Some(revision)) => {
            FinishedWrite::Devices(binding, Ok(revision))
        }
        (FinishedWrite::Bind(binding, Err(failure)), claimed) => {
            FinishedWrite::Bind(binding, Err(BindFailure { claimed, ..failure }))
        }
        (finished, _) => finished,
    }
}

/// Writes the claims of a pod whose devices are prepared before the bind.
async fn claim_devices(client: Client, binding: Binding, nominates: bool) -> FinishedWrite {
    if nominates {
        nominate(&client.causes(&binding.causes()), &binding).await;
    }
    let plan = binding.devices.clone().unwrap_or_default();
    let claimed = devices::claim(&client, &binding, &plan).await;
    FinishedWrite::Claims(binding, claimed)
}

/// Writes all of `writes` at one revision, or nothing. A volume must be unchanged since the scheduler read
/// it, so that no other claim has got it. A claim need only have the same uid: its node is a preference, and
/// the scheduler compares it with what the claim got.
async fn bind_volumes(client: Client, writes: Box<VolumeWrites>, nominates: bool) -> FinishedWrite {
    let client = client.causes(&writes.binding.causes());
    if nominates {
        nominate(&client, &writes.binding).await;
    }
    let mut transaction = Transaction::new(&client);
    for (volume, claim) in &writes.bind {
        let patch = Patch::Merge(json!({
            "metadata": {
                "uid": volume.uid, "resourceVersion": volume.revision.0.to_string(),
                "annotations": { BOUND_BY_CONTROLLER: "yes" },
            },
            "spec": { "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.key.namespace(),
                "name": claim.key.name(), "uid": claim.uid, "resourceVersion": claim.revision.0.to_string(),
            } },
        }));
        transaction = transaction.patch::<PersistentVolume>("", volume.key.name(), "", &patch);
    }
    for claim in &writes.provision {
        let patch = Patch::Merge(json!({
            "metadata": { "uid": claim.uid, "annotations": { SELECTED_NODE: &*writes.binding.choice.node } },
        }));
        let (namespace, name) = (claim.key.namespace(), claim.key.name());
        transaction = transaction.patch::<PersistentVolumeClaim>(namespace, name, "", &patch);
    }
    let outcome = match writes.bind.is_empty() && writes.provision.is_empty() {
        true => Ok(Revision(0)),
        false => transaction.commit().await.map(|committed| committed.revision()),
    };
    FinishedWrite::Volumes(writes, outcome)
}

/// Writes the node of a pod into its status: the wait for the volumes may be long, and others, such as a later
/// scheduler, then know the node. The pod gets its volumes even if that fails.
async fn nominate(client: &Client, binding: &Binding) {
    let (pod, node) = (&binding.pod, &*binding.choice.node);
    let patch = json!({ "metadata": { "uid": &*pod.uid }, "status": { "nominatedNodeName": node } });
    let (namespace, name) = (pod.key.namespace(), pod.key.name());
    let written = client.api::<Pod>().write_status_patch(namespace, name, &Patch::Strategic(patch)).await;
    if let Err(error) = written {
        tracing::debug!(pod = %pod.key, node, %error, "failed to nominate the pod for the node");
    }
}

/// Whether a bind without a response succeeded: a revision that shows it.
async fn bound_revision(client: &Client, binding: &Binding) -> Option<Revision> {
    let key = &binding.pod.key;
    let pod: BoundPod = client.api::<Pod>().get_as(key.namespace(), key.name()).await.ok()?;
    let is_on_node = pod.spec.node_name.as_deref() == Some(&*binding.choice.node);
    (is_on_node && *pod.metadata.uid == *binding.pod.uid).then(|| pod.metadata.revision())
}

/// The members of a pod that tell whether it was bound.
#[derive(Deserialize)]
struct BoundPod {
    metadata: ProjectedMeta,
    #[serde(default)]
    spec: BoundPodSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundPodSpec {
    node_name: Option<String>,
}

async fn write_condition(client: Client, pod: Arc<PodInfo>, patch: Patch) -> FinishedWrite {
    let outcome = client.api::<Pod>().write_status_patch(pod.key.namespace(), pod.key.name(), &patch).await;
    if let Err(error) = outcome
        && !error.is_not_found()
    {
        tracing::debug!(%error, "failed to update the pod condition");
    }
    FinishedWrite::Condition(Arc::clone(&pod.uid))
}

/// The patch that makes the pod's status say `notice`: its condition and the node for which it is nominated. `None` if
/// it already does. The uid in the patch excludes a new pod of the same name.
fn status(notice: &Notice, now: Timestamp) -> Option<Patch> {
    let mut status = serde_json::Map::new();
    if let Some(condition) = condition(notice, now) {
        status.insert("conditions".to_owned(), json!([condition]));
    }
    let node = match &notice.nomination {
        NominationChange::Keep => None,
        NominationChange::Set(node) if notice.pod.nominated_node.as_ref() == Some(node) => None,
        NominationChange::Set(node) => Some(json!(&**node)),
        // Even if the known version has none: an earlier nomination may be on its way.
        NominationChange::Clear => Some(serde_json::Value::Null),
    };
    if let Some(node) = node {
        status.insert("nominatedNodeName".to_owned(), node);
    }
    let changes = !status.is_empty();
    let patch = json!({ "metadata": { "uid": &*notice.pod.uid }, "status": status });
    changes.then_some(Patch::Strategic(patch))
}

/// The pod's condition; `None` if it is the same already. The transition time changes only with the status.
fn condition(notice: &Notice, now: Timestamp) -> Option<serde_json::Value> {
    let pod = &notice.pod;
    let wanted = ScheduledCondition {
        status: "False".to_owned(),
        reason: notice.failure.reason().to_owned(),
        message: notice.message.clone(),
    };
    if pod.scheduled.as_ref() == Some(&wanted) {
        return None;
    }
    let mut condition = json!({
        "type": "PodScheduled", "status": wanted.status, "reason": wanted.reason, "message": wanted.message,
        "observedGeneration": pod.generation,
    });
    if pod.scheduled.as_ref().is_none_or(|old| old.status != wanted.status) {
        condition["lastTransitionTime"] = now.to_string().into();
    }
    Some(condition)
}

mod devices;
mod evict;
pub(crate) mod pod_group;
