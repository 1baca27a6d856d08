//! The data directory: made, and held by one process at a time. Not what is inside: wal/ and engine/ are the store's, pki/ is
//! `pki`'s.

use anyhow::{Context, bail};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A directory that no other process of ours uses as long as this value lives; the system releases it with the process,
/// however that ends.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory if needed and takes it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        // The modes that the store demands; one that exists already is the store's to judge.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.with_context(|| format!("cannot create the data directory {shown}"))?;
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
                    "the data directory {shown} is in use by {holder}; stop that one, or choose another with --data-dir or --in-memory"
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
    fn a_second_holder_is_told_who_the_first_is_and_may_come_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        let refused = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
        drop(first);
        DataDir::open(dir.path()).unwrap();
    }

    /// A first start warned that other users had access to a directory that it had just made.
    #[test]
    fn a_new_directory_and_its_lock_are_of_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let held = DataDir::open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&held.path().join("server.lock"))), (0o700, 0o600));
    }
}
