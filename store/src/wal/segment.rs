//! The log's files: their names, the one prepared ahead, and which can go. Shared by the writer, which fills the newest,
//! and the background, which prepares and removes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::codec::frame::SegmentHeader;
use crate::disk::{Disk, File, write_zeros};
use crate::room::{Room, is_full};

const SUFFIX: &str = ".wal";
/// A file that is not yet a segment has a number and this suffix.
const UNUSED: &str = ".tmp";

/// See the module.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The file system's, if anybody cares.
    room: Option<Room>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The first record of each segment, ascending.
    first_seqs: Vec<u64>,
    /// A file that was prepared.
    spare: Option<Unused>,
    /// How many files were made. One may be in the making while another gets its name: each has a name of its own.
    made: u64,
}

/// A file that is not yet a segment.
#[derive(Debug)]
struct Unused {
    path: PathBuf,
    file: Arc<dyn File>,
    size: u64,
}

/// The name of the segment that begins with a record.
fn name(first_seq: u64) -> String {
    format!("{first_seq:016x}{SUFFIX}")
}

impl Segments {
    /// The segments in `dir`, which exists.
    pub(crate) fn list(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<Self> {
        let names = disk.list(dir)?;
        let parsed = names.iter().filter_map(|name| name.strip_suffix(SUFFIX));
        let mut first_seqs: Vec<_> = parsed.filter_map(|hex| u64::from_str_radix(hex, 16).ok()).collect();
        first_seqs.sort_unstable();
        let inner = Inner { first_seqs, spare: None, made: 0 };
        Ok(Self { disk, dir: dir.to_owned(), room: None, inner: Mutex::new(inner) })
    }

    /// The same, aware of how much room there is.
    pub(crate) fn within(self, room: Room) -> Self {
        Self { room: Some(room), ..self }
    }

    pub(crate) fn room(&self) -> Option<&Room> {
        self.room.as_ref()
    }

    /// Removes what another process left behind of files that did not become segments.
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

    /// Bytes of all files, the prepared one included.
    pub(crate) fn bytes(&self) -> u64 {
        let (first_seqs, spare) = {
            let inner = self.inner.lock();
            (inner.first_seqs.clone(), inner.spare.as_ref().map_or(0, |spare| spare.size))
        };
        let len = |first| self.open(first).and_then(|file| file.len());
        // One that went meanwhile occupies nothing.
        first_seqs.into_iter().filter_map(|first| len(first).ok()).sum::<u64>() + spare
    }

    pub(crate) fn open(&self, first_seq: u64) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.path(first_seq))
    }

    /// Makes a segment that begins with `header` and `content` and holds `least` bytes: from the prepared file, or a new
    /// one of `size` bytes if there is none. Under its name it is whole from the first moment; durable on return. Returns
    /// the file and its size.
    pub(crate) fn make(
        &self,
        header: &SegmentHeader,
        content: &[u8],
        (least, size): (u64, u64),
    ) -> io::Result<(Arc<dyn File>, u64)> {
        let spare = self.inner.lock().spare.take();
        let size = size.max(least);
        let Unused { path, file, size } = match spare.filter(|spare| spare.size >= least) {
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

    /// Makes a new file of `size` bytes; if there is no room for it, one that is just large enough.
    fn fresh(&self, least: u64, size: u64) -> io::Result<Unused> {
        match self.fill(size) {
            Err(error) if is_full(&error) => {
                if let Some(room) = self.room() {
                    room.ran_out();
                }
                self.fill(least)
            }
            other => other,
        }
    }

    /// Makes a file of zeros, not synced. If there is no room for it, what there was room for is given back.
    fn fill(&self, size: u64) -> io::Result<Unused> {
        let number = {
            let mut inner = self.inner.lock();
            inner.made += 1;
            inner.made
        };
        let path = self.dir.join(format!("{number}{UNUSED}"));
        let file = self.disk.create(&path)?;
        match write_zeros(&*file, size) {
            Ok(()) => Ok(Unused { path, file, size }),
            Err(error) => {
                drop(file);
                self.discard(&path);
                Err(error)
            }
        }
    }

    /// Gives the space of a file back that will not become a segment.
    fn discard(&self, path: &Path) {
        if let Err(error) = self.disk.remove(path) {
            tracing::warn!(%error, "a file that was to become the log's next one stays until the next start");
        }
    }

    /// Prepares the next file, its zeros written and synced, so that filling it changes no metadata.
    pub(crate) fn prepare(&self, size: u64) -> io::Result<()> {
        if self.inner.lock().spare.is_some() {
            return Ok(());
        }
        let spare = self.fill(size)?;
        spare.file.sync()?;
        self.inner.lock().spare = Some(spare);
        Ok(())
    }

    /// Removes the segments that hold no record above `seq`; the newest always stays.
    pub(crate) fn remove_upto(&self, seq: u64) -> io::Result<()> {
        while let Some(first_seq) = self.superfluous(seq) {
            // The oldest first, and each for good before the next: whatever fails, those that are left have no gap.
            match self.disk.remove(&self.path(first_seq)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => self.inner.lock().first_seqs.retain(|first| *first != first_seq),
            }
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// The oldest segment, if it holds no record above `seq`: it ends before the next one's first.
    fn superfluous(&self, seq: u64) -> Option<u64> {
        match self.inner.lock().first_seqs[..] {
            [oldest, next, ..] if next <= seq + 1 => Some(oldest),
            _ => None,
        }
    }
}
