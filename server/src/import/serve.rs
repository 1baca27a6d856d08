//! Servers of data that cannot be changed: an API server alone, on a copy of them.

use crate::args::{Api, Cli, Config, Durability, Engine, ListenAddress, Storage};
use crate::source_copy::SourceCopy;
use crate::wiring;
use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs the server of a checked command line, with `--read-only` on a copy of its data directory.
pub(crate) fn serve(mut config: Config) -> anyhow::Result<ExitCode> {
    let Some(api) = here(&mut config).filter(|api| api.is_read_only) else { return wiring::serve(config) };
    let dir = api.storage.dir().context("--read-only needs a data directory")?;
    let copy = SourceCopy::of(&dir).with_context(|| format!("cannot copy {}", dir.display()))?;
    api.storage = copy.storage();
    wiring::serve(config)
}

/// Serves a directory that was just imported and is used by nothing else.
pub(super) fn serve_import(dir: &Path, listen: Option<ListenAddress>) -> anyhow::Result<ExitCode> {
    let (dir, durability, engine) = (dir.to_owned(), Durability::Relaxed, Engine::Segments);
    wiring::serve(read_only(Storage::Disk { dir, durability, engine, salvage: false }, listen)?)
}

/// The configuration of a server that serves this storage as it is, at the usual address without `listen`. Nothing else uses the storage.
///
/// # Errors
/// The flags that it stands for are refused.
pub(crate) fn read_only(storage: Storage, listen: Option<ListenAddress>) -> anyhow::Result<Config> {
    let dir = storage.dir().context("a server that cannot be changed has a data directory")?;
    let words = ["kstore-server", "--read-only", "--data-dir"].map(OsString::from);
    let words = words.into_iter().chain([dir.into_os_string()]);
    let mut config = Cli::try_parse_from(words).context("the flags of --read-only")?.serve.into_config()?;
    let Some(api) = here(&mut config) else { bail!("--read-only has an API server") };
    api.storage = storage;
    if let Some(listen) = listen {
        api.listen = listen;
    }
    Ok(config)
}

fn here(config: &mut Config) -> Option<&mut crate::args::ApiHere> {
    match &mut config.api {
        Api::Here(api) => Some(api),
        Api::Store(_) | Api::Elsewhere(_) => None,
    }
}
