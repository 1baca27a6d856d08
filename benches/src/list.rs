//! All of 10 000 pods in one answer over TLS, as JSON and as protobuf: how long it takes, and how much memory the server takes
//! for it at most beyond what it had. Nothing else runs in that server.

use crate::binary::Binary;
use crate::figure::Figure;
use crate::limits::{LIST_PODS, LISTS};
use crate::pods::{self, PODS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::usage::{forget_peak, peak_mebibytes, resident_mebibytes};
use tokio::time::Instant;

const FORMS: [(&str, &str); 2] =
    [("JSON", "application/json"), ("protobuf", "application/vnd.kubernetes.protobuf")];

/// How long the list takes as JSON.
pub(crate) async fn json(binary: &Binary) -> anyhow::Result<Spread> {
    let server = Server::start_with(binary, Storage::Memory, &["--components", "apiserver"]).await?;
    pods::create(&server, LIST_PODS).await?;
    let mut connection = server.connect().await?;
    let mut latencies = Vec::new();
    for _ in 0..LISTS {
        let sent = Instant::now();
        connection.count(PODS, "application/json").await?;
        latencies.push(sent.elapsed());
    }
    server.kill().await?;
    Ok(Spread::of(latencies))
}

/// The latency of a large list, and its memory.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    pods::create(&server, LIST_PODS).await?;
    let mut connection = server.connect().await?;
    let mut figures = Vec::new();
    for (form, accept) in FORMS {
        let (mut latencies, mut bytes) = (Vec::new(), 0);
        let before = resident_mebibytes(server.id()?)?;
        forget_peak(server.id()?)?;
        for _ in 0..LISTS {
            let sent = Instant::now();
            bytes = connection.count(PODS, accept).await?;
            latencies.push(sent.elapsed());
        }
        let more = peak_mebibytes(server.id()?)? - before;
        let megabytes = bytes as f64 / 1e6;
        let what = format!("LIST of {LIST_PODS} pods ({megabytes:.1} MB of {form})");
        figures.push(Figure::new(&what, "", Spread::of(latencies).to_string()));
        figures.push(Figure::new(format!("{what}, memory at most"), "", format!("{more:.1} MiB more")));
    }
    server.kill().await?;
    Ok(figures)
}
