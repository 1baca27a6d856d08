//! A disk in memory that does what a real one may: after a crash, what was not synced is there, gone, partly there or torn;
//! any operation can fail; a failed sync leaves the cache looking as if all were well.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kstore_nondet::Rng;
use parking_lot::Mutex;

use super::{Disk, File};

/// The unit in which writes tear.
const SECTOR: usize = 512;

/// What becomes of unsynced writes in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// All are lost.
    Nothing,
    /// All survive.
    Everything,
    /// Those up to some moment survive.
    Prefix,
    /// Some survive, whatever their order, and sector by sector.
    Torn,
}

impl Policy {
    pub(crate) const ALL: [Self; 4] = [Self::Nothing, Self::Everything, Self::Prefix, Self::Torn];
}

/// What is to go wrong, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine stops before the n-th operation: it and all later ones fail.
    CrashAt(u64),
    /// The n-th operation fails; a failing sync forgets what it should have written, but the cache still shows it.
    ErrorAt(u64),
    /// Every sync of a file fails from now on.
    SyncsFail,
}

/// Cheap to clone; clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk(Arc<Mutex<World>>);

#[derive(Debug, Default)]
struct World {
    inodes: Vec<Inode>,
    dirs: BTreeMap<PathBuf, Dir>,
    /// Operations so far that change something.
    ops: u64,
    fault: Option<Fault>,
}

#[derive(Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    pending: Vec<Write>,
    cache: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

type Names = BTreeMap<String, usize>;

#[derive(Debug, Default)]
struct Dir {
    durable: Names,
    /// The names after each unsynced change; file systems keep these in order.
    pending: Vec<Names>,
    cache: Names,
}

fn apply(image: &mut Vec<u8>, write: &Write) {
    let end = write.offset + write.bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[write.offset..end].copy_from_slice(&write.bytes);
}

impl SimDisk {
    /// How many changing operations there were.
    pub(crate) fn ops(&self) -> u64 {
        self.0.lock().ops
    }

    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.0.lock().fault = fault;
    }

    /// The disk that the next start finds.
    pub(crate) fn crash(&self, policy: Policy, seed: u64) -> Self {
        let (world, rng) = (self.0.lock(), Rng::seeded(seed));
        let inodes = world.inodes.iter().map(|inode| {
            let image = inode.after_crash(policy, &rng);
            Inode { durable: image.clone(), pending: vec![], cache: image }
        });
        let inodes = inodes.collect();
        let dirs = world.dirs.iter().map(|(path, dir)| {
            let names = dir.after_crash(policy, &rng);
            (path.clone(), Dir { durable: names.clone(), pending: vec![], cache: names })
        });
        Self(Arc::new(Mutex::new(World { inodes, dirs: dirs.collect(), ops: 0, fault: None })))
    }

    /// Flips bits of a durable file.
    pub(crate) fn damage(&self, path: &Path, offset: usize) {
        let mut world = self.0.lock();
        let inode = world.find(path).expect("the file to damage exists");
        let Inode { durable, cache, .. } = &mut world.inodes[inode];
        for image in [durable, cache] {
            image.get_mut(offset).into_iter().for_each(|byte| *byte ^= 0xff);
        }
    }

    /// The files of a directory, with their lengths.
    pub(crate) fn files(&self, dir: &Path) -> Vec<(String, usize)> {
        let world = self.0.lock();
        let names = world.dirs.get(dir).map(|dir| dir.cache.clone()).unwrap_or_default();
        names.into_iter().map(|(name, inode)| (name, world.inodes[inode].cache.len())).collect()
    }
}

impl Inode {
    fn after_crash(&self, policy: Policy, rng: &Rng) -> Vec<u8> {
        let mut image = self.durable.clone();
        let survivors = match policy {
            Policy::Nothing => 0,
            Policy::Everything | Policy::Torn => self.pending.len(),
            Policy::Prefix => rng.below(self.pending.len() as u64 + 1) as usize,
        };
        for write in &self.pending[..survivors] {
            if policy != Policy::Torn {
                apply(&mut image, write);
                continue;
            }
            for (at, sector) in write.bytes.chunks(SECTOR).enumerate() {
                if rng.below(2) == 0 {
                    apply(&mut image, &Write { offset: write.offset + at * SECTOR, bytes: sector.to_vec() });
                }
            }
        }
        image
    }
}

