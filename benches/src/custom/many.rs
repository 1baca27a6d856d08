//! Creation of a thousand definitions of 36 KB, one after the other: total time, slowdown from first to last,
//! and the server's memory per definition.

use super::{APISERVER, DEFINITIONS, bytes, definition};
use crate::binary::Binary;
use crate::limits::{DEFINITIONS_PER_GROUP, MANY_DEFINITIONS, SETTLE};
use crate::process::{Server, Storage};
use crate::usage::resident_mebibytes;
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

/// The cost of many definitions.
pub(crate) struct Many {
    /// From the first POST to the last answer.
    pub(crate) took: Duration,
    /// Time of the last tenth relative to the first.
    pub(crate) last_to_first: f64,
    /// Added resident memory per definition, in KiB.
    pub(crate) resident: f64,
}

/// Creates [`MANY_DEFINITIONS`] definitions over one connection.
pub(crate) async fn many(binary: &Binary) -> anyhow::Result<Many> {
    let bodies: Vec<Bytes> =
        (0..MANY_DEFINITIONS).map(|index| bytes(&definition::large(index, DEFINITIONS_PER_GROUP))).collect();
    let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
    let mut connection = server.connect().await?;
    let before = resident_mebibytes(server.id()?)?;
    let started = Instant::now();
    let mut tenths = Vec::new();
    for tenth in bodies.chunks(MANY_DEFINITIONS / 10) {
        let started = Instant::now();
        for body in tenth {
            connection.create(DEFINITIONS, body.clone()).await?;
        }
        tenths.push(started.elapsed());
    }
    let took = started.elapsed();
    // The server returns memory of finished requests meanwhile.
    tokio::time::sleep(SETTLE).await;
    let more = resident_mebibytes(server.id()?)? - before;
    server.kill().await?;
    let last_to_first = tenths[tenths.len() - 1].as_secs_f64() / tenths[0].as_secs_f64();
    Ok(Many { took, last_to_first, resident: more * 1024.0 / MANY_DEFINITIONS as f64 })
}
