//! State of one stream: the received request, and the data that waits to be sent. It creates no frames.

use super::bridge::Bridge;
use super::call::Method;
use crate::budget::{BodyPermits, BudgetPermits};
use crate::calls::CallStart;
use crate::limits::STALLED_AFTER;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use std::collections::VecDeque;
use tokio::time::Instant;
use tonic::Status;

/// One stream of a connection.
pub(super) struct Stream {
    pub(super) request: Request,
    /// Whether the client has ended its side.
    pub(super) complete: bool,
    /// The stream's window: bytes that the client still accepts.
    pub(super) window: i64,
    /// Parts to send, in order; nothing follows a tail.
    pub(super) waiting: VecDeque<ResponsePart>,
    /// Whether the stream is queued for space on the connection.
    pub(super) is_queued: bool,
    /// The call's start, for the access log.
    pub(super) started: CallStart,
    /// Bytes of data that were sent on the stream.
    pub(super) sent: u64,
    /// Bytes that were sent at the last check, and when that number last grew, while data waits for the stream's window.
    pub(super) stall: Option<(u64, Instant)>,
}

/// A header block that continues in further frames.
pub(super) struct HeaderBlock {
    pub(super) stream: u32,
    /// Whether the block ends the stream.
    pub(super) ends: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) frames: usize,
}

/// The receiver of a request's body.
pub(super) enum Request {
    /// A call to answer when its body is complete; with the body's budget.
    Call(Method, BytesMut, BodyPermits),
    /// Another task, which gets the body in pieces.
    Other(Bridge),
    /// The response is on its way, so the rest of the body is dropped.
    Taken,
}

/// A part of a response.
pub(super) enum ResponsePart {
    /// The headers before the messages of a call.
    Accepted,
    /// Status and headers before all data.
    Head(StatusCode, HeaderMap),
    /// Data, and the permits that it holds until it is sent.
    Data(Bytes, BudgetPermits),
    /// The end of the response.
    ResponseEnd(ResponseEnd),
}

/// The end of a response.
pub(super) enum ResponseEnd {
    /// Trailers of a successful call.
    Ok,
    /// Trailers of a failed call.
    Failed(Status),
    /// The whole response to a refused call.
    Refused(Status),
    /// Trailers from the router.
    Trailers(HeaderMap),
    /// No trailers: not a gRPC call.
    Bare,
    /// The whole response is status and headers.
    HeadOnly(StatusCode, HeaderMap),
}

impl Stream {
    pub(super) fn new(request: Request, complete: bool, window: i64) -> Self {
        Self {
            request,
            complete,
            window,
            waiting: VecDeque::new(),
            is_queued: false,
            started: CallStart::default(),
            sent: 0,
            stall: None,
        }
    }

    /// Whether data waits for the stream's window, and the client has not widened it for too long. The connection may be
    /// alive by other streams meanwhile.
    pub(super) fn is_stalled(&mut self, now: Instant) -> bool {
        match self.stall {
            _ if self.waiting.is_empty() || self.window > 0 => self.stall = None,
            Some((before, since)) if self.sent <= before => return now >= since + STALLED_AFTER,
            _ => self.stall = Some((self.sent, now)),
        }
        false
    }
}
