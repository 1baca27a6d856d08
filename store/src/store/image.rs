//! Images: copies of a store in memory at one revision. Store and image share their data until either changes it, and
//! any number of stores can start from an image. An image is in memory only; `snapshot` writes etcd's file format.

use crate::background::compact::Sweeper;
use crate::engine::Engine as _;
use crate::engine::memory::MemoryEngine;
use crate::mvcc::index::Index;
use crate::mvcc::window::Window;
use crate::published::core::{Core, PublishedState};
use crate::published::lease_clock::duration;
use crate::recovery::recover::identity;
use crate::runtime::driver::Driver;
use crate::runtime::request::Request;
use crate::runtime::writer::Writer;
use crate::txn::lease_table::LeaseTable;
use crate::types::error::Stopped;
use crate::types::state::DurableState;
use crate::{KeyRange, LeaseId, Limits, Revision, SnapshotError, SnapshotInfo, snapshot};
use kstore_nondet::{Clock, Nondet, Rng};
use std::io::{Seek, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A copy of a store in memory at one revision: all keys with their history, notes, leases with their remaining times,
/// alarms and limits. It is immutable and cheap to clone, runs no task and needs no runtime.
#[derive(Clone)]
pub struct StoreImage(Arc<ImageContents>);

struct ImageContents {
    state: DurableState,
    index: Index,
    /// The engine's records, shared copy-on-write.
    engine: MemoryEngine,
    /// The revision up to which all superseded records are removed.
    swept: Revision,
    leases: LeaseTable,
    /// Remaining time of each lease.
    left: Vec<(LeaseId, Duration)>,
    limits: Limits,
    /// Bytes of the versions that exist.
    current: u64,
}

impl std::fmt::Debug for StoreImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreImage").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// The parts of an image that was read from a snapshot.
pub(crate) struct ImageParts {
    pub(crate) state: DurableState,
    pub(crate) index: Index,
    pub(crate) engine: MemoryEngine,
    pub(crate) leases: LeaseTable,
}

/// Why an image of a store could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The store is on disk.
    #[error(
        "a store on disk has no image in memory: use Store::snapshot, or a store that is opened with Config::memory()"
    )]
    OnDisk,
    /// The store was closed, or has failed.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl StoreImage {
    /// The newest revision in the image.
    pub fn revision(&self) -> Revision {
        self.0.state.revision
    }

    /// The oldest readable revision.
    pub fn compacted(&self) -> Revision {
        self.0.state.compacted
    }

    /// Bytes of the records.
    pub fn bytes(&self) -> u64 {
        self.0.engine.size().live
    }

    /// Remaining time of each lease.
    pub fn leases_left(&self) -> Vec<(LeaseId, Duration)> {
        self.0.left.clone()
    }

    /// A copy whose leases have these remaining times. Leases that are not named keep theirs, and unknown ones are ignored.
    #[must_use]
    pub fn with_leases_left(&self, left: &[(LeaseId, Duration)]) -> Self {
        let mut copy = self.copy();
        for (id, remaining) in &mut copy.left {
            if let Some((_, given)) = left.iter().find(|(given, _)| given == id) {
                *remaining = *given;
            }
        }
        Self(Arc::new(copy))
    }

    /// A copy at this revision, unless it has a newer one: a snapshot does not have revisions after its newest record.
    #[must_use]
    pub fn with_revision(&self, revision: Revision) -> Self {
        let mut copy = self.copy();
        copy.state.revision = revision.max(copy.state.revision);
        Self(Arc::new(copy))
    }

    /// A copy whose older revisions are compacted, and whose superseded versions are removed.
    ///
    /// # Errors
    /// [`ImageError::Stopped`] if a record cannot be removed, which memory never refuses.
    pub async fn without_history(&self) -> Result<Self, ImageError> {
        let driver = self.driver(&Nondet { clock: Clock::real(), rng: Rng::seeded(0) });
        // A refused compaction is one of an image that is compacted already.
        let _ = driver.submit(Request::Compact(self.revision()), 0).await;
        let taken = Self::of(&driver)?;
        // No time passes in an image.
        Ok(taken.with_leases_left(&self.0.left))
    }

    /// Writes the image as a database that etcd's tools open, without a checksum, at the current position. `to` is positioned after it.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn write(&self, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
        // A number for the identity, so that equal images make equal files.
        let driver = self.driver(&Nondet { clock: Clock::real(), rng: Rng::seeded(0) });
        snapshot::snapshot(driver.core(), to)
    }

    pub(crate) fn of_parts(parts: ImageParts, limits: Limits) -> Self {
        let ImageParts { state, index, engine, leases } = parts;
        let left = state.leases.iter().map(|(id, ttl)| (*id, duration(*ttl))).collect();
        let swept = Revision::NEVER_COMPACTED;
        let everything = KeyRange::all();
        let live = index.range(&everything).filter_map(|entry| Some(entry.newest().live()?.current_bytes()));
        let current = live.sum();
        Self(Arc::new(ImageContents { state, index, engine, swept, leases, left, limits, current }))
    }

    fn copy(&self) -> ImageContents {
        let contents = &*self.0;
        ImageContents {
            state: contents.state.clone(),
            index: contents.index.clone(),
            engine: contents.engine.fork(),
            swept: contents.swept,
            leases: contents.leases.clone(),
            left: contents.left.clone(),
            limits: contents.limits.clone(),
            current: contents.current,
        }
    }

    /// A copy whose newest revision is above this one, and above that of the image, and whose older revisions are compacted: for clients
    /// that have seen later revisions than the image's. A watch that resumes from any revision that such a client has seen is refused as
    /// compacted. It costs nothing per object.
    #[must_use]
    pub fn above(&self, revision: Revision) -> Self {
        let mut copy = self.copy();
        // Two above: a client that resumes behind the last revision it has seen is refused, too.
        copy.state.revision = Revision(revision.max(copy.state.revision).0 + 2);
        copy.state.compacted = copy.state.revision;
        Self(Arc::new(copy))
    }

    /// Takes an image of the store that `driver` runs.
    pub(crate) fn of(driver: &Driver) -> Result<Self, ImageError> {
        let core = driver.core();
        let image = driver.with_memory(|writer, engine, sweeper| Self::take(core, writer, engine, sweeper));
        Ok(image.ok_or(ImageError::OnDisk)??)
    }

    /// Takes the image. The caller holds the writer, so that no write is in progress.
    fn take(core: &Core, writer: &Writer, engine: &MemoryEngine, sweeper: &Sweeper) -> Result<Self, Stopped> {
        core.check_serving()?;
        let leases = writer.leases().clone();
        let now = Instant::now();
        let left =
            |id| core.leases.deadline(id).map(|deadline| (id, deadline.saturating_duration_since(now)));
        let left = leases.iter().filter_map(|(id, _)| left(id)).collect();
        let visible = core.visible();
        Ok(Self(Arc::new(ImageContents {
            state: visible.state.clone(),
            index: visible.index.clone(),
            engine: engine.fork(),
            swept: sweeper.done(),
            leases,
            left,
            limits: core.limits.clone(),
            current: core.usage.current(),
        })))
    }

    /// Creates a store from this image. Each lease gets its remaining time from the image, counted from now.
    pub(crate) fn driver(&self, nondet: &Nondet) -> Driver {
        let contents = &*self.0;
        let rng = nondet.rng.fork("store");
        let visible = PublishedState {
            state: contents.state.clone(),
            index: contents.index.clone(),
            // The engine has every commit, so the window starts empty.
            window: Window::after(contents.state.revision),
        };
        let engine = Arc::new(contents.engine.fork());
        let core = Core::new(visible, engine.clone(), identity(&rng), contents.limits.clone());
        let now = Instant::now();
        for (id, left) in &contents.left {
            let ttl = contents.leases.ttl(*id).unwrap_or_default();
            core.leases.begin(*id, ttl, now + *left);
        }
        core.update_usage(0);
        core.usage.set_current(contents.current);
        core.set_swept(contents.swept);
        let writer = Writer::new(Arc::new(core), rng, contents.leases.clone());
        Driver::in_memory(writer, engine, Sweeper::new(contents.swept))
    }
}
