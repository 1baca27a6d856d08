//! Files that programs of a simulated container write: a tree in memory, bounded in bytes, which ends with the last handle
//! of its [`Disk`]. It knows paths and bytes; `files` resolves links and mounts.

use crate::limits::{DISK_BYTES, DISK_ENTRY, DISKS_BYTES, NAMESPACE_DISKS_BYTES};
use std::borrow::Cow;
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
pub struct Disk {
    tree: Arc<Mutex<Tree>>,
    /// The folder that is the root; empty for the whole disk.
    root: String,
}

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

impl Tree {
    fn put(&mut self, path: &str, entry: DiskEntry) -> Result<(), DiskFull> {
        let cost = entry.cost() + path.len();
        let before = self.entries.get(path).map_or(0, |entry| entry.cost() + path.len());
        if self.bytes - before + cost > DISK_BYTES {
            return Err(DiskFull);
        }
        if cost > before {
            self.capacity.take(cost - before)?;
        } else {
            self.capacity.give(before - cost);
        }
        self.bytes = self.bytes - before + cost;
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> bool {
        let Some(entry) = self.entries.remove(path) else { return false };
        let cost = entry.cost() + path.len();
        self.bytes -= cost;
        self.capacity.give(cost);
        true
    }

    /// Removes an entry and all below it.
    fn remove_below(&mut self, path: &str) {
        let inside = format!("{path}/");
        let all = self.entries.range(path.to_owned()..).map(|(own, _)| own);
        let all = all.take_while(|own| own.starts_with(path));
        let all: Vec<String> = all.filter(|own| *own == path || own.starts_with(&inside)).cloned().collect();
        for path in all {
            self.remove(&path);
        }
    }
}

/// The link to the folder of the current files, as Kubernetes' writer of volumes has it.
const CURRENT: &str = "..data";

impl Disk {
    /// An empty disk whose bytes count against `capacity`.
    pub fn new(capacity: DiskCapacity) -> Self {
        let tree = Tree { entries: BTreeMap::new(), bytes: 0, capacity };
        Self { tree: Arc::new(Mutex::new(tree)), root: String::new() }
    }

