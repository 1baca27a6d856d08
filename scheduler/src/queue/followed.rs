//! What the queue does where another scheduler decides which pod is tried: [`Shadow`](crate::shadow::Shadow).

use super::{Queue, QueuePosition, QueuedPod};
use crate::pod::Uid;

impl Queue {
    /// Takes the pod of this name, which is written as its key is, wherever it waits. Says as well whether [`pop`](Self::pop) would return
    /// it by itself after those before it.
    pub(crate) fn pop_named(&mut self, name: &str) -> Option<(QueuedPod, bool)> {
        let of_name = |(_, queued): &&(QueuePosition, QueuedPod)| queued.pod.key.to_string() == name;
        let (position, queued) = self.pods.values().find(of_name)?;
        let is_ready = !matches!(position, QueuePosition::Unschedulable(..) | QueuePosition::Held);
        let uid = Uid::clone(&queued.pod.uid);
        self.pop_any(&uid).map(|queued| (queued, is_ready))
    }

    /// Lets a pod that was tried before wait for the next event that may help it. Ignores pods that are not in the queue.
    pub(crate) fn pass(&mut self, uid: &Uid) {
        if let Some((_, queued)) = self.take(uid) {
            self.park(queued);
        }
    }
}
