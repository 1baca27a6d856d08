//! [`Shadow`]: a scheduler that reads the objects of a cluster in which another scheduler decides, and says what it would have done. So
//! the decisions of kube-scheduler are compared one by one, live or from a [`recording`]. No I/O: objects, the outcome of writes and the
//! time are arguments.

mod feed;
pub mod recording;

use crate::action::{Action, Binding, Evict, NominationChange, Notice, VolumeWrites};
use crate::devices::plan::DevicePlan;
use crate::explain;
use crate::pod::PodInfo;
use crate::profile::Profile;
use crate::queue::PodBackoff;
use crate::reconstruct::DecisionKind;
use crate::scheduler::{Scheduler, TieMode};
use jiff::Timestamp;
use kstore_informer::Revision;
use kstore_nondet::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A scheduler beside another one.
pub struct Shadow {
    scheduler: Scheduler,
    /// The last decision, until the other scheduler's writes for it are known.
    open: Option<Action>,
}

/// The decision of an attempt for a pod, as other schedulers can be asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Namespace and name of the pod, with a slash between them.
    pub pod: String,
    /// What the scheduler does.
    pub outcome: Outcome,
}

/// What a scheduler does for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Binds the pod.
    Bound {
        /// The node.
        node: String,
        /// The devices that the pod's claims get, by the claim's name: each `REQUEST=DRIVER/POOL/DEVICE`, in the order of the allocation.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        claims: BTreeMap<String, Vec<String>>,
    },
    /// Gives the pod's claims their volumes on a node; the pod is bound when that is done.
    BindsVolumes {
        /// The node.
        node: String,
        /// The volume of each claim that gets an existing one.
        volumes: BTreeMap<String, String>,
        /// The claims for which a volume is to be provisioned on the node.
        provision: Vec<String>,
    },
    /// Refuses the pod.
    Refused {
        /// The reason of the pod's condition.
        reason: String,
        /// The message of the pod's condition.
        message: String,
        /// The node for which the pod is nominated afterwards.
        nominated: Option<String>,
    },
    /// Refuses the pod, nominates it for a node, and deletes pods there.
    Preempts {
        /// The message of the pod's condition.
        message: String,
        /// The node.
        node: String,
        /// The deleted pods, as the decision's pod is named, sorted.
        victims: Vec<String>,
    },
    /// Does what is not compared.
    Other(String),
}

impl Decision {
    /// Whether the scheduler refuses the pod, without more.
    pub fn is_refusal(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { .. })
    }
}

impl Default for Shadow {
    fn default() -> Self {
        Self::new()
    }
}

impl Shadow {
    /// A scheduler of the default profile with the choices of kube-scheduler 1.36, which knows no object yet.
    pub fn new() -> Self {
        let scheduler = Scheduler::of(Profile::default().into(), PodBackoff::default(), &Rng::seeded(0));
        Self { scheduler: scheduler.with_ties(TieMode::KubeScheduler), open: None }
    }

    /// Takes the newest state of an object, as the API has it in JSON.
    ///
    /// # Errors
    /// It is no object of this kind.
    pub fn set(
        &mut self,
        kind: DecisionKind,
        object: &[u8],
        now: Timestamp,
    ) -> Result<(), serde_json::Error> {
        feed::feed(&mut self.scheduler, kind, (object, false), now)
    }

    /// Takes the deletion of an object, whose last state this is.
    ///
    /// # Errors
    /// It is no object of this kind.
    pub fn delete(
        &mut self,
        kind: DecisionKind,
        object: &[u8],
        now: Timestamp,
    ) -> Result<(), serde_json::Error> {
        feed::feed(&mut self.scheduler, kind, (object, true), now)
    }

    /// The next decision; `None` if no pod is to be tried now. Before the next one, the caller takes the other scheduler's
    /// writes and calls [`settle`](Self::settle).
    pub fn next(&mut self, now: Timestamp) -> Option<Decision> {
        let action = self.scheduler.next(now)?;
        let decision = decision(&action);
        self.open = Some(action);
        Some(decision)
    }

