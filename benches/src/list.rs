//! A list of 10 000 pods in one answer over TLS, as JSON and as protobuf: latency, and the peak of the
//! server's additional memory. The server has no other load.

use crate::binary::Binary;
use crate::limits::{LIST_PODS, LISTS};
use crate::measurement::Measurement;
use crate::pods::{self, PODS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::usage::{peak_mebibytes, reset_peak, resident_mebibytes};
use tokio::time::Instant;

const FORMS: [(&str, &str); 2] =
    [("JSON", "application/json"), ("protobuf", "application/vnd.kubernetes.protobuf")];

/// Latencies of the list as JSON.
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

/// Latency and memory of a large list.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    pods::create(&server, LIST_PODS).await?;
    let mut connection = server.connect().await?;
    let mut measurements = Vec::new();
    for (form, accept) in FORMS {
        let (mut latencies, mut bytes) = (Vec::new(), 0);
        let before = resident_mebibytes(server.id()?)?;
        reset_peak(server.id()?)?;
        for _ in 0..LISTS {
            let sent = Instant::now();
            bytes = connection.count(PODS, accept).await?;
            latencies.push(sent.elapsed());
        }
        let more = peak_mebibytes(server.id()?)? - before;
        let megabytes = bytes as f64 / 1e6;
        let what = format!("LIST of {LIST_PODS} pods ({megabytes:.1} MB of {form})");
        measurements.push(Measurement::new(&what, "", Spread::of(latencies).to_string()));
        measurements.push(Measurement::new(
            format!("{what}, memory at most"),
            "",
            format!("{more:.1} MiB more"),
        ));
    }
    server.kill().await?;
    Ok(measurements)
}
