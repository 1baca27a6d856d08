//! A thousand definitions of 36 KB, one after the other: how long they take, whether the last cost more than the first, and what they
//! take of the server's memory.

use super::{APISERVER, DEFINITIONS, bytes, definition};
use crate::binary::Binary;
use crate::limits::{DEFINITIONS_PER_GROUP, MANY_DEFINITIONS, SETTLE};
use crate::process::{Server, Storage};
use crate::usage::resident_mebibytes;
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

/// What many definitions cost.
pub(crate) struct Many {
    /// From the first POST to the last answer.
    pub(crate) took: Duration,
    /// The time of the last tenth beside the first.
    pub(crate) last_to_first: f64,
    /// Resident memory that they added, each, in KiB.
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
    // What requests left behind is given back meanwhile.
    tokio::time::sleep(SETTLE).await;
    let more = resident_mebibytes(server.id()?)? - before;
    server.kill().await?;
    let last_to_first = tenths[tenths.len() - 1].as_secs_f64() / tenths[0].as_secs_f64();
    Ok(Many { took, last_to_first, resident: more * 1024.0 / MANY_DEFINITIONS as f64 })
}
