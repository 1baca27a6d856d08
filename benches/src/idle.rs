//! What a cluster of three nodes costs while nobody asks for anything: resident memory, and processor time per time.

use crate::binary::Binary;
use crate::figure::Figure;
use crate::limits::{IDLE, SETTLE};
use crate::process::{Server, Storage};
use crate::usage::{processor_seconds, resident_mebibytes};

/// Memory and processor at rest.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Figure>> {
    let Rest { resident, processor } = rest(&binary, storage).await?;
    let what = |name| format!("{name}, idle, 3 nodes, {}", storage.name());
    Ok(vec![
        Figure::new(what("resident memory"), "≤ 60 MB", format!("{resident:.1} MiB")),
        Figure::new(what("processor"), "near zero", format!("{processor:.2} % of one core")),
    ])
}

/// What a server uses while no client asks for anything.
pub(crate) struct Rest {
    /// Resident memory, in MiB.
    pub(crate) resident: f64,
    /// Processor time, in percent of one core.
    pub(crate) processor: f64,
}

/// Starts a server, lets it settle, and watches it for [`IDLE`].
pub(crate) async fn rest(binary: &Binary, storage: Storage) -> anyhow::Result<Rest> {
    let server = Server::start(binary, storage).await?;
    tokio::time::sleep(SETTLE).await;
    let before = processor_seconds(server.id()?)?;
    tokio::time::sleep(IDLE).await;
    let used = processor_seconds(server.id()?)? - before;
    let resident = resident_mebibytes(server.id()?)?;
    server.kill().await?;
    Ok(Rest { resident, processor: used / IDLE.as_secs_f64() * 100.0 })
}
