//! [`PeerWarnings`]: limits the rate of warnings that libraries log about a peer's messages. A peer that
//! sends many odd frames would otherwise fill the log and hide everything else.

use kstore_storage::limits::REPEATED_WARNING;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Libraries that communicate with peers.
const LIBRARIES: [&str; 4] = ["h2", "hyper", "rustls", "tokio_rustls"];

/// A log layer that passes each warning of [`LIBRARIES`], by source location, at most once in
/// [`REPEATED_WARNING`]. Lower levels pass without limit; RUST_LOG has to enable them.
#[derive(Debug, Default)]
pub(super) struct PeerWarnings {
    /// When each warning was last written, by file and line.
    latest: Mutex<BTreeMap<(&'static str, u32), Instant>>,
}

impl PeerWarnings {
    /// Whether a warning from this source location may be written at `now`.
    fn allows(&self, location: (&'static str, u32), now: Instant) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.get(&location).is_some_and(|latest| now.duration_since(*latest) < REPEATED_WARNING) {
            return false;
        }
        latest.insert(location, now);
        true
    }
}

/// Whether peers can trigger this event without limit.
fn is_about_peers(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::WARN && LIBRARIES.contains(&library)
}

impl<S: Subscriber> Layer<S> for PeerWarnings {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let location =
            (metadata.file().unwrap_or_else(|| metadata.name()), metadata.line().unwrap_or_default());
        !is_about_peers(metadata) || self.allows(location, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tracing_subscriber::layer::SubscriberExt as _;

    /// A layer that counts events.
    struct CountingLayer(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for CountingLayer {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn library_warnings_are_rate_limited_and_other_events_are_not() {
        let written = Arc::new(AtomicUsize::new(0));
        let layers =
            tracing_subscriber::registry().with(CountingLayer(written.clone())).with(PeerWarnings::default());
        let count = |write: fn()| {
            let before = written.load(Ordering::Relaxed);
            (0..100).for_each(|_| write());
            written.load(Ordering::Relaxed) - before
        };
        tracing::subscriber::with_default(layers, || {
            assert_eq!(count(|| tracing::warn!(target: "h2::proto::ping_pong", "an odd frame")), 1);
            assert_eq!(count(|| tracing::error!(target: "hyper", "an odd head")), 1, "another location");
            assert_eq!(count(|| tracing::debug!(target: "h2::codec", "a frame")), 100);
            assert_eq!(count(|| tracing::warn!(target: "h2o", "not one of them")), 100);
            assert_eq!(count(|| tracing::warn!("our own")), 100);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_warning_is_logged_again_after_its_interval() {
        let warnings = PeerWarnings::default();
        let allows = || warnings.allows(("file.rs", 1), Instant::now());
        assert_eq!([allows(), allows()], [true, false]);
        tokio::time::advance(REPEATED_WARNING).await;
        assert!(allows());
    }
}
