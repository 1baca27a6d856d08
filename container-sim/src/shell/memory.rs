//! Bounds on the memory of commands: variables, words, pipes, output until a client reads it, and input until it is complete.
//! Bytes are reserved before they are made. Files are not counted here but in `disk`.

use super::work::{Killed, PUSH_WORK, WorkMeter};
use crate::limits::{
    BUFFER_COST, COMMAND_BYTES, COMMANDS_BYTES, CONTAINER_BYTES, EXACT_RESERVATION, NAMESPACE_BYTES,
    RESERVATION_CHUNK,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of bytes with its limit. Clones share the count.
#[derive(Clone, Debug)]
struct ByteCount {
    reserved: Arc<AtomicUsize>,
    most: usize,
}

impl ByteCount {
    fn new(most: usize) -> Self {
        Self { reserved: Arc::default(), most }
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |reserved: usize| reserved.checked_add(bytes).filter(|reserved| *reserved <= self.most);
        self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The bytes that all commands of one simulation, of one namespace or of one container hold together. Bytes of a part count
/// against the whole as well. Clones share the counts.
#[derive(Clone, Debug)]
pub struct BufferCapacity(Vec<ByteCount>);

impl Default for BufferCapacity {
    fn default() -> Self {
        Self(vec![ByteCount::new(COMMANDS_BYTES)])
    }
}

impl BufferCapacity {
    /// The part of a new namespace.
    #[must_use]
    pub fn namespace(&self) -> Self {
        self.part(NAMESPACE_BYTES)
    }

    /// The part of a new container.
    #[must_use]
    pub fn container(&self) -> Self {
        self.part(CONTAINER_BYTES)
    }

    fn part(&self, most: usize) -> Self {
        Self(self.0.iter().cloned().chain([ByteCount::new(most)]).collect())
    }

    /// The allowance of a new command line.
    pub fn allowance(&self) -> BufferAllowance {
        BufferAllowance { own: ByteCount::new(COMMAND_BYTES), shared: self.clone() }
    }

    /// Bytes that are held now.
    pub fn reserved(&self) -> usize {
        self.0.last().map_or(0, |count| count.reserved.load(Ordering::Acquire))
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = self.0.iter().take_while(|count| count.take(bytes)).count();
        if taken < self.0.len() {
            self.0[..taken].iter().for_each(|count| count.give(bytes));
        }
        taken == self.0.len()
    }

    fn give(&self, bytes: usize) {
        self.0.iter().for_each(|count| count.give(bytes));
    }
}

/// The bytes that one command line may hold: 64 KiB of its own, which other commands cannot use up, and more as far as the
/// capacities of its container, its namespace and the simulation allow. Clones share the count.
#[derive(Clone, Debug)]
pub struct BufferAllowance {
    own: ByteCount,
    shared: BufferCapacity,
}

impl Default for BufferAllowance {
    fn default() -> Self {
        BufferCapacity::default().allowance()
    }
}

impl BufferAllowance {
    /// Reserves bytes. `None` if they exceed the bounds.
    pub fn hold(&self, bytes: usize) -> Option<Reservation> {
        let mut room = Reservation::new(self);
        room.grow(bytes).then_some(room)
    }
}

/// Reserved bytes, which can grow; dropping the value releases them.
#[derive(Debug)]
pub struct Reservation {
    allowance: BufferAllowance,
    used: usize,
    own: usize,
    shared: usize,
}

impl Reservation {
    pub(super) fn new(allowance: &BufferAllowance) -> Self {
        Self { allowance: allowance.clone(), used: 0, own: 0, shared: 0 }
    }

    /// Reserves more bytes. Returns false, and reserves nothing, if they exceed the bounds.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Some(used) = self.used.checked_add(bytes) else { return false };
        let need = used.saturating_sub(self.own + self.shared);
        // Reservations that grow by single bytes reserve some in advance.
        let chunk = if used <= EXACT_RESERVATION { need } else { need.max(RESERVATION_CHUNK) };
        let fits = need == 0
            || [chunk, need].into_iter().any(|bytes| {
                if self.allowance.own.take(bytes) {
                    self.own += bytes;
                    return true;
                }
                let shared = self.allowance.shared.take(bytes);
                self.shared += if shared { bytes } else { 0 };
                shared
            });
        if fits {
            self.used = used;
        }
        fits
    }

    /// Lets later growth use these bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.allowance.own.give(self.own);
        self.allowance.shared.give(self.shared);
    }
}

/// The memory and the work of the command that runs: what exceeds the memory kills the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    pub(super) allowance: BufferAllowance,
    pub(super) work: WorkMeter,
}

