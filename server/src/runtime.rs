//! The tokio runtime of the server and of its commands.

use anyhow::Context;
use std::future::Future;

/// Runs a future on this thread, with a runtime of two to four workers: a control plane is mostly idle, and
/// threads cost memory.
pub(crate) fn block_on<T, F: Future<Output = anyhow::Result<T>>>(future: F) -> anyhow::Result<T> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 4))
        .thread_name("kstore")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(future);
    // Remaining tasks have had their time.
    runtime.shutdown_background();
    outcome
}
