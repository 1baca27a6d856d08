//! From the start of the process to the first answer of `/readyz`. The data directory, and with it every key and certificate,
//! is new each time.

use crate::binary::Binary;
use crate::figure::Figure;
use crate::limits::STARTS;
use crate::process::{Server, Storage};
use crate::spread::Spread;

/// The time to readiness.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Figure>> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let server = Server::start(&binary, storage).await?;
        times.push(server.ready_after);
        server.kill().await?;
    }
    let bound = match storage {
        Storage::Memory => "≤ 100 ms",
        Storage::Disk => "≤ 300 ms",
    };
    let what = format!("start to `/readyz`, {}, new keys", storage.name());
    Ok(vec![Figure::new(what, bound, Spread::of(times).to_string())])
}
