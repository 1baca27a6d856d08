//! The task that ends leases: sleeps until the next deadline, then asks the writer to end what is over.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::Alarm;
use crate::core::Core;
use crate::driver::Driver;
use crate::request::{Refused, Request};

/// How long to wait when the writer's queue is full.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Runs until the store is closed or its last handle is gone.
pub(crate) async fn run(core: Arc<Core>, driver: Weak<Driver>) {
    while core.serving().is_ok() {
        let changed = core.leases.changed.notified();
        let Some((deadline, id)) = core.leases.next() else {
            changed.await;
            continue;
        };
        if core.visible().alarms.contains(Alarm::Corrupt) {
            // Nothing is deleted any more; disarming rings.
            changed.await;
            continue;
        }
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
        match driver.submit(Request::Expire { id, now }, 0).await {
            // Whether it was ended, renewed meanwhile or gone already: its deadline is no longer the first.
            Ok(_) => {}
            Err(Refused::Busy) => sleep(BUSY_PAUSE).await,
            Err(Refused::Stopped) => return,
        }
    }
}
