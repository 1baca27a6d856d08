//! Large requests, which are decoded, changed and checked for many milliseconds without a pause, aside from the threads that serve all
//! others. Not the bounds on what one request may cost: those are in the rules.

use crate::limits;
use crate::request::Request;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Turns of large requests.
#[derive(Debug)]
pub(super) struct Heavy {
    turns: Semaphore,
}

impl Default for Heavy {
    fn default() -> Self {
        Self { turns: Semaphore::new(limits::HEAVY_AT_A_TIME) }
    }
}

impl Heavy {
    /// Runs what serves a large request: it waits for its turn, and the runtime's other tasks move to another thread whenever it is
    /// polled.
    pub(super) async fn run<T>(&self, serving: impl Future<Output = T>) -> T {
        // The semaphore is never closed; without a turn the request would only be served on the common threads.
        let _turn = self.turns.acquire().await.ok();
        Aside { serving: Box::pin(serving) }.await
    }
}

/// Whether a request is large enough to be served aside.
pub(super) fn is_heavy(request: &Request) -> bool {
    request.action.body_size().is_some_and(|bytes| bytes >= limits::HEAVY_BYTES)
}

/// A future whose polls block no other task of the runtime.
struct Aside<F> {
    serving: Pin<Box<F>>,
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // A runtime of one thread has none to move to: simulations, where time does not pass meanwhile.
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => {
                tokio::task::block_in_place(|| self.serving.as_mut().poll(context))
            }
            _ => self.serving.as_mut().poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_large_request_occupies_the_only_worker() {
        let (send, receive) = mpsc::channel();
        let heavy = tokio::spawn(async move {
            let turns = Heavy::default();
            // Blocks its thread until the other task, on the same worker, has run.
            let blocking = async move { receive.recv_timeout(Duration::from_secs(30)) };
            turns.run(blocking).await
        });
        let other = tokio::spawn(async move { send.send("served") });
        assert_eq!(heavy.await.unwrap(), Ok("served"));
        // The receiver may be gone once it has what it waited for.
        let _ = other.await.unwrap();
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_serves_large_requests_where_it_is() {
        assert_eq!(Heavy::default().run(async { 7 }).await, 7);
    }
}
