//! `kstore-server report FILE`: the report file of a running server, with the permissions of the kubeconfig; and the file that `run` saves.

use crate::args::ReportArgs;
use crate::client_command::{Connection, print};
use crate::kubeconfig::kubeconfig_path;
use crate::revision::{expression, resolve};
use crate::runtime;
use crate::version::VERSION;
use anyhow::{Context as _, anyhow};
use kstore_client::{Client, Kubeconfig};
use kstore_cluster::{ReportRequest, report as report_of};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Bytes that are kept of the text of what failed, in memory: more than a report has of it.
const FAILURE_BYTES: usize = 128 << 10;

/// Writes the report of the server of a kubeconfig.
pub(crate) fn report(args: ReportArgs) -> anyhow::Result<ExitCode> {
    args.since.as_deref().map(expression).transpose().context("--since")?;
    for mark in &args.marks {
        expression(&mark.revision).context("--mark")?;
    }
    let failure = args.failure.as_deref().map(read_failure).transpose()?.unwrap_or_default();
    runtime::block_on(async {
        let path = kubeconfig_path(args.kubeconfig, std::env::var_os("KUBECONFIG"))?;
        let kubeconfig =
            Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
        let client = Connection::open(Some(path), None, "kstore-report").await?.client;
        let since = match args.since.as_deref() {
            Some(text) => Some(resolve(&client, text, None).await.context("--since")?),
            None => None,
        };
        let mut steps = Vec::new();
        for mark in args.marks {
            let revision = resolve(&client, &mark.revision, None).await.context("--mark")?;
            steps.push((revision, mark.text));
        }
        let title = if args.title.is_empty() { kubeconfig.server } else { args.title };
        let namespace = args.namespace;
        let request = ReportRequest { title, since, namespace, failure, steps, ..ReportRequest::default() };
        save(&client, &args.file, request).await?;
        print(&format!("{}\n", args.file.display()))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The text of what failed. It need not be UTF-8. Of a long one the end is kept.
fn read_failure(path: &Path) -> anyhow::Result<String> {
    let mut end = VecDeque::new();
    let mut source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => {
            Box::new(File::open(path).with_context(|| format!("--failure: cannot read {}", path.display()))?)
        }
    };
    let mut part = [0; 8 << 10];
    loop {
        let read = source.read(&mut part).context("--failure: the text cannot be read")?;
        if read == 0 {
            return Ok(String::from_utf8_lossy(end.make_contiguous()).into_owned());
        }
        end.extend(&part[..read]);
        // The report keeps less, so that its own mark says that the beginning is missing.
        end.drain(..end.len().saturating_sub(FAILURE_BYTES));
    }
}

/// Writes the report that a client is given into a file, and makes the file's folder.
///
/// # Errors
/// The server refuses, or the file cannot be written.
pub(crate) async fn save(client: &Client, file: &Path, request: ReportRequest) -> anyhow::Result<()> {
    let request = ReportRequest { version: VERSION.to_owned(), ..request };
    write(file, &report_of(client, &request).await.context("no report")?)
}

/// Writes a report into a file, and makes the file's folder.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(file: &Path, report: &[u8]) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, report)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}
