//! The scheduler's part of binding conditions: pods that have devices and wait until these are prepared. [`DeviceWaits`] has the waits.
//!
//! [`DeviceWaits`]: crate::device_waits::DeviceWaits

use super::Scheduler;
use crate::action::{Action, Binding, NominationChange, Notice, SchedulingFailure};
use crate::device_waits::{DeviceOutcome, DeviceWait};
use crate::plugin::ReservationKind;
use crate::pod::Uid;
use jiff::Timestamp;
use kstore_informer::Revision;

impl Scheduler {
    /// Records that the claims of a pod were written at `revision`; zero if there was nothing to write. The pod waits until its devices are
    /// prepared.
    pub fn devices_claimed(&mut self, binding: &Binding, revision: Revision, now: Timestamp) {
        self.devices_written(binding, revision);
        let is_current = |queued: &crate::queue::QueuedPod| queued.attempts == binding.attempts;
        if self.binding.get(&binding.pod.uid).is_some_and(is_current) {
            self.device_waits.add(binding.clone(), revision, now, self.cache.devices());
        }
    }

    /// Continues with a pod whose wait for devices is over. A nomination for its node may have been written before the wait.
    pub(super) fn end_device_wait(
        &mut self,
        wait: DeviceWait,
        outcome: DeviceOutcome,
        now: Timestamp,
    ) -> Option<Action> {
        match outcome {
            Ok(revision) => {
                // Revision zero: the devices were prepared before the wait.
                let cause = revision.max(wait.binding.cause);
                Some(Action::Bind(Binding { at: now, cause, devices: None, ..wait.binding }))
            }
            Err((why, deallocation)) => {
                let pod = &wait.binding.pod;
                let message = self.plugins(pod).pre_bind_error(ReservationKind::Devices, &why);
                let notice = self.fail(&pod.uid, SchedulingFailure::DevicesFailed, message, now)?;
                Some(Action::Refuse(Notice { deallocation, nomination: NominationChange::Clear, ..notice }))
            }
        }
    }

    /// Whether the pod has a node of which the API does not know, because it waits for its volumes or devices.
    pub(super) fn is_waiting(&self, uid: &Uid) -> bool {
        self.waits.has(uid) || self.device_waits.has(uid)
    }

    /// Ends the wait of a pod for its volumes or devices, so that another pod gets its room. It is tried again after a back-off.
    pub(super) fn withdraw(&mut self, uid: &Uid, now: Timestamp) -> Option<Notice> {
        if let Some(wait) = self.device_waits.remove(uid) {
            let plugins = self.plugins(&wait.binding.pod);
            let message = plugins.pre_bind_error(ReservationKind::Devices, "context canceled");
            let notice = self.fail(uid, SchedulingFailure::DevicesFailed, message, now)?;
            return Some(Notice { nomination: NominationChange::Clear, ..notice });
        }
        let wait = self.waits.remove(uid)?;
        self.forget_volumes(&wait, now);
        self.forget_devices(&wait.binding, now);
        let plugins = self.plugins(&wait.binding.pod);
        let message = plugins.pre_bind_error(ReservationKind::Volumes, "binding volumes: context canceled");
        self.fail(uid, SchedulingFailure::VolumesFailed, message, now)
    }
}
