//! [`DataDir`]: creates the data directory and locks it for one process. The store owns `wal/` and `engine/`,
//! the module `pki` owns `pki/`.

use anyhow::{Context, bail};
use kstore_store::maintenance;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the lock file; it has the number of the process that holds the lock.
pub(crate) const LOCK: &str = "server.lock";

/// Name of the file with the version of Kubernetes with which the directory is served; `data_version` reads and writes it.
pub(crate) const VERSION_FILE: &str = "kubernetes-version";

/// Name of the file that says where imported data came from; `import` writes it.
pub(crate) const IMPORT_FILE: &str = "import-report.json";

/// A data directory locked by this process. The system releases the lock when the value is dropped or the
/// process ends in any way.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if needed, and locks it. Refuses a folder that is neither empty nor a data directory, and
    /// then changes nothing in it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        refuse_foreign(path)?;
        // The modes that the store requires. The store checks the modes of an existing directory.
        let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
        created.with_context(|| format!("cannot create the data directory {shown}"))?;
        let path =
            fs::canonicalize(path).with_context(|| format!("cannot use the data directory {shown}"))?;
        let lock_path = path.join(LOCK);
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

/// Refuses a folder with files of others, in which no data directory was made before.
///
/// # Errors
/// The folder is one of others, is no folder, or cannot be read.
pub(crate) fn refuse_foreign(path: &Path) -> anyhow::Result<()> {
    /// Entries of the folder that the refusal names.
    const NAMED: usize = 4;
    let shown = path.display();
    if path.exists() && !path.is_dir() {
        bail!("the data directory {shown} is not a folder: choose an empty or new one");
    }
    if was_locked(path) {
        return Ok(());
    }
    let foreign = maintenance::foreign_entries(path, NAMED + 1, &is_own);
    let mut foreign = foreign.with_context(|| format!("cannot read the data directory {shown}"))?;
    if foreign.is_empty() {
        return Ok(());
    }
    if foreign.len() > NAMED {
        foreign[NAMED] = "…".to_owned();
    }
    bail!(
        "the folder {shown} is not empty and is no data directory of kstore ({}): choose an empty or new folder with \
         --data-dir",
        foreign.join(", ")
    )
}

/// Whether a process used the folder as a data directory before, such as one with an external etcd, which has no store.
fn was_locked(path: &Path) -> bool {
    let holder = fs::read(path.join(LOCK)).ok();
    let is_lock = |text: &Vec<u8>| text.len() <= 20 && text.iter().all(u8::is_ascii_digit);
    holder.as_ref().is_some_and(is_lock) && path.join("pki/ca.crt").exists()
}

/// Whether the server creates an entry of that name in a data directory, beside the store's.
fn is_own(name: &str, is_dir: bool) -> bool {
    let is_kubeconfig = |name: &str| name.ends_with(".kubeconfig");
    // `write_private` creates a hidden file first.
    let is_unfinished = |name: &str| name.starts_with('.') && name.ends_with(".new");
    if is_dir {
        name == "pki"
    } else {
        [LOCK, VERSION_FILE, IMPORT_FILE].contains(&name) || is_kubeconfig(name) || is_unfinished(name)
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

    /// Regression: `--data-dir .` took over any folder, and made the files in it 0600.
    #[test]
    fn a_folder_of_others_is_refused_and_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in
            [("run.sh", "#!/bin/sh"), ("README.md", ""), (".env", ""), ("a", ""), ("b", "")]
        {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let script = dir.path().join("run.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let before = fs::metadata(dir.path()).unwrap().permissions().mode();
        let refused = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("is not empty and is no data directory of kstore (.env, README.md, a, b, …)"),
            "{refused}"
        );
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode(), before);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5, "nothing was created");
        let refused = DataDir::open(&script).unwrap_err().to_string();
        assert!(refused.contains("is not a folder"), "{refused}");
    }

    #[test]
    fn empty_mounts_and_beginnings_of_a_data_directory_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["lost+found", "pki", "wal", "engine"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for name in [
            "admin.kubeconfig",
            ".admin.kubeconfig.17.new",
            "LOCK",
            "RESERVE",
            "pki/ca.key",
            "import-report.json",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        drop(DataDir::open(dir.path()).unwrap());
        drop(DataDir::open(dir.path()).unwrap());
        // With an external etcd there is no store, and somebody may write a file beside the kubeconfigs.
        fs::write(dir.path().join("pki/ca.crt"), "").unwrap();
        fs::write(dir.path().join("notes.txt"), "").unwrap();
        drop(DataDir::open(dir.path()).unwrap());
    }
}
