//! The cost of an idle cluster of three nodes: resident memory, and CPU time.

use crate::binary::Binary;
use crate::limits::{IDLE, SETTLE};
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::usage::{processor_seconds, resident_mebibytes};

/// Memory and CPU of an idle server.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Measurement>> {
    let IdleUsage { resident, processor } = rest(&binary, storage).await?;
    let what = |name| format!("{name}, idle, 3 nodes, {}", storage.name());
    Ok(vec![
        Measurement::new(what("resident memory"), "≤ 60 MB", format!("{resident:.1} MiB")),
        Measurement::new(what("processor"), "near zero", format!("{processor:.2} % of one core")),
    ])
}

/// Usage of a server without requests from clients.
pub(crate) struct IdleUsage {
    /// Resident memory, in MiB.
    pub(crate) resident: f64,
    /// CPU time, in percent of one core.
    pub(crate) processor: f64,
}

/// Starts a server, lets it settle, and measures it for [`IDLE`].
pub(crate) async fn rest(binary: &Binary, storage: Storage) -> anyhow::Result<IdleUsage> {
    let server = Server::start(binary, storage).await?;
    tokio::time::sleep(SETTLE).await;
    let before = processor_seconds(server.id()?)?;
    tokio::time::sleep(IDLE).await;
    let used = processor_seconds(server.id()?)? - before;
    let resident = resident_mebibytes(server.id()?)?;
    server.kill().await?;
    Ok(IdleUsage { resident, processor: used / IDLE.as_secs_f64() * 100.0 })
}
