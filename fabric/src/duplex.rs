//! The bytes under way between the two ends of a stream, as TCP delivers them: in order, with half close and reset. Pure; [`crate::Stream`]
//! wakes the ends.

use crate::limits::QUEUE_BYTES;
use std::collections::VecDeque;

/// An end of a stream: the one that connected, or the one that accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

/// The result of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes; zero is the end of what the other end sends.
    Bytes(usize),
    /// There is nothing to read now, or no space to write.
    Wait,
    /// The other end has reset the stream.
    Reset,
    /// This end has finished its direction, and cannot write any more.
    Finished,
}

/// What one end sends.
#[derive(Debug, Default)]
struct Direction {
    bytes: VecDeque<u8>,
    /// The sender sends no more.
    is_finished: bool,
    /// The receiver is gone: what is sent is answered by a reset.
    is_deaf: bool,
}

/// Both directions of a stream.
#[derive(Debug, Default)]
pub(crate) struct Duplex {
    /// By the index of the side that sends.
    directions: [Direction; 2],
    /// Whether the end with this index was reset by the other one.
    is_reset: [bool; 2],
}

impl Duplex {
    /// The next byte that the other end of `side` has sent, which stays there.
    pub(crate) fn first(&self, side: Side) -> Option<u8> {
        self.directions[side.other().index()].bytes.front().copied()
    }

    /// Takes bytes that the other end of `side` has sent.
    pub(crate) fn read(&mut self, side: Side, buffer: &mut [u8]) -> Moved {
        let incoming = &mut self.directions[side.other().index()];
        if !incoming.bytes.is_empty() {
            let count = buffer.len().min(incoming.bytes.len());
            for (slot, byte) in buffer.iter_mut().zip(incoming.bytes.drain(..count)) {
                *slot = byte;
            }
            return Moved::Bytes(count);
        }
        match () {
            () if self.is_reset[side.index()] => Moved::Reset,
            () if incoming.is_finished || buffer.is_empty() => Moved::Bytes(0),
            () => Moved::Wait,
        }
    }

    /// Sends bytes from `side`, as far as there is space.
    pub(crate) fn write(&mut self, side: Side, bytes: &[u8]) -> Moved {
        if self.is_reset[side.index()] {
            return Moved::Reset;
        }
        let outgoing = &mut self.directions[side.index()];
        if outgoing.is_finished {
            return Moved::Finished;
        }
        if outgoing.is_deaf {
            // The answer to these bytes is a reset; what has come before it can still be read.
            self.is_reset[side.index()] = true;
            return Moved::Reset;
        }
        let count = bytes.len().min(QUEUE_BYTES - outgoing.bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Moved::Wait;
        }
        outgoing.bytes.extend(&bytes[..count]);
        Moved::Bytes(count)
    }

    /// `side` sends no more: its other end reads the end after the last byte.
    pub(crate) fn finish(&mut self, side: Side) {
        self.directions[side.index()].is_finished = true;
    }

    /// `side` is gone. If it has not read all that came, it resets the stream, as a socket does.
    pub(crate) fn close(&mut self, side: Side) {
        if !self.directions[side.other().index()].bytes.is_empty() {
            return self.reset(side);
        }
        self.finish(side);
        self.directions[side.other().index()].is_deaf = true;
    }

    /// `side` resets the stream: its other end can read what it has sent, and then fails.
    pub(crate) fn reset(&mut self, side: Side) {
        let other = side.other().index();
        self.directions[other] = Direction { bytes: VecDeque::new(), is_finished: true, is_deaf: true };
        self.directions[side.index()].is_finished = true;
        self.is_reset[other] = true;
    }
}
