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
use std::path::Path;
use std::process::ExitCode;

/// Writes the report of the server of a kubeconfig.
pub(crate) fn report(args: ReportArgs) -> anyhow::Result<ExitCode> {
    args.since.as_deref().map(expression).transpose().context("--since")?;
    runtime::block_on(async {
        let path = kubeconfig_path(args.kubeconfig, std::env::var_os("KUBECONFIG"))?;
        let kubeconfig =
            Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
        let client = Connection::open(Some(path), None, "kstore-report").await?.client;
        let since = match args.since.as_deref() {
            Some(text) => Some(resolve(&client, text, None).await.context("--since")?),
            None => None,
        };
        let (title, namespace) = (kubeconfig.server, args.namespace);
        save(&client, &args.file, ReportRequest { title, since, namespace, ..ReportRequest::default() })
            .await?;
        print(&format!("{}\n", args.file.display()))?;
        Ok(ExitCode::SUCCESS)
    })
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
