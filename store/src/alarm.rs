//! The alarms: states that outlive a restart and in which the store refuses what would make matters worse. Not the rules
//! of what is refused (see `writer`), nor who raises them.

use std::fmt;

/// A state that the store is in until somebody says that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Alarm {
    /// The quota was reached, or the disk is nearly full. Whatever could write is refused, and so are new leases; deletions,
    /// reads, compaction, the end of leases and winning back space go on. It does not end by itself when there is space
    /// again: see [`crate::Store::alarm_disarm`].
    NoSpace,
    /// Stored data was found damaged. Nothing changes any more; what can be read still is.
    Corrupt,
}

impl Alarm {
    const ALL: [Self; 2] = [Self::NoSpace, Self::Corrupt];

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

/// A set of alarms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarms(u8);

impl Alarms {
    pub(crate) fn contains(self, alarm: Alarm) -> bool {
        self.0 & alarm.bit() != 0
    }

    /// The set with `alarm` raised or not.
    pub(crate) fn with(self, alarm: Alarm, raised: bool) -> Self {
        if raised { Self(self.0 | alarm.bit()) } else { Self(self.0 & !alarm.bit()) }
    }

    /// Ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = Alarm> {
        Alarm::ALL.into_iter().filter(move |alarm| self.contains(*alarm))
    }

    /// As stored.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// What [`Alarms::bits`] stored; none if there is an alarm that this version does not know.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        let known = Alarm::ALL.into_iter().fold(0, |known, alarm| known | alarm.bit());
        (bits & !known == 0).then_some(Self(bits))
    }
}
