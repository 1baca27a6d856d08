//! [`Warnings`]: a log subscriber that counts warnings, for tests of log output.

use parking_lot::Mutex;
use std::sync::Arc;
use tracing::{Event, Id, Level, Metadata, Subscriber, span};

/// Counts the warnings of one thread from modules with a given word in their path.
#[derive(Clone)]
pub(crate) struct Warnings {
    module: &'static str,
    count: Arc<Mutex<usize>>,
}

impl Warnings {
    /// A counter for modules with `module` in their path.
    pub(crate) fn of(module: &'static str) -> Self {
        Self { module, count: Arc::default() }
    }

    /// Number of warnings so far.
    pub(crate) fn count(&self) -> usize {
        *self.count.lock()
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().contains(self.module)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        *self.count.lock() += 1;
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
