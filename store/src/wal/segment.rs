//! The log's files: their names, the one prepared ahead, and which can go. Shared by the writer, which fills the newest,
//! and the background, which prepares and removes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::codec::frame::SegmentHeader;
use crate::disk::{Disk, File};

/// A file that is not yet a segment has this name; leftovers are overwritten.
const SPARE: &str = "spare.tmp";
/// The same for one that is made when none was prepared.
const FRESH: &str = "fresh.tmp";
const SUFFIX: &str = ".wal";

/// Zeros are written in pieces of this size.
const ZEROS: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The first record of each segment, ascending.
    first_seqs: Vec<u64>,
    /// A prepared file, with its size.
    spare: Option<(Arc<dyn File>, u64)>,
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
        let inner = Inner { first_seqs, spare: None };
        Ok(Self { disk, dir: dir.to_owned(), inner: Mutex::new(inner) })
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
            (inner.first_seqs.clone(), inner.spare.as_ref().map_or(0, |(_, size)| *size))
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
        let (temporary, file, size) = match spare.filter(|(_, spare)| *spare >= least) {
            Some((file, size)) => (SPARE, file, size),
            None => {
                let file = self.fill(FRESH, size)?;
                (FRESH, file, size)
            }
        };
        let mut start = header.encode();
        start.extend_from_slice(content);
        file.write_at(0, &start)?;
        file.sync()?;
        self.disk.rename(&self.dir.join(temporary), &self.path(header.first_seq))?;
        self.disk.sync_dir(&self.dir)?;
        let mut inner = self.inner.lock();
        if inner.first_seqs.last() != Some(&header.first_seq) {
            inner.first_seqs.push(header.first_seq);
        }
        Ok((file, size))
    }

    /// Makes a file of zeros, not synced. If there is no room for it, what there was room for is given back.
    fn fill(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>> {
        let path = self.dir.join(name);
        let file = self.disk.create(&path)?;
        match fill(&*file, size) {
            Ok(()) => Ok(file),
            Err(error) => {
                drop(file);
                if let Err(error) = self.disk.remove(&path) {
                    tracing::warn!(%error, "a file that was to become the log's next one stays");
                }
                Err(error)
            }
        }
    }

    /// Prepares the next file, its zeros written and synced, so that filling it changes no metadata.
    pub(crate) fn prepare(&self, size: u64) -> io::Result<()> {
        if self.inner.lock().spare.is_some() {
            return Ok(());
        }
        let file = self.fill(SPARE, size)?;
        file.sync()?;
        self.inner.lock().spare = Some((file, size));
        Ok(())
    }

    /// Removes the segments that hold no record above `seq`; the newest always stays.
    pub(crate) fn remove_upto(&self, seq: u64) -> io::Result<()> {
        let mut removed = false;
        while let Some(first_seq) = self.superfluous(seq) {
            // One by one, the oldest first: if this fails half-way, those that are left have no gap.
            match self.disk.remove(&self.path(first_seq)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => self.inner.lock().first_seqs.retain(|first| *first != first_seq),
            }
            removed = true;
        }
        if removed { self.disk.sync_dir(&self.dir) } else { Ok(()) }
    }

    /// The oldest segment, if it holds no record above `seq`: it ends before the next one's first.
    fn superfluous(&self, seq: u64) -> Option<u64> {
        match self.inner.lock().first_seqs[..] {
            [oldest, next, ..] if next <= seq + 1 => Some(oldest),
            _ => None,
        }
    }
}

/// Writes zeros: space that was only set aside would cost a change of metadata at every sync that fills a part of it.
fn fill(file: &dyn File, size: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS.min(size as usize)];
    let mut at = 0;
    while at < size {
        let piece = (size - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..piece as usize])?;
        at += piece;
    }
    Ok(())
}
