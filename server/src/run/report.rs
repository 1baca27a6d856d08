//! The report file that `run` saves when its command has ended.

use crate::args::ReportFile;
use crate::lab::RunningLab;
use crate::report::{save, write};
use crate::version::VERSION;
use crate::wiring::Cluster;
use anyhow::Context as _;
use kstore_cluster::ReportRequest;
use kstore_lab::ReportText;
use std::ffi::OsString;
use std::path::Path;
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
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let failure = match outcome {
        Err(error) => format!("{error:#}"),
        Ok(_) if failed => "the command failed".to_owned(),
        Ok(_) => String::new(),
    };
    let (title, file) = (words.join(" "), &wanted.path);
    let saved = match (cluster.lab(), cluster.client()) {
        (Some(lab), _) => save_lab(lab, file, title, failure).await,
        (None, Some(client)) => {
            let request = ReportRequest { title, failure, ..ReportRequest::default() };
            save(&client.agent("kstore-report"), file, request).await
        }
        (None, None) => return,
    };
    match saved {
        Ok(()) => eprintln!("kstore-server run: the report of the cluster is {}", file.display()),
        Err(error) => eprintln!("kstore-server run: {error:#}"),
    }
}

/// Saves the report of the first cluster of a lab, whose clock does not move for it.
async fn save_lab(lab: &RunningLab, file: &Path, title: String, failure: String) -> anyhow::Result<()> {
    let version = VERSION.to_owned();
    let text = ReportText { title, failure, version, ..ReportText::default() };
    write(file, &lab.report_file(text).await.context("no report")?)
}
