//! What is to go wrong on a simulated disk, and when. Changing operations and reads are numbered apart, from zero.

use std::io;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine stops before the n-th operation: it and all later ones fail.
    CrashAt(u64),
    /// The n-th operation fails; a failing sync forgets what it should have written, but the cache still shows it.
    ErrorAt(u64),
    /// The same, for want of space.
    NoSpaceAt(u64),
    /// The n-th operation, if it is a write, does half of it and fails; another one just fails.
    ShortAt(u64),
    /// The n-th operation, if it is a sync, writes a part of what it should, fails and forgets the rest; another one just
    /// fails.
    ForgetAt(u64, Shown),
    /// Every sync of a file fails from now on.
    SyncsFail,
    /// The n-th operation, if it is a write, is confirmed and shown, but never reaches the disk.
    LostAt(u64),
    /// The n-th operation, if it is a write, goes to the sector behind the right one, and nobody is told.
    MisdirectedAt(u64),
    /// The n-th read fails.
    ReadErrorAt(u64),
    /// The n-th read returns a flipped bit, somewhere.
    FlippedAt(u64),
    /// The n-th read returns what was there before the last sync.
    StaleAt(u64),
}

/// What reads see after a sync that failed: file systems differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// What was written, as if it were safe.
    New,
    /// What the disk has.
    Old,
}

/// What becomes of a changing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// The machine has stopped: nothing changes any more.
    Stopped,
    Failed,
    NoSpace,
    Short,
    Forgotten(Shown),
    Lost,
    Misdirected,
}

impl Fate {
    /// What a plan has in store for the n-th operation.
    pub(crate) fn of(plan: &[Fault], now: u64, is_sync: bool) -> Self {
        plan.iter()
            .map(|fault| fault.on_operation(now, is_sync))
            .find(|fate| *fate != Self::Done)
            .unwrap_or(Self::Done)
    }

    /// How an operation that cannot be done in part, nor in the wrong place, ends.
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
    fn on_operation(self, now: u64, is_sync: bool) -> Fate {
        match self {
            Self::CrashAt(at) if now >= at => Fate::Stopped,
            Self::SyncsFail if is_sync => Fate::Failed,
            Self::ErrorAt(at) if now == at => Fate::Failed,
            Self::NoSpaceAt(at) if now == at => Fate::NoSpace,
            Self::ShortAt(at) if now == at => Fate::Short,
            Self::ForgetAt(at, shown) if now == at => Fate::Forgotten(shown),
            Self::LostAt(at) if now == at => Fate::Lost,
            Self::MisdirectedAt(at) if now == at => Fate::Misdirected,
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
            | Self::StaleAt(_) => Fate::Done,
        }
    }
}
