//! [`Driver`]: the task of an informer. Carries out what the reflector says: asks the source, and applies each batch. It never
//! polls: it wakes for the network, the end of a wait, or the stop.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use kstore_nondet::Rng;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Capabilities, ListerWatcher, Object,
    limits::SILENT_INTERVALS,
    lister_watcher::Frames,
    reflector::{Input, Next, Reflector},
    shared::Shared,
};

/// Carries out what the reflector says.
pub(crate) struct Driver<S: ListerWatcher> {
    source: S,
    capabilities: Capabilities,
    reflector: Reflector<S::Obj>,
    shared: Arc<Shared<S::Obj>>,
    stream: Option<Frames<S::Obj>>,
}

impl<S: ListerWatcher> Driver<S> {
    pub(crate) fn new(source: S, rng: Rng, shared: Arc<Shared<S::Obj>>) -> Self {
        let capabilities = source.capabilities();
        let reflector = Reflector::new(capabilities.streaming_list, rng);
        Self { source, capabilities, reflector, shared, stream: None }
    }

    /// Works until `stop` is cancelled.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        // Readers and subscribers learn of the end also when this future is dropped or its source panics.
        let ending = self.shared.clone();
        let _end = Ending(ending);
        let mut input = Input::Begin;
        loop {
            let span = tracing::debug_span!("reflector", informer = self.shared.name);
            let step = span.in_scope(|| self.reflector.step(input, Instant::now()));
            if let Some(error) = &step.trouble {
                tracing::debug!(informer = self.shared.name, %error, next = ?step.next, "source failed");
            }
            self.shared.report(step.trouble.as_ref(), step.next == Next::Read);
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

    async fn perform(&mut self, next: Next) -> Input<S::Obj> {
        if next != Next::Read {
            self.stream = None;
        }
        self.shared.room().await;
        match next {
            Next::List(floor) => Input::Listed(self.source.list(floor).await),
            Next::Watch(start) => {
                Input::Opened(self.source.watch(start).await.map(|s| self.stream = Some(s)))
            }
            Next::Read => self.read().await,
            Next::Wait(how_long) => {
                sleep(how_long).await;
                Input::Waited
            }
        }
    }

    async fn read(&mut self) -> Input<S::Obj> {
        let Some(stream) = &mut self.stream else { return Input::Ended };
        let silence =
            self.capabilities.progress_every.unwrap_or(Duration::MAX).saturating_mul(SILENT_INTERVALS);
        match timeout(silence, stream.next()).await {
            Ok(Some(frames)) => Input::Frames(frames),
            Ok(None) => Input::Ended,
            Err(_) => Input::Silent,
        }
    }
}

struct Ending<T: Object>(Arc<Shared<T>>);

impl<T: Object> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
