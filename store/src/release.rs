//! The task that takes memory back after a busy time: commits that are older than a moment leave the window, since the engine has
//! them too. Not a bound on the window: that holds at every moment and is the window's own.

use std::sync::Weak;

use tokio::time::sleep;

use crate::core::Core;
use crate::driver::Driver;
use crate::{Limits, Revision};

/// Commits that one turn of the lock releases: readers wait for one turn.
const TURN: usize = 512;

/// Runs until the store is closed or its last handle is gone.
pub(crate) async fn run(limits: Limits, driver: Weak<Driver>) {
    let mut before = Revision::NEVER_COMPACTED;
    loop {
        sleep(limits.window_age).await;
        let Some(driver) = driver.upgrade() else { return };
        let core = driver.core();
        if core.serving().is_err() {
            return;
        }
        release(core, before);
        before = core.revision();
    }
}

/// Releases the commits up to `revision` that the engine has and that were delivered, down to what a calm window keeps.
pub(crate) fn release(core: &Core, revision: Revision) {
    let upto = revision.min(core.stored()).min(core.hub.delivered());
    loop {
        let released = core.visible_mut().window.release(upto, core.limits.window_calm_bytes, TURN);
        // The commits are freed here, while nothing is locked.
        if released.is_empty() {
            return;
        }
    }
}
