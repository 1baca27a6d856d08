//! Work on a cluster before its clients come, such as the creation of its first objects.

use crate::advance::{Advance, advance};
use crate::client::Clients;
use crate::clock::driver::Signal;
use crate::cluster::LabCluster;
use crate::{error, limits};
use jiff::Timestamp;
use kstore_api::status::Status;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

impl LabCluster {
    /// Runs a future on the cluster's runtime to its end. In mode `manual` or `auto` the cluster's time passes meanwhile as far as the
    /// future waits for it, and at most for `limit`.
    ///
    /// # Errors
    /// 410: the cluster ended. 504: the limit ran out.
    pub async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        limit: Duration,
    ) -> Result<T, Status> {
        let running = self.current()?.running().clone();
        if !self.mode().is_virtual() {
            return running.call(work).await.map_err(|_| error::ended());
        }
        let _moving = self.wait_to_move().await;
        let (goal, (send, mut done)) = (Arc::new(Signal::default()), oneshot::channel());
        let reached = goal.clone();
        let _working = running.spawn(async move {
            // The caller waits for it, unless it has left. Sent first: who sees the goal reached finds the result.
            drop(send.send(work.await));
            reached.set();
        });
        let target = running.time().checked_add(limit).unwrap_or(Timestamp::MAX);
        let how = Advance { goal: Some(goal), patience: limits::PATIENCE_MOST, ..Advance::to(target) };
        // No client is waited for: none of them knows the cluster yet.
        let nobody = Arc::new(Clients::default());
        let advanced = advance(&running, &nobody, &how).await.map_err(|_| error::ended())?;
        let busy = advanced.busy.iter().map(crate::client::quiet::Busy::line);
        let late = || error::timeout(format!("not done after {limit:?} of the cluster's time"), busy);
        done.try_recv().map_err(|_| late())
    }
}
