//! [`Worker`]: takes keys from the queue, runs the reconcile function, and reports the result to the queue.

use super::metrics::{ControllerMetrics, RunOutcome};
use super::own_writes::{PendingWrites, WrittenRevisions};
use super::{Action, Context, Controller, Failure, IntoFailure};
use crate::limits::LOUD_ATTEMPTS;
use crate::{Key, Queue, Revision, Verdict};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, field};

/// Failure of a run with an error that the worker can only print.
type RunError = Failure<Box<dyn Display + Send>>;

/// Reconcile function without its types, so that the code of workers is generated once and not for every controller.
/// The future is boxed in any case: a worker needs the memory of a run only during the run, and a cluster has hundreds
/// of workers, most of them idle.
pub(super) struct Reconcile(
    Box<dyn Fn(Context) -> BoxFuture<'static, Result<Action, RunError>> + Send + Sync>,
);

impl Reconcile {
    pub(super) fn new<F, Fut, E>(reconcile: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: IntoFailure<Error: Send + 'static> + Send + 'static,
    {
        let reconcile = Arc::new(reconcile);
        Self(Box::new(move |context| {
            let reconcile = Arc::clone(&reconcile);
            // Calls the function inside the future: it may panic before it returns one.
            Box::pin(async move { reconcile(context).await.map_err(|error| error.into_failure().boxed()) })
        }))
    }
}

/// State that the worker tasks of one controller share.
pub(super) struct Worker {
    name: Arc<str>,
    queue: Queue<Key>,
    timeout: Option<Duration>,
    /// Whether all watched sources share one history of revisions.
    comparable: bool,
    /// Cancels active runs.
    dropped: CancellationToken,
    metrics: Arc<ControllerMetrics>,
    pending_writes: PendingWrites,
    written: WrittenRevisions,
    reconcile: Reconcile,
}

impl Worker {
    pub(super) fn new(
        controller: &Controller,
        dropped: CancellationToken,
        comparable: bool,
        reconcile: Reconcile,
    ) -> Self {
        Self {
            name: controller.name.clone(),
            queue: controller.queue.clone(),
            timeout: controller.timeout,
            comparable,
            dropped,
            metrics: controller.metrics.clone(),
            pending_writes: controller.pending_writes.clone(),
            written: WrittenRevisions::default(),
            reconcile,
        }
    }

    /// Processes keys until the queue closes.
    pub(super) async fn work(self: Arc<Self>) {
        while let Some(lease) = self.queue.next().await {
            let (pending_writes, before) =
                (self.pending_writes.of(lease.key()), self.written.of(lease.key()));
            let context = Context::new(&lease, self.comparable, pending_writes, before);
            let (fences, written) = (context.fences(), context.written());
            let Some(verdict) = self.dropped.run_until_cancelled(self.run(context)).await else { return };
            let written = Revision(written.load(Ordering::Relaxed));
            if written > Revision::default() {
                self.written.record(lease.key(), written);
            }
            let fences = std::mem::take(&mut *fences.lock());
            self.pending_writes.conclude(lease, verdict, fences);
        }
    }

    /// Executes one run inside its tracing span and returns the verdict for the queue.
    async fn run(&self, context: Context) -> Verdict {
        let Context { key, causes, attempt, stale, .. } = &context;
        let span = tracing::info_span!(
            "run",
            controller = &*self.name,
            %key,
            attempt,
            %causes,
            revision = causes.revisions().last().map(|revision| revision.0),
            stale,
            result = field::Empty,
            took = field::Empty,
        );
        let (began, under_way) = (Instant::now(), self.metrics.begin(*stale));
        async {
            let attempt = context.attempt;
            let (verdict, outcome) = self.verdict_of(self.attempt(context).await, attempt);
            let took = began.elapsed();
            Span::current().record("result", outcome.name()).record("took", field::debug(took));
            under_way.end(outcome, took);
            verdict
        }
        .instrument(span)
        .await
    }

    /// Calls the reconcile function, and contains its panics and its duration.
    async fn attempt(&self, context: Context) -> ReconcileEnd {
        let run = AssertUnwindSafe((self.reconcile.0)(context)).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => timeout(limit, run).await,
            None => Ok(run.await),
        };
        match ended {
            Ok(Ok(result)) => ReconcileEnd::Result(result),
            Ok(Err(_)) => ReconcileEnd::Panic,
            Err(_) => ReconcileEnd::Timeout,
        }
    }

    fn verdict_of(&self, ended: ReconcileEnd, attempt: u32) -> (Verdict, RunOutcome) {
        let failure = match ended {
            ReconcileEnd::Result(Ok(Action::Done)) => return (Verdict::Done, RunOutcome::Success),
            ReconcileEnd::Result(Ok(Action::Again(delay))) => {
                return (Verdict::Again(delay), RunOutcome::RequeueAfter);
            }
            ReconcileEnd::Result(Err(failure)) => failure,
            ReconcileEnd::Panic => {
                tracing::error!("reconcile panicked; will be retried");
                return (Verdict::Retry, RunOutcome::Panic);
            }
            ReconcileEnd::Timeout => {
                tracing::warn!(limit = ?self.timeout, "reconcile timed out; will be retried");
                return (Verdict::Retry, RunOutcome::Timeout);
            }
        };
        match failure {
            Failure::Terminal(error) => {
                tracing::warn!(%error, "reconcile failed; will not be retried");
                (Verdict::Done, RunOutcome::Terminal)
            }
            Failure::Retry(error) => {
                complain(&error, attempt);
                (Verdict::Retry, RunOutcome::Error)
            }
            Failure::RetryIn(error, delay) => {
                complain(&error, attempt);
                (Verdict::RetryIn(delay), RunOutcome::Error)
            }
        }
    }
}

/// End of a reconcile call.
enum ReconcileEnd {
    Result(Result<Action, RunError>),
    Panic,
    Timeout,
}

/// Logs a failed attempt; the first few are debug messages, because occasional failures such as conflicts are
/// normal.
fn complain(error: &dyn Display, attempt: u32) {
    if attempt < LOUD_ATTEMPTS {
        tracing::debug!(%error, "reconcile failed; will be retried");
    } else {
        tracing::warn!(%error, "reconcile keeps failing; will be retried");
    }
}
