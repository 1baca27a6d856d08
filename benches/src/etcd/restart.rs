//! Restart of a store with a million keys of 300 B after an orderly exit: time to its first answer, and
//! memory then. The files are in the page cache.

use super::limits::{RESTART_KEYS, RESTART_VALUE_BYTES};
use super::measure::{Bench, fill};
use super::row::{Row, ratio};
use super::server::{Durability, Server};
use crate::spread::Short;

/// Time and memory of a restart.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let what = |text: &str| format!("{text} with {RESTART_KEYS} keys of {RESTART_VALUE_BYTES} B");
    let mut time = Row { what: what("restart"), target: "≤ 3 s", ..Row::default() };
    let mut memory = Row { what: what("memory after the restart"), target: "≤ 1×", ..Row::default() };
    let mut of_etcd = None;
    for (is_ours, kind) in bench.kinds() {
        let server = Server::start(kind, Durability::Synced).await?;
        fill(server.address, "pods", RESTART_KEYS, RESTART_VALUE_BYTES).await?;
        let server = server.restart().await?;
        let (ready, resident) = (server.ready_after, server.resident_mebibytes()?);
        server.kill().await?;
        let texts = (Short(ready).to_string(), format!("{resident:.0} MiB"));
        if is_ours {
            (time.ours, memory.ours) = texts;
            if let Some((etcd_ready, etcd_resident)) = of_etcd {
                time.ratio = ratio(ready.as_secs_f64(), etcd_ready);
                memory.ratio = ratio(resident, etcd_resident);
            }
        } else {
            (time.etcd, memory.etcd) = texts;
            of_etcd = Some((ready.as_secs_f64(), resident));
        }
    }
    Ok(vec![time, memory])
}
