//! An HTTP/2 connection: reads frames, starts and answers calls, and writes. One task does all of it, so that the
//! responses to requests that arrived together leave together.

mod liveness;
mod windows;

use super::bridge::{BodyOverflow, Bridge, PartSender, ResponseSender};
use super::call::{self, CallResult, Method, StartedCall};
use super::frame::{self, HEAD, Head, Kind, PAYLOAD_BYTES, PREFACE, Reason, Setting, WINDOW};
use super::hpack::Decoder;
use super::outbox::{Outbox, PumpResult, Refusable};
use super::rate_limit::RateLimiter;
use super::request_head::{ParsedRequest, RequestHead};
use super::stream::{HeaderBlock, Request, ResponseEnd, ResponsePart, Stream};
use super::watch;
use crate::budget::{BodyPermits, BudgetPermits};
use crate::calls::{CallStart, MethodIndex};
use crate::codec::KvResponse;
use crate::error::TOO_MANY_REQUESTS;
use crate::large_read;
use crate::limits;
use crate::service::Service;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kstore_nondet::HashMap;
use kstore_store::{KeyRange, OpResult};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tokio_util::io::poll_read_buf;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Code, Status};

/// A protocol error of the client, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionError(Reason);

/// A finished write or large read, with the permits that the reads of a write hold until the response is written.
type FinishedCall = (u32, Method, Result<CallResult, Status>, BudgetPermits);

/// State of one HTTP/2 connection.
pub(super) struct Connection<T> {
    io: T,
    service: Service,
    inbox: BytesMut,
    outbox: Outbox,
    decoder: Decoder,
    block: Option<HeaderBlock>,
    streams: HashMap<u32, Stream>,
    /// Streams with data that waits for space in the connection's window or outbox, each once, in round-robin order.
    /// Some may have ended.
    blocked: VecDeque<u32>,
    rate_limiter: RateLimiter,
    writes: FuturesUnordered<BoxFuture<'static, FinishedCall>>,
    parts: (PartSender, mpsc::Receiver<(u32, ResponsePart)>),
    /// The highest stream id that the client opened.
    last: u32,
    /// Bytes received since the last window update of the connection.
    taken: u32,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    last_received: Instant,
    /// Timer for the liveness check of the client.
    liveness_timer: Pin<Box<Sleep>>,
    ping_sent: bool,
    /// When the incomplete requests of calls started, by stream; the first is the oldest.
    incomplete: BTreeMap<u32, Instant>,
    /// Keys that were read since other tasks ran.
    keys_read: usize,
    /// Bytes that the client had taken at the last check, and when that number last grew, while responses wait for the
    /// client.
    stall: Option<(u64, Instant)>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    /// Creates a connection; `inbox` starts with the client's preface.
    pub(super) fn new(io: T, inbox: BytesMut, service: Service, stop: CancellationToken) -> Self {
        let mut outbox = Outbox::new(service.budget.clone());
        frame::settings(
            &mut outbox.bytes,
            &[
                (Setting::MaxStreams, limits::STREAMS as u32),
                (Setting::InitialWindow, limits::STREAM_WINDOW as u32),
                (Setting::MaxHeaderList, limits::HEADER_BYTES as u32),
            ],
        );
        frame::window_update(&mut outbox.bytes, 0, limits::RECEIVE_WINDOW - WINDOW as u32);
        Self {
            io,
            service,
            inbox,
            outbox,
            decoder: Decoder::default(),
            block: None,
            streams: HashMap::default(),
            blocked: VecDeque::new(),
            rate_limiter: RateLimiter::new(Instant::now()),
            writes: FuturesUnordered::new(),
            parts: mpsc::channel(limits::PARTS),
            last: 0,
            taken: 0,
            stop: Some(Box::pin(stop.cancelled_owned())),
            last_received: Instant::now(),
            liveness_timer: Box::pin(tokio::time::sleep(limits::PING_AFTER)),
            ping_sent: false,
            incomplete: BTreeMap::new(),
            keys_read: 0,
            stall: None,
        }
    }

