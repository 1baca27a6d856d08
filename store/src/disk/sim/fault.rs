//! Faults of a simulated disk: what fails, and when. Changing operations and reads are numbered separately, from zero.

use std::io;

/// One scheduled fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine stops before the n-th operation: that one and all later ones fail.
    CrashAt(u64),
    /// The n-th operation fails. A failing sync drops the pending writes, but the cache still shows them.
    ErrorAt(u64),
    /// The n-th operation fails because the disk is full.
    NoSpaceAt(u64),
    /// The n-th operation, if it is a write, writes half of its bytes and fails; any other operation just fails.
    ShortAt(u64),
    /// The n-th operation, if it is a sync, persists a part of the pending writes, fails and drops the rest; any other
    /// operation just fails.
    ForgetAt(u64, CacheAfterFailure),
    /// Every sync of a file fails from now on.
    SyncsFail,
    /// The n-th operation, if it is a write, succeeds and is visible, but never reaches the disk.
    LostAt(u64),
    /// The n-th operation, if it is a write, is written one sector too far and reports success.
    MisdirectedAt(u64),
    /// The n-th read fails.
    ReadErrorAt(u64),
    /// The n-th read returns bytes with one flipped bit.
    FlippedAt(u64),
    /// The n-th read returns the content from before the last sync.
    StaleAt(u64),
}

/// The content that reads return after a failed sync; file systems differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheAfterFailure {
    /// The written content, as if the sync had succeeded.
    New,
    /// The content on the disk.
    Old,
}

/// The outcome of a changing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The machine has stopped: nothing changes any more.
    Stopped,
    Failed,
    NoSpace,
    Short,
    Forgotten(CacheAfterFailure),
    Lost,
    Misdirected,
}

impl Outcome {
    /// The outcome that a plan has for the n-th operation.
    pub(crate) fn of(plan: &[Fault], now: u64, is_sync: bool) -> Self {
        plan.iter()
            .map(|fault| fault.on_operation(now, is_sync))
            .find(|fate| *fate != Self::Done)
            .unwrap_or(Self::Done)
    }

    /// Result of an operation that can be neither partial nor misplaced.
    pub(crate) fn whole(self) -> io::Result<()> {
        match self {
            Self::Done | Self::Lost | Self::Misdirected => Ok(()),
            Self::Stopped => Err(io::Error::other("the machine stopped")),
            Self::NoSpace => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Self::Failed | Self::Short | Self::Forgotten(_) => Err(io::Error::other("the disk failed")),
        }
    }
}

impl Fault {
    fn on_operation(self, now: u64, is_sync: bool) -> Outcome {
        match self {
            Self::CrashAt(at) if now >= at => Outcome::Stopped,
            Self::SyncsFail if is_sync => Outcome::Failed,
            Self::ErrorAt(at) if now == at => Outcome::Failed,
            Self::NoSpaceAt(at) if now == at => Outcome::NoSpace,
            Self::ShortAt(at) if now == at => Outcome::Short,
            Self::ForgetAt(at, shown) if now == at => Outcome::Forgotten(shown),
            Self::LostAt(at) if now == at => Outcome::Lost,
            Self::MisdirectedAt(at) if now == at => Outcome::Misdirected,
            Self::CrashAt(_)
            | Self::SyncsFail
            | Self::ErrorAt(_)
            | Self::NoSpaceAt(_)
            | Self::ShortAt(_)
            | Self::ForgetAt(..)
            | Self::LostAt(_)
            | Self::MisdirectedAt(_)
            | Self::ReadErrorAt(_)
            | Self::FlippedAt(_)
            | Self::StaleAt(_) => Outcome::Done,
        }
    }
}
