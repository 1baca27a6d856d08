//! What plugins reserve for a pod that has a node, and what they do for one that no node fits.

use super::{PluginSet, Rejection};
use crate::devices::plan::{Deallocation, DevicePlan};
use crate::storage::VolumePlan;

/// What a plugin reserved for a pod on its node, with the writes for it.
#[derive(Clone, Debug)]
pub enum Reservation {
    /// Volumes for the claims of the pod. They are written before the bind, which waits until the claims are bound.
    Volumes(VolumePlan),
    /// Devices for the claims of the pod. They are written together with the bind.
    Devices(DevicePlan),
}

/// What a plugin can reserve. Of several plugins of a kind the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationKind {
    /// [`Reservation::Volumes`].
    Volumes,
    /// [`Reservation::Devices`].
    Devices,
}

/// Why no node fits a pod.
#[derive(Clone, Copy, Debug)]
pub struct Refusals<'a> {
    /// The slot of each refusing node in the snapshot, with its refusal.
    pub rejections: &'a [(usize, Rejection)],
    /// Whether a filter refused the pod without a look at any node.
    pub is_of_pod: bool,
    /// The filters that refused.
    pub by: PluginSet,
    /// Whether the plugin that is asked is one of them.
    pub is_own: bool,
}

/// What a plugin does for a pod that no node fits.
#[derive(Clone, Debug, Default)]
pub struct PostFilter {
    /// The claim of devices to deallocate.
    pub deallocation: Option<Deallocation>,
    /// What is done, in kube-scheduler's words: a part of the message about the pod.
    pub text: Option<&'static str>,
    /// Whether it failed, so that nothing else is done for the pod: no other pods are evicted.
    pub has_failed: bool,
}
