//! How much commands hold that is still to be read: their output until a client takes it, and their input until there is all of it.
//! It counts bytes and refuses; not the disks, which count their own (see `disk`).

use crate::limits::{COMMAND_BYTES, COMMANDS_BYTES};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all commands of a simulation hold together. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<AtomicUsize>);

/// What one command line may hold: `COMMAND_BYTES` of its own, which nothing others do takes away, and more as long as all
/// together hold no more than `COMMANDS_BYTES`. Clones are the same allowance.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    own: Arc<AtomicUsize>,
    shared: Memory,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    count: Arc<AtomicUsize>,
    bytes: usize,
}

impl Memory {
    /// The allowance of a new command line.
    pub fn allowance(&self) -> Allowance {
        Allowance { own: Arc::default(), shared: self.clone() }
    }
}

impl Allowance {
    /// Counts bytes as held. `None` if there is no room for them.
    pub(super) fn hold(&self, bytes: usize) -> Option<Held> {
        let take = |count: &Arc<AtomicUsize>, most: usize| {
            let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
            let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok();
            taken.then(|| Held { count: Arc::clone(count), bytes })
        };
        take(&self.own, COMMAND_BYTES).or_else(|| take(&self.shared.0, COMMANDS_BYTES))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// What a command printed; it counts as held until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Printed {
    bytes: Vec<u8>,
    _held: Arc<Held>,
}

impl Printed {
    /// `None` if there is no room for it.
    pub(super) fn new(bytes: Vec<u8>, allowance: &Allowance) -> Option<Self> {
        let held = allowance.hold(bytes.len())?;
        Some(Self { bytes, _held: Arc::new(held) })
    }

    /// The bytes, no longer counted.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl AsRef<[u8]> for Printed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for Printed {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Printed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_hold_is_bounded_and_each_has_its_own() {
        let memory = Memory::default();
        let (greedy, modest) = (memory.allowance(), memory.allowance());
        let own = greedy.hold(COMMAND_BYTES).unwrap();
        let all = greedy.hold(COMMANDS_BYTES).unwrap();
        assert!(greedy.hold(1).is_none());
        let small = modest.hold(COMMAND_BYTES).unwrap();
        assert!(modest.hold(1).is_none(), "the rest is taken");
        drop(all);
        assert!(modest.hold(COMMANDS_BYTES).is_some());
        drop((own, small));
        assert!(greedy.hold(COMMAND_BYTES).is_some() && modest.hold(COMMAND_BYTES).is_some());
        assert!(modest.hold(usize::MAX).is_none());
    }
}