    /// Ends the last decision: the other scheduler has made the writes for it, the last of them at `revision`.
    pub fn settle(&mut self, revision: u64, now: Timestamp) {
        let revision = Revision(revision);
        match self.open.take() {
            Some(Action::Bind(binding)) => {
                self.scheduler.devices_written(&binding, revision);
                self.scheduler.bound(&binding.pod.uid);
            }
            Some(Action::BindVolumes(writes)) => self.scheduler.volumes_written(&writes, revision, now),
            _ => {}
        }
    }
}

/// The text of the event for a refusal with this message.
pub fn event_text(message: &str) -> String {
    explain::for_event(message)
}

/// The devices of an allocation of a ResourceClaim (`status.allocation`), as [`Outcome::Bound`] says them.
pub fn devices_of(allocation: &Value) -> Vec<String> {
    let results = allocation["devices"]["results"].as_array();
    let text = |result: &Value, name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let device = |result: &Value| {
        let [request, driver, pool, device] =
            ["request", "driver", "pool", "device"].map(|n| text(result, n));
        format!("{request}={driver}/{pool}/{device}")
    };
    results.into_iter().flatten().map(device).collect()
}

fn decision(action: &Action) -> Decision {
    let (pod, outcome) = match action {
        Action::Bind(binding) => (&binding.pod, bound(binding)),
        Action::BindVolumes(writes) => (&writes.binding.pod, binds_volumes(writes)),
        Action::Refuse(notice) => (&notice.pod, refused(notice)),
        Action::Preempt(evict) => (&evict.notice.pod, preempts(evict)),
        Action::ClaimDevices(binding) => (&binding.pod, Outcome::Other("waits for devices".to_owned())),
        Action::ReportGang(report) => (&report.pod, Outcome::Other(report.message.clone())),
        Action::Ask(question) => {
            return Decision { pod: String::new(), outcome: Outcome::Other(format!("{question:?}")) };
        }
    };
    Decision { pod: name(pod), outcome }
}

fn name(pod: &PodInfo) -> String {
    pod.key.to_string()
}

fn bound(binding: &Binding) -> Outcome {
    let claims = binding.devices.as_deref().map_or_else(BTreeMap::new, claims);
    Outcome::Bound { node: binding.choice.node.to_string(), claims }
}

fn claims(plan: &DevicePlan) -> BTreeMap<String, Vec<String>> {
    let allocated = plan.allocate.iter().map(|(claim, allocation)| (claim.key.name(), allocation));
    let created = plan.create.iter().map(|created| ("", &created.allocation));
    allocated.chain(created).map(|(name, found)| (name.to_owned(), devices_of(&found.json))).collect()
}

fn binds_volumes(writes: &VolumeWrites) -> Outcome {
    let volumes =
        writes.bind.iter().map(|(volume, claim)| (claim.key.name().to_owned(), volume.key.name().to_owned()));
    let mut provision: Vec<_> = writes.provision.iter().map(|claim| claim.key.name().to_owned()).collect();
    provision.sort();
    Outcome::BindsVolumes {
        node: writes.binding.choice.node.to_string(),
        volumes: volumes.collect(),
        provision,
    }
}

fn refused(notice: &Notice) -> Outcome {
    let nominated = match &notice.nomination {
        NominationChange::Keep => notice.pod.nominated_node.as_ref(),
        NominationChange::Set(node) => Some(node),
        NominationChange::Clear => None,
    };
    Outcome::Refused {
        reason: notice.failure.reason().to_owned(),
        message: notice.message.clone(),
        nominated: nominated.map(ToString::to_string),
    }
}

fn preempts(evict: &Evict) -> Outcome {
    let mut victims: Vec<_> = evict.victims.iter().map(|pod| name(pod)).collect();
    victims.sort();
    Outcome::Preempts { message: evict.notice.message.clone(), node: evict.node.to_string(), victims }
}

#[cfg(test)]
mod tests;
