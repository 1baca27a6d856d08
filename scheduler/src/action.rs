//! [`Action`]: what the scheduler asks its caller to write, as data. `bind` and `run` execute it.

use crate::decide::{Choice, Refusal};
use crate::devices::plan::{Deallocation, DevicePlan};
use crate::extender::Question;
use crate::pod::PodInfo;
use crate::pod_groups::PodGroup;
use crate::storage::claim::Claim;
use crate::storage::{ClaimedVolume, Record};
use jiff::Timestamp;
use kstore_informer::{Causes, Revision};
use std::num::NonZero;
use std::sync::Arc;

/// A decision about a pod.
#[derive(Clone, Debug)]
pub enum Action {
    /// Bind the pod, together with the writes to its resource claims. The cache assumes the pod on its node until
    /// [`crate::scheduler::Scheduler::bind_failed`].
    Bind(Binding),
    /// Write the pod's resource claims, and report to [`crate::scheduler::Scheduler::devices_claimed`] or
    /// [`crate::scheduler::Scheduler::devices_refused`]. The cache assumes the pod on its node meanwhile. The scheduler binds the pod when
    /// its devices are prepared.
    ClaimDevices(Binding),
    /// Nominate the pod for its node, write which volumes the pod's claims get, and report to
    /// [`crate::scheduler::Scheduler::volumes_written`] or [`crate::scheduler::Scheduler::volumes_refused`]. The cache assumes the pod on
    /// its node meanwhile. The scheduler binds the pod when its claims are bound.
    BindVolumes(VolumeWrites),
    /// Report that no node fits the pod. The pod waits until that may have changed.
    Refuse(Notice),
    /// Evict pods for the pod, and report evictions that fail to [`crate::scheduler::Scheduler::evictions_failed`]. The pod waits
    /// until the watch shows the others.
    Preempt(Evict),
    /// Report what the cycle over the pods of a gang has found, in the PodGroup's condition. The actions for the pods follow.
    ReportGang(Box<GangReport>),
    /// Ask extenders, and go on with their answers by [`crate::scheduler::Scheduler::resume`]. The scheduler decides on no other pod
    /// meanwhile.
    Ask(Question),
}

impl Action {
    /// The decision, if the pod got a node.
    pub(crate) fn binding(&self) -> Option<&Binding> {
        match self {
            Self::Bind(binding) | Self::ClaimDevices(binding) => Some(binding),
            Self::BindVolumes(writes) => Some(&writes.binding),
            Self::Refuse(_) | Self::Preempt(_) | Self::ReportGang(_) | Self::Ask(_) => None,
        }
    }
}

/// The result of a cycle over the pods of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangResult {
    /// Enough pods have nodes.
    Scheduled,
    /// Too few pods have nodes, so that none is bound.
    Unschedulable,
    /// The attempt of a pod ended with an error, so that none is bound.
    Error,
}

/// What a cycle over the pods of a gang has found.
#[derive(Clone, Debug)]
pub struct GangReport {
    /// The pod that began the cycle.
    pub pod: Arc<PodInfo>,
    /// The PodGroup; `None` if it is gone.
    pub group: Option<Arc<Record<PodGroup>>>,
    /// The time at which the cycle began.
    pub began: Timestamp,
    /// The result.
    pub result: GangResult,
    /// The message of the PodGroup's condition.
    pub message: String,
}

/// A pod and its node.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The chosen node with the reasons.
    pub choice: Choice,
    /// The number of attempts for the pod, including this one.
    pub attempts: u32,
    /// The revision that made the pod ready.
    pub cause: Revision,
    /// The time of the decision.
    pub at: Timestamp,
    /// The time at which the pod was first queued.
    pub since: Timestamp,
    /// The writes to the pod's resource claims; `None` if there are none.
    pub devices: Option<Arc<DevicePlan>>,
}

impl Binding {
    /// The causes of the bind: the revision of the pod and the revision that made it ready, for example that
    /// of a new node.
    pub fn causes(&self) -> Causes {
        causes(&self.pod, self.cause)
    }
}

/// The writes that give the claims of a pod their volumes on its node.
#[derive(Clone, Debug)]
pub struct VolumeWrites {
    /// The decision.
    pub binding: Binding,
    /// The volumes, each with the claim that it shall refer to.
    pub bind: Vec<ClaimedVolume>,
    /// The claims that get the annotation with the node, so that a provisioner makes a volume there.
    pub provision: Vec<Arc<Record<Claim>>>,
}

/// A pod and the reason why it was not scheduled.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The failure, with the reasons per node if no node fits.
    pub failure: SchedulingFailure,
    /// The message in kube-scheduler's words.
    pub message: String,
    /// The revision that made the pod ready.
    pub cause: Revision,
    /// The claim of devices to deallocate, so that the pod may fit.
    pub deallocation: Option<Deallocation>,
    /// The change of the pod's `status.nominatedNodeName`.
    pub nomination: NominationChange,
}

/// A change of the node for which a pod is nominated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NominationChange {
    /// The nomination stays.
    #[default]
    Keep,
    /// The pod is nominated for this node.
    Set(Arc<str>),
    /// The pod is nominated for no node.
    Clear,
}

/// The evictions for a pod.
#[derive(Clone, Debug)]
pub struct Evict {
    /// The pod, and why it does not fit before the evictions.
    pub notice: Notice,
    /// The node on which the evictions make room.
    pub node: Arc<str>,
    /// The pods to evict. Others that the pod waits for are being deleted already.
    pub victims: Vec<Arc<PodInfo>>,
    /// The number of pods that make room by their end, with those that are being deleted already; `None` if all are.
    pub selected: Option<NonZero<usize>>,
    /// Other pods that make room: they waited for their volumes and are back in the queue, without a write. Each notice says so.
    pub withdrawn: Vec<Notice>,
    /// Pods of lower priority that are no longer nominated for the node.
    pub displaced: Vec<Arc<PodInfo>>,
}

impl Notice {
    /// The causes of the notice, the same as those of a [`Binding`].
    pub fn causes(&self) -> Causes {
        causes(&self.pod, self.cause)
    }
}

fn causes(pod: &PodInfo, ready: Revision) -> Causes {
    [pod.revision, ready].into_iter().collect()
}

/// The failure to schedule a pod.
#[derive(Clone, Debug)]
pub enum SchedulingFailure {
    /// No node fits the pod.
    Unfit(Refusal),
    /// The API did not accept the bind.
    BindFailed,
    /// The attempt ended with an error before the pod had a node.
    AttemptFailed,
    /// The pod's claims did not become bound.
    VolumesFailed,
    /// The API did not accept the devices of the pod's claims.
    DevicesFailed,
}

impl SchedulingFailure {
    /// The reason in the pod's condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unfit(_) => "Unschedulable",
            Self::AttemptFailed | Self::BindFailed | Self::VolumesFailed | Self::DevicesFailed => {
                "SchedulerError"
            }
        }
    }
}
