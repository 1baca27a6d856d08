//! A simulated disk in memory with the faults of a real one. After a crash, unsynced writes are there, gone, partly
//! there or torn. Any operation can fail or report a false success, and a failed sync leaves the cache as if it had
//! succeeded. Deterministic: the same operations and seeds give the same disk.

mod crash;
mod fault;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use self::crash::CrashPolicy;
#[cfg(test)]
pub(crate) use self::fault::CacheAfterFailure;
pub(crate) use self::fault::Fault;
use self::state::{Change, DiskState, Inode, is_root};
pub(crate) use self::state::{Operation, OperationKind};
use super::{Disk, File};
use kstore_nondet::Rng;
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Size of a sector, the unit in which writes tear.
pub(crate) const SECTOR: usize = 512;

/// A simulated disk. Clones share the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk(Arc<Mutex<DiskState>>);

impl SimDisk {
    /// Number of changing operations so far.
    pub(crate) fn ops(&self) -> u64 {
        self.0.lock().log.len() as u64
    }

    /// Number of file reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.0.lock().reads
    }

    /// Number of attempted operations of one kind.
    pub(crate) fn count(&self, verb: OperationKind) -> usize {
        self.0.lock().log.iter().filter(|operation| operation.verb == verb).count()
    }

    /// Every changing operation so far, successful or failed: helps to minimize a failing test case.
    pub(crate) fn log(&self) -> Vec<Operation> {
        self.0.lock().log.clone()
    }

    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.set_plan(fault.into_iter().collect());
    }

    /// Schedules several faults. Operations and reads are numbered from the creation of this disk.
    pub(crate) fn set_plan(&self, plan: Vec<Fault>) {
        self.0.lock().plan = plan;
    }

    /// Makes a file unreadable from now on; `path` is the name under which it was created.
    pub(crate) fn set_unreadable(&self, path: Option<&Path>) {
        self.0.lock().unreadable = path.map(Path::to_owned);
    }

    /// Limits the bytes of all files together; none removes the limit.
    pub(crate) fn set_capacity(&self, capacity: Option<u64>) {
        self.0.lock().capacity = capacity;
    }

    /// Bytes of all files together.
    pub(crate) fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// The disk that the next start finds after a crash.
    pub(crate) fn crash(&self, policy: CrashPolicy, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().after_crash(policy, &Rng::seeded(seed)))))
    }

    /// A hash that is equal for disks that behave in the same way from now on.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.0.lock().fingerprint()
    }

    /// Flips the bits of a byte of a durable file.
    pub(crate) fn damage(&self, path: &Path, offset: usize) {
        let byte = self.content(path).get(offset).map(|byte| byte ^ 0xff);
        self.overwrite(path, offset, byte.as_slice());
    }

    /// Overwrites bytes of a durable file, within its length, without the store's knowledge.
    pub(crate) fn overwrite(&self, path: &Path, offset: usize, bytes: &[u8]) {
        let mut world = self.0.lock();
        let inode = world.find(path).expect("the file to damage exists");
        let Inode { durable, cache, .. } = &mut world.inodes[inode];
        for image in [durable, cache] {
            let end = image.len().min(offset + bytes.len());
            if let Some(target) = image.get_mut(offset..end) {
                target.copy_from_slice(&bytes[..target.len()]);
            }
        }
    }

    /// The content of a file as reads see it.
    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        let world = self.0.lock();
        world.inodes[world.find(path).expect("the file exists")].cache.clone()
    }

    /// The files of a directory with their lengths.
    pub(crate) fn files(&self, dir: &Path) -> Vec<(String, usize)> {
        let world = self.0.lock();
        let names = world.dirs.get(dir).map(|dir| dir.cache.clone()).unwrap_or_default();
        names.into_iter().map(|(name, inode)| (name, world.inodes[inode].cache.len())).collect()
    }

    fn file(&self, inode: usize) -> Arc<dyn File> {
        Arc::new(SimFile { disk: self.clone(), inode })
    }
}

impl Disk for SimDisk {
    fn is_dir(&self, dir: &Path) -> bool {
        is_root(dir) || self.0.lock().dirs.contains_key(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step(Operation::on(OperationKind::CreateDir, dir))?;
        let parent = dir.parent().unwrap_or(Path::new("/"));
        if !is_root(parent) && !world.dirs.contains_key(parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        world.dirs.entry(dir.to_owned()).or_default();
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut world = self.0.lock();
        world.step(Operation::on(OperationKind::Create, path))?;
        let inode = world.inodes.len();
        world.inodes.push(Inode { name: path.to_owned(), ..Inode::default() });
        let (dir, name) = state::split(path);
        world.change(dir, Change::Link(name.to_owned(), inode))?;
        Ok(self.file(inode))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let inode = self.0.lock().find(path)?;
        Ok(self.file(inode))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.0.lock();
        Ok(world.dirs.get(dir).map(|dir| dir.cache.keys().cloned().collect()).unwrap_or_default())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step(Operation::on(OperationKind::Rename, to))?;
        let inode = world.find(from)?;
        let ((dir, old), (_, new)) = (state::split(from), state::split(to));
        world.change(dir, Change::Rename(old.to_owned(), new.to_owned(), inode))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step(Operation::on(OperationKind::Remove, path))?;
        world.find(path)?;
        let (dir, name) = state::split(path);
        world.change(dir, Change::Unlink(name.to_owned()))
    }

    fn free_space(&self, _: &Path) -> io::Result<u64> {
        let world = self.0.lock();
        Ok(world.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(world.used())))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.step(Operation::on(OperationKind::SyncDir, dir))?;
        world.sync_dir(dir)
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].cache.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.0.lock().read(self.inode, offset as usize, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.0.lock().write(self.inode, offset as usize, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.0.lock().sync(self.inode)
    }
}
