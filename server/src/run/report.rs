//! The report file that `run` saves when its command has ended.

use crate::args::ReportFile;
use crate::report::save;
use crate::wiring::Cluster;
use kstore_cluster::ReportRequest;
use std::ffi::OsString;
use std::process::ExitCode;

/// Saves the report if the command failed, or in any case if that is wanted. A report that cannot be saved is a line on standard error, and
/// changes no exit code.
pub(super) async fn save_after(
    cluster: &Cluster,
    wanted: Option<&ReportFile>,
    command: &[OsString],
    outcome: &anyhow::Result<ExitCode>,
) {
    let failed = !matches!(outcome, Ok(code) if *code == ExitCode::SUCCESS);
    let Some(wanted) = wanted.filter(|wanted| wanted.is_always || failed) else { return };
    let Some(client) = cluster.client() else { return };
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let failure = match outcome {
        Err(error) => format!("{error:#}"),
        Ok(_) if failed => "the command failed".to_owned(),
        Ok(_) => String::new(),
    };
    let request = ReportRequest { title: words.join(" "), failure, ..ReportRequest::default() };
    let file = wanted.path.display();
    match save(&client.agent("kstore-report"), &wanted.path, request).await {
        Ok(()) => eprintln!("kstore-server run: the report of the cluster is {file}"),
        Err(error) => eprintln!("kstore-server run: {error:#}"),
    }
}
