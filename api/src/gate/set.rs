//! [`GateSet`]: the gates of one server, as the difference from the defaults of its version.

use super::{Gate, all, find};
use crate::version::Minor;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The gates of one server: those of its version by default, and those that its operator set to another value. Rows of resources have it,
/// so it is as small as a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateSet {
    /// Names of the gates that are not as the version has them by default, sorted.
    changed: &'static [&'static str],
}

impl GateSet {
    /// Every gate is as the version has it by default.
    pub const DEFAULT: Self = Self { changed: &[] };

    /// The gates of a version with the state that `is_on` gives each. A set of changes lives as long as the process, which makes it once; a
    /// server has one, from its command line.
    pub fn of(minor: Minor, is_on: impl Fn(&Gate) -> bool) -> Self {
        static MADE: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
        let changed: Vec<&'static str> =
            all(minor).filter(|gate| is_on(gate) != gate.is_on).map(|gate| gate.name).collect();
        if changed.is_empty() {
            return Self::DEFAULT;
        }
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = made.get(changed.as_slice()).copied();
        let changed = known.unwrap_or_else(|| {
            let changed: &'static [&'static str] = changed.leak();
            made.insert(changed);
            changed
        });
        Self { changed }
    }

    /// Whether every gate is as the version has it by default.
    #[must_use]
    pub const fn is_default(self) -> bool {
        self.changed.is_empty()
    }

    /// Whether a gate is on. A gate that the version does not know is off.
    #[must_use]
    pub fn has(self, minor: Minor, name: &str) -> bool {
        find(minor, name).is_some_and(|gate| self.is_on(&gate))
    }

    /// Whether the version knows a gate and it is off.
    #[must_use]
    pub fn lacks(self, minor: Minor, name: &str) -> bool {
        find(minor, name).is_some_and(|gate| !self.is_on(&gate))
    }

    fn is_on(self, gate: &Gate) -> bool {
        gate.is_on != self.changed.contains(&gate.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_state_of_every_gate() {
        for minor in Minor::ALL {
            let inverted = GateSet::of(minor, |gate| !gate.is_on);
            for gate in all(minor) {
                assert_eq!(GateSet::DEFAULT.has(minor, gate.name), gate.is_on, "{minor} {}", gate.name);
                assert_eq!(inverted.has(minor, gate.name), !gate.is_on, "{minor} {}", gate.name);
                assert_eq!(inverted.lacks(minor, gate.name), gate.is_on, "{minor} {}", gate.name);
            }
        }
        assert!(
            !GateSet::DEFAULT.has(Minor::V33, "EnvFiles") && !GateSet::DEFAULT.lacks(Minor::V33, "EnvFiles")
        );
    }

    #[test]
    fn equal_sets_are_made_once() {
        let set = || GateSet::of(Minor::V36, |gate| gate.is_on && gate.name != "WatchList");
        assert!(std::ptr::eq(set().changed, set().changed) && !set().is_default());
        assert_ne!(set(), GateSet::of(Minor::V36, |gate| gate.is_on && gate.name != "NativeHistograms"));
        assert_eq!(GateSet::of(Minor::V36, |gate| gate.is_on), GateSet::DEFAULT);
    }
}