    /// Serves until the client disconnects or breaks the protocol, or until the server is stopped and all streams have
    /// ended.
    pub(super) async fn run(mut self) -> io::Result<()> {
        debug_assert!(self.inbox.starts_with(PREFACE), "the caller saw it");
        self.inbox.advance(PREFACE.len());
        poll_fn(|cx| {
            let polled = self.poll(cx);
            self.service.activity.has_streams(self.streams.len());
            polled
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_stop(cx);
        self.keys_read = 0;
        loop {
            if let Err(ConnectionError(reason)) = self.take_frames() {
                frame::go_away(&mut self.outbox.bytes, self.last, reason);
                // The last frame; its delivery does not matter.
                let _ = self.poll_write(cx)?;
                return Poll::Ready(Ok(()));
            }
            let busy = self.is_busy();
            let overdrawn = self.outbox.share.is_exhausted();
            self.poll_writes(cx);
            self.poll_parts(cx);
            let full = self.outbox.is_full();
            let written = self.poll_write(cx)?;
            if self.stop.is_none() && self.streams.is_empty() && self.outbox.unsent().is_empty() {
                return Poll::Ready(Ok(()));
            }
            // No frames are read from a client that does not take its responses or has many writes in progress.
            let stays_full = self.outbox.is_full() && written.is_pending();
            let stays_busy = !full && self.is_busy();
            let repaid = overdrawn && !self.outbox.share.is_exhausted();
            if !stays_full && (repaid || (!stays_busy && (busy || full || self.outbox.is_full()))) {
                // Frames and data that waited for space can be processed now.
                continue;
            }
            if self.poll_liveness(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if stays_full || stays_busy {
                if self.keys_read >= limits::KEYS_AT_ONCE {
                    // The next frames are processed after other tasks have run.
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Whether no frames should be processed until a write finishes, data is sent, or other tasks have run.
    fn is_busy(&self) -> bool {
        self.outbox.is_full() || self.writes.len() >= limits::WRITES || self.keys_read >= limits::KEYS_AT_ONCE
    }

    fn poll_stop(&mut self, cx: &mut Context<'_>) {
        if self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready()) {
            self.stop = None;
            frame::go_away(&mut self.outbox.bytes, self.last, Reason::NoError);
        }
    }

    fn poll_writes(&mut self, cx: &mut Context<'_>) {
        while !self.writes.is_empty()
            && !self.outbox.is_full()
            // Results that are not small have waited for their budget.
            && let Poll::Ready(Some((id, method, answer, permits))) = self.writes.poll_next_unpin(cx)
        {
            self.answer(id, method, answer);
            drop(permits);
        }
    }

    fn poll_parts(&mut self, cx: &mut Context<'_>) {
        while !self.outbox.is_full()
            && let Poll::Ready(Some((id, part))) = self.parts.1.poll_recv(cx)
        {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.waiting.push_back(part);
                self.pump(id);
            }
        }
    }

    /// Writes the outbox, and then data that waited for space in it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        loop {
            while !self.outbox.unsent().is_empty() {
                match Pin::new(&mut self.io).poll_write(cx, self.outbox.unsent())? {
                    Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(sent) => {
                        if self.outbox.is_full() {
                            // Nothing is read meanwhile, so progress in writing is the only sign of life.
                            self.last_received = Instant::now();
                            self.ping_sent = false;
                        }
                        self.outbox.advance(sent);
                    }
                    Poll::Pending => return Ok(Poll::Pending),
                }
            }
            self.pump_blocked();
            if self.outbox.unsent().is_empty() {
                return Ok(Pin::new(&mut self.io).poll_flush(cx)?);
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.inbox.reserve(limits::READ_BYTES);
        let read = ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut self.inbox))?;
        self.last_received = Instant::now();
        self.ping_sent = false;
        Poll::Ready(Ok(read))
    }

    /// Removes a stream. Returns whether it existed.
    fn remove_stream(&mut self, id: u32) -> bool {
        self.incomplete.remove(&id);
        self.streams.remove(&id).is_some()
    }

    /// Processes all complete frames, as long as there is space for the responses.
    fn take_frames(&mut self) -> Result<(), ConnectionError> {
        while !self.is_busy()
            && let Some(head) = Head::read(&self.inbox)
        {
            if head.len > PAYLOAD_BYTES {
                return Err(ConnectionError(Reason::FrameSize));
            }
            if self.inbox.len() < HEAD + head.len {
                break;
            }
            self.inbox.advance(HEAD);
            let payload = self.inbox.split_to(head.len);
            self.take(head, payload)?;
        }
        Ok(())
    }

    fn take(&mut self, head: Head, payload: BytesMut) -> Result<(), ConnectionError> {
        if self.block.is_some() != (head.kind == Kind::Continuation) {
            return Err(ConnectionError(Reason::Protocol));
        }
        head.check().map_err(ConnectionError)?;
        match head.kind {
            Kind::Headers => self.headers(head, &payload),
            Kind::Continuation => self.continuation(head, &payload),
            Kind::Data => self.data(head, payload),
            Kind::Reset if self.is_idle(head.stream) => Err(ConnectionError(Reason::Protocol)),
            Kind::Reset if self.remove_stream(head.stream) => self.charge_abuse(),
            Kind::Reset => Ok(()),
            Kind::Settings => self.settings(head, &payload),
            Kind::Ping => {
                if !head.is_ack() {
                    frame::ping(&mut self.outbox.bytes, &payload, true);
                }
                Ok(())
            }
            Kind::WindowUpdate => self.window_update(head, &payload),
            Kind::PushPromise => Err(ConnectionError(Reason::Protocol)),
            Kind::GoAway | Kind::Priority | Kind::Unknown => Ok(()),
        }
    }

    /// Whether the client has not opened the stream, so that frames on it are an error.
    fn is_idle(&self, id: u32) -> bool {
        id > self.last || id.is_multiple_of(2)
    }

    fn charge_abuse(&mut self) -> Result<(), ConnectionError> {
        if self.rate_limiter.try_take(Instant::now()) {
            Ok(())
        } else {
            Err(ConnectionError(Reason::EnhanceYourCalm))
        }
    }

    fn headers(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let block = head.content(payload).ok_or(ConnectionError(Reason::Protocol))?;
        if head.ends_headers() {
            self.open(head.stream, head.ends_stream(), &payload[block])
        } else {
            let (stream, ends, bytes) = (head.stream, head.ends_stream(), payload[block].to_vec());
            self.block = Some(HeaderBlock { stream, ends, bytes, frames: 1 });
            Ok(())
        }
    }

    fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let mut block = self.block.take().ok_or(ConnectionError(Reason::Protocol))?;
        if block.stream != head.stream {
            return Err(ConnectionError(Reason::Protocol));
        }
        block.frames += 1;
        if block.bytes.len() + payload.len() > limits::HEADER_BYTES || block.frames > limits::HEADER_FRAMES {
            return Err(ConnectionError(Reason::EnhanceYourCalm));
        }
        block.bytes.extend_from_slice(payload);
        if head.ends_headers() {
            self.open(block.stream, block.ends, &block.bytes)
        } else {
            self.block = Some(block);
            Ok(())
        }
    }

    /// Handles a complete header block: a request, or trailers.
    fn open(&mut self, id: u32, complete: bool, block: &[u8]) -> Result<(), ConnectionError> {
        let mut opening = RequestHead::default();
        let read = self.decoder.decode(block, limits::HEADER_BYTES, |name, value| opening.take(name, value));
        read.map_err(|_| ConnectionError(Reason::Compression))?;
        if id.is_multiple_of(2) {
            return Err(ConnectionError(Reason::Protocol));
        }
        if id <= self.last {
            return self.trailers(id, complete);
        }
        self.last = id;
        if self.stop.is_none() || self.streams.len() >= limits::STREAMS {
            return self.reset_stream(id, Reason::RefusedStream);
        }
        let mut started = CallStart::default();
        let request = match opening.finish() {
            ParsedRequest::Call(method) => {
                started = self.service.calls.count_started(method.index());
                if !complete {
                    self.incomplete.insert(id, Instant::now());
                }
                Request::Call(method, BytesMut::new(), BodyPermits::default())
            }
            ParsedRequest::Watch => {
                MethodIndex::of(watch::PATH).map(|index| self.service.calls.count_started(index));
                let (node, budget) = (self.service.node.clone(), self.outbox.share.streamed());
                let response = ResponseSender::new(id, &self.parts.0);
                Request::Other(watch::open(node, complete, response, budget))
            }
            ParsedRequest::Other(request) => {
                if !complete
                    && MethodIndex::of(request.uri().path()).is_some_and(MethodIndex::has_one_request)
                {
                    self.incomplete.insert(id, Instant::now());
                }
                let budget = self.outbox.share.streamed();
                let response = ResponseSender::new(id, &self.parts.0);
                Request::Other(Bridge::open(&self.service, *request, complete, response, budget))
            }
            ParsedRequest::Refused(method, status) => {
                let started = self.service.calls.count_started(method.index());
                self.begin(id, Request::Taken, complete, started);
                self.answer(id, method, Err(status));
                return Ok(());
            }
            ParsedRequest::Bad => return self.reset_stream(id, Reason::Protocol),
        };
        self.begin(id, request, complete, started);
        if complete { self.body(id, Bytes::new(), true) } else { Ok(()) }
    }

    fn begin(&mut self, id: u32, request: Request, complete: bool, started: CallStart) {
        let stream = Stream::new(request, complete, self.outbox.initial);
        self.streams.insert(id, Stream { started, ..stream });
    }

    /// Handles trailers: they end the body, and their content is ignored.
    fn trailers(&mut self, id: u32, complete: bool) -> Result<(), ConnectionError> {
        if id == 0 || !complete {
            return Err(ConnectionError(Reason::Protocol));
        }
        self.body(id, Bytes::new(), true)
    }

    fn data(&mut self, head: Head, mut payload: BytesMut) -> Result<(), ConnectionError> {
        if self.is_idle(head.stream) {
            return Err(ConnectionError(Reason::Protocol));
        }
        // The connection's window is refilled at once: as in etcd, the stream's window bounds what a request may acquire.
        self.taken += payload.len() as u32;
        if self.taken > limits::RECEIVE_WINDOW / 2 {
            frame::window_update(&mut self.outbox.bytes, 0, std::mem::take(&mut self.taken));
        }
        let content = head.content(&payload).ok_or(ConnectionError(Reason::Protocol))?;
        let padding = payload.len() - content.len();
        if padding > 0 && !head.ends_stream() && self.streams.contains_key(&head.stream) {
            // Padding counts in the stream's window, and no other code returns it.
            frame::window_update(&mut self.outbox.bytes, head.stream, padding as u32);
        }
        payload.truncate(content.end);
        payload.advance(content.start);
        self.body(head.stream, payload.freeze(), head.ends_stream())
    }

    /// Handles a piece of a body. An unknown stream was reset or answered early, which the client may not know yet.
    fn body(&mut self, id: u32, piece: Bytes, last: bool) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if stream.complete && !piece.is_empty() {
            return Err(ConnectionError(Reason::StreamClosed));
        }
        stream.complete |= last;
        if last {
            self.incomplete.remove(&id);
        }
        match &mut stream.request {
            Request::Taken => {}
            Request::Other(bridge) => {
                let len = piece.len() as u32;
                match bridge.push(piece, last, &self.outbox.share) {
                    Ok(()) if len > 0 && !last => frame::window_update(&mut self.outbox.bytes, id, len),
                    Ok(()) => {}
                    Err(BodyOverflow) => return self.reset_stream(id, Reason::EnhanceYourCalm),
                }
            }
            Request::Call(method, body, permits) => {
                let method = *method;
                if last && body.is_empty() {
                    stream.request = Request::Taken;
                    self.call(id, method, piece, BodyPermits::default());
                } else {
                    if !self.outbox.share.acquire_body(permits, piece.len()) {
                        self.answer(id, method, Err(TOO_MANY_REQUESTS.into()));
                        return Ok(());
                    }
                    body.extend_from_slice(&piece);
                    if let Err(status) = call::check(body) {
                        self.answer(id, method, Err(status));
                    } else if last {
                        let (body, permits) = (std::mem::take(body).freeze(), std::mem::take(permits));
                        stream.request = Request::Taken;
                        self.call(id, method, body, permits);
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts a call. The budget of its body is held until the call is finished.
    fn call(&mut self, id: u32, method: Method, body: Bytes, permits: BodyPermits) {
        if self.outbox.share.is_exhausted() {
            return self.answer(id, method, Err(TOO_MANY_REQUESTS.into()));
        }
        let begun = call::check(&body).and_then(|()| call::begin(&self.service.node, method, body));
        match begun {
            Ok(StartedCall::Finished(answered)) => {
                if let OpResult::Range(range) = &answered.1 {
                    self.keys_read += 1 + usize::try_from(range.count).unwrap_or(0).max(range.kvs.len());
                }
                self.answer(id, method, Ok(CallResult::Result(answered)));
            }
            Ok(StartedCall::Read(range)) => {
                let share = &self.outbox.share;
                let turns = share.large_reads();
                let read = large_read::read(self.service.node.clone(), range, share.streamed(), turns);
                self.writes.push(Box::pin(async move {
                    let answer = read.await.map(CallResult::Encoded);
                    drop(permits);
                    (id, method, answer, Vec::new())
                }));
            }
            Ok(StartedCall::Write(txn, single)) => {
                let count = |keys: &KeyRange| self.service.node.count(keys).unwrap_or(0);
                let Some(scans) = self.outbox.share.acquire_scans(&txn, &count) else {
                    return self.answer(id, method, Err(TOO_MANY_REQUESTS.into()));
                };
                let write = call::write(self.service.node.clone(), txn, single, self.outbox.share.streamed());
                self.writes.push(Box::pin(async move {
                    let answer = write.await;
                    drop(permits);
                    (id, method, answer, scans)
                }));
            }
            Err(status) => self.answer(id, method, Err(status)),
        }
    }

    fn answer(&mut self, id: u32, method: Method, answer: Result<CallResult, Status>) {
        let pumped = answer.and_then(|answer| {
            // The client may have cancelled the call.
            let Some(stream) = self.streams.get_mut(&id) else { return Ok(PumpResult::Open) };
            let (revision, result) = match answer {
                CallResult::Result(result) => result,
                CallResult::Encoded(response) => return Ok(self.outbox.answer_encoded(id, stream, response)),
            };
            let header = self.service.node.header(revision).unwrap_or_default();
            let refusable = if method == Method::Range { Refusable::Yes } else { Refusable::No };
            self.outbox.answer(id, stream, &KvResponse { header, result: &result }, refusable)
        });
        let code = pumped.as_ref().map_or_else(Status::code, |_| Code::Ok);
        let started = self.streams.get(&id).map_or_else(CallStart::default, |stream| stream.started);
        self.service.calls.count_finished(method.index(), code, started);
        match pumped {
            Ok(pumped) => self.pumped(id, pumped),
            Err(status) => self.refuse(id, status),
        }
    }

    fn refuse(&mut self, id: u32, status: Status) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.request = Request::Taken;
            stream.waiting.push_back(ResponsePart::ResponseEnd(ResponseEnd::Refused(status)));
            self.pump(id);
        }
    }

    /// Resets a stream because of the client's behaviour.
    fn reset_stream(&mut self, id: u32, reason: Reason) -> Result<(), ConnectionError> {
        self.remove_stream(id);
        frame::reset(&mut self.outbox.bytes, id, reason);
        self.charge_abuse()
    }

    fn pump(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let pumped = self.outbox.pump(id, stream);
            self.pumped(id, pumped);
        }
    }

    fn pumped(&mut self, id: u32, pumped: PumpResult) {
        match pumped {
            PumpResult::Open => {}
            PumpResult::Blocked => self.queue_for_window(id),
            PumpResult::Done => {
                self.remove_stream(id);
            }
        }
    }

    /// Queues a stream for the connection's window. A stream whose own window is empty waits for a window update
    /// instead.
    fn queue_for_window(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.is_queued || stream.window <= 0 {
            return;
        }
        stream.is_queued = true;
        if self.blocked.len() > 2 * limits::STREAMS {
            self.blocked.retain(|id| self.streams.contains_key(id));
        }
        self.blocked.push_back(id);
    }

    /// Sends on waiting streams in round-robin order, as long as there is space.
    fn pump_blocked(&mut self) {
        for _ in 0..self.blocked.len() {
            if !self.outbox.has_room() {
                return;
            }
            let Some(id) = self.blocked.pop_front() else { return };
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.is_queued = false;
                self.pump(id);
            }
        }
    }
}

#[cfg(test)]
#[path = "../hostile_tests.rs"]
mod hostile;
