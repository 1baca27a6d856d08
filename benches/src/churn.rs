//! Memory that a server retains after a busy time: thousands of ConfigMaps are created and deleted, and then
//! no client sends a request for a minute. History is limited to ten seconds, so that the rest is memory that
//! was not returned.

use crate::binary::Binary;
use crate::limits::{CALM, CHURNS, SETTLE};
use crate::process::{Server, Storage};
use crate::usage::resident_mebibytes;
use crate::writes::{CONFIG_MAPS, create_concurrently};

/// Resident memory of one server, in MiB.
pub(crate) struct Memory {
    /// Before the first write.
    pub(crate) idle: f64,
    /// After the last deletion.
    pub(crate) busy: f64,
    /// After [`CALM`].
    pub(crate) calm: f64,
}

/// Fills and empties a server [`CHURNS`] times and measures its memory.
pub(crate) async fn memory(binary: &Binary, storage: Storage) -> anyhow::Result<Memory> {
    let server = Server::start_with(binary, storage, &["--history", "10s"]).await?;
    tokio::time::sleep(SETTLE).await;
    let resident = || resident_mebibytes(server.id()?);
    let idle = resident()?;
    for _ in 0..CHURNS {
        create_concurrently(&server, "c", None).await?;
        server.connect().await?.delete(CONFIG_MAPS).await?;
    }
    let busy = resident()?;
    tokio::time::sleep(CALM).await;
    let calm = resident()?;
    server.kill().await?;
    Ok(Memory { idle, busy, calm })
}
