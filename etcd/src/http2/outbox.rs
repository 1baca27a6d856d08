//! The outbox of a connection: frames in sending order, bounded by the client's windows and by the outbox's size. No
//! I/O.

use super::call::PREFIX;
use super::frame::{self, PAYLOAD_BYTES, Reason, WINDOW, WINDOW_MAX};
use super::reply::Encoder;
use super::stream::{ResponseEnd, ResponsePart, Stream};
use crate::budget::{Budget, ConnectionBudget};
use crate::codec::{KvResponse, Sink};
use crate::error::TOO_MANY_REQUESTS;
use crate::large_read::{self, EncodedResponse};
use crate::limits::OUTBOX_BYTES;
use bytes::Bytes;
use tonic::Status;

/// Encoded frames that wait to be written, with the connection's flow control.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) bytes: Vec<u8>,
    /// Number of bytes that are written.
    pub(super) sent: usize,
    pub(super) encoder: Encoder,
    /// The connection's window: bytes that the client still accepts.
    window: i64,
    /// The initial window of new streams.
    pub(super) initial: i64,
    /// The largest payload that the client accepts.
    payload: usize,
    /// The connection's budget for responses that the client does not take.
    pub(super) share: ConnectionBudget,
    /// Bytes of data put into frames so far.
    pub(super) framed: u64,
}

/// State of a stream after pumping: sending as much of its waiting data as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PumpResult {
    /// Everything was sent; more will follow.
    Open,
    /// Data waits for a window or for the outbox.
    Blocked,
    /// The response is complete.
    Done,
}

/// Whether a call can still be refused if there is no budget for its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusable {
    /// The call changed nothing.
    Yes,
    /// The call changed something, so the client must get the result.
    No,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new(Budget::default())
    }
}

