//! What is written inside a simulated container: files in memory that live as long as whoever holds their [`Disk`]. It knows
//! paths and bytes, neither mounts nor what a program means by a path.

use crate::limits::{DISK_BYTES, DISK_ENTRY, DISKS_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is under a path.
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
pub struct Entry {
    /// What it is.
    pub content: Content,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub modified: i64,
}

impl Entry {
    /// A file that anybody may read.
    pub fn file(bytes: &[u8], modified: i64) -> Self {
        Self { content: Content::File(bytes.into()), mode: 0o644, modified }
    }

    /// A folder that anybody may read.
    pub fn folder(modified: i64) -> Self {
        Self { content: Content::Folder, mode: 0o755, modified }
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

/// The disk, or all disks together, would hold more than they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("No space left on device")]
pub struct Full;

/// How much all disks together hold.
#[derive(Clone, Debug, Default)]
pub struct Room(Arc<AtomicUsize>);

impl Room {
    fn take(&self, bytes: usize) -> Result<(), Full> {
        let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= DISKS_BYTES);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).map(drop).map_err(|_| Full)
    }

    fn give(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Files by absolute path. Cheap to clone; all clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Tree>>);

#[derive(Debug, Default)]
struct Tree {
    entries: BTreeMap<String, Entry>,
    bytes: usize,
    room: Room,
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.room.give(self.bytes);
    }
}

impl Disk {
    /// An empty disk that takes its room from `room`.
    pub fn new(room: Room) -> Self {
        Self(Arc::new(Mutex::new(Tree { entries: BTreeMap::new(), bytes: 0, room })))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is under `path`.
    pub fn get(&self, path: &str) -> Option<Entry> {
        self.tree().entries.get(path).cloned()
    }

    /// Puts an entry under `path`, in place of what is there.
    ///
    /// # Errors
    /// When it is too large; nothing has changed then.
    pub fn put(&self, path: &str, entry: Entry) -> Result<(), Full> {
        let mut tree = self.tree();
        let cost = entry.cost() + path.len();
        let before = tree.entries.get(path).map_or(0, |entry| entry.cost() + path.len());
        if tree.bytes - before + cost > DISK_BYTES {
            return Err(Full);
        }
        if cost > before {
            tree.room.take(cost - before)?;
        } else {
            tree.room.give(before - cost);
        }
        tree.bytes = tree.bytes - before + cost;
        tree.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    /// Removes what is under `path`, and no more than that. False if there was nothing.
    pub fn remove(&self, path: &str) -> bool {
        let mut tree = self.tree();
        let Some(entry) = tree.entries.remove(path) else { return false };
        let cost = entry.cost() + path.len();
        tree.bytes -= cost;
        tree.room.give(cost);
        true
    }

    /// The names in the folder `path`.
    pub fn children(&self, path: &str) -> BTreeSet<String> {
        let inside = format!("{}/", path.trim_end_matches('/'));
        let tree = self.tree();
        let below = tree.entries.range(inside.clone()..).map_while(|(path, _)| path.strip_prefix(&inside));
        below
            .filter(|rest| !rest.is_empty())
            .filter_map(|rest| rest.split('/').next())
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_holds_no_more_than_it_may_and_gives_back_what_it_held() {
        let room = Room::default();
        let disk = Disk::new(room.clone());
        let file = |length: usize| Entry::file(&vec![0; length], 0);
        assert_eq!(disk.put("/a", file(DISK_BYTES / 2)), Ok(()));
        assert_eq!(disk.put("/a", file(DISK_BYTES / 2)), Ok(()), "in its own place there is room");
        assert_eq!(disk.put("/b", file(DISK_BYTES / 2)), Err(Full));
        assert_eq!(disk.put("/b", file(1)), Ok(()));
        assert!(disk.remove("/a") && !disk.remove("/a"));
        assert_eq!(disk.put("/c", file(DISK_BYTES / 2)), Ok(()));
        drop(disk);
        assert_eq!(room.0.load(Ordering::Acquire), 0);
        assert_eq!(room.take(DISKS_BYTES), Ok(()));
        assert_eq!(Disk::new(room).put("/a", file(1)), Err(Full));
    }
}
