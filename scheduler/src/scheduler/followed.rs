//! A scheduler that follows another one, which decides which pod is tried ([`Shadow`](crate::shadow::Shadow)), and the end of waits.

use super::Scheduler;
use crate::action::Action;
use crate::pod::PodInfo;
use jiff::Timestamp;
use std::sync::Arc;

impl Scheduler {
    /// Continues with a pod whose wait for volumes or devices is over.
    pub(crate) fn end_waits(&mut self, now: Timestamp) -> Option<Action> {
        while let Some((wait, outcome)) = self.waits.next(now) {
            if let Some(verdict) = self.end_wait(wait, outcome, now) {
                return Some(verdict);
            }
        }
        while let Some((wait, outcome)) = self.device_waits.next(now, self.cache.devices()) {
            if let Some(verdict) = self.end_device_wait(wait, outcome, now) {
                return Some(verdict);
            }
        }
        None
    }

    /// The pod that [`next`](Self::next) would try now.
    pub(crate) fn next_to_try(&mut self, now: Timestamp) -> Option<&Arc<PodInfo>> {
        self.queue.next_ready(now)
    }

    /// Decides on the waiting pod of this name now, whether it is ready or not, which is said as well.
    pub(crate) fn try_named(&mut self, name: &str, now: Timestamp) -> Option<(Action, bool)> {
        let (queued, is_ready) = self.queue.pop_named(name)?;
        self.try_pod(queued, now, &mut ()).map(|action| (action, is_ready))
    }

    /// Does not try the pod that [`next`](Self::next) would try now: it waits for the next event that may help it.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        if let Some(pod) = self.queue.next_ready(now).map(Arc::clone) {
            self.queue.pass(&pod.uid);
        }
    }
}
