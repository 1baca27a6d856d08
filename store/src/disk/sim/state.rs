//! State of a simulated disk: for every file the durable content, the pending writes and the cache; the same for the
//! names in every directory.

use super::SECTOR;
use super::crash::tear;
use super::fault::{CacheAfterFailure, Fault, Outcome};
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fmt, io};

#[derive(Debug, Default)]
pub(super) struct DiskState {
    pub(super) inodes: Vec<Inode>,
    pub(super) dirs: BTreeMap<PathBuf, Dir>,
    pub(super) log: Vec<Operation>,
    pub(super) reads: u64,
    pub(super) plan: Vec<Fault>,
    pub(super) capacity: Option<u64>,
    /// The file whose reads fail.
    pub(super) unreadable: Option<PathBuf>,
}

#[derive(Debug, Default)]
pub(super) struct Inode {
    /// The path at which it was created.
    pub(super) name: PathBuf,
    /// The durable content before the last sync, for stale reads; empty if unknown.
    pub(super) before: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<Write>,
    pub(super) cache: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

pub(super) type Names = BTreeMap<String, usize>;

#[derive(Debug, Default)]
pub(super) struct Dir {
    /// Whether the parent directory was synced since this one was created, so that it survives a crash.
    pub(super) is_durable: bool,
    pub(super) durable: Names,
    pub(super) pending: Vec<Change>,
    pub(super) cache: Names,
}

/// A change of the names in a directory.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

/// The kind of a changing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OperationKind {
    CreateDir,
    Create,
    Write,
    Sync,
    Rename,
    Remove,
    SyncDir,
}

/// An entry in the disk's log of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) verb: OperationKind,
    /// The file or directory: of a rename, the new name; of a write or sync, the name at creation.
    pub(crate) path: PathBuf,
    /// Offset of a write.
    pub(crate) offset: usize,
    /// Length of a write.
    pub(crate) len: usize,
}

impl Operation {
    pub(super) fn on(verb: OperationKind, path: &Path) -> Self {
        Self { verb, path: path.to_owned(), offset: 0, len: 0 }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.verb, self.path.display())?;
        if self.len > 0 { write!(f, " {}+{}", self.offset, self.len) } else { Ok(()) }
    }
}

pub(super) fn apply(image: &mut Vec<u8>, write: &Write) {
    let end = write.offset + write.bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[write.offset..end].copy_from_slice(&write.bytes);
}

impl Change {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Link(name, inode) => drop(names.insert(name.clone(), *inode)),
            Self::Unlink(name) => drop(names.remove(name)),
            Self::Rename(old, new, inode) => {
                if names.get(old) == Some(inode) {
                    names.remove(old);
                }
                names.insert(new.clone(), *inode);
            }
        }
    }
}

impl Inode {
    /// The content that a stale read returns: the durable state before the last one.
    pub(super) fn before(&self) -> &[u8] {
        if self.pending.is_empty() { &self.before } else { &self.durable }
    }

    fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.before.clone_from(&self.durable);
        }
        pending.iter().for_each(|write| apply(&mut self.durable, write));
    }

    /// Persists a part of the pending writes, and drops the rest as if it were written.
    fn forget(&mut self, shown: CacheAfterFailure, rng: &Rng) {
        let len = self.durable.len();
        for write in std::mem::take(&mut self.pending) {
            tear(&mut self.durable, &write, len, rng);
        }
        match shown {
            CacheAfterFailure::Old => self.cache.clone_from(&self.durable),
            CacheAfterFailure::New => {}
        }
    }
}

impl DiskState {
    /// Counts an operation and determines its outcome.
    fn fate(&mut self, operation: Operation) -> Outcome {
        let fate = Outcome::of(&self.plan, self.log.len() as u64, operation.verb == OperationKind::Sync);
        self.log.push(operation);
        fate
    }

    /// Counts an operation that succeeds or fails as a whole.
    pub(super) fn step(&mut self, operation: Operation) -> io::Result<()> {
        self.fate(operation).whole()
    }

