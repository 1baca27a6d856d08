//! [`CallBody`]: the messages of one gRPC call, within the memory budget of its caller and the bounds of the call.

use crate::memory_shares::{MemoryShare, Reserved};
use axum::BoxError;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use kstore_proto::MessageBoundary;
use kstore_storage::limits;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep};

/// The body of a call. Its bytes are reserved as they arrive, until tonic has decoded them.
pub(super) struct CallBody<B> {
    inner: B,
    share: MemoryShare,
    /// Bytes of the longest permitted message, or of all messages.
    limit: usize,
    read: usize,
    reserved: Reserved,
    /// When the last byte must have arrived; `None` for a call that goes on for as long as its caller wants.
    deadline: Option<Pin<Box<Sleep>>>,
    /// The bound on calls of the caller whose message arrives slowly, until this call is one of them.
    slow_share: Option<MemoryShare>,
    slow: Option<Reserved>,
    /// The present message of a call with any number of messages.
    message: Option<MessageBoundary>,
}

impl<B> CallBody<B> {
    /// The body of a call with one message.
    pub(super) fn of_one_message(inner: B, share: MemoryShare, is_anonymous: bool) -> Self {
        let deadline = Some(Box::pin(sleep(limits::BODY_TIME)));
        Self { deadline, ..Self::of_messages(inner, share, true) }.with_limit(is_anonymous)
    }

    /// The body of a call whose messages go on without an end. Each message is reserved until it is complete. All messages
    /// of a caller without credentials together have the size of one.
    pub(super) fn of_messages(inner: B, share: MemoryShare, is_anonymous: bool) -> Self {
        let message = (!is_anonymous).then(MessageBoundary::default);
        let reserved = share.nothing();
        let (deadline, slow_share, slow) = (None, None, None);
        Self { inner, share, limit: 0, read: 0, reserved, deadline, slow_share, slow, message }
            .with_limit(is_anonymous)
    }

    /// The body of a call that counts against `slow_share` while its message arrives slowly.
    pub(super) fn with_slow_share(self, slow_share: MemoryShare) -> Self {
        let deadline = Some(Box::pin(sleep(limits::SEAT_WAITS_FOR_BODY)));
        Self { deadline, slow_share: Some(slow_share), ..self }
    }

    fn with_limit(self, is_anonymous: bool) -> Self {
        let limit = match is_anonymous {
            true => limits::ANONYMOUS_MESSAGE_BYTES,
            false => limits::BODY_BYTES + limits::GRPC_OVERHEAD_BYTES,
        };
        Self { limit, ..self }
    }

    /// The present deadline has passed: the call counts as slow from now on, or ends.
    fn pass_deadline(&mut self) -> Result<(), tonic::Status> {
        let Some(slow_share) = self.slow_share.take() else {
            let text = format!("the message did not arrive within {} s", limits::BODY_TIME.as_secs());
            return Err(tonic::Status::deadline_exceeded(text));
        };
        self.slow = slow_share.try_reserve(limits::SLOW_BODY_BYTES);
        if self.slow.is_none() {
            return Err(tonic::Status::resource_exhausted("too many request bodies are being read"));
        }
        let rest = limits::BODY_TIME.saturating_sub(limits::SEAT_WAITS_FOR_BODY);
        if let Some(deadline) = &mut self.deadline {
            deadline.as_mut().reset(Instant::now() + rest);
        }
        Ok(())
    }

    /// Counts and reserves arrived bytes.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), tonic::Status> {
        let longest = match &mut self.message {
            None => {
                self.read += bytes.len();
                self.read
            }
            Some(message) => {
                if message.is_between() {
                    // tonic has decoded what came before.
                    self.reserved = self.share.nothing();
                }
                message.pass(bytes)
            }
        };
        if longest > self.limit {
            let text = format!("a message of this caller has at most {} bytes", self.limit);
            return Err(tonic::Status::resource_exhausted(text));
        }
        let more = self.share.try_reserve(bytes.len());
        let busy = || tonic::Status::resource_exhausted("too many request bodies are being read");
        self.reserved.merge(more.ok_or_else(busy)?);
        Ok(())
    }
}