    /// The part of the disk below a folder or file, whose path there is empty. Bytes count against the whole disk.
    #[must_use]
    pub fn part(&self, path: &str) -> Self {
        Self { tree: Arc::clone(&self.tree), root: format!("{}{}", self.root, path.trim_end_matches('/')) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match self.root.as_str() {
            "" => Cow::Borrowed(path),
            root => Cow::Owned(format!("{root}{path}")),
        }
    }

    /// Bytes of its entries.
    pub(crate) fn used(&self) -> usize {
        self.tree().bytes
    }

    /// The entry at `path`, if there is one. Links are not followed.
    pub fn get(&self, path: &str) -> Option<DiskEntry> {
        self.tree().entries.get(&*self.path(path)).cloned()
    }

    /// Puts an entry at `path` and replaces the one there.
    ///
    /// # Errors
    /// When a limit of bytes would be exceeded. Nothing has changed then.
    pub fn put(&self, path: &str, entry: DiskEntry) -> Result<(), DiskFull> {
        self.tree().put(&self.path(path), entry)
    }

    /// Removes the entry at `path`, but not the entries below it. Returns false if there was none.
    pub fn remove(&self, path: &str) -> bool {
        self.tree().remove(&self.path(path))
    }

    /// The names in the folder `path`, and the number of entries below it.
    pub(super) fn children(&self, path: &str) -> (BTreeSet<String>, usize) {
        let inside = format!("{}/", self.path(path).trim_end_matches('/'));
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

    /// The files that [`Disk::publish`] has put here last, by path.
    pub fn published(&self) -> BTreeMap<String, DiskEntry> {
        self.tree().published()
    }

    /// Replaces all files of a volume at once, as Kubernetes' atomic writer does: they are in the folder `..NAME`, to which the link
    /// `..data` leads, and each first part of a path is a link into it. Readers see the old files or the new ones. Returns false if
    /// these files are there already, whatever their times are.
    ///
    /// # Errors
    /// When a limit of bytes would be exceeded. The old files are still there then.
    pub fn publish(
        &self,
        files: &BTreeMap<String, DiskEntry>,
        root: &DiskEntry,
        name: &str,
    ) -> Result<bool, DiskFull> {
        let mut tree = self.tree();
        let is_same = |(one, other): (&DiskEntry, &DiskEntry)| {
            *one == DiskEntry { modified: one.modified, ..other.clone() }
        };
        let (before, old) = (tree.published(), tree.current());
        if old.is_some() && before.keys().eq(files.keys()) && before.values().zip(files.values()).all(is_same)
        {
            return Ok(false);
        }
        tree.put("", root.clone())?;
        let folder = format!("/..{name}");
        if let Err(full) = tree.fill(&folder, files, root) {
            tree.remove_below(&folder);
            return Err(full);
        }
        let link = |to: String| DiskEntry { content: Content::Link(to), mode: 0o777, ..root.clone() };
        tree.put(&format!("/{CURRENT}"), link(format!("..{name}")))?;
        let names = |files: &BTreeMap<String, DiskEntry>| -> BTreeSet<String> {
            files.keys().filter_map(|path| path.split('/').next()).map(str::to_owned).collect()
        };
        let wanted = names(files);
        for name in &wanted {
            tree.put(&format!("/{name}"), link(format!("{CURRENT}/{name}")))?;
        }
        for name in names(&before).difference(&wanted) {
            tree.remove(&format!("/{name}"));
        }
        if let Some(old) = old.filter(|old| *old != folder) {
            tree.remove_below(&old);
        }
        Ok(true)
    }
}

impl Tree {
    /// The folder of the current files.
    fn current(&self) -> Option<String> {
        match self.entries.get(&format!("/{CURRENT}")).map(|entry| &entry.content) {
            Some(Content::Link(to)) => Some(format!("/{to}")),
            _ => None,
        }
    }

    fn published(&self) -> BTreeMap<String, DiskEntry> {
        let Some(folder) = self.current() else { return BTreeMap::new() };
        let inside = format!("{folder}/");
        let below = self.entries.range(inside.clone()..);
        let below = below.map_while(|(path, entry)| Some((path.strip_prefix(&inside)?.to_owned(), entry)));
        below
            .filter(|(_, entry)| entry.content != Content::Folder)
            .map(|(path, entry)| (path, entry.clone()))
            .collect()
    }

    /// Puts files, and the folders above them, into a new folder.
    fn fill(
        &mut self,
        folder: &str,
        files: &BTreeMap<String, DiskEntry>,
        root: &DiskEntry,
    ) -> Result<(), DiskFull> {
        let new = DiskEntry { content: Content::Folder, mode: root.mode & 0o2770 | 0o755, ..root.clone() };
        self.put(folder, new.clone())?;
        for (path, entry) in files {
            let mut above = folder.to_owned();
            for part in path.split('/').take(path.matches('/').count()) {
                above = format!("{above}/{part}");
                self.put(&above, new.clone())?;
            }
            self.put(&format!("{folder}/{path}"), DiskEntry { modified: root.modified, ..entry.clone() })?;
        }
        Ok(())
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

    #[test]
    fn published_files_are_replaced_at_once_and_leave_nothing_behind() {
        let capacity = DiskCapacity::default();
        let disk = Disk::new(capacity.clone());
        let files = |all: &[(&str, &str)]| -> BTreeMap<String, DiskEntry> {
            all.iter().map(|(path, text)| ((*path).to_owned(), DiskEntry::file(text.as_bytes(), 0))).collect()
        };
        let (one, two) = (files(&[("a", "1"), ("sub/b", "2")]), files(&[("c", "3"), ("sub/b", "2")]));
        let root = DiskEntry { mode: 0o2777, group: 7, ..DiskEntry::folder(5) };
        assert_eq!(disk.publish(&one, &root, "one"), Ok(true));
        assert_eq!(disk.publish(&one, &root, "again"), Ok(false), "nothing has changed");
        let link = |path: &str| match disk.get(path).map(|entry| entry.content) {
            Some(Content::Link(to)) => to,
            _ => String::new(),
        };
        assert_eq!(
            (link("/..data"), link("/a"), link("/sub")),
            ("..one".into(), "..data/a".into(), "..data/sub".into())
        );
        assert_eq!(disk.get("/..one/sub/b").unwrap().modified, 5);
        assert_eq!(disk.get("/..one/sub").unwrap().mode, 0o2775);
        assert_eq!(disk.publish(&two, &root, "two"), Ok(true));
        assert_eq!((link("/..data"), link("/c"), disk.get("/a")), ("..two".into(), "..data/c".into(), None));
        assert_eq!(disk.children("").0, ["..data", "..two", "c", "sub"].map(str::to_owned).into());
        let large = [("x".to_owned(), DiskEntry::file(&vec![0; DISK_BYTES], 0))].into();
        assert_eq!(disk.publish(&large, &root, "three"), Err(DiskFull));
        assert_eq!(
            disk.published().keys().collect::<Vec<_>>(),
            ["c", "sub/b"],
            "the old files are still there"
        );
        let part = disk.part("/..two/sub");
        assert!(part.get("/b").is_some() && part.put("/new", DiskEntry::file(b"", 0)).is_ok());
        assert!(disk.get("/..two/sub/new").is_some());
        assert_eq!(part.children("").0, ["b", "new"].map(str::to_owned).into());
        drop((disk, part));
        assert_eq!(capacity.reserved(), 0);
    }
}
