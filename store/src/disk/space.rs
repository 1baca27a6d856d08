//! Free disk space: detects that the file system is nearly full, and keeps a reserve file. Deleting that file lets
//! deletions, compaction and a checkpoint finish when the file system is full. Free space is checked at checkpoints,
//! when a log file is prepared, and after a failed write; `published::quota` accounts for the stored
//! data.

use crate::disk::Disk;
use crate::types::alarm::AlarmChange;
use crate::{Alarm, Limits};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the reserve file.
const RESERVE: &str = "RESERVE";

/// The monitor of free space on the store's file system, with the reserve file.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Free bytes below which space counts as low.
    least: u64,
    /// Size of the reserve file in bytes.
    reserve: u64,
    /// Whether the reserve file exists.
    has_reserve: Mutex<bool>,
    /// Whether free space is low, as of the last check.
    low: AtomicBool,
    /// Space became low, and no alarm was requested for it yet.
    low_unreported: AtomicBool,
    /// An operation found no space, and no alarm was requested for it yet.
    full_unreported: AtomicBool,
}

/// Whether an operation failed because the disk, or a disk quota, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl DiskSpace {
    /// Starts monitoring the file system of `dir`, which exists.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, limits: &Limits) -> io::Result<Self> {
        let has_reserve = disk.list(dir)?.iter().any(|name| name == RESERVE);
        let disk_space = Self {
            disk,
            dir: dir.to_owned(),
            least: limits.disk_free_bytes,
            reserve: limits.reserve_bytes,
            has_reserve: Mutex::new(has_reserve),
            low: AtomicBool::new(false),
            low_unreported: AtomicBool::new(false),
            full_unreported: AtomicBool::new(false),
        };
        disk_space.refresh();
        Ok(disk_space)
    }

    /// Free bytes; the maximum if the system does not tell.
    pub(crate) fn free(&self) -> u64 {
        self.disk.free_space(&self.dir).unwrap_or(u64::MAX)
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Free bytes below which space counts as low.
    pub(crate) fn least(&self) -> u64 {
        self.least
    }

    /// Returns the data directory, if a snapshot of `live` bytes fits there in addition to what the store needs.
    pub(crate) fn snapshot_dir(&self, live: u64) -> io::Result<PathBuf> {
        // Database pages and record keys take up to half as much again.
        let need = live.saturating_add(live / 2).saturating_add(self.least);
        let free = self.free();
        if free < need {
            let dir = self.dir.display();
            let text = format!(
                "{free} bytes are free in {dir}, and a snapshot needs {need} with what the store keeps free"
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        Ok(self.dir.clone())
    }

    /// Checks the free space, and deletes or recreates the reserve file accordingly.
    pub(crate) fn check(&self) {
        let free = self.refresh();
        if free < self.reserve.min(self.least) {
            self.release();
        } else if free >= self.least.saturating_add(self.reserve) {
            self.create_reserve();
        }
    }

    fn refresh(&self) -> u64 {
        let free = self.free();
        self.set_low(free < self.least);
        free
    }

    fn set_low(&self, low: bool) {
        if !self.low.swap(low, Ordering::AcqRel) && low {
            tracing::info!(dir = %self.dir.display(), least = self.least, "the file system is nearly full");
            self.low_unreported.store(true, Ordering::Release);
        }
    }

    /// Reacts to a write that found no space: deletes the reserve file. Returns whether that freed space, so that
    /// another try makes sense.
    pub(crate) fn on_disk_full(&self) -> bool {
        self.set_low(true);
        self.full_unreported.store(true, Ordering::Release);
        self.release()
    }

    /// Whether free space is low. Checks again only if it was low at the last check.
    pub(crate) fn is_low(&self) -> bool {
        if self.low.load(Ordering::Acquire) {
            self.refresh();
        }
        self.low.load(Ordering::Acquire)
    }

    /// Takes the alarm change to request, if there is one. If low space was only temporary, no alarm is raised.
    pub(crate) fn take_alarm_change(&self) -> Option<AlarmChange> {
        let (low, full) = (
            self.low_unreported.swap(false, Ordering::AcqRel),
            self.full_unreported.swap(false, Ordering::AcqRel),
        );
        match (full, low) {
            (true, _) => Some(self.out_of_space()),
            (false, true) => self.is_low().then_some(AlarmChange::LowDisk),
            (false, false) => None,
        }
    }

    /// The alarm change that follows from an operation that found no space. Low free space can end by itself. If the
    /// file system reports enough free space (for example because a disk quota applies), the store could not notice the
    /// end, so the alarm needs disarming.
    pub(crate) fn out_of_space(&self) -> AlarmChange {
        if self.is_low() { AlarmChange::LowDisk } else { AlarmChange::Raise(Alarm::NoSpace) }
    }

    fn release(&self) -> bool {
        let mut has_reserve = self.has_reserve.lock();
        if !std::mem::take(&mut *has_reserve) {
            return false;
        }
        let gone = self.disk.remove(&self.dir.join(RESERVE)).and_then(|()| self.disk.sync_dir(&self.dir));
        if let Err(error) = &gone {
            tracing::warn!(%error, "cannot delete the reserve file");
        }
        gone.is_ok()
    }

    fn create_reserve(&self) {
        let mut has_reserve = self.has_reserve.lock();
        if *has_reserve || self.reserve == 0 {
            return;
        }
        let path = self.dir.join(RESERVE);
        let made = self.disk.create(&path).and_then(|file| {
            file.allocate(self.reserve)?;
            file.sync()?;
            self.disk.sync_dir(&self.dir)
        });
        *has_reserve = made.is_ok();
        if let Err(error) = made {
            tracing::warn!(%error, "cannot create the reserve file");
            let _ = self.disk.remove(&path);
        }
    }
}