impl Outbox {
    /// Creates an empty outbox with a share of `budget`.
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
            encoder: Encoder::default(),
            window: WINDOW,
            initial: WINDOW,
            payload: PAYLOAD_BYTES,
            share: ConnectionBudget::of(budget),
            framed: 0,
        }
    }

    /// The bytes that are not written yet.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Approximate bytes of data that the client has taken so far; its growth shows whether the client takes any.
    /// Waiting frames other than data make it smaller for a while.
    pub(super) fn taken(&self) -> u64 {
        self.framed.saturating_sub(self.unsent().len() as u64)
    }

    /// Removes `sent` bytes that were written.
    pub(super) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            // The capacity that a large response needed is released.
            self.bytes.shrink_to(OUTBOX_BYTES);
        } else if self.sent >= OUTBOX_BYTES {
            // A client that always leaves some bytes must not keep all earlier ones in memory.
            self.bytes.drain(..self.sent);
            self.sent = 0;
            self.bytes.shrink_to(OUTBOX_BYTES);
        }
    }

    /// Whether data can be sent on a stream with an open window.
    pub(super) fn has_room(&self) -> bool {
        self.window > 0 && !self.is_full()
    }

    /// Whether nothing more should be added before some bytes are written.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() - self.sent >= OUTBOX_BYTES
    }

    /// Sets the largest payload that the client accepts.
    pub(super) fn resize_frames(&mut self, payload: u32) {
        self.payload = (payload as usize).clamp(PAYLOAD_BYTES, OUTBOX_BYTES);
    }

    /// Widens the connection's window; returns false if it exceeds the largest window.
    pub(super) fn widen(&mut self, bytes: i64) -> bool {
        self.window += bytes;
        self.window <= WINDOW_MAX
    }

    /// Sends the whole response to a call, at once if there is space for it. A large response is split into frames as
    /// it is sent: the outbox never holds much more than [`OUTBOX_BYTES`], regardless of the client's windows.
    ///
    /// # Errors
    /// The response is too large, or exceeds the budget because the client leaves too much untaken; nothing was sent.
    pub(super) fn answer(
        &mut self,
        id: u32,
        stream: &mut Stream,
        answer: &KvResponse<'_>,
        refusable: Refusable,
    ) -> Result<PumpResult, Status> {
        let message = answer.size();
        large_read::fits(message)?;
        let (size, prefix) = (PREFIX + message, prefix(message));
        let at_once = size <= OUTBOX_BYTES && (size as i64) <= self.window.min(stream.window);
        let permits = match refusable {
            _ if at_once => Vec::new(),
            Refusable::Yes => self.share.acquire(size).ok_or_else(|| Status::from(TOO_MANY_REQUESTS))?,
            Refusable::No => self.share.acquire_remaining(size),
        };
        frame::headers(&mut self.bytes, id, false, |block| self.encoder.accepted(block));
        if at_once {
            self.window -= size as i64;
            stream.window -= size as i64;
            stream.sent += size as u64;
            self.framed += size as u64;
            let mut framed =
                FrameSink { out: &mut self.bytes, stream: id, rest: size, room: 0, payload: self.payload };
            framed.put(&prefix);
            answer.write(&mut framed);
            stream.waiting.push_back(ResponsePart::ResponseEnd(ResponseEnd::Ok));
        } else {
            let mut body = Vec::with_capacity(size);
            body.put(&prefix);
            answer.write(&mut body);
            stream.waiting.extend([
                ResponsePart::Data(body.into(), permits),
                ResponsePart::ResponseEnd(ResponseEnd::Ok),
            ]);
        }
        Ok(self.pump(id, stream))
    }

    /// Sends an encoded response, whose budget was acquired before.
    pub(super) fn answer_encoded(
        &mut self,
        id: u32,
        stream: &mut Stream,
        response: EncodedResponse,
    ) -> PumpResult {
        frame::headers(&mut self.bytes, id, false, |block| self.encoder.accepted(block));
        stream.waiting.push_back(ResponsePart::Data(prefix(response.size()).into(), Vec::new()));
        let EncodedResponse { parts, permits } = response;
        stream.waiting.extend(parts.into_iter().map(|part| ResponsePart::Data(part, Vec::new())));
        // The budget is free once the last byte is sent.
        stream
            .waiting
            .extend([ResponsePart::Data(Bytes::new(), permits), ResponsePart::ResponseEnd(ResponseEnd::Ok)]);
        self.pump(id, stream)
    }

    /// Sends a stream's waiting data, as far as windows and outbox permit.
    pub(super) fn pump(&mut self, id: u32, stream: &mut Stream) -> PumpResult {
        while let Some(part) = stream.waiting.pop_front() {
            match part {
                ResponsePart::Accepted => {
                    frame::headers(&mut self.bytes, id, false, |block| self.encoder.accepted(block));
                }
                ResponsePart::Head(status, headers) => {
                    frame::headers(&mut self.bytes, id, false, |block| {
                        self.encoder.answer(block, status, &headers);
                    });
                }
                ResponsePart::Data(mut data, permits) => {
                    while !data.is_empty() {
                        let most = self.window.min(stream.window).min(self.payload as i64);
                        if most <= 0 || self.is_full() {
                            stream.waiting.push_front(ResponsePart::Data(data, permits));
                            return PumpResult::Blocked;
                        }
                        let part = data.split_to(data.len().min(most as usize));
                        self.window -= part.len() as i64;
                        stream.window -= part.len() as i64;
                        stream.sent += part.len() as u64;
                        self.framed += part.len() as u64;
                        frame::data(&mut self.bytes, id, part.len());
                        self.bytes.extend_from_slice(&part);
                    }
                }
                ResponsePart::ResponseEnd(tail) => {
                    self.tail(id, &tail);
                    if !stream.complete {
                        frame::reset(&mut self.bytes, id, Reason::NoError);
                    }
                    return PumpResult::Done;
                }
            }
        }
        PumpResult::Open
    }

    fn tail(&mut self, id: u32, tail: &ResponseEnd) {
        let Self { bytes, encoder, .. } = self;
        match tail {
            ResponseEnd::Ok => frame::headers(bytes, id, true, |block| encoder.ended(block)),
            ResponseEnd::Failed(status) => {
                frame::headers(bytes, id, true, |block| encoder.failed(block, status));
            }
            ResponseEnd::Refused(status) => {
                frame::headers(bytes, id, true, |block| encoder.refused(block, status));
            }
            ResponseEnd::Trailers(map) => frame::headers(bytes, id, true, |block| encoder.map(block, map)),
            ResponseEnd::HeadOnly(status, map) => {
                frame::headers(bytes, id, true, |block| encoder.answer(block, *status, map));
            }
            ResponseEnd::Bare => frame::end(bytes, id),
        }
    }
}

