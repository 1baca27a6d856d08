//! What the containers of a client see of this machine: copies of its files and folders in memory. Containers of a sandbox that mount the
//! same path share its copy. Read-only ones follow the machine: they are compared before each command. Files that a container has written
//! are written to the machine when it ends, such as that of its termination message; folders are not.

use crate::limits::{MOUNT_BYTES, MOUNT_DEPTH, MOUNT_ENTRIES};
use kstore_container_sim::{Content, Disk, DiskCapacity, DiskEntry};
use kstore_proto::cri::v1::Mount;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The path of a file on a disk that is mounted as this file alone, and of the root of other disks.
const ROOT: &str = "";

/// The copies of one sandbox, by path on the machine.
#[derive(Default)]
pub(crate) struct HostMounts(Mutex<BTreeMap<String, Copy>>);

/// The entries of a file or folder, by path below it.
type Entries = BTreeMap<String, DiskEntry>;

struct Copy {
    disk: Disk,
    /// What was read of the machine, or was written to it.
    known: Entries,
    /// Whether a container may write it: it then does not follow the machine.
    is_written: bool,
}

impl HostMounts {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Copy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk of a mount, which shows what the machine has now, unless a container may write it and has mounted it before.
    ///
    /// # Errors
    /// The path cannot be read, has too much, or there is no space.
    pub(super) async fn disk(self: &Arc<Self>, mount: &Mount, capacity: &DiskCapacity) -> Result<Disk> {
        let (all, mount, capacity) = (Arc::clone(self), mount.clone(), capacity.clone());
        let done = tokio::task::spawn_blocking(move || all.read(&mount, &capacity)).await;
        done.map_err(|error| Error::other(error.to_string()))?
    }

    fn read(&self, mount: &Mount, capacity: &DiskCapacity) -> Result<Disk> {
        {
            let mut all = self.all();
            if let Some(copy) = all.get_mut(&mount.host_path)
                && (copy.is_written || !mount.readonly)
            {
                copy.is_written |= !mount.readonly;
                return Ok(copy.disk.clone());
            }
        }
        // Without the lock: a slow file system holds up no other container.
        let now = entries(Path::new(&mount.host_path))?;
        let mut all = self.all();
        let copy = all.entry(mount.host_path.clone()).or_insert_with(|| Copy {
            disk: Disk::new(capacity.clone()),
            known: Entries::new(),
            is_written: !mount.readonly,
        });
        copy.follow(now)?;
        Ok(copy.disk.clone())
    }

    /// Writes the files of these mounts to the machine that containers have changed.
    pub(super) async fn write_back(self: &Arc<Self>, mounts: Vec<Mount>) {
        let all = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            mounts.iter().filter(|mount| !mount.readonly).for_each(|mount| all.write(mount));
        });
        if let Err(error) = done.await {
            tracing::error!(%error, "files of a container could not be written to the machine");
        }
    }

    fn write(&self, mount: &Mount) {
        let changed = {
            let mut all = self.all();
            let Some(copy) = all.get_mut(&mount.host_path) else { return };
            let Some(now) = copy.disk.get(ROOT) else { return };
            let known = copy.known.get(ROOT).map(|entry| &entry.content);
            let Content::File(bytes) = &now.content else { return };
            if known == Some(&now.content) {
                return;
            }
            let bytes = Arc::clone(bytes);
            copy.known.insert(ROOT.to_owned(), now);
            bytes
        };
        if let Err(error) = std::fs::write(&mount.host_path, &changed) {
            let path = &mount.host_path;
            tracing::warn!(%error, path, "a file that a container has written cannot be written to the machine");
        }
    }
}

impl Copy {
    /// Brings the disk to these entries.
    fn follow(&mut self, now: Entries) -> Result<()> {
        for (path, entry) in &now {
            if self.known.get(path) != Some(entry) {
                let full = |_| {
                    Error::new(
                        ErrorKind::StorageFull,
                        "no space left for the files of the namespace's containers",
                    )
                };
                self.disk.put(path, entry.clone()).map_err(full)?;
            }
        }
        for path in self.known.keys().filter(|path| !now.contains_key(*path)) {
            self.disk.remove(path);
        }
        self.known = now;
        Ok(())
    }
}

/// What a path of the machine has. Links are not followed: they lead to paths of the container. Devices and sockets are left out.
fn entries(path: &Path) -> Result<Entries> {
    let mut reading = Reading { entries: Entries::new(), bytes: 0 };
    // The path itself may be a link, as for any mount.
    let found = std::fs::metadata(path)
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    reading.add(path, ROOT, &found, 0)?;
    Ok(reading.entries)
}

struct Reading {
    entries: Entries,
    bytes: usize,
}

