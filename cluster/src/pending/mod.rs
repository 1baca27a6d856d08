//! Pending work of a control plane: what its components have not done yet, and whether objects are still being written. The caller
//! that waits for the end of all work sets the time limit.

mod busy;
mod writes;

use crate::control_plane::ControlPlane;
pub use busy::PendingWork;
use kstore_client::{ApiError, Client, Gvr, ListParams};
use kstore_registry::user::UserInfo;
pub use writes::{Ended, WriteMonitor};

/// User agent of the requests that look for pending work.
const AGENT: &str = "kstore-cluster";

impl ControlPlane {
    /// Lists the pending work of the components in this process: keys in work queues, caches that are being filled, pods that the scheduler
    /// has neither bound nor marked as unschedulable, and pods that a ready node has not started, or not ended.
    ///
    /// Work that becomes due later does not count: retries after a back-off, CrashLoopBackOff, grace periods, expiry of events. The
    /// requests for pods and nodes bypass [`Middleware`](crate::Middleware).
    ///
    /// # Errors
    /// Pods or nodes cannot be read.
    pub async fn pending_work(&self) -> Result<PendingWork, ApiError> {
        let running = self.running();
        let mut page = String::new();
        self.metrics().render(&mut page);
        let mut pending = PendingWork::default();
        if running.is_any() && !page.contains("informer_synced{") {
            pending.add_part("controllers, scheduler or nodes have not started".to_owned());
        }
        self.metrics().pending().iter().for_each(|work| pending.add_part(work.to_string()));
        if running.scheduler || running.nodes > 0 {
            let admin = UserInfo::new("kubernetes-admin", ["system:masters"]);
            let client = Client::over(self.unlayered().in_process(admin), AGENT);
            let list = async |plural: &'static str| {
                let api = client.dynamic(Gvr::new("", "v1", plural));
                api.list("", &ListParams::default()).await.map(|(objects, _)| objects)
            };
            let (pods, nodes) = (list("pods").await?, list("nodes").await?);
            if running.scheduler {
                pending.add_unscheduled(&pods);
            }
            pending.add_nodes(running.node_names(), &nodes, &pods);
        }
        Ok(pending)
    }

    /// Observes the writes of objects from now on.
    ///
    /// # Errors
    /// The storage is closed, or outside of this process.
    pub fn writes(&self) -> Result<WriteMonitor, Ended> {
        WriteMonitor::of(self.store().ok_or(Ended)?)
    }
}
