//! [`StreamExecutor`]: runs the streams of HTTP/2 connections, and resets those whose clients take nothing of their answers.

use super::answer::AnswerProgress;
use kstore_storage::limits::STALLED_ANSWER;
use parking_lot::Mutex;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use tokio::time::{Instant, Sleep, sleep_until};

tokio::task_local! {
    /// The answer of the stream that is being polled.
    static ANSWER: StreamAnswer;
}

/// The answer of a stream, once it has one.
#[derive(Clone, Default)]
struct StreamAnswer(Arc<Mutex<Option<Arc<AnswerProgress>>>>);

impl StreamAnswer {
    /// When the stream is to be reset if its client has taken nothing until then.
    fn deadline(&self) -> Option<Instant> {
        let since = self.0.lock().as_ref()?.stalled_since()?;
        Some(since + STALLED_ANSWER)
    }
}

/// Records the answer of the stream that is being polled; an HTTP/1.1 connection has none.
pub(super) fn answers_with(progress: Arc<AnswerProgress>) {
    // Without a stream there is nothing to record.
    let _ = ANSWER.try_with(|answer| *answer.0.lock() = Some(progress));
}

/// Spawns the streams of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor;

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(async move {
            let mut stream = pin!(stream);
            let answer = StreamAnswer::default();
            let mut timer: Option<Pin<Box<Sleep>>> = None;
            // A stream that is dropped before its end is reset.
            std::future::poll_fn(|context| {
                let polled = ANSWER.sync_scope(answer.clone(), || stream.as_mut().poll(context));
                if polled.is_ready() {
                    return Poll::Ready(());
                }
                while let Some(deadline) = answer.deadline() {
                    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
                    if timer.as_mut().poll(context).is_pending() {
                        break;
                    }
                    // The client may have taken something since the timer was set.
                    if deadline <= Instant::now() {
                        return Poll::Ready(());
                    }
                    timer.as_mut().reset(deadline);
                }
                Poll::Pending
            })
            .await;
        });
    }
}