impl Bounds {
    /// Reserves bytes, or kills the command.
    pub(super) fn grow(&self, room: &mut Reservation, bytes: usize) -> bool {
        let fits = room.grow(bytes);
        if !fits {
            self.work.kill(Killed::Memory);
        }
        fits
    }
}

/// Bytes whose memory is reserved before they are made.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    bounds: Bounds,
    room: Reservation,
}

impl Buffer {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self { bytes: Vec::new(), room: Reservation::new(&bounds.allowance), bounds: bounds.clone() }
    }

    /// Bytes that exist already and are small, or a part of others that are reserved. `None` if they exceed the bounds.
    pub(super) fn of(bytes: Vec<u8>, bounds: &Bounds) -> Option<Self> {
        let room = bounds.allowance.hold(bytes.len() + BUFFER_COST)?;
        Some(Self { bytes, bounds: bounds.clone(), room })
    }

    /// Appends bytes. Returns false, and has killed the command, if they exceed the bounds.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let fits =
            self.bounds.work.spend(PUSH_WORK + bytes.len()) && self.bounds.grow(&mut self.room, bytes.len());
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    /// Appends bytes unless they exceed the bounds.
    pub(super) fn try_push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.room.grow(bytes.len());
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn into_output(self) -> OutputBytes {
        OutputBytes { bytes: self.bytes, _reservation: Arc::new(self.room) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.push(bytes) { Ok(bytes.len()) } else { Err(std::io::ErrorKind::OutOfMemory.into()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Output of a command. Its bytes stay reserved until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct OutputBytes {
    bytes: Vec<u8>,
    _reservation: Arc<Reservation>,
}

impl OutputBytes {
    /// The bytes; their reservation ends.
    #[cfg(test)]
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

    #[test]
    fn a_container_and_a_namespace_leave_memory_for_others() {
        let all = BufferCapacity::default();
        let (namespace, other) = (all.namespace(), all.namespace());
        let containers = [namespace.container(), namespace.container()];
        let [first, second] = containers.each_ref().map(BufferCapacity::allowance);
        let _own = [&first, &second].map(|allowance| allowance.hold(COMMAND_BYTES).unwrap());
        assert!(first.hold(CONTAINER_BYTES + 1).is_none());
        let reserved = first.hold(CONTAINER_BYTES).unwrap();
        assert!(second.hold(NAMESPACE_BYTES - CONTAINER_BYTES + 1).is_none());
        let rest = second.hold(NAMESPACE_BYTES - CONTAINER_BYTES).unwrap();
        assert_eq!((namespace.reserved(), all.reserved()), (NAMESPACE_BYTES, NAMESPACE_BYTES));
        assert!(other.allowance().hold(COMMANDS_BYTES - NAMESPACE_BYTES).is_some());
        drop((reserved, rest));
        assert_eq!((namespace.reserved(), all.reserved(), containers[0].reserved()), (0, 0, 0));
    }

    #[test]
    fn a_reservation_grows_and_returns_all_its_bytes() {
        let memory = BufferCapacity::default();
        let mut room = Reservation::new(&memory.allowance());
        for _ in 0..100_000 {
            assert!(room.grow(7));
            room.shrink(2);
        }
        assert!((500_000..700_000).contains(&memory.reserved()), "{}", memory.reserved());
        assert!(!room.grow(usize::MAX) && !room.grow(COMMANDS_BYTES));
        drop(room);
        assert_eq!(memory.reserved(), 0);
    }
}
