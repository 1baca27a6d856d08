//! `etcdctl check perf --load l`: 500 clients send 8000 puts per second for a minute. Runs only when named on
//! the command line.

use super::measure::Bench;
use super::row::Row;
use super::server::{Durability, Server, find};
use anyhow::Context;
use tokio::process::Command;

/// etcdctl's verdict on each server.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let etcdctl = find("etcdctl").context("there is no etcdctl in PATH")?;
    let mut row = Row { what: "etcdctl check perf --load l".to_owned(), target: "PASS", ..Row::default() };
    for (is_ours, kind) in bench.kinds() {
        let server = Server::start(kind, Durability::Synced).await?;
        let before = server.processor_seconds()?;
        let mut command = Command::new(&etcdctl);
        command.args(["check", "perf", "--load", "l", "--endpoints", &server.address.to_string()]);
        let output = command.output().await?;
        let used = server.processor_seconds()? - before;
        server.kill().await?;
        let text = verdicts(&String::from_utf8_lossy(&output.stdout));
        if is_ours {
            row.ours = text;
        } else {
            row.etcd = text;
        }
        row.processor.push_str(&format!("{}{used:.0} s in all ", if is_ours { "→ " } else { "" }));
    }
    Ok(vec![row])
}

/// The lines with a verdict; the others draw a progress bar.
fn verdicts(stdout: &str) -> String {
    let judges = |line: &&str| line.starts_with("PASS") || line.starts_with("FAIL");
    stdout.lines().flat_map(|line| line.split('\r')).filter(judges).collect::<Vec<_>>().join("; ")
}
