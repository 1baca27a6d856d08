//! `kstore-server ui FILE`: the page of a data directory or a snapshot. A server of this process, alone and read-only, serves a copy of it.

use crate::args::UiArgs;
use crate::client_command::print;
use crate::shutdown::{CaughtSignal, Signals};
use crate::source_copy::SourceCopy;
use crate::ui::{LocalProxy, open_browser};
use crate::{import, runtime, ui, wiring};
use anyhow::{Context as _, bail};
use kstore_nondet::Nondet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

/// Serves the page of the file or folder that the arguments name, else of a running server, until a signal ends it.
///
/// # Errors
/// There is no cluster in the file, or a server uses it; or the running server cannot be reached.
pub(crate) fn show_or_connect(args: UiArgs) -> anyhow::Result<ExitCode> {
    match args.file.clone() {
        Some(source) => show(&source, &args),
        None => ui::ui(args),
    }
}

/// Serves the page of a file or folder until a signal ends it.
///
/// # Errors
/// There is no cluster in it, or a server uses it.
fn show(source: &Path, args: &UiArgs) -> anyhow::Result<ExitCode> {
    if is_report(source) {
        bail!("{} is a report, which has its page in it: open it in a browser", source.display());
    }
    // Removed when this function returns, after the server has ended.
    let copy = SourceCopy::of(source).with_context(|| format!("cannot show {}", source.display()))?;
    let listen = "127.0.0.1:0".parse().expect("it is an address");
    let config = import::read_only(copy.storage(), Some(listen))?;
    runtime::block_on(async {
        let mut signals = Signals::catch()?;
        let cluster = tokio::select! {
            biased;
            caught = signals.next() => return Ok(ended(caught)),
            started = wiring::start(&config) => started?,
        };
        let shown = serve(&cluster, source, args, &mut signals).await;
        cluster.stop().await;
        shown
    })
}

async fn serve(
    cluster: &wiring::Cluster,
    source: &Path,
    args: &UiArgs,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let client = cluster.client().context("the server of the file has an API")?.agent("kstore-ui");
    let proxy = LocalProxy::start(client, args.port, &Nondet::real()).await?;
    let link = proxy.link();
    let text = "the link works once, within a minute; Ctrl-C ends it";
    print(&format!("the page of {}: {link}\n{text}\n", source.display()))?;
    let opened = if args.prints_only { None } else { open_browser(&link) };
    signals.next().await;
    drop(opened);
    Ok(ExitCode::SUCCESS)
}

fn ended(caught: CaughtSignal) -> ExitCode {
    ExitCode::from(caught.exit_code())
}

/// Whether a file is a page, as reports are.
fn is_report(path: &Path) -> bool {
    const BEGIN: &[u8] = b"<!doctype html";
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGIN.len() as u64).read_to_end(&mut head));
    read.is_ok() && head.eq_ignore_ascii_case(BEGIN)
}
