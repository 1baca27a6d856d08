//! The task that frees memory after a burst of writes: it drops older commits from the window, since the engine has
//! them too. The window's own bounds hold at every moment without it.

use crate::Revision;
use crate::published::core::Core;
use std::pin::pin;
use std::sync::Arc;
use tokio::time::sleep;

/// Commits released per lock acquisition. Readers wait for one such batch.
const BATCH: usize = 512;

/// Runs until the store is closed, explicitly or by the drop of its last handle.
pub(crate) async fn run(core: Arc<Core>) {
    let mut before = Revision::NEVER_COMPACTED;
    loop {
        let mut ended = pin!(core.ended.notified());
        ended.as_mut().enable();
        if core.check_serving().is_err() {
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

/// Releases delivered commits up to `revision` that the engine has, until the window is at its calm size.
pub(crate) fn release(core: &Core, revision: Revision) {
    let upto = revision.min(core.engine_revision()).min(core.hub.delivered());
    loop {
        let released = core.visible_mut().window.release(upto, core.limits.window_calm_bytes, BATCH);
        // The commits are freed here, without the lock.
        if released.is_empty() {
            return;
        }
    }
}