impl Dir {
    fn after_crash(&self, policy: Policy, rng: &Rng) -> Names {
        let kept = match policy {
            Policy::Nothing => 0,
            Policy::Everything => self.pending.len(),
            Policy::Prefix | Policy::Torn => rng.below(self.pending.len() as u64 + 1) as usize,
        };
        kept.checked_sub(1).map_or(&self.durable, |last| &self.pending[last]).clone()
    }
}

impl World {
    /// Counts an operation; fails if it is its turn.
    fn step(&mut self) -> io::Result<()> {
        let now = self.ops;
        self.ops += 1;
        match self.fault {
            Some(Fault::CrashAt(at)) if now >= at => Err(io::Error::other("the machine stopped")),
            Some(Fault::ErrorAt(at)) if now == at => Err(io::Error::other("the disk failed")),
            Some(_) | None => Ok(()),
        }
    }

    fn step_sync(&mut self) -> io::Result<()> {
        self.step()?;
        if self.fault == Some(Fault::SyncsFail) { Err(io::Error::other("the sync failed")) } else { Ok(()) }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let (dir, name) = split(path);
        let found = self.dirs.get(dir).and_then(|dir| dir.cache.get(name));
        found.copied().ok_or(io::Error::from(io::ErrorKind::NotFound))
    }

    fn change(&mut self, dir: &Path, change: impl FnOnce(&mut Names)) -> io::Result<()> {
        let dir = self.dirs.get_mut(dir).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        change(&mut dir.cache);
        dir.pending.push(dir.cache.clone());
        Ok(())
    }
}

fn split(path: &Path) -> (&Path, &str) {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a file's name is text");
    (path.parent().expect("a file is in a directory"), name)
}

impl Disk for SimDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step()?;
        world.dirs.entry(dir.to_owned()).or_default();
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut world = self.0.lock();
        world.step()?;
        let inode = world.inodes.len();
        world.inodes.push(Inode::default());
        let (dir, name) = split(path);
        world.change(dir, |names| {
            names.insert(name.to_owned(), inode);
        })?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let inode = self.0.lock().find(path)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.0.lock();
        Ok(world.dirs.get(dir).map(|dir| dir.cache.keys().cloned().collect()).unwrap_or_default())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step()?;
        let inode = world.find(from)?;
        let ((dir, old), (_, new)) = (split(from), split(to));
        world.change(dir, |names| {
            names.remove(old);
            names.insert(new.to_owned(), inode);
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step()?;
        world.find(path)?;
        let (dir, name) = split(path);
        world.change(dir, |names| {
            names.remove(name);
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step()?;
        let dir = world.dirs.get_mut(dir).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        dir.pending.clear();
        dir.durable = dir.cache.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl SimFile {
    fn write(&self, offset: u64, bytes: Vec<u8>) -> io::Result<()> {
        let mut world = self.disk.0.lock();
        world.step()?;
        let write = Write { offset: offset as usize, bytes };
        let inode = &mut world.inodes[self.inode];
        apply(&mut inode.cache, &write);
        inode.pending.push(write);
        Ok(())
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].cache.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let world = self.disk.0.lock();
        let rest = world.inodes[self.inode].cache.get(offset as usize..).unwrap_or(&[]);
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes.to_vec())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.0.lock();
        let outcome = world.step_sync();
        let inode = &mut world.inodes[self.inode];
        let pending = std::mem::take(&mut inode.pending);
        if outcome.is_ok() {
            pending.iter().for_each(|write| apply(&mut inode.durable, write));
        } else if matches!(world.fault, Some(Fault::CrashAt(_))) {
            world.inodes[self.inode].pending = pending;
        }
        outcome
    }
}
