//! Liveness of a connection's client: it must answer pings, complete its requests, and take its responses, on each stream.

use super::super::stream::{Request, Stream};
use super::{Connection, Reason, frame, limits};
use std::future::Future;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tonic::Status;

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    /// Refuses overdue requests, and pings a silent client. Ready if the client did not answer, or takes nothing.
    pub(super) fn poll_liveness(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.liveness_timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            self.refuse_incomplete(now);
            if self.is_stalled(now) {
                return Poll::Ready(());
            }
            self.reset_stalled(now);
            // What was added to the outbox is written by the next poll.
            cx.waker().wake_by_ref();
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
            let status = Status::deadline_exceeded("the request did not come to its end in time");
            match self.streams.get(&id) {
                Some(Stream { request: Request::Call(method, ..), .. }) => {
                    self.answer(id, *method, Err(status));
                }
                Some(Stream { request: Request::Other(_), .. }) => self.refuse(id, status),
                Some(Stream { request: Request::Taken, .. }) | None => {}
            }
        }
    }

    /// Resets streams whose client takes nothing of their responses, or leaves a message incomplete.
    fn reset_stalled(&mut self, now: Instant) {
        let mut stalled: Vec<u32> = Vec::new();
        for (id, stream) in &mut self.streams {
            let is_overdue = matches!(&stream.request, Request::Other(bridge) if bridge.is_overdue(now));
            if stream.is_stalled(now) || is_overdue {
                stalled.push(*id);
            }
        }
        stalled.sort_unstable();
        for id in stalled {
            self.remove_stream(id);
            frame::reset(&mut self.outbox.bytes, id, Reason::Cancel);
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
