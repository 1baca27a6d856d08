//! A hundred thousand pods on disk: the server's memory relative to their size as JSON, and the time of a
//! start with them until `/readyz` answers. The server has no other load.

use crate::binary::Binary;
use crate::limits::MANY_PODS;
use crate::measurement::Measurement;
use crate::pods::{self, PODS};
use crate::process::{Server, Storage};
use crate::spread::Short;
use crate::usage::resident_mebibytes;

const ALONE: &[&str] = &["--components", "apiserver"];

/// Memory and start time.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start_with(&binary, Storage::Disk, ALONE).await?;
    let empty = resident_mebibytes(server.id()?)?;
    pods::create(&server, MANY_PODS).await?;
    let written = resident_mebibytes(server.id()?)?;
    let bytes = server.connect().await?.count(PODS, "application/json").await?;
    let json = bytes as f64 / f64::from(1 << 20);
    let server = server.restart(&binary, ALONE).await?;
    let ready = server.ready_after;
    let read = resident_mebibytes(server.id()?)?;
    server.kill().await?;
    let over = |resident: f64| {
        format!("{:.0} MiB, {:.2} × their {json:.0} MiB of JSON", resident, (resident - empty) / json)
    };
    Ok(vec![
        Measurement::new(format!("memory with {MANY_PODS} pods, just written"), "", over(written)),
        Measurement::new(format!("memory with {MANY_PODS} pods, after a start"), "", over(read)),
        Measurement::new(
            format!("start to ready with {MANY_PODS} stored pods"),
            "≤ 1.5 s",
            Short(ready).to_string(),
        ),
    ])
}
