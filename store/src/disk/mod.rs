//! The interface to the file system. The log, the manifest and the segment engine access all files through it, so that
//! a simulated disk can lose, tear and refuse writes as a real one may. The traits state what an operation guarantees
//! before a sync.
//!
//! `real` is the operating system's file system, `sim` the simulated one. `private` sets the permissions of the files,
//! `own_files` tells them from files of others, and `space` watches the free space and keeps a reserve file.
//!
//! Promise: an operation returns what the system reported; no error is hidden and nothing is retried. Never here: what
//! a file contains.

pub(crate) mod own_files;
pub(crate) mod private;
pub(crate) mod real;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), expect(dead_code, reason = "fuzzers need a part of it"))]
pub(crate) mod sim;
pub(crate) mod space;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system. A name survives a crash only after [`Disk::sync_dir`] of its directory.
pub(crate) trait Disk: Send + Sync + Debug {
    /// Creates a directory and its parents. They are durable on return, even if they existed before: the process that
    /// created them may have crashed before their names were durable.
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let existed = self.is_dir(dir);
        if !existed {
            parent.map_or(Ok(()), |parent| self.create_dir(parent))?;
            self.make_dir(dir)?;
        } else if parent.is_none() && dir.has_root() {
            return Ok(());
        }
        match self.sync_dir(parent.unwrap_or(Path::new("."))) {
            // Another user created the directory, in a parent that this user cannot sync.
            Err(error) if existed && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    }

    /// Whether the directory exists.
    fn is_dir(&self, dir: &Path) -> bool;

    /// Creates a directory in an existing one.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Creates an empty file; replaces an existing one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Names of the files in a directory, sorted; empty if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Renames a file within its directory; replaces an existing file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Bytes that are free for files in a directory.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file. Its content survives a crash only after [`File::sync`]. Before that, any part of what was written may
/// survive.
pub(crate) trait File: Send + Sync + Debug {
    /// Length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Reads up to the buffer's length at `offset`. Returns the number of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at `offset`; grows the file if needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Allocates `bytes` from the start of an empty file, which then reads as zeros.
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        write_zeros(self, bytes)
    }

    /// Makes everything written so far durable, including the length. After an error the state of everything written
    /// since the last successful sync is unknown, and another attempt does not help.
    fn sync(&self) -> io::Result<()>;
}

/// Reads a whole file.
pub(crate) fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    let read = read_full(file, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Fills the buffer, or reads to the end of the file. Returns the number of bytes read.
pub(crate) fn read_full(file: &dyn File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(offset + filled as u64, &mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Writes zeros from the start of a file.
pub(crate) fn write_zeros<F: File + ?Sized>(file: &F, bytes: u64) -> io::Result<()> {
    /// Bytes per write.
    const PIECE: usize = 1 << 20;
    let zeros = vec![0; PIECE.min(usize::try_from(bytes).unwrap_or(PIECE))];
    let mut at = 0;
    while at < bytes {
        let piece = (bytes - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..piece as usize])?;
        at += piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    /// A disk of directories; a name survives a crash only if its parent directory was synced.
    #[derive(Debug, Default)]
    struct Dirs(Mutex<DirState>);

    #[derive(Debug, Default)]
    struct DirState {
        made: BTreeSet<PathBuf>,
        durable: BTreeSet<PathBuf>,
        /// Number of syncs that succeed before one fails.
        syncs: Option<usize>,
    }

    impl Dirs {
        fn crash(&self) {
            let mut state = self.0.lock();
            // A directory is lost with its parent.
            let durable = &state.durable;
            let is_kept =
                |dir: &&PathBuf| dir.ancestors().all(|dir| dir == Path::new("/") || durable.contains(dir));
            state.made = state.made.iter().filter(is_kept).cloned().collect();
        }
    }

    impl Disk for Dirs {
        fn is_dir(&self, dir: &Path) -> bool {
            dir == Path::new("/") || self.0.lock().made.contains(dir)
        }

        fn make_dir(&self, dir: &Path) -> io::Result<()> {
            self.0.lock().made.insert(dir.to_owned());
            Ok(())
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            let mut state = self.0.lock();
            if let Some(syncs) = &mut state.syncs {
                *syncs = syncs.checked_sub(1).ok_or(io::Error::other("the disk fails"))?;
            }
            let inside: Vec<_> =
                state.made.iter().filter(|made| made.parent() == Some(dir)).cloned().collect();
            state.durable.extend(inside);
            Ok(())
        }

        fn create(&self, _: &Path) -> io::Result<Arc<dyn File>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn open(&self, _: &Path) -> io::Result<Arc<dyn File>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn list(&self, _: &Path) -> io::Result<Vec<String>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn free_space(&self, _: &Path) -> io::Result<u64> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Regression: a directory that an earlier process created, but did not sync, was taken for durable.
    #[test]
    fn creating_a_directory_makes_it_durable_after_failed_attempts() {
        let dir = Path::new("/a/b/c");
        for syncs in 0..3 {
            for crashes in [false, true] {
                let disk = Dirs::default();
                disk.0.lock().syncs = Some(syncs);
                assert!(disk.create_dir(dir).is_err(), "{syncs}");
                disk.0.lock().syncs = None;
                if crashes {
                    disk.crash();
                }
                disk.create_dir(dir).unwrap();
                disk.crash();
                assert!(disk.is_dir(dir), "after {syncs} syncs");
                disk.create_dir(dir).unwrap();
            }
        }
    }
}
