//! What the disk alone takes for one durable write, beside which a create is judged: a record as long as the log's for such a
//! ConfigMap, written behind the last one into a file that has its length already, and `fdatasync`. In the directory for
//! temporary files, where the servers that are measured keep their data, too.

use crate::figure::Figure;
use crate::limits::{REPEAT, SYNCED_BYTES};
use crate::spread::Spread;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tokio::time::Instant;

/// How long writes of one record take that are synced one by one.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let latencies = tokio::task::spawn_blocking(write).await??;
    let measured = Spread::of(latencies).latency();
    Ok(vec![Figure::new("one record written and synced, without a server", "", measured)])
}

fn write() -> anyhow::Result<Vec<std::time::Duration>> {
    let file = allocated()?;
    let record = vec![1; SYNCED_BYTES];
    let mut latencies = Vec::new();
    let started = Instant::now();
    for at in (0..ALLOCATED - SYNCED_BYTES).step_by(SYNCED_BYTES) {
        if started.elapsed() >= REPEAT {
            break;
        }
        let begun = Instant::now();
        file.write_all_at(&record, at as u64)?;
        file.sync_data()?;
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}

/// More than is written in the time.
const ALLOCATED: usize = 64 << 20;

/// A file whose blocks are there, so that a sync writes data alone.
fn allocated() -> anyhow::Result<File> {
    let file = tempfile::tempfile()?;
    file.write_all_at(&vec![0; ALLOCATED], 0)?;
    file.sync_all()?;
    Ok(file)
}
