//! The log's segment files: their names, the prepared file, and which files can be deleted. The log thread fills the
//! newest one; the background worker prepares and deletes.

use crate::codec::frame::SegmentHeader;
use crate::disk::space::{DiskSpace, is_full};
use crate::disk::{Disk, File, write_zeros};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SUFFIX: &str = ".wal";
/// Suffix of a file that is not a segment yet; its name is a number.
const UNUSED: &str = ".tmp";

/// The log's segment files.
#[derive(Debug)]
pub(crate) struct WalSegments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The monitor of free space, if there is one.
    disk_space: Option<DiskSpace>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Sequence number of the first record of each segment, ascending.
    first_seqs: Vec<u64>,
    /// The prepared file.
    spare: Option<PreparedFile>,
    /// Number of created files, for unique names: one file may be created while another is renamed.
    made: u64,
}

/// A file that is not a segment yet.
#[derive(Debug)]
struct PreparedFile {
    path: PathBuf,
    file: Arc<dyn File>,
    size: u64,
}

/// The name of the segment that starts with a record.
fn name(first_seq: u64) -> String {
    format!("{first_seq:016x}{SUFFIX}")
}

impl WalSegments {
    /// Lists the segments in `dir`, which must exist.
    pub(crate) fn list(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<Self> {
        let names = disk.list(dir)?;
        let parsed = names.iter().filter_map(|name| name.strip_suffix(SUFFIX));
        let mut first_seqs: Vec<_> = parsed.filter_map(|hex| u64::from_str_radix(hex, 16).ok()).collect();
        first_seqs.sort_unstable();
        let inner = Inner { first_seqs, spare: None, made: 0 };
        Ok(Self { disk, dir: dir.to_owned(), disk_space: None, inner: Mutex::new(inner) })
    }

    /// Adds the monitor of free space.
    pub(crate) fn within(self, disk_space: DiskSpace) -> Self {
        Self { disk_space: Some(disk_space), ..self }
    }

    pub(crate) fn disk_space(&self) -> Option<&DiskSpace> {
        self.disk_space.as_ref()
    }

    /// Deletes files of an earlier process that did not become segments.
    pub(crate) fn remove_unused(&self) -> io::Result<()> {
        let names = self.disk.list(&self.dir)?;
        names
            .iter()
            .filter(|name| name.ends_with(UNUSED))
            .try_for_each(|name| self.disk.remove(&self.dir.join(name)))
    }

    pub(crate) fn first_seqs(&self) -> Vec<u64> {
        self.inner.lock().first_seqs.clone()
    }

    pub(crate) fn path(&self, first_seq: u64) -> PathBuf {
        self.dir.join(name(first_seq))
    }

    /// Total size of all files in bytes, including the prepared one.
    pub(crate) fn bytes(&self) -> u64 {
        let (first_seqs, spare) = {
            let inner = self.inner.lock();
            (inner.first_seqs.clone(), inner.spare.as_ref().map_or(0, |spare| spare.size))
        };
        let len = |first| self.open(first).and_then(|file| file.len());
        // A segment that was deleted meanwhile occupies nothing.
        first_seqs.into_iter().filter_map(|first| len(first).ok()).sum::<u64>() + spare
    }

    pub(crate) fn open(&self, first_seq: u64) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.path(first_seq))
    }

    /// Creates a segment that starts with `header` and `content` and holds at least `least` bytes. It uses the prepared
    /// file, or a new one of `size` bytes. The file gets its name when it is complete; durable on return. Returns the
    /// file and its size.
    pub(crate) fn make(
        &self,
        header: &SegmentHeader,
        content: &[u8],
        least: u64,
        size: u64,
    ) -> io::Result<(Arc<dyn File>, u64)> {
        let spare = self.inner.lock().spare.take();
        let size = size.max(least);
        let PreparedFile { path, file, size } = match spare.filter(|spare| spare.size >= least) {
            Some(spare) => spare,
            None => self.fresh(least, size)?,
        };
        let mut start = header.encode();
        start.extend_from_slice(content);
        let begun = file.write_at(0, &start).and_then(|()| file.sync());
        let named = begun.and_then(|()| self.disk.rename(&path, &self.path(header.first_seq)));
        if let Err(error) = named {
            drop(file);
            self.discard(&path);
            return Err(error);
        }
        self.disk.sync_dir(&self.dir)?;
        let mut inner = self.inner.lock();
        if inner.first_seqs.last() != Some(&header.first_seq) {
            inner.first_seqs.push(header.first_seq);
        }
        Ok((file, size))
    }

    /// Creates a new file of `size` bytes or, if the disk is full, one just large enough.
    fn fresh(&self, least: u64, size: u64) -> io::Result<PreparedFile> {
        match self.fill(size) {
            Err(error) if is_full(&error) => {
                if let Some(disk_space) = self.disk_space() {
                    disk_space.on_disk_full();
                }
                self.fill(least)
            }
            other => other,
        }
    }

    /// Creates a file of zeros, not synced. If the disk is full, deletes it again.
    fn fill(&self, size: u64) -> io::Result<PreparedFile> {
        let number = {
            let mut inner = self.inner.lock();
            inner.made += 1;
            inner.made
        };
        let path = self.dir.join(format!("{number}{UNUSED}"));
        let file = self.disk.create(&path)?;
        match write_zeros(&*file, size) {
            Ok(()) => Ok(PreparedFile { path, file, size }),
            Err(error) => {
                drop(file);
                self.discard(&path);
                Err(error)
            }
        }
    }

    /// Deletes a file that will not become a segment.
    fn discard(&self, path: &Path) {
        if let Err(error) = self.disk.remove(path) {
            tracing::warn!(%error, "an unused log file cannot be deleted; the next start deletes it");
        }
    }

    /// Prepares the next file: its zeros are written and synced, so that filling it changes no metadata.
    pub(crate) fn prepare(&self, size: u64) -> io::Result<()> {
        if self.inner.lock().spare.is_some() {
            return Ok(());
        }
        let spare = self.fill(size)?;
        spare.file.sync()?;
        self.inner.lock().spare = Some(spare);
        Ok(())
    }

    /// Deletes the segments without records above `seq`; the newest one always stays.
    pub(crate) fn remove_upto(&self, seq: u64) -> io::Result<()> {
        while let Some(first_seq) = self.oldest_deletable(seq) {
            // Oldest first, each durably before the next: if a deletion fails, the remaining segments have no gap.
            match self.disk.remove(&self.path(first_seq)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => self.inner.lock().first_seqs.retain(|first| *first != first_seq),
            }
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// The oldest segment, if it has no record above `seq`: the next one starts at `seq + 1` or earlier.
    fn oldest_deletable(&self, seq: u64) -> Option<u64> {
        match self.inner.lock().first_seqs[..] {
            [oldest, next, ..] if next <= seq + 1 => Some(oldest),
            _ => None,
        }
    }
}
