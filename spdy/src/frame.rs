//! SPDY/3.1 frames: decoding and encoding. Pure.

use crate::headers::{Inflate, empty_block, stored_block};
use crate::limits::FRAME_BYTES;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use std::collections::BTreeMap;

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const FIN: u8 = 1;

/// A frame of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Opens a stream.
    Open {
        /// The number of the stream.
        id: u32,
        /// Its headers, with names in lower case.
        headers: BTreeMap<String, String>,
        /// Whether the client sends nothing on it.
        fin: bool,
    },
    /// Data on a stream; with `fin`, its last.
    Data {
        /// The number of the stream.
        id: u32,
        /// The bytes.
        data: Bytes,
        /// Whether they are the last.
        fin: bool,
    },
    /// Ends a stream in both directions.
    Reset {
        /// The number of the stream.
        id: u32,
    },
    /// Must be answered with the same frame, if the other side has sent it first.
    Ping {
        /// The number of the ping.
        id: u32,
    },
    /// The other side opens no more streams.
    GoAway,
    /// A frame that has no effect here.
    Other,
}

/// The bytes are not SPDY/3.1: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// A frame of another version than 3.1.
    #[error("a frame of another version")]
    Version,
    /// A frame that lacks a member.
    #[error("a frame is too short")]
    Short,
    /// A header block that is not compressed as it must be, or is cut.
    #[error("a header block cannot be read")]
    Headers,
    /// A frame above [`FRAME_BYTES`], or a header block above [`HEADER_BYTES`](crate::limits::HEADER_BYTES).
    #[error("a frame or header block is too large")]
    TooLarge,
}

/// Decodes frames from bytes in chunks of any size.
pub struct Decoder {
    buffer: BytesMut,
    inflate: Inflate,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    pub fn new() -> Self {
        Self { buffer: BytesMut::new(), inflate: Inflate::new() }
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The bytes are no frames of SPDY/3.1, or exceed a bound.
    pub fn decode(&mut self) -> Result<Option<Frame>, SpdyError> {
        let Some(head) = self.buffer.first_chunk::<8>().copied() else { return Ok(None) };
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if length > FRAME_BYTES {
            return Err(SpdyError::TooLarge);
        }
        if self.buffer.len() < 8 + length {
            return Ok(None);
        }
        self.buffer.advance(8);
        let body = self.buffer.split_to(length).freeze();
        let fin = head[4] & FIN != 0;
        if head[0] & 0x80 == 0 {
            let id = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            return Ok(Some(Frame::Data { id, data: body, fin }));
        }
        if u16::from_be_bytes([head[0], head[1]]) != VERSION {
            return Err(SpdyError::Version);
        }
        self.control(u16::from_be_bytes([head[2], head[3]]), fin, &body).map(Some)
    }

    fn control(&mut self, kind: u16, fin: bool, body: &[u8]) -> Result<Frame, SpdyError> {
        let id = || {
            let id = body.first_chunk::<4>().ok_or(SpdyError::Short)?;
            Ok(u32::from_be_bytes(*id) & 0x7fff_ffff)
        };
        match kind {
            SYN_STREAM => {
                // The block follows the stream, the associated stream, priority and slot.
                let block = body.get(10..).ok_or(SpdyError::Short)?;
                Ok(Frame::Open { id: id()?, headers: self.inflate.read(block)?, fin })
            }
            SYN_REPLY | HEADERS => {
                // The headers are not needed, but the shared decompressor must read them.
                self.inflate.read(body.get(4..).ok_or(SpdyError::Short)?)?;
                Ok(Frame::Other)
            }
            RST_STREAM => Ok(Frame::Reset { id: id()? }),
            PING => {
                let id = body.first_chunk::<4>().ok_or(SpdyError::Short)?;
                Ok(Frame::Ping { id: u32::from_be_bytes(*id) })
            }
            GOAWAY => Ok(Frame::GoAway),
            _ => Ok(Frame::Other),
        }
    }
}

fn control(kind: u16, flags: u8, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + body.len());
    frame.put_u16(VERSION);
    frame.put_u16(kind);
    let length = u32::try_from(body.len()).expect("a control frame of ours is small");
    frame.put_u32(u32::from(flags) << 24 | length);
    frame.put_slice(body);
    frame.freeze()
}

/// Encodes the acceptance of a stream. `first`: it is the first reply on the connection.
pub(crate) fn reply(id: u32, first: bool) -> Bytes {
    let body = [&id.to_be_bytes()[..], &empty_block(first)].concat();
    control(SYN_REPLY, 0, &body)
}

/// Encodes the opening of a stream by a client, with these headers. `is_first`: it is the first one of the connection.
///
/// # Panics
/// For headers of 64 KiB or more: a program writes few and short ones.
pub fn open(id: u32, headers: &[(&str, &str)], is_first: bool) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u32(id);
    // No stream belongs to it; neither priority nor slot.
    body.put_slice(&[0; 6]);
    body.put_slice(&stored_block(headers, is_first));
    control(SYN_STREAM, 0, &body)
}

/// Encodes the answer to a ping.
pub fn pong(id: u32) -> Bytes {
    control(PING, 0, &id.to_be_bytes())
}

/// Encodes data; with `fin`, the last of its stream.
///
/// # Panics
/// For data of 16 MiB or more: callers send small pieces.
pub fn data(id: u32, data: &[u8], fin: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + data.len());
    frame.put_u32(id);
    let length = u32::try_from(data.len()).expect("data comes in small pieces");
    frame.put_u32(u32::from(fin) << 24 | length);
    frame.put_slice(data);
    frame.freeze()
}
