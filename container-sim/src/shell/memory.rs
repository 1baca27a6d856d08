//! Bounds on buffered bytes of commands: output until a client reads it, and input until it is complete. A reservation
//! that exceeds the bounds is refused. Files are not counted here but in `disk`.

use crate::limits::{COMMAND_BYTES, COMMANDS_BYTES};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that all commands of one simulation buffer together. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct BufferCapacity(Arc<AtomicUsize>);

/// The bytes that one command line may buffer: 64 KiB of its own, which other commands cannot use up, and more while all
/// commands together buffer at most 192 MiB beyond that. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct BufferAllowance {
    own: Arc<AtomicUsize>,
    shared: BufferCapacity,
}

/// Reserved bytes; dropping the value releases them.
#[derive(Debug)]
pub(super) struct Reservation {
    count: Arc<AtomicUsize>,
    bytes: usize,
}

impl BufferCapacity {
    /// The allowance of a new command line.
    pub fn allowance(&self) -> BufferAllowance {
        BufferAllowance { own: Arc::default(), shared: self.clone() }
    }
}

impl BufferAllowance {
    /// Reserves bytes. `None` if they exceed the bounds.
    pub(super) fn hold(&self, bytes: usize) -> Option<Reservation> {
        let take = |count: &Arc<AtomicUsize>, most: usize| {
            let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
            let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok();
            taken.then(|| Reservation { count: Arc::clone(count), bytes })
        };
        take(&self.own, COMMAND_BYTES).or_else(|| take(&self.shared.0, COMMANDS_BYTES))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.count.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Output of a command. Its bytes stay reserved until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct OutputBytes {
    bytes: Vec<u8>,
    _held: Arc<Reservation>,
}

impl OutputBytes {
    /// `None` if the bytes exceed the bounds.
    pub(super) fn new(bytes: Vec<u8>, allowance: &BufferAllowance) -> Option<Self> {
        let held = allowance.hold(bytes.len())?;
        Some(Self { bytes, _held: Arc::new(held) })
    }

    /// The bytes; their reservation ends.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl AsRef<[u8]> for OutputBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for OutputBytes {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for OutputBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffered_bytes_are_bounded_and_each_command_has_a_reserve() {
        let memory = BufferCapacity::default();
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