/// The prefix of a message of at most [`ANSWER_MAX`](crate::limits::ANSWER_MAX) bytes.
fn prefix(message: usize) -> Vec<u8> {
    let length = u32::try_from(message).expect("a message has at most 2 GiB");
    [&[0], &length.to_be_bytes()[..]].concat()
}

/// A sink that splits bytes into frames while they are written. The total length is known in advance.
struct FrameSink<'a> {
    out: &'a mut Vec<u8>,
    stream: u32,
    /// Bytes that follow after the current frame.
    rest: usize,
    /// Bytes that follow in the current frame.
    room: usize,
    payload: usize,
}

impl Sink for FrameSink<'_> {
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.room == 0 {
                self.room = self.rest.min(self.payload);
                self.rest -= self.room;
                frame::data(self.out, self.stream, self.room);
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.room));
            self.out.extend_from_slice(now);
            self.room -= now.len();
            bytes = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{HEAD, Head, Kind};
    use super::super::stream::Request;
    use super::*;

    /// The data bytes of a stream, and whether it ended.
    fn data(mut bytes: &[u8], id: u32) -> (Vec<u8>, bool) {
        let (mut data, mut ended) = (Vec::new(), false);
        while let Some(head) = Head::read(bytes) {
            let (payload, rest) = bytes[HEAD..].split_at(head.len);
            if head.stream == id && head.kind == Kind::Data {
                assert!(head.len <= PAYLOAD_BYTES);
                data.extend_from_slice(payload);
            }
            ended |= head.stream == id && head.ends_stream();
            bytes = rest;
        }
        (data, ended)
    }

    #[test]
    fn framed_bytes_equal_the_input() {
        let bytes: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let mut out = Vec::new();
        let mut framed =
            FrameSink { out: &mut out, stream: 3, rest: bytes.len(), room: 0, payload: PAYLOAD_BYTES };
        bytes.chunks(777).for_each(|chunk| framed.put(chunk));
        assert_eq!(data(&out, 3).0, bytes);
    }

    #[test]
    fn data_waits_for_the_windows_of_stream_and_connection() {
        let mut outbox = Outbox::default();
        let mut stream = Stream::new(Request::Taken, true, 10);
        stream.waiting.push_back(ResponsePart::Data(Bytes::from(vec![7; 100_000]), Vec::new()));
        stream.waiting.push_back(ResponsePart::ResponseEnd(ResponseEnd::Bare));
        assert_eq!(outbox.pump(1, &mut stream), PumpResult::Blocked);
        assert_eq!(data(&outbox.bytes, 1).0.len(), 10);
        stream.window += 1_000_000;
        assert_eq!(outbox.pump(1, &mut stream), PumpResult::Blocked);
        assert_eq!(data(&outbox.bytes, 1).0.len(), WINDOW as usize);
        assert!(outbox.widen(1_000_000) && !outbox.widen(WINDOW_MAX));
        assert_eq!(outbox.pump(1, &mut stream), PumpResult::Done);
        assert_eq!(data(&outbox.bytes, 1), (vec![7; 100_000], true));
    }

    #[test]
    fn sent_bytes_are_released_although_some_always_remain() {
        let mut outbox = Outbox::default();
        outbox.bytes.push(0);
        for _ in 0..300 {
            outbox.bytes.extend_from_slice(&[0; PAYLOAD_BYTES]);
            outbox.advance(PAYLOAD_BYTES);
            assert_eq!(outbox.unsent().len(), 1);
            assert!(outbox.bytes.len() <= OUTBOX_BYTES + PAYLOAD_BYTES);
        }
    }

    #[test]
    fn a_full_outbox_accepts_no_data_until_some_is_sent() {
        let mut outbox = Outbox::default();
        assert!(outbox.widen(1 << 30));
        let mut stream = Stream::new(Request::Taken, true, 1 << 30);
        stream.waiting.push_back(ResponsePart::Data(Bytes::from(vec![7; 3 * OUTBOX_BYTES]), Vec::new()));
        assert_eq!(outbox.pump(1, &mut stream), PumpResult::Blocked);
        assert!(outbox.is_full() && outbox.unsent().len() < 2 * OUTBOX_BYTES);
        outbox.advance(outbox.unsent().len());
        assert_eq!(outbox.pump(1, &mut stream), PumpResult::Blocked);
    }
}
