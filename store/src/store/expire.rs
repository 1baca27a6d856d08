//! The expiry task: sleeps until the next deadline, then requests the revocation of expired leases from the writer.

use crate::Alarm;
use crate::published::core::Core;
use crate::runtime::driver::Driver;
use crate::runtime::request::{Rejection, Request};
use futures::future::join_all;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause when the writer's queue is full.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Number of leases revoked together: they share writes of the log, and leave space in the queue for other requests.
const BATCH: usize = 256;

/// Runs until the store is closed or its last handle is dropped.
pub(crate) async fn run(core: Arc<Core>, driver: Weak<Driver>) {
    while core.check_serving().is_ok() {
        let changed = core.leases.changed.notified();
        let corrupt = core.visible().state.alarms.contains(Alarm::Corrupt);
        let Some(deadline) = core.leases.next().filter(|_| !corrupt) else {
            // While data is damaged the store deletes nothing. Disarming the alarm notifies.
            changed.await;
            continue;
        };
        let now = Instant::now();
        if deadline > now {
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(deadline) => {}
            }
            continue;
        }
        let Some(driver) = driver.upgrade() else { return };
        match end(&core, &driver, now).await {
            Ok(()) => yield_now().await,
            Err(Rejection::Busy) => sleep(BUSY_PAUSE).await,
            Err(Rejection::Stopped) => return,
        }
    }
}

/// Revokes some of the expired leases. Afterwards each was revoked, renewed or already gone, so its deadline is not
/// among the earliest any more.
async fn end(core: &Core, driver: &Driver, now: Instant) -> Result<(), Rejection> {
    let over = core.leases.due(now, BATCH).into_iter();
    let ends = over.map(|id| driver.submit(Request::Expire { id, now }, 0));
    join_all(ends).await.into_iter().try_for_each(|answer| answer.map(drop))
}
