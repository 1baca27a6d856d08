//! [`Shadow`]: a scheduler that reads the objects of a cluster in which another scheduler decides, and says what it would have done. So
//! the decisions of kube-scheduler are compared one by one, live or from a [`recording`]. No I/O: objects, the outcome of writes and the
//! time are arguments.
//!
//! The other scheduler chooses the pod of each attempt: what an attempt leaves behind (the start of the next search, the order of the
//! nodes) is then equal too. The shadow says which pod it would try, and by [`Attempted::is_expected`] whether it would try the pod that
//! the other one tries.

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
use std::collections::{BTreeMap, BTreeSet};

/// A scheduler beside another one.
pub struct Shadow {
    scheduler: Scheduler,
    /// The last decision, until the other scheduler's writes for it are known.
    open: Option<Action>,
    /// Pods that were ready and that the other scheduler had not tried when the caller went on.
    passed: BTreeSet<String>,
}

/// What a scheduler would do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This decision about a pod whose volumes or devices were awaited.
    Continues(Decision),
    /// It would try this pod, named as in a [`Decision`].
    Tries(String),
}

/// An attempt for the pod that the other scheduler tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// The decision.
    pub decision: Decision,
    /// Whether this scheduler would have tried the pod as well, now or before.
    pub is_expected: bool,
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
    /// Whether the attempt changes nothing for other pods: the scheduler refuses the pod, and deletes none that it had not deleted.
    pub fn is_vain(&self) -> bool {
        match &self.outcome {
            Outcome::Refused { .. } => true,
            Outcome::Preempts { victims, .. } => victims.is_empty(),
            Outcome::Bound { .. } | Outcome::BindsVolumes { .. } | Outcome::Other(_) => false,
        }
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
        Self { scheduler: scheduler.with_ties(TieMode::KubeScheduler), open: None, passed: BTreeSet::new() }
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

    /// What the scheduler would do next; `None` if no pod is to be tried now. After a decision, and before the next call, the caller takes
    /// the other scheduler's writes and calls [`settle`](Self::settle).
    pub fn next(&mut self, now: Timestamp) -> Option<Turn> {
        match self.scheduler.end_waits(now) {
            Some(action) => Some(Turn::Continues(self.opened(action))),
            None => self.scheduler.next_to_try(now).map(|pod| Turn::Tries(name(pod))),
        }
    }

    /// Tries the pod of this name, as the other scheduler does; `None` if it does not wait. The caller goes on as after
    /// [`next`](Self::next).
    pub fn attempt(&mut self, pod: &str, now: Timestamp) -> Option<Attempted> {
        let (action, is_ready) = self.scheduler.try_named(pod, now)?;
        let is_expected = self.passed.remove(pod) || is_ready;
        Some(Attempted { decision: self.opened(action), is_expected })
    }

    /// The other scheduler does not try the pod that this one would try: the pod waits for what may help it.
    pub fn pass(&mut self, now: Timestamp) {
        if let Some(pod) = self.scheduler.next_to_try(now).map(|pod| name(pod)) {
            self.scheduler.pass(now);
            self.passed.insert(pod);
        }
    }

    fn opened(&mut self, action: Action) -> Decision {
        let decision = decision(&action);
        self.open = Some(action);
        decision
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
