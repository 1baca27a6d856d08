//! One object read again and again over one TLS connection.

use crate::binary::Binary;
use crate::figure::Figure;
use crate::limits::REPEAT;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::ensure;
use tokio::time::Instant;

const OBJECT: &str = "/api/v1/namespaces/default";

/// The latency of a read.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&binary, Storage::Memory).await?;
    let mut connection = server.connect().await?;
    let mut latencies = Vec::new();
    let started = Instant::now();
    while started.elapsed() < REPEAT {
        let sent = Instant::now();
        let (status, _) = connection.get(OBJECT).await?;
        ensure!(status == 200, "{OBJECT}: {status}");
        latencies.push(sent.elapsed());
    }
    server.kill().await?;
    Ok(vec![Figure::new("GET of one object, 1 connection", "", Spread::of(latencies).latency())])
}