    pub(super) fn write(&mut self, inode: usize, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let path = self.inodes[inode].name.clone();
        let fate = self.fate(Operation { verb: OperationKind::Write, path, offset, len: bytes.len() });
        let fate = if fate == Outcome::Done && !self.has_room(inode, offset + bytes.len()) {
            Outcome::NoSpace
        } else {
            fate
        };
        let file = &mut self.inodes[inode];
        let (mut write, mut outcome) = (Write { offset, bytes: bytes.to_vec() }, Ok(()));
        match fate {
            Outcome::Done => {}
            Outcome::Short => {
                write.bytes.truncate(bytes.len() / 2);
                outcome = fate.whole();
            }
            Outcome::Lost => {
                apply(&mut file.cache, &write);
                return Ok(());
            }
            Outcome::Misdirected => write.offset += SECTOR,
            Outcome::Stopped | Outcome::Failed | Outcome::NoSpace | Outcome::Forgotten(_) => {
                return fate.whole();
            }
        }
        apply(&mut file.cache, &write);
        file.pending.push(write);
        outcome
    }

    pub(super) fn sync(&mut self, inode: usize) -> io::Result<()> {
        let path = self.inodes[inode].name.clone();
        let fate = self.fate(Operation::on(OperationKind::Sync, &path));
        let rng = Rng::seeded(self.log.len() as u64);
        let file = &mut self.inodes[inode];
        match fate {
            Outcome::Done | Outcome::Lost | Outcome::Misdirected => file.sync(),
            // The crash decides what of it survives.
            Outcome::Stopped => {}
            Outcome::Forgotten(shown) => file.forget(shown, &rng),
            Outcome::Failed | Outcome::NoSpace | Outcome::Short => file.pending.clear(),
        }
        fate.whole()
    }

    /// Makes the names in a directory durable, those of files and of subdirectories.
    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if let Some(dir) = self.dirs.get_mut(dir) {
            dir.pending.clear();
            dir.durable = dir.cache.clone();
        } else if !is_root(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let below = self.dirs.iter_mut().filter(|(path, _)| path.parent() == Some(dir));
        below.for_each(|(_, below)| below.is_durable = true);
        Ok(())
    }

    pub(super) fn read(&mut self, inode: usize, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let now = self.reads;
        self.reads += 1;
        let is = |fault: Fault| self.plan.contains(&fault);
        if is(Fault::ReadErrorAt(now)) {
            return Err(io::Error::other("the disk cannot be read"));
        }
        let file = &self.inodes[inode];
        if self.unreadable.as_ref() == Some(&file.name) {
            return Err(io::Error::other("the disk cannot read this file"));
        }
        let rest = file.cache.get(offset..).unwrap_or(&[]);
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        if is(Fault::StaleAt(now)) {
            let old = file.before().get(offset..).unwrap_or(&[]);
            let known = old.len().min(read);
            buffer[..known].copy_from_slice(&old[..known]);
            buffer[known..read].fill(0);
        }
        if is(Fault::FlippedAt(now)) && read > 0 {
            let rng = Rng::seeded(now);
            buffer[rng.below(read as u64) as usize] ^= 1 << rng.below(8);
        }
        Ok(read)
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, dir) in &self.dirs {
            (path, dir.is_durable).hash(&mut hasher);
            for (name, inode) in &dir.cache {
                let inode = &self.inodes[*inode];
                let images =
                    [&inode.cache, &inode.durable].map(|image| (image.len(), crc32fast::hash(image)));
                (name, images, inode.pending.len()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    pub(super) fn used(&self) -> u64 {
        let named = self.dirs.values().flat_map(|dir| dir.cache.values());
        named.map(|inode| self.inodes[*inode].cache.len() as u64).sum()
    }

    fn has_room(&self, inode: usize, end: usize) -> bool {
        let growth = end.saturating_sub(self.inodes[inode].cache.len()) as u64;
        self.capacity.is_none_or(|capacity| growth == 0 || self.used() + growth <= capacity)
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        let (dir, name) = split(path);
        let found = self.dirs.get(dir).and_then(|dir| dir.cache.get(name));
        found.copied().ok_or(io::Error::from(io::ErrorKind::NotFound))
    }

    pub(super) fn change(&mut self, dir: &Path, change: Change) -> io::Result<()> {
        let dir = self.dirs.get_mut(dir).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        change.apply(&mut dir.cache);
        dir.pending.push(change);
        Ok(())
    }
}

/// Whether a directory is the root, which always exists.
pub(super) fn is_root(dir: &Path) -> bool {
    dir.parent().is_none()
}

pub(super) fn split(path: &Path) -> (&Path, &str) {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a file's name is text");
    (path.parent().expect("a file is in a directory"), name)
}
