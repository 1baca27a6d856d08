//! Rescue of a damaged directory: the readable part becomes a new store in its place, and the damaged files are kept in
//! a directory beside it. `export` reads around damage, and `restore` creates the store.

use super::export::{ExportError, SalvageReport, salvage};
use super::restore::{Progress, Restore, RestoreError, RestoreReport, restore};
use crate::disk::real::DirLock;
use crate::types::error::OpenError;
use crate::{EngineKind, manifest};
use kstore_nondet::Rng;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Most names to try for the directory of the damaged files.
const NAMES: u32 = 100;

/// Number added to the newest revision found in the damaged directory. Watchers may have seen later
/// revisions that the damage hides; the bump exceeds them by far.
const BUMP: u64 = 1_000_000;

/// Temporary name of the damaged store's manifest, until the new store is in its place.
const HIDDEN: &str = "MANIFEST.damaged";

/// Result of rescuing a damaged directory.
#[derive(Clone, Debug)]
pub struct RescueReport {
    /// The salvaged part, and the problems of the directory.
    pub salvaged: SalvageReport,
    /// The store that is now in the directory's place.
    pub restored: RestoreReport,
    /// The directory with the damaged files.
    pub damaged: PathBuf,
}

/// Why a rescue failed. The damaged directory is unchanged, unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// Nothing could be salvaged.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The salvaged part could not be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The directory is in use.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// All names for the directory of the damaged files exist.
    #[error("{} and a hundred like it exist: remove those that are no longer needed", path.display())]
    NoName {
        /// The first of the names.
        path: PathBuf,
    },
    /// The files of the two directories could not be exchanged, or only some of them.
    #[error(
        "the readable part is restored to a store in {}, but it could not replace {} ({source}): start with the former \
         as the data directory, or move its files by hand", new.display(), dir.display()
    )]
    Exchange {
        /// The damaged directory.
        dir: PathBuf,
        /// The directory with the restored store.
        new: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Replaces a damaged directory by a store with its readable part, so that the directory opens. The damaged files are
/// moved to a directory beside it, whose name starts with the same name. All revisions that watchers may have seen are
/// compacted, so that watchers list again. Needs space for a copy of the data.
///
/// Blocks. A crash leaves either the damaged store, or a directory that does not open with the restored store beside
/// it, but never an empty store.
///
/// # Errors
/// [`RescueError`]; the damaged files are never deleted.
pub fn rescue(
    dir: &Path,
    engine: EngineKind,
    rng: &Rng,
    progress: &mut Progress<'_>,
) -> Result<RescueReport, RescueError> {
    let new = unused_sibling_path(dir)?;
    let snapshot = named(&new, ".db");
    let salvaged = salvage(dir, &snapshot, progress)?;
    let request =
        Restore { snapshot: snapshot.clone(), dir: new.clone(), engine, unchecked: false, bump: BUMP };
    let restored = restore(&request, rng, progress);
    let removed = fs::remove_file(&snapshot);
    let restored = restored?;
    let _lock = DirLock::take(dir)?;
    removed.and_then(|()| exchange(dir, &new)).map_err(|source| {
        let (dir, new) = (dir.to_owned(), new.clone());
        RescueError::Exchange { dir, new, source }
    })?;
    Ok(RescueReport { salvaged, restored, damaged: new })
}

/// A path beside the directory that does not exist.
fn unused_sibling_path(dir: &Path) -> Result<PathBuf, RescueError> {
    let numbered = |number: u32| named(dir, &format!(".damaged-{number}"));
    let free = (1..=NAMES).map(numbered).find(|path| !path.exists() && !named(path, ".db").exists());
    free.ok_or_else(|| RescueError::NoName { path: numbered(1) })
}

/// The path with a suffix added to its name.
fn named(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Exchanges the stores of two directories. A log without manifests does not open as a store, and the logs are
/// exchanged in one atomic step.
fn exchange(dir: &Path, new: &Path) -> io::Result<()> {
    let (current, previous) = (manifest::CURRENT, manifest::PREVIOUS);
    let sync = || File::open(dir)?.sync_all().and_then(|()| File::open(new)?.sync_all());
    rename_if_there(&dir.join(previous), &new.join(previous))?;
    rename_if_there(&dir.join(current), &new.join(HIDDEN))?;
    sync()?;
    for name in ["engine", "wal"] {
        swap(&dir.join(name), &new.join(name))?;
    }
    sync()?;
    fs::rename(new.join(current), dir.join(current))?;
    rename_if_there(&new.join(HIDDEN), &new.join(current))?;
    sync()
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

/// Exchanges two names atomically.
#[cfg(target_os = "linux")]
fn swap(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(Into::into)
}

/// Exchanges two names atomically; not supported on this system.
#[cfg(not(target_os = "linux"))]
fn swap(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
