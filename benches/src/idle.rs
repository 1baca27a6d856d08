//! What a cluster of three nodes costs while nobody asks for anything: resident memory, and processor time per time.

use crate::binary::Binary;
use crate::figure::Figure;
use crate::limits::{IDLE, SETTLE};
use crate::machine::field;
use crate::process::{Server, Storage};
use anyhow::Context;

/// Clock ticks per second in `/proc/PID/stat`: fixed by the interface, whatever the kernel's own rate.
const TICKS: f64 = 100.0;

/// Memory and processor at rest.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&binary, storage).await?;
    tokio::time::sleep(SETTLE).await;
    let before = processor_seconds(server.id()?)?;
    tokio::time::sleep(IDLE).await;
    let used = processor_seconds(server.id()?)? - before;
    let resident = resident_mebibytes(server.id()?)?;
    server.kill().await?;
    let what = |name| format!("{name}, idle, 3 nodes, {}", storage.name());
    let share = used / IDLE.as_secs_f64() * 100.0;
    Ok(vec![
        Figure::new(what("resident memory"), "≤ 60 MB", format!("{resident:.1} MiB")),
        Figure::new(what("processor"), "near zero", format!("{share:.2} % of one core")),
    ])
}

/// User and system time of all threads so far.
fn processor_seconds(process: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("needs Linux")?;
    // The name in parentheses may hold anything; the fields after it are numbered from 3.
    let fields: Vec<&str> = stat.rsplit_once(')').context("no stat")?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok());
    Ok((ticks(14).context("no utime")? + ticks(15).context("no stime")?) / TICKS)
}

fn resident_mebibytes(process: u32) -> anyhow::Result<f64> {
    let text = field(&format!("/proc/{process}/status"), "VmRSS").context("no VmRSS")?;
    let kibibytes: f64 = text.trim_end_matches(" kB").parse()?;
    Ok(kibibytes / 1024.0)
}
