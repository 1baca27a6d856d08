//! One stream: what has come of its request, and what waits to be sent. No frames are made here.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::bridge::Bridge;
use super::budget::Held;
use super::call::Method;
use crate::calls::Started;

/// See the module.
pub(super) struct Stream {
    pub(super) request: Request,
    /// The client has sent everything.
    pub(super) complete: bool,
    /// What the client still takes on this stream.
    pub(super) window: i64,
    /// In this order; nothing follows a tail.
    pub(super) waiting: VecDeque<Part>,
    /// It has its turn when there is room on the connection.
    pub(super) in_turn: bool,
    /// For the access log.
    pub(super) started: Started,
}

/// Headers that go on in further frames.
pub(super) struct Block {
    pub(super) stream: u32,
    /// Whether the stream ends with them.
    pub(super) ends: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) frames: usize,
}

/// Where a request's body goes.
pub(super) enum Request {
    /// To be answered here once it is complete; with what its body holds of the bytes that there may be.
    Call(Method, BytesMut, Option<OwnedSemaphorePermit>),
    /// To another task, piece by piece.
    Other(Bridge),
    /// Nobody wants more of it: the answer is on its way.
    Taken,
}

/// A part of an answer.
pub(super) enum Part {
    /// Before all messages of a call.
    Accepted,
    /// Before all data.
    Head(StatusCode, HeaderMap),
    /// Bytes, and what they hold until they have gone out.
    Data(Bytes, Held),
    /// The end.
    Tail(Tail),
}

/// How an answer ends.
pub(super) enum Tail {
    /// The call went well.
    Ok,
    /// It did not.
    Failed(Status),
    /// The whole answer to a call that was refused.
    Refused(Status),
    /// Whoever answered knows.
    Trailers(HeaderMap),
    /// Without a word: not a gRPC call.
    Bare,
    /// Status and headers are everything there is.
    HeadOnly(StatusCode, HeaderMap),
}

impl Stream {
    pub(super) fn new(request: Request, complete: bool, window: i64) -> Self {
        Self {
            request,
            complete,
            window,
            waiting: VecDeque::new(),
            in_turn: false,
            started: Started::default(),
        }
    }
}
