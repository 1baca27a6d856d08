//! [`Driver`]: the task of an informer. It executes the requests of the reflector against the source and
//! applies each batch to the cache. It never polls: it wakes for network data, the end of a wait, or the
//! stop.

#[cfg(test)]
mod tests;

use crate::any_object::SharedObject;
use crate::limits::{INITIAL_WARNING, SILENT_INTERVALS, SOURCE_ANSWER};
use crate::lister_watcher::Frames;
use crate::reflector::{Input, NextRequest, Reflector};
use crate::shared::Shared;
use crate::{Capabilities, DynListerWatcher, Key, ListerWatcher, SourceError};
use futures::StreamExt;
use futures::future::BoxFuture;
use kstore_nondet::Rng;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Executes the requests of the reflector.
pub(crate) struct Driver {
    source: DynListerWatcher<SharedObject>,
    capabilities: Capabilities,
    reflector: Reflector,
    shared: Arc<Shared>,
    stream: Option<Frames<SharedObject>>,
    /// Tells readers and subscribers that the informer ended, also if the driver is dropped unstarted or the
    /// source panics.
    _ending: EndGuard,
}

impl Driver {
    pub(crate) fn new(
        source: DynListerWatcher<SharedObject>,
        capabilities: Capabilities,
        rng: Rng,
        shared: Arc<Shared>,
    ) -> Self {
        let reflector = Reflector::new(&capabilities, rng, shared.image_revision());
        let _ending = EndGuard(shared.clone());
        Self { source, capabilities, reflector, shared, stream: None, _ending }
    }

    /// Runs until `stop` is cancelled. Boxed here, so that users of the crate do not generate the code of the future.
    pub(crate) fn run(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.drive(stop))
    }

    async fn drive(mut self, stop: CancellationToken) {
        self.shared.demand_sync();
        let mut input = Input::Begin;
        loop {
            let span = tracing::debug_span!("reflector", informer = self.shared.name);
            let cached = |key: &Key| self.shared.get(key);
            let step = span.in_scope(|| self.reflector.step(input, &cached, Instant::now()));
            if let Some(error) = &step.failure {
                self.shared.requests.errors.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(informer = self.shared.name, %error, next = ?step.next, "source failed");
            }
            self.shared.report(&self.reflector.doing(step.failure.as_ref()));
            for apply in step.apply {
                self.shared.apply(apply);
            }
            input = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                input = self.perform(step.next) => input,
            };
        }
    }

    async fn perform(&mut self, next: NextRequest) -> Input {
        if next != NextRequest::Read {
            self.stream = None;
        }
        self.shared.room().await;
        match next {
            NextRequest::List(request) => {
                self.shared.requests.lists.fetch_add(1, Ordering::Relaxed);
                Input::Listed(answered(self.source.list(request)).await)
            }
            NextRequest::Watch(start) => {
                self.shared.requests.watches.fetch_add(1, Ordering::Relaxed);
                let opened = answered(self.source.watch(start)).await;
                Input::Opened(opened.map(|stream| self.stream = Some(stream)))
            }
            NextRequest::Read => self.read().await,
            NextRequest::Wait(how_long) => {
                sleep(how_long).await;
                Input::Waited
            }
        }
    }

    async fn read(&mut self) -> Input {
        let Some(stream) = &mut self.stream else { return Input::Ended };
        let silence =
            self.capabilities.progress_every.unwrap_or(Duration::MAX).saturating_mul(SILENT_INTERVALS);
        let item = tokio::select! {
            biased;
            item = timeout(silence, stream.next()) => item,
            never = warn(&self.shared.name, self.reflector.collecting_since()) => match never {},
        };
        match item {
            Ok(Some(frames)) => Input::Frames(frames),
            Ok(None) => Input::Ended,
            Err(_) => Input::Silent,
        }
    }
}

/// A source call with the time limit [`SOURCE_ANSWER`].
async fn answered<T>(call: impl Future<Output = Result<T, SourceError>>) -> Result<T, SourceError> {
    let no_answer = || Err(SourceError::Unreachable("no response".into()));
    timeout(SOURCE_ANSWER, call).await.unwrap_or_else(|_| no_answer())
}

/// Logs a warning at intervals while an initial state has been arriving since `collecting`.
async fn warn(informer: &str, collecting: Option<Instant>) -> Infallible {
    let Some(since) = collecting else { return pending().await };
    loop {
        sleep_until(next_warning(since)).await;
        tracing::warn!(informer, seconds = since.elapsed().as_secs(), "still receiving the initial state");
    }
}

/// Time of the next warning about an initial state that has been arriving since `since`.
fn next_warning(since: Instant) -> Instant {
    let passed = since.elapsed().as_secs() / INITIAL_WARNING.as_secs();
    since + INITIAL_WARNING * u32::try_from(passed + 1).unwrap_or(u32::MAX)
}

struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}
