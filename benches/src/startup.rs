//! Time from the start of the process to the first answer of `/readyz`. The data directory, and so every key
//! and certificate, is new each time.

use crate::binary::Binary;
use crate::limits::STARTS;
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;

/// Time to readiness.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Measurement>> {
    let Starts { ready, .. } = starts(&binary, storage).await?;
    let bound = match storage {
        Storage::Memory => "≤ 100 ms",
        Storage::Disk => "≤ 300 ms",
    };
    let what = format!("start to `/readyz`, {}, new keys", storage.name());
    Ok(vec![Measurement::new(what, bound, ready.to_string())])
}

/// Times of [`STARTS`] servers, each with a new data directory.
pub(crate) struct Starts {
    /// From the start of the process to the first answer of `/readyz`.
    pub(crate) ready: Spread,
    /// From SIGTERM, sent as soon as the server is ready, to the exit of the process.
    pub(crate) ended: Spread,
}

/// Starts servers one after the other, and ends each with SIGTERM.
pub(crate) async fn starts(binary: &Binary, storage: Storage) -> anyhow::Result<Starts> {
    let (mut ready, mut ended) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let server = Server::start(binary, storage).await?;
        ready.push(server.ready_after);
        ended.push(server.terminate().await?);
    }
    Ok(Starts { ready: Spread::of(ready), ended: Spread::of(ended) })
}
