//! Alarms: persistent states in which the store refuses requests that would make the problem worse. `writer` has the
//! rules of what is refused.

use std::fmt;
use std::path::PathBuf;

/// A persistent state of the store that restricts what it accepts until the alarm is disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Alarm {
    /// The quota was reached, or the disk is nearly full. The store refuses puts and new leases; deletions, reads,
    /// compaction, lease expiry and defragmentation go on. If only low free space on the file system raised it, the
    /// store ends it when there is enough space again; otherwise see [`crate::Store::alarm_disarm`].
    ///
    /// In a store with [`crate::Limits::history_bytes`] the quota refuses only the writes that do not fit, and the store ends the alarm
    /// when enough is deleted.
    NoSpace,
    /// Stored data is damaged beyond single records. Damage to single records is listed in [`crate::Store::damage`] and
    /// raises no alarm. The store refuses every change; intact data stays readable.
    Corrupt,
}

impl Alarm {
    pub(crate) const ALL: [Self; 2] = [Self::NoSpace, Self::Corrupt];

    fn bit(self) -> u8 {
        match self {
            Self::NoSpace => 1,
            Self::Corrupt => 2,
        }
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "out of space",
            Self::Corrupt => "data is damaged",
        })
    }
}

/// The reason for [`Alarm::NoSpace`]. Its text says what helps; the program that opened the store knows by which
/// command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSpaceReason {
    /// The file system has too little free space; the alarm ends by itself when it has enough.
    LowDisk {
        /// The data directory.
        dir: PathBuf,
        /// Free bytes now.
        free: u64,
        /// [`crate::Limits::disk_free_bytes`].
        least: u64,
    },
    /// The current versions reached the quota of a store whose history has a bound of its own. The alarm ends by itself when enough is
    /// deleted.
    Quota {
        /// Bytes of the current versions.
        used: u64,
        /// [`crate::Limits::quota_bytes`].
        quota: u64,
    },
    /// The quota was reached, a disk operation found no space, or an operator raised the alarm. The alarm stays until
    /// it is disarmed.
    Raised {
        /// The data directory, if there is one.
        dir: Option<PathBuf>,
        /// Bytes of data that count against the quota.
        used: u64,
        /// [`crate::Limits::quota_bytes`].
        quota: Option<u64>,
    },
}

impl fmt::Display for NoSpaceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowDisk { dir, free, least } => write!(
                f,
                "the file system of {} has {} free, less than the {} that kstore needs to write: free some space; writes \
                 go on by themselves once there is enough",
                dir.display(),
                ByteCount(*free),
                ByteCount(*least),
            ),
            Self::Quota { used, quota } => write!(
                f,
                "the write does not fit: the data have {}, history not counted, and the quota is {}; delete something, and writes go on by \
                 themselves",
                ByteCount(*used),
                ByteCount(*quota),
            ),
            Self::Raised { dir: _, used, quota } => {
                write!(f, "the space alarm is raised ({} of data", ByteCount(*used))?;
                if let Some(quota) = quota {
                    write!(f, ", the quota is {}", ByteCount(*quota))?;
                }
                f.write_str("): delete and compact, then disarm it")
            }
        }
    }
}

/// Formats a number of bytes for people: as MiB from 1 MiB on.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        if self.0 < MIB { write!(f, "{} bytes", self.0) } else { write!(f, "{} MiB", self.0 / MIB) }
    }
}

/// A change to the set of alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlarmChange {
    /// Raise an alarm until it is disarmed.
    Raise(Alarm),
    /// Disarm an alarm, even if low free space raised it.
    Disarm(Alarm),
    /// The file system was measured to have too little free space: raise [`Alarm::NoSpace`] until it has enough.
    LowDisk,
    /// The file system has enough free space: end what [`AlarmChange::LowDisk`] raised.
    DiskRecovered,
    /// A write does not fit the quota of the current versions: raise [`Alarm::NoSpace`] until enough is deleted.
    QuotaReached,
    /// Enough is deleted: end what [`AlarmChange::QuotaReached`] raised.
    QuotaFree,
}

/// The set of raised alarms, with separate flags for [`Alarm::NoSpace`] where its reason ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarms(u8);

impl Alarms {
    /// The flag for low free space. It has its own bit because this reason for [`Alarm::NoSpace`] ends by itself.
    const LOW_DISK: u8 = 4;

    /// The flag for current versions that reach the quota, which ends by itself, too.
    const AT_QUOTA: u8 = 8;

    /// Mask of the bits that raise `alarm`.
    fn reasons(alarm: Alarm) -> u8 {
        match alarm {
            Alarm::NoSpace => Alarm::NoSpace.bit() | Self::LOW_DISK | Self::AT_QUOTA,
            Alarm::Corrupt => Alarm::Corrupt.bit(),
        }
    }

    /// Whether `alarm` is raised for any reason.
    pub(crate) fn contains(self, alarm: Alarm) -> bool {
        self.0 & Self::reasons(alarm) != 0
    }

    /// Whether short free space on the file system is a reason for [`Alarm::NoSpace`].
    pub(crate) fn is_disk_low(self) -> bool {
        self.0 & Self::LOW_DISK != 0
    }

    /// Whether current versions that reach the quota are a reason for [`Alarm::NoSpace`].
    pub(crate) fn is_at_quota(self) -> bool {
        self.0 & Self::AT_QUOTA != 0
    }

    /// Whether `alarm` stays until it is disarmed.
    pub(crate) fn is_kept(self, alarm: Alarm) -> bool {
        self.0 & alarm.bit() != 0
    }

    /// Returns the set after applying `change`.
    pub(crate) fn after(self, change: AlarmChange) -> Self {
        match change {
            AlarmChange::Raise(alarm) => Self(self.0 | alarm.bit()),
            AlarmChange::Disarm(alarm) => Self(self.0 & !Self::reasons(alarm)),
            AlarmChange::LowDisk => Self(self.0 | Self::LOW_DISK),
            AlarmChange::DiskRecovered => Self(self.0 & !Self::LOW_DISK),
            AlarmChange::QuotaReached => Self(self.0 | Self::AT_QUOTA),
            AlarmChange::QuotaFree => Self(self.0 & !Self::AT_QUOTA),
        }
    }

    /// Iterates over the raised alarms in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = Alarm> {
        Alarm::ALL.into_iter().filter(move |alarm| self.contains(*alarm))
    }

    /// Returns the stored form: one bit per reason.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Decodes [`Alarms::bits`]. Returns none if a bit stands for an alarm that this version does not know.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        let known = Alarm::ALL.into_iter().fold(0, |known, alarm| known | Self::reasons(alarm));
        (bits & !known == 0).then_some(Self(bits))
    }
}
