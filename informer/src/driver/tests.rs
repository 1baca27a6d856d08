//! What the driver says while it waits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tracing::{Event, Level, Metadata, Subscriber, span};

use super::*;
use crate::{
    Builder,
    testing::{FakeStore, Fault, FaultScript, Sample},
};

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn an_initial_state_that_does_not_end_is_warned_of_every_ten_seconds() {
    let warnings = Arc::<AtomicUsize>::default();
    let _subscriber = tracing::subscriber::set_default(Warnings(warnings.clone()));
    let kind = FakeStore::new().kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let source = kind.source().faults(&FaultScript::new([Fault::silence_after(1)]));
    let informer = Builder::new(source).spawn(&CancellationToken::new());
    sleep(Duration::from_secs(35)).await;
    assert_eq!(warnings.load(Ordering::Relaxed), 3);
    assert!(!informer.is_synced());
}
