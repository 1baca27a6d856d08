//! Room on the file system: notices that it runs short before it has run out, and keeps a file in reserve whose space lets
//! deletions, compaction and a checkpoint finish when it has. Nobody polls: it looks when a checkpoint is made, when a log
//! file is prepared and when a write failed. Not the quota, which is about what the store keeps (see `quota`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::alarm::AlarmChange;
use crate::disk::Disk;
use crate::{Alarm, Limits};

/// The file in reserve.
const RESERVE: &str = "RESERVE";

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Free bytes below which it is short.
    least: u64,
    /// Bytes in reserve.
    reserve: u64,
    /// Whether the reserve is there.
    held: Mutex<bool>,
    short: AtomicBool,
    /// It became short, and nobody has raised the alarm.
    wish: AtomicBool,
    /// An operation found no space, and nobody has raised the alarm.
    full: AtomicBool,
}

/// Whether an operation failed for want of space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl Room {
    /// Looks into a directory that exists.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, limits: &Limits) -> io::Result<Self> {
        let held = disk.list(dir)?.iter().any(|name| name == RESERVE);
        let room = Self {
            disk,
            dir: dir.to_owned(),
            least: limits.disk_free_bytes,
            reserve: limits.reserve_bytes,
            held: Mutex::new(held),
            short: AtomicBool::new(false),
            wish: AtomicBool::new(false),
            full: AtomicBool::new(false),
        };
        room.look();
        Ok(room)
    }

    /// Free bytes; plenty where nobody knows.
    pub(crate) fn free(&self) -> u64 {
        self.disk.free_space(&self.dir).unwrap_or(u64::MAX)
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Free bytes below which it is short.
    pub(crate) fn least(&self) -> u64 {
        self.least
    }

    /// The data directory, if a snapshot of so many bytes of data fits there beside what the store itself needs.
    pub(crate) fn snapshot_dir(&self, live: u64) -> io::Result<PathBuf> {
        // The pages of a database and the names of its records take up to half as much again.
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

    /// Looks how much is free, and whether the reserve is needed or can be laid in again.
    pub(crate) fn survey(&self) {
        let free = self.look();
        if free < self.reserve.min(self.least) {
            self.release();
        } else if free >= self.least.saturating_add(self.reserve) {
            self.lay_in();
        }
    }

    fn look(&self) -> u64 {
        let free = self.free();
        self.set_short(free < self.least);
        free
    }

    fn set_short(&self, short: bool) {
        if !self.short.swap(short, Ordering::AcqRel) && short {
            tracing::info!(dir = %self.dir.display(), least = self.least, "the file system is nearly full");
            self.wish.store(true, Ordering::Release);
        }
    }

    /// A write failed for want of space. Says whether the reserve was let go of, so that another try makes sense.
    pub(crate) fn ran_out(&self) -> bool {
        self.set_short(true);
        self.full.store(true, Ordering::Release);
        self.release()
    }

    /// Whether room is short. Looks again only if it was.
    pub(crate) fn is_short(&self) -> bool {
        if self.short.load(Ordering::Acquire) {
            self.look();
        }
        self.short.load(Ordering::Acquire)
    }

    /// How the alarm should be raised, if it should; says so once. Room that was short for a moment only raises none.
    pub(crate) fn take_wish(&self) -> Option<AlarmChange> {
        let (low, full) = (self.wish.swap(false, Ordering::AcqRel), self.full.swap(false, Ordering::AcqRel));
        match (full, low) {
            (true, _) => Some(self.out_of_space()),
            (false, true) => self.is_short().then_some(AlarmChange::LowDisk),
            (false, false) => None,
        }
    }

    /// What to do about the alarms when an operation found no space. Too little free space on the file system may pass, but
    /// where there seems to be enough (a quota of the file system), nothing would tell when there is.
    pub(crate) fn out_of_space(&self) -> AlarmChange {
        if self.is_short() { AlarmChange::LowDisk } else { AlarmChange::Raise(Alarm::NoSpace) }
    }

    fn release(&self) -> bool {
        let mut held = self.held.lock();
        if !std::mem::take(&mut *held) {
            return false;
        }
        let gone = self.disk.remove(&self.dir.join(RESERVE)).and_then(|()| self.disk.sync_dir(&self.dir));
        if let Err(error) = &gone {
            tracing::warn!(%error, "the reserve cannot be let go of");
        }
        gone.is_ok()
    }

    fn lay_in(&self) {
        let mut held = self.held.lock();
        if *held || self.reserve == 0 {
            return;
        }
        let path = self.dir.join(RESERVE);
        let made = self.disk.create(&path).and_then(|file| {
            file.allocate(self.reserve)?;
            file.sync()?;
            self.disk.sync_dir(&self.dir)
        });
        *held = made.is_ok();
        if let Err(error) = made {
            tracing::warn!(%error, "no space can be kept in reserve");
            let _ = self.disk.remove(&path);
        }
    }
}