impl Reading {
    fn add(&mut self, path: &Path, name: &str, found: &Metadata, depth: usize) -> Result<()> {
        if depth > MOUNT_DEPTH || self.entries.len() >= MOUNT_ENTRIES {
            return Err(self.too_large(path));
        }
        let kind = found.file_type();
        let content = if kind.is_dir() {
            Content::Folder
        } else if kind.is_symlink() {
            Content::Link(std::fs::read_link(path)?.to_string_lossy().into_owned())
        } else if kind.is_file() {
            let size = usize::try_from(found.len()).unwrap_or(usize::MAX);
            self.bytes = self.bytes.saturating_add(size);
            if self.bytes > MOUNT_BYTES {
                return Err(self.too_large(path));
            }
            Content::File(read_at_most(path, size)?.into())
        } else {
            return Ok(());
        };
        let (is_folder, modified) = (content == Content::Folder, found.mtime());
        let mode = found.mode() & 0o7777;
        let entry = DiskEntry { content, mode, modified, user: found.uid(), group: found.gid() };
        self.entries.insert(name.to_owned(), entry);
        if is_folder {
            for inner in std::fs::read_dir(path)? {
                let inner = inner?;
                let name = format!("{name}/{}", inner.file_name().to_string_lossy());
                match inner.metadata() {
                    Ok(found) => self.add(&inner.path(), &name, &found, depth + 1)?,
                    // It was removed meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn too_large(&self, path: &Path) -> Error {
        let text = format!(
            "{}: a mount of a simulated container has at most {MOUNT_ENTRIES} files, {MOUNT_BYTES} bytes and {MOUNT_DEPTH} levels",
            path.display()
        );
        Error::new(ErrorKind::FileTooLarge, text)
    }
}

/// The beginning of a file, which may grow meanwhile.
fn read_at_most(path: &Path, size: usize) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::with_capacity(size);
    std::fs::File::open(path)?.take(size as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("kstore-mounts-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn mount(path: &Path, readonly: bool) -> Mount {
        Mount { host_path: path.display().to_string(), readonly, ..Mount::default() }
    }

    fn text(disk: &Disk, path: &str) -> Option<String> {
        match disk.get(path)?.content {
            Content::File(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_read_only_folder_follows_the_machine_and_a_written_one_does_not() {
        let folder = folder("follow");
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::write(folder.join("inner/a"), "1").unwrap();
        std::os::unix::fs::symlink("inner/a", folder.join("link")).unwrap();
        let (mounts, capacity) = (Arc::<HostMounts>::default(), DiskCapacity::default().namespace());
        let disk = mounts.disk(&mount(&folder, true), &capacity).await.unwrap();
        assert_eq!(text(&disk, "/inner/a").as_deref(), Some("1"));
        assert_eq!(disk.get("/link").unwrap().content, Content::Link("inner/a".to_owned()));
        std::fs::write(folder.join("b"), "2").unwrap();
        std::fs::remove_file(folder.join("inner/a")).unwrap();
        mounts.disk(&mount(&folder, true), &capacity).await.unwrap();
        assert_eq!((text(&disk, "/b").as_deref(), text(&disk, "/inner/a")), (Some("2"), None));
        mounts.disk(&mount(&folder, false), &capacity).await.unwrap();
        std::fs::write(folder.join("b"), "3").unwrap();
        mounts.disk(&mount(&folder, true), &capacity).await.unwrap();
        assert_eq!(text(&disk, "/b").as_deref(), Some("2"), "a container may have written it");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_file_that_a_container_changed_is_written_to_the_machine_and_a_missing_path_refused() {
        let folder = folder("write");
        let (changed, same) = (folder.join("log"), folder.join("same"));
        std::fs::write(&changed, "").unwrap();
        std::fs::write(&same, "x").unwrap();
        let (mounts, capacity) = (Arc::<HostMounts>::default(), DiskCapacity::default().namespace());
        let disk = mounts.disk(&mount(&changed, false), &capacity).await.unwrap();
        mounts.disk(&mount(&same, false), &capacity).await.unwrap();
        disk.put("", DiskEntry::file(b"last words", 0)).unwrap();
        std::fs::write(&same, "of the machine").unwrap();
        mounts.write_back(vec![mount(&changed, false), mount(&same, false)]).await;
        assert_eq!(std::fs::read_to_string(&changed).unwrap(), "last words");
        assert_eq!(
            std::fs::read_to_string(&same).unwrap(),
            "of the machine",
            "the container did not write it"
        );
        let missing = mounts.disk(&mount(&folder.join("none"), true), &capacity).await;
        assert_eq!(missing.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_mount_with_too_much_is_refused() {
        let folder = folder("large");
        let file = std::fs::File::create(folder.join("large")).unwrap();
        file.set_len(MOUNT_BYTES as u64 + 1).unwrap();
        let (mounts, capacity) = (Arc::<HostMounts>::default(), DiskCapacity::default().namespace());
        let refused = mounts.disk(&mount(&folder, true), &capacity).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge, "{refused}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
