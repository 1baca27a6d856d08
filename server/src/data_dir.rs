//! [`DataDir`]: creates the data directory and locks it for one process. The store owns `wal/` and `engine/`,
//! the module `pki` owns `pki/`.

use anyhow::{Context, bail};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A data directory locked by this process. The system releases the lock when the value is dropped or the
/// process ends in any way.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if needed, and locks it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        // The modes that the store requires. The store checks the modes of an existing directory.
        let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
        created.with_context(|| format!("cannot create the data directory {shown}"))?;
        let path =
            fs::canonicalize(path).with_context(|| format!("cannot use the data directory {shown}"))?;
        let lock_path = path.join("server.lock");
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .with_context(|| format!("cannot write in the data directory {shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                let holder =
                    if holder.is_empty() { "another process".into() } else { format!("process {holder}") };
                bail!(
                    "the data directory {shown} is in use by {holder}; stop that process, or use --data-dir with another directory or --in-memory"
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", lock_path.display()));
            }
        }
        lock.set_len(0)?;
        lock.rewind()?;
        write!(lock, "{}", std::process::id())?;
        Ok(Self { path, _lock: lock })
    }

    /// The absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_data_directory_reports_the_process_that_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        let refused = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
        drop(first);
        DataDir::open(dir.path()).unwrap();
    }

    /// Regression: a first start warned that other users had access to the directory that it had just
    /// created.
    #[test]
    fn a_new_data_directory_and_its_lock_are_accessible_to_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let data_dir = DataDir::open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&data_dir.path().join("server.lock"))), (0o700, 0o600));
    }
}
