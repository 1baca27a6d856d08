//! The seam to the file system: every file of log, manifest and our own engine goes through it, so that a simulated disk
//! can lose, tear and refuse what a real one may. What an operation promises before a sync is written here, and no more.
//! Who may read the files is in `private`.

pub(crate) mod private;
pub(crate) mod real;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), expect(dead_code, reason = "fuzzers need a part of it"))]
pub(crate) mod sim;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system. Names survive a crash only after [`Disk::sync_dir`].
pub(crate) trait Disk: Send + Sync + Debug {
    /// Makes a directory, and those above it; durable on return, also if it is there already: whoever made it may have crashed
    /// before its name was durable.
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
            // Somebody else made it for us, where we may not look.
            Err(error) if existed && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    }

    /// Whether there is such a directory.
    fn is_dir(&self, dir: &Path) -> bool;

    /// Makes a directory in one that exists.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes an empty file, replacing one of that name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file that exists.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// The names of the files in a directory, sorted; none if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Gives a file another name in the same directory, replacing one of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Bytes that files in a directory can still take up.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;

    /// Makes a directory's names durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file. Contents survive a crash only after [`File::sync`]; before it, any part of what was written may.
pub(crate) trait File: Send + Sync + Debug {
    /// Its length.
    fn len(&self) -> io::Result<u64>;

    /// Reads as much as there is, up to the buffer's length; says how much.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of it, growing the file if needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Takes up space for so many bytes from the beginning of an empty file, which then reads as zeros.
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        write_zeros(self, bytes)
    }

    /// Makes everything written so far durable, length included. After an error nothing is known of what was written since
    /// the last success, and trying again does not help.
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

/// Fills the buffer unless the file ends; says how much there was.
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

/// Writes zeros from the beginning of a file on.
pub(crate) fn write_zeros<F: File + ?Sized>(file: &F, bytes: u64) -> io::Result<()> {
    /// Written at once.
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
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use parking_lot::Mutex;

    use super::*;

    /// Directories, of which names survive a crash only when the directory above was synced.
    #[derive(Debug, Default)]
    struct Dirs(Mutex<State>);

    #[derive(Debug, Default)]
    struct State {
        made: BTreeSet<PathBuf>,
        durable: BTreeSet<PathBuf>,
        /// Syncs that are done before one fails.
        syncs: Option<usize>,
    }

    impl Dirs {
        fn crash(&self) {
            let mut state = self.0.lock();
            // A directory is gone with the one that it is in.
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

    /// A directory that the process before made, but did not live to sync, was taken for durable.
    #[test]
    fn a_directory_is_durable_when_it_was_made_whatever_became_of_earlier_attempts() {
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
