//! The task that raises the alarm when a read met a record of which no copy is left. The read itself was refused.

use std::sync::{Arc, Weak};

use crate::Alarm;
use crate::alarm::AlarmChange;
use crate::core::Core;
use crate::driver::Driver;
use crate::request::Request;

/// Runs until the store is closed or its last handle is gone.
pub(crate) async fn run(core: Arc<Core>, driver: Weak<Driver>) {
    loop {
        core.healing.lost.notified().await;
        if core.serving().is_err() {
            return;
        }
        if core.visible().alarms.contains(Alarm::Corrupt) {
            continue;
        }
        let Some(driver) = driver.upgrade() else { return };
        // If the writer has no place for it, the next such read asks again.
        let _ = driver.submit(Request::Alarm(AlarmChange::Raise(Alarm::Corrupt)), 0).await;
    }
}
