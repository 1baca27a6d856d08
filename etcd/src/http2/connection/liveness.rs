//! Liveness of a connection's client: it must answer pings, complete its requests, and take its responses.

use std::future::Future;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tonic::Status;

use super::super::stream::{Request, Stream};
use super::{Connection, frame, limits};

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    /// Refuses overdue requests, and pings a silent client. Ready if the client did not answer, or takes nothing.
    pub(super) fn poll_liveness(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.liveness_timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            self.refuse_incomplete(now);
            if self.is_stalled(now) {
                return Poll::Ready(());
            }
            let due = self.last_received + limits::PING_AFTER;
            if now < due {
                self.liveness_timer.as_mut().reset(due);
            } else if self.ping_sent {
                return Poll::Ready(());
            } else {
                self.ping_sent = true;
                frame::ping(&mut self.outbox.bytes, b"kstore\0\0", false);
                self.liveness_timer.as_mut().reset(Instant::now() + limits::PING_TIMEOUT);
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Refuses calls whose requests have been incomplete for too long.
    fn refuse_incomplete(&mut self, now: Instant) {
        while let Some((id, since)) = self.incomplete.first_key_value().map(|(id, since)| (*id, *since))
            && now >= since + limits::REQUEST_TIME
        {
            self.incomplete.remove(&id);
            if let Some(Stream { request: Request::Call(method, ..), .. }) = self.streams.get(&id) {
                let status = Status::deadline_exceeded("the request did not come to its end in time");
                self.answer(id, *method, Err(status));
            }
        }
    }

    /// Whether responses wait for the client and it has taken nothing for too long.
    fn is_stalled(&mut self, now: Instant) -> bool {
        let taken = self.outbox.taken();
        match self.stall {
            _ if !self.outbox.share.is_used() => self.stall = None,
            Some((before, since)) if taken <= before => return now >= since + limits::STALLED_AFTER,
            _ => self.stall = Some((taken, now)),
        }
        false
    }
}
