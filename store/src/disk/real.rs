//! The operating system's file system, and the lock that excludes other processes.

use super::{Disk, File, private};
use crate::types::error::OpenError;
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The operating system's file system.
#[derive(Debug)]
pub(crate) struct RealDisk;

/// An open file of the operating system.
#[derive(Debug)]
struct RealFile(fs::File);

impl RealDisk {
    /// Opens an existing file for reading.
    pub(crate) fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(fs::File::open(path)?)))
    }

    /// A file that is open already.
    pub(crate) fn reading(file: fs::File) -> Arc<dyn File> {
        Arc::new(RealFile(file))
    }
}

impl Disk for RealDisk {
    fn is_dir(&self, dir: &Path) -> bool {
        dir.is_dir()
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        private::make_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(private::FILE_MODE);
        let file = options.open(path)?;
        private::protect_file(&file)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }
}

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&self.0, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            // Not every file system can allocate; all can be written to.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => super::write_zeros(self, bytes),
            other => Ok(other?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let _span = tracing::debug_span!("disk").entered();
        self.0.sync_data()
    }
}

/// Locks a data directory against other processes while it lives. The system releases the lock when the process ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: fs::File,
}

/// A process that is being started has copies of all descriptors until it begins to run its program, and a lock that is only closed lives
/// as long as they do.
impl Drop for DirLock {
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "cannot unlock the data directory before its lock file is closed");
        }
    }
}

/// Name of the lock file.
const LOCK: &str = "LOCK";

impl DirLock {
    /// Takes the lock, or returns which process holds it.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(LOCK);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(private::FILE_MODE);
        let mut file = options.open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked_by(dir, &mut file)),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        file.set_len(0).map_err(io)?;
        write!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { file })
    }
}

fn locked_by(dir: &Path, file: &mut fs::File) -> OpenError {
    let mut text = String::new();
    let known = file.read_to_string(&mut text).ok().and_then(|_| text.parse::<u32>().ok());
    let holder = match known {
        Some(pid) if pid == std::process::id() => "another store in this process".to_owned(),
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    };
    OpenError::LockedBy { dir: PathBuf::from(dir), holder }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the processes have that another thread is starting.
    #[test]
    fn a_copy_of_the_lock_file_does_not_keep_the_directory_locked() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::take(dir.path()).unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(matches!(DirLock::take(dir.path()), Err(OpenError::LockedBy { .. })));
        drop(lock);
        DirLock::take(dir.path()).unwrap();
        drop(copy);
    }
}
