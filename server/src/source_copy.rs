//! The copy of a prepared cluster on which `run --from` and a server with `--read-only` work. The original is only read, so that many
//! can use it.

use crate::args::{Durability, Engine, Storage};
use crate::{data_dir, files};
use anyhow::{Context, bail};
use kstore_nondet::Nondet;
use kstore_store::EngineKind;
use kstore_store::maintenance::{self, Restore};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files and folders of a data directory that hold its objects, keys and version of Kubernetes. Kubeconfigs name an address of the past,
/// and `RESERVE` is made again.
const COPIED: [&str; 7] =
    ["MANIFEST", "MANIFEST.old", "wal", "engine", "pki", data_dir::VERSION_FILE, data_dir::IMPORT_FILE];

/// A copy of a cluster in a temporary folder, which is removed with the value.
pub(crate) struct SourceCopy {
    folder: TempDir,
    engine: Engine,
}

impl SourceCopy {
    /// Copies a data directory on which no server runs, or restores a snapshot of kstore or an etcd.
    ///
    /// # Errors
    /// There is no such cluster, a server uses it, or it cannot be copied.
    pub(crate) fn of(source: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kstore-run-").tempdir();
        let folder = folder.context("cannot make a temporary folder")?;
        let data = folder.path().join("data");
        let shown = source.display();
        let engine = match fs::metadata(source).with_context(|| format!("cannot read {shown}"))?.is_dir() {
            true => copy_directory(source, &data).with_context(|| format!("cannot copy {shown}"))?,
            false => restore(source, &data).with_context(|| format!("cannot restore {shown}"))?,
        };
        Ok(Self { folder, engine })
    }

    /// The temporary folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The copy as the storage of a cluster. Its writes need not survive the machine.
    pub(crate) fn storage(&self) -> Storage {
        let (dir, durability) = (self.folder.path().join("data"), Durability::Relaxed);
        Storage::Disk { dir, durability, engine: self.engine, salvage: false }
    }
}

fn copy_directory(source: &Path, target: &Path) -> anyhow::Result<Engine> {
    if !source.join("MANIFEST").exists() {
        bail!("it is no data directory of kstore");
    }
    let _lock = lock(source)?;
    for name in COPIED {
        let from = source.join(name);
        if from.exists() {
            copy_all(&from, &target.join(name))?;
        }
    }
    Ok(if source.join("engine/sled").exists() { Engine::Sled } else { Engine::Segments })
}

/// Keeps servers off the directory during the copy. Several runs can copy at a time.
fn lock(source: &Path) -> anyhow::Result<Option<File>> {
    // A store alone, or one that was restored, has had no server.
    let Ok(file) = File::open(source.join(data_dir::LOCK)) else { return Ok(None) };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "a server uses it: stop that server, or copy a snapshot of it (`etcdctl snapshot save` with --etcd-listen)"
            )
        }
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock it"),
    }
}

/// Copies a file, or a folder with all files in it. Links and devices, of which a data directory has none, are refused.
fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut waiting: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        let kind = fs::symlink_metadata(&from)?.file_type();
        if let Some(parent) = to.parent() {
            files::create_private_directories(parent)?;
        }
        if kind.is_dir() {
            files::create_private_directories(&to)?;
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                waiting.push((entry.path(), to.join(entry.file_name())));
            }
        } else if kind.is_file() {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        } else {
            bail!("{} is neither a file nor a folder", from.display());
        }
    }
    Ok(())
}

fn restore(snapshot: &Path, target: &Path) -> anyhow::Result<Engine> {
    let request = Restore {
        snapshot: snapshot.to_owned(),
        dir: target.to_owned(),
        engine: EngineKind::Segments,
        unchecked: false,
        bump: 0,
    };
    maintenance::restore(&request, &Nondet::real().rng, &mut |_, _| {})?;
    Ok(Engine::Segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_store::{Config, Store};

    async fn store(dir: &Path) -> Store {
        Store::open(Config::durable(dir), Nondet::real()).await.unwrap()
    }

    #[tokio::test]
    async fn a_copy_has_the_data_of_a_directory_or_a_snapshot_and_leaves_them_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (data, snapshot) = (dir.path().join("data"), dir.path().join("snapshot.db"));
        let original = store(&data).await;
        original.put("key", "value").await.unwrap();
        original.close().await;
        maintenance::save(&data, &snapshot, &mut |_, _| {}).unwrap();
        fs::write(data.join("admin.kubeconfig"), "").unwrap();
        for source in [&data, &snapshot] {
            let copy = SourceCopy::of(source).unwrap();
            let Storage::Disk { dir: copied, .. } = copy.storage() else { panic!("a copy is on disk") };
            assert!(!copied.join("admin.kubeconfig").exists() && !copied.join("RESERVE").exists());
            let forked = store(&copied).await;
            let found = forked.range(&kstore_store::Range::key("key")).unwrap();
            assert_eq!(found.kvs[0].value_bytes(), "value");
            forked.put("key", "changed").await.unwrap();
            forked.close().await;
            let folder = copy.folder().to_owned();
            drop(copy);
            assert!(!folder.exists());
        }
        let original = store(&data).await;
        let found = original.range(&kstore_store::Range::key("key")).unwrap();
        assert_eq!(found.kvs[0].value_bytes(), "value");
        original.close().await;
    }

    #[test]
    fn folders_of_others_used_directories_and_missing_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| format!("{:#}", SourceCopy::of(path).err().unwrap());
        assert!(refusal(&dir.path().join("none")).contains("No such file"));
        assert!(refusal(dir.path()).ends_with("it is no data directory of kstore"));
        fs::write(dir.path().join("MANIFEST"), "").unwrap();
        let used = data_dir::DataDir::open(dir.path()).unwrap();
        assert!(refusal(dir.path()).contains("a server uses it"));
        drop(used);
        let text = dir.path().join("text.db");
        fs::write(&text, "no snapshot").unwrap();
        assert!(refusal(&text).starts_with("cannot restore "), "{}", refusal(&text));
    }
}
