//! Writing a snapshot file: from an open store, from an intact directory, or from the readable part of a damaged one.

use super::losses::{LossFinder, Losses};
use super::restore::Progress;
use super::state::SurveyedState;
use super::survey::{Problem, Survey, SurveyError};
use crate::disk::real::RealDisk;
use crate::disk::{Disk, File, read_full};
use crate::snapshot::build::Builder;
use crate::types::record::Record;
use crate::{SnapshotError, SnapshotInfo, Store};
use sha2::{Digest, Sha256};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a snapshot file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] SurveyError),
    /// The directory is damaged: restore a backup, or salvage the readable part.
    #[error("the directory is damaged ({first}); use salvage to save the readable part")]
    Damaged {
        /// The first problem found.
        first: Problem,
    },
    /// The snapshot could not be made.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Result of salvaging a damaged directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// The content of the written file. If something is lost, all history before its revision is compacted.
    pub snapshot: SnapshotInfo,
    /// What could not be read.
    pub lost: Losses,
    /// The problems of the directory, in the order in which they were found.
    pub problems: Vec<Problem>,
}

/// Writes a snapshot of an open store to a file, with the checksum that `etcdctl snapshot save` appends. The file gets
/// its name when it is complete and durable. Blocks.
pub fn snapshot_to_file(store: &Store, path: &Path) -> Result<SnapshotInfo, ExportError> {
    create(&RealDisk, path, |to| store.snapshot(to))
}

/// Writes a snapshot of a directory that no store has open. Changes nothing in the directory.
pub fn save(dir: &Path, to: &Path, progress: &mut Progress<'_>) -> Result<SnapshotInfo, ExportError> {
    save_from(Survey::take(dir)?, &RealDisk, to, progress)
}

/// Writes a snapshot from a survey.
pub(super) fn save_from(
    mut survey: Survey,
    disk: &dyn Disk,
    to: &Path,
    progress: &mut Progress<'_>,
) -> Result<SnapshotInfo, ExportError> {
    let state = SurveyedState::of(&mut survey);
    if let Some(first) = survey.problems.list.first() {
        return Err(ExportError::Damaged { first: first.clone() });
    }
    let whole = state.whole_upto();
    if whole < state.durable.revision {
        return Err(SnapshotError::Damaged { revision: whole.next() }.into());
    }
    let unreadable = |error: io::Error| Err(SnapshotError::Unreadable(error.to_string()));
    create(disk, to, |to| match build(&survey, &state, to, &unreadable, progress)? {
        (info, lost) if lost.is_empty() => Ok(info),
        (_, lost) => {
            Err(SnapshotError::Damaged { revision: lost.newest().unwrap_or(state.durable.revision) })
        }
    })
}

/// Writes the readable part of a damaged directory that no store has open: every version that can be read. A key whose
/// newest version is lost has its version before that one, so an object whose deletion is lost comes back. Changes
/// nothing in the directory.
pub fn salvage(dir: &Path, to: &Path, progress: &mut Progress<'_>) -> Result<SalvageReport, ExportError> {
    salvage_from(Survey::take(dir)?, &RealDisk, to, progress)
}

/// Salvages from a survey.
pub(super) fn salvage_from(
    mut survey: Survey,
    disk: &dyn Disk,
    to: &Path,
    progress: &mut Progress<'_>,
) -> Result<SalvageReport, ExportError> {
    let state = SurveyedState::of(&mut survey);
    let mut lost = Losses::default();
    // A record that the disk does not return is as lost as a damaged one.
    let unreadable = |_: io::Error| Ok(None);
    let snapshot = create(disk, to, |to| {
        let (info, found) = build(&survey, &state, to, &unreadable, progress)?;
        lost = found;
        Ok(info)
    })?;
    Ok(SalvageReport { snapshot, lost, problems: survey.problems.list })
}

/// Decides what becomes of a record that the disk does not return.
type OnReadError<'a> = &'a dyn Fn(io::Error) -> Result<Option<Record>, SnapshotError>;

/// Writes all readable records. Also returns what could not be read.
fn build(
    survey: &Survey,
    state: &SurveyedState,
    to: &mut FileWriter,
    on_error: OnReadError<'_>,
    progress: &mut Progress<'_>,
) -> Result<(SnapshotInfo, Losses), SnapshotError> {
    let mut builder = Builder::begin(to)?;
    let (mut finder, total) = (LossFinder::new(state), state.records.len() as u64);
    for (done, (key, located)) in (0..).zip(&state.records) {
        if done % 4_096 == 0 {
            progress(done, total);
        }
        let Some(record) = survey.found.read(*key, located).or_else(on_error)? else {
            finder.unreadable(*key);
            continue;
        };
        match builder.record(&record) {
            Err(SnapshotError::Damaged { .. }) => finder.unreadable(*key),
            other => {
                other?;
                finder.readable(&record);
            }
        }
    }
    progress(total, total);
    let (lost, mut durable) = (finder.finish(state), state.durable.clone());
    durable.compacted = durable.compacted.min(durable.revision);
    if !lost.is_empty() {
        // Neither a read of the past nor a watch may cross a gap.
        durable.compacted = durable.revision;
    }
    Ok((builder.finish(survey.cluster, &durable)?, lost))
}

/// The file's name until it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

/// Creates a snapshot file; `fill` writes its content.
fn create(
    disk: &dyn Disk,
    path: &Path,
    fill: impl FnOnce(&mut FileWriter) -> Result<SnapshotInfo, SnapshotError>,
) -> Result<SnapshotInfo, ExportError> {
    let write = |source| ExportError::Write { path: path.to_owned(), source };
    let part = partial(path);
    let file = disk.create(&part).map_err(write)?;
    let filled = fill(&mut FileWriter { file: file.clone(), at: 0 }).map_err(ExportError::from);
    let finished = filled.and_then(|info| finish(disk, &*file, &part, path, info).map_err(write));
    if finished.is_err() {
        let _ = disk.remove(&part);
    }
    finished
}

/// Appends the checksum and renames the file to its final name.
fn finish(
    disk: &dyn Disk,
    file: &dyn File,
    part: &Path,
    path: &Path,
    info: SnapshotInfo,
) -> io::Result<SnapshotInfo> {
    const PIECE: u64 = 1 << 20;
    let (mut digest, mut at, mut piece) = (Sha256::new(), 0, vec![0; PIECE as usize]);
    while at < info.bytes {
        let len = PIECE.min(info.bytes - at);
        read_full(file, at, &mut piece[..len as usize])?;
        digest.update(&piece[..len as usize]);
        at += len;
    }
    file.write_at(info.bytes, &digest.finalize())?;
    file.sync()?;
    disk.rename(part, path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    disk.sync_dir(parent.unwrap_or(Path::new(".")))?;
    Ok(info)
}

/// Writes to a file from an offset on.
struct FileWriter {
    file: Arc<dyn File>,
    at: u64,
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for FileWriter {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let moved = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.len()?.checked_add_signed(by),
        };
        self.at = moved.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
