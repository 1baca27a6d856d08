//! Runs a path on one thread, without influence of the time that passes.

use std::process::exit;
use tokio::runtime::Builder;

/// Seed of all randomness.
pub(super) const SEED: u64 = 1;

/// Runs `work` on one thread under virtual time and ends the process as soon as it is done, so that no count
/// contains the end of the cluster.
///
/// # Errors
///
/// `work` fails.
pub(super) fn in_virtual_time(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    finish(Builder::new_current_thread().enable_time().start_paused(true), work)
}

/// Like [`in_virtual_time`], but time passes: for work that waits for other threads, during which virtual time
/// would leap to the next timer.
pub(super) fn in_real_time(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    finish(Builder::new_current_thread().enable_time(), work)
}

fn finish(runtime: &mut Builder, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    runtime.build()?.block_on(async {
        let done = Box::pin(work).await;
        if done.is_ok() {
            exit(0);
        }
        done
    })
}
