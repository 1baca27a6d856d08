//! The task that takes memory back after a busy time: commits that are older than a moment leave the window, since the engine has
//! them too. Not a bound on the window: that holds at every moment and is the window's own.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;

use crate::Revision;
use crate::core::Core;

/// Commits that one turn of the lock releases: readers wait for one turn.
const TURN: usize = 512;

/// Runs until the store is closed, which the drop of its last handle does as well.
pub(crate) async fn run(core: Arc<Core>) {
    let mut before = Revision::NEVER_COMPACTED;
    loop {
        let mut ended = pin!(core.ended.notified());
        ended.as_mut().enable();
        if core.serving().is_err() {
            return;
        }
        tokio::select! {
            biased;
            () = ended => return,
            () = sleep(core.limits.window_age) => {}
        }
        release(&core, before);
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