impl<B> http_body::Body for CallBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            loop {
                let Some(deadline) = &mut this.deadline else { return Poll::Pending };
                ready!(deadline.as_mut().poll(context));
                if let Err(ended) = this.pass_deadline() {
                    return Poll::Ready(Some(Err(ended.into())));
                }
            }
        };
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
            && let Err(refused) = this.receive(bytes)
        {
            return Poll::Ready(Some(Err(refused.into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_shares::MemoryBudget;
    use axum::body::Body;
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;
    use std::convert::Infallible;

    const KIB: usize = 1024;

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        [&[0], &length[..], &vec![b'x'; bytes]].concat()
    }

    fn body(frames: Vec<Vec<u8>>) -> Body {
        let frames = frames.into_iter().map(|frame| Ok::<_, Infallible>(Bytes::from(frame)));
        Body::from_stream(futures::stream::iter(frames))
    }

    /// The code with which reading a call ends; 0 if it is read to its end.
    async fn read(mut body: CallBody<Body>) -> i32 {
        while let Some(frame) = body.frame().await {
            if let Err(error) = frame {
                return error.downcast::<tonic::Status>().unwrap().code() as i32;
            }
        }
        0
    }

    #[tokio::test]
    async fn messages_without_credentials_are_bounded_in_calls_with_and_without_an_end() {
        let exhausted = tonic::Code::ResourceExhausted as i32;
        let budget = MemoryBudget::new(1 << 20, 1 << 20, 0);
        let share = || budget.share("system:anonymous");
        for make in [CallBody::of_one_message, CallBody::of_messages] {
            let small = make(body(vec![message(KIB)]), share(), true);
            assert_eq!(read(small).await, 0);
            // Frames in which no message ever ends, and many small messages.
            let parts = message(64 * KIB).chunks(KIB).map(<[u8]>::to_vec).collect();
            assert_eq!(read(make(body(parts), share(), true)).await, exhausted);
            let many = make(body(vec![message(KIB); 64]), share(), true);
            assert_eq!(read(many).await, exhausted);
        }
        assert_eq!(budget.free(), 1 << 20);
    }

    #[tokio::test]
    async fn an_endless_call_holds_the_budget_of_one_message_at_a_time() {
        let budget = MemoryBudget::new(100 * KIB, 100 * KIB, 0);
        let share = || budget.share("system:node:a");
        let many = CallBody::of_messages(body(vec![message(40 * KIB); 100]), share(), false);
        assert_eq!(read(many).await, 0);
        let cut: Vec<_> = message(40 * KIB).chunks(7).map(<[u8]>::to_vec).collect();
        let many = CallBody::of_messages(body([cut.clone(), cut.clone(), cut].concat()), share(), false);
        assert_eq!(read(many).await, 0);
        let long = message(200 * KIB).chunks(16 * KIB).map(<[u8]>::to_vec).collect();
        let refused = CallBody::of_messages(body(long), share(), false);
        assert_eq!(read(refused).await, tonic::Code::ResourceExhausted as i32);
        let claimed = [&[0][..], &u32::MAX.to_be_bytes()].concat();
        let refused = CallBody::of_messages(body(vec![claimed]), share(), false);
        assert_eq!(read(refused).await, tonic::Code::ResourceExhausted as i32);
        assert_eq!(budget.free(), 100 * KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_message_does_not_arrive_ends() {
        let budget = MemoryBudget::new(KIB, KIB, 0);
        let silent = || Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>());
        let began = tokio::time::Instant::now();
        let ended = read(CallBody::of_one_message(silent(), budget.share("ann"), false)).await;
        assert_eq!((ended, began.elapsed()), (tonic::Code::DeadlineExceeded as i32, limits::BODY_TIME));
        let slow = MemoryBudget::new(limits::SLOW_BODY_BYTES, limits::SLOW_BODY_BYTES, 0);
        let began = tokio::time::Instant::now();
        let silent_call = || {
            let body = CallBody::of_one_message(silent(), budget.share("ann"), false);
            read(body.with_slow_share(slow.share("ann"))).map(|code| (code, began.elapsed()))
        };
        let codes = (tonic::Code::DeadlineExceeded as i32, tonic::Code::ResourceExhausted as i32);
        let ended = futures::join!(silent_call(), silent_call());
        assert_eq!(ended, ((codes.0, limits::BODY_TIME), (codes.1, limits::SEAT_WAITS_FOR_BODY)));
        let endless = read(CallBody::of_messages(silent(), budget.share("ann"), false));
        assert!(tokio::time::timeout(10 * limits::BODY_TIME, endless).await.is_err());
    }
}
