//! Going on with a damaged directory: what can be read of it becomes a new store in its place, and the damaged files stay beside it.
//! Not how damage is read around (see `export`), and not how a store is made of a snapshot (see `restore`).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use kstore_nondet::Rng;

use super::export::{ExportError, Salvaged, salvage};
use super::restore::{Progress, Restore, RestoreError, Restored, restore};
use crate::disk::real::DirLock;
use crate::error::OpenError;
use crate::{EngineKind, manifest};

/// Names that are tried for the directory of the damaged files. Who has so many should look at the disk first.
const NAMES: u32 = 100;

/// How far the revision is moved past the newest one that the damaged directory knows. Watchers may have seen later ones, which the
/// damage hides; nobody writes so many between two looks at a log.
const BUMP: u64 = 1_000_000;

/// What the damaged store's manifest is called until the new store has its place.
const HIDDEN: &str = "MANIFEST.damaged";

/// What became of a damaged directory.
#[derive(Clone, Debug)]
pub struct Rescued {
    /// What could be read of it, and what is wrong with it.
    pub salvaged: Salvaged,
    /// The store that is in its place now.
    pub restored: Restored,
    /// Where the damaged files are.
    pub damaged: PathBuf,
}

/// Why a damaged directory was left as it is, unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// Nothing could be read.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// What was read could not be made a store.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The directory is in use.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// There is no free name beside the directory.
    #[error("{} and a hundred like it exist: remove those that nobody needs", path.display())]
    NoName {
        /// The first of the names.
        path: PathBuf,
    },
    /// The files were not exchanged, or not all of them.
    #[error(
        "what could be read is a store in {}, but cannot take the place of {} ({source}): start with the former as the \
         data directory, or move its files by hand", new.display(), dir.display()
    )]
    Exchange {
        /// The damaged directory.
        dir: PathBuf,
        /// Where the restored store is.
        new: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes a store of what can be read of a damaged directory and puts it in its place: afterwards the directory opens. The damaged
/// files are in a directory beside it, which is named after it. All revisions that watchers may know are compacted, so that they
/// begin anew. Needs room for a copy of the data.
///
/// Blocks. A crash leaves either the damaged store, or a directory that does not open, with the restored store beside it; never an
/// empty one.
///
/// # Errors
/// [`RescueError`]; the damaged files are never removed.
pub fn rescue(
    dir: &Path,
    engine: EngineKind,
    rng: &Rng,
    progress: &mut Progress<'_>,
) -> Result<Rescued, RescueError> {
    let new = beside(dir)?;
    let snapshot = named(&new, ".db");
    let salvaged = salvage(dir, &snapshot, progress)?;
    let lost = u64::try_from(salvaged.newest.0 - salvaged.snapshot.revision.0).unwrap_or(0);
    let request = Restore {
        snapshot: snapshot.clone(),
        dir: new.clone(),
        engine,
        unchecked: false,
        bump: lost.saturating_add(BUMP),
    };
    let restored = restore(&request, rng, progress);
    let removed = fs::remove_file(&snapshot);
    let restored = restored?;
    let _lock = DirLock::take(dir)?;
    removed.and_then(|()| exchange(dir, &new)).map_err(|source| {
        let (dir, new) = (dir.to_owned(), new.clone());
        RescueError::Exchange { dir, new, source }
    })?;
    Ok(Rescued { salvaged, restored, damaged: new })
}

/// A directory beside this one that does not exist.
fn beside(dir: &Path) -> Result<PathBuf, RescueError> {
    let numbered = |number: u32| named(dir, &format!(".damaged-{number}"));
    let free = (1..=NAMES).map(numbered).find(|path| !path.exists() && !named(path, ".db").exists());
    free.ok_or_else(|| RescueError::NoName { path: numbered(1) })
}

/// The path with something behind its name.
fn named(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Exchanges the stores of two directories. Without its manifests a log opens as no store, and the log is exchanged in one step.
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

/// Each gets the other's name, in one step.
#[cfg(target_os = "linux")]
fn swap(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(Into::into)
}

/// Each gets the other's name, in one step.
#[cfg(not(target_os = "linux"))]
fn swap(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
