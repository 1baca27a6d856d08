//! The disk's time for one durable write, as a baseline of creates: a record as long as the log's for such a
//! ConfigMap, appended to a preallocated file, and `fdatasync`. In the directory for temporary files, where
//! the measured servers keep their data as well.

use crate::limits::{REPEAT, SYNCED_BYTES};
use crate::measurement::Measurement;
use crate::spread::Spread;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tokio::time::Instant;

/// Time of single writes of one record, each synced.
pub(crate) async fn measure() -> anyhow::Result<Vec<Measurement>> {
    let latencies = tokio::task::spawn_blocking(write).await??;
    let measured = Spread::of(latencies).latency();
    Ok(vec![Measurement::new("one record written and synced, without a server", "", measured)])
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

/// Size of the preallocated file: more than is written in the time.
const ALLOCATED: usize = 64 << 20;

/// A file with allocated blocks, so that a sync writes only data.
fn allocated() -> anyhow::Result<File> {
    let file = tempfile::tempfile()?;
    file.write_all_at(&vec![0; ALLOCATED], 0)?;
    file.sync_all()?;
    Ok(file)
}
