//! Files that programs of a simulated container write: a tree in memory, bounded in bytes, which ends with the last handle
//! of its [`Disk`]. It knows paths and bytes; `files` resolves links and mounts.

use crate::limits::{DISK_BYTES, DISK_ENTRY, DISKS_BYTES, NAMESPACE_DISKS_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kind of a [`DiskEntry`], with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A folder.
    Folder,
    /// A file.
    File(Arc<[u8]>),
    /// A symbolic link to this path.
    Link(String),
}

/// A file, folder or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// The kind, with the content.
    pub content: Content,
    /// The permission bits.
    pub mode: u32,
    /// Time of the last change in seconds since 1970.
    pub modified: i64,
    /// The number of the user whose entry it is.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
}

impl DiskEntry {
    /// A file of root with mode 0644.
    pub fn file(bytes: &[u8], modified: i64) -> Self {
        Self::new(Content::File(bytes.into()), 0o644, modified)
    }

    /// A folder of root with mode 0755.
    pub fn folder(modified: i64) -> Self {
        Self::new(Content::Folder, 0o755, modified)
    }

    /// An entry of root.
    pub fn new(content: Content, mode: u32, modified: i64) -> Self {
        Self { content, mode, modified, user: 0, group: 0 }
    }

    fn cost(&self) -> usize {
        DISK_ENTRY
            + match &self.content {
                Content::Folder => 0,
                Content::File(bytes) => bytes.len(),
                Content::Link(to) => to.len(),
            }
    }
}

/// A disk, or all disks of its capacity together, would exceed the limit of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("No space left on device")]
pub struct DiskFull;

/// The bytes that the disks of one simulation, or of one namespace, hold together. Bytes of a namespace count against the
/// simulation as well. Clones share the counts.
#[derive(Clone, Debug)]
pub struct DiskCapacity(Vec<(Arc<AtomicUsize>, usize)>);

impl Default for DiskCapacity {
    fn default() -> Self {
        Self(vec![(Arc::default(), DISKS_BYTES)])
    }
}

impl DiskCapacity {
    /// The part of a new namespace.
    #[must_use]
    pub fn namespace(&self) -> Self {
        Self(self.0.iter().cloned().chain([(Arc::default(), NAMESPACE_DISKS_BYTES)]).collect())
    }

    /// Bytes that are held now.
    pub fn reserved(&self) -> usize {
        self.0.last().map_or(0, |(reserved, _)| reserved.load(Ordering::Acquire))
    }

    fn take(&self, bytes: usize) -> Result<(), DiskFull> {
        let take = |(reserved, most): &&(Arc<AtomicUsize>, usize)| {
            let fits = |reserved: usize| reserved.checked_add(bytes).filter(|reserved| reserved <= most);
            reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
        };
        let taken = self.0.iter().take_while(take).count();
        if taken == self.0.len() {
            return Ok(());
        }
        give(&self.0[..taken], bytes);
        Err(DiskFull)
    }

    fn give(&self, bytes: usize) {
        give(&self.0, bytes);
    }
}

fn give(counts: &[(Arc<AtomicUsize>, usize)], bytes: usize) {
    for (reserved, _) in counts {
        reserved.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Files by absolute path, at most 64 MiB. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Tree>>);

#[derive(Debug, Default)]
struct Tree {
    entries: BTreeMap<String, DiskEntry>,
    bytes: usize,
    capacity: DiskCapacity,
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.capacity.give(self.bytes);
    }
}

impl Disk {
    /// An empty disk whose bytes count against `capacity`.
    pub fn new(capacity: DiskCapacity) -> Self {
        Self(Arc::new(Mutex::new(Tree { entries: BTreeMap::new(), bytes: 0, capacity })))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry at `path`, if there is one. Links are not followed.
    pub fn get(&self, path: &str) -> Option<DiskEntry> {
        self.tree().entries.get(path).cloned()
    }

    /// Puts an entry at `path` and replaces the one there.
    ///
    /// # Errors
    /// When a limit of bytes would be exceeded. Nothing has changed then.
    pub fn put(&self, path: &str, entry: DiskEntry) -> Result<(), DiskFull> {
        let mut tree = self.tree();
        let cost = entry.cost() + path.len();
        let before = tree.entries.get(path).map_or(0, |entry| entry.cost() + path.len());
        if tree.bytes - before + cost > DISK_BYTES {
            return Err(DiskFull);
        }
        if cost > before {
            tree.capacity.take(cost - before)?;
        } else {
            tree.capacity.give(before - cost);
        }
        tree.bytes = tree.bytes - before + cost;
        tree.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    /// Removes the entry at `path`, but not the entries below it. Returns false if there was none.
    pub fn remove(&self, path: &str) -> bool {
        let mut tree = self.tree();
        let Some(entry) = tree.entries.remove(path) else { return false };
        let cost = entry.cost() + path.len();
        tree.bytes -= cost;
        tree.capacity.give(cost);
        true
    }

    /// The names in the folder `path`, and the number of entries below it.
    pub(super) fn children(&self, path: &str) -> (BTreeSet<String>, usize) {
        let inside = format!("{}/", path.trim_end_matches('/'));
        let tree = self.tree();
        let below = tree.entries.range(inside.clone()..).map_while(|(path, _)| path.strip_prefix(&inside));
        let (mut names, mut passed) = (BTreeSet::new(), 0);
        for rest in below {
            passed += 1;
            let name = rest.split('/').next().unwrap_or_default();
            if !name.is_empty() && !names.contains(name) {
                names.insert(name.to_owned());
            }
        }
        (names, passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_bounded_and_returns_its_bytes_to_the_capacity() {
        let capacity = DiskCapacity::default();
        let disk = Disk::new(capacity.clone());
        let file = |length: usize| DiskEntry::file(&vec![0; length], 0);
        assert_eq!(disk.put("/a", file(DISK_BYTES / 2)), Ok(()));
        assert_eq!(disk.put("/a", file(DISK_BYTES / 2)), Ok(()), "replacing an entry frees its bytes first");
        assert_eq!(disk.put("/b", file(DISK_BYTES / 2)), Err(DiskFull));
        assert_eq!(disk.put("/b", file(1)), Ok(()));
        assert!(disk.remove("/a") && !disk.remove("/a"));
        assert_eq!(disk.put("/c", file(DISK_BYTES / 2)), Ok(()));
        drop(disk);
        assert_eq!(capacity.reserved(), 0);
        let (namespace, other) = (capacity.namespace(), capacity.namespace());
        assert_eq!(namespace.take(NAMESPACE_DISKS_BYTES), Ok(()));
        assert_eq!(namespace.take(1), Err(DiskFull));
        assert_eq!(capacity.reserved(), NAMESPACE_DISKS_BYTES, "a refusal takes nothing");
        assert_eq!(other.take(1), Ok(()), "the disks of another namespace have space");
        other.give(1);
        namespace.give(NAMESPACE_DISKS_BYTES);
        assert_eq!(capacity.take(DISKS_BYTES), Ok(()));
        assert_eq!(Disk::new(capacity).put("/a", file(1)), Err(DiskFull));
    }
}
