//! [`PeerWarnings`]: a limit on the warnings that libraries log about frames of peers. Without it, a peer that sends many odd frames
//! would fill the log and hide everything else in it.

use kstore_apiserver::limits::REPEATED_WARNING;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The libraries that implement the protocols of connections.
const LIBRARIES: [&str; 4] = ["h2", "hyper", "rustls", "tokio_rustls"];

/// A filter that logs each warning of these libraries, identified by its file and line, at most once in [`REPEATED_WARNING`]. Events
/// below the level of warnings are not limited: RUST_LOG alone enables them.
#[derive(Debug, Default)]
pub(super) struct PeerWarnings {
    /// When each warning was written last, by file and line.
    latest: Mutex<BTreeMap<(&'static str, u32), Instant>>,
}

impl PeerWarnings {
    /// Whether a warning of this place may be written at `now`.
    fn allows(&self, place: (&'static str, u32), now: Instant) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.get(&place).is_some_and(|latest| now.duration_since(*latest) < REPEATED_WARNING) {
            return false;
        }
        latest.insert(place, now);
        true
    }
}

/// Whether peers can make a library write this as often as they like.
fn is_about_peers(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::WARN && LIBRARIES.contains(&library)
}

impl<S: Subscriber> Layer<S> for PeerWarnings {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let place = (metadata.file().unwrap_or_else(|| metadata.name()), metadata.line().unwrap_or_default());
        !is_about_peers(metadata) || self.allows(place, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tracing_subscriber::layer::SubscriberExt as _;

    /// Counts what is written.
    struct Written(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Written {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_warning_of_a_library_is_written_once_in_a_while_and_everything_else_always() {
        let written = Arc::new(AtomicUsize::new(0));
        let layers =
            tracing_subscriber::registry().with(Written(written.clone())).with(PeerWarnings::default());
        let count = |write: fn()| {
            let before = written.load(Ordering::Relaxed);
            (0..100).for_each(|_| write());
            written.load(Ordering::Relaxed) - before
        };
        tracing::subscriber::with_default(layers, || {
            assert_eq!(count(|| tracing::warn!(target: "h2::proto::ping_pong", "an odd frame")), 1);
            assert_eq!(count(|| tracing::error!(target: "hyper", "an odd head")), 1, "another place");
            assert_eq!(count(|| tracing::debug!(target: "h2::codec", "a frame")), 100);
            assert_eq!(count(|| tracing::warn!(target: "h2o", "not one of them")), 100);
            assert_eq!(count(|| tracing::warn!("our own")), 100);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_written_again_when_its_time_is_over() {
        let warnings = PeerWarnings::default();
        let allows = || warnings.allows(("file.rs", 1), Instant::now());
        assert_eq!([allows(), allows()], [true, false]);
        tokio::time::advance(REPEATED_WARNING).await;
        assert!(allows());
    }
}
