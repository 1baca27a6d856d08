//! Metrics of an informer in a [`Registry`]. Requests to the source are counted here; the other values are
//! read from the informer.

use crate::Status;
use crate::metrics::{Collect, Metric, Page, PendingWork, Registry};
use crate::shared::Shared;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

const OBJECTS: Metric = Metric::gauge("informer_objects", "Objects in the cache");
const REVISION: Metric = Metric::gauge("informer_store_resource_version", "Resource version of the cache");
const SYNCED: Metric = Metric::gauge("informer_synced", "1 if the cache has synced");
const UNDECODABLE: Metric =
    Metric::gauge("informer_undecodable", "Number of objects that the source could not decode");
const QUEUED: Metric =
    Metric::gauge("informer_queued_items", "Number of changes stored until every subscriber has taken them");
const PENDING: Metric =
    Metric::gauge("informer_pending", "Number of pending changes, counted once per subscriber");
const LISTS: Metric = Metric::counter("reflector_lists_total", "Number of list requests, counting each page");
const WATCHES: Metric = Metric::counter("reflector_watches_total", "Total number of watch requests");
const ERRORS: Metric = Metric::counter("reflector_errors_total", "Total number of source errors");

/// Exposes the metrics of an informer in `registry` until it ends.
pub(crate) fn show(shared: &Arc<Shared>, registry: &Registry) {
    let shared: Weak<Shared> = Arc::downgrade(shared);
    registry.add(shared);
}

impl Collect for Shared {
    fn collect(&self, into: &mut Page) {
        if self.status() == Status::Stopped {
            return;
        }
        let labels = [("name", &*self.name)];
        let (objects, revision, undecodable) =
            self.look(|cache| (cache.len(), cache.revision(), cache.undecodable().count()));
        into.add(&OBJECTS, &labels, objects as f64);
        into.highest(&REVISION, &labels, revision.0 as f64);
        into.add(&UNDECODABLE, &labels, undecodable as f64);
        into.add(&SYNCED, &labels, f64::from(u8::from(self.is_synced())));
        let waiting = self.unread();
        into.add(&QUEUED, &labels, waiting.kept as f64);
        into.add(&PENDING, &labels, waiting.pending as f64);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        into.add(&LISTS, &labels, count(&self.requests.lists));
        into.add(&WATCHES, &labels, count(&self.requests.watches));
        into.add(&ERRORS, &labels, count(&self.requests.errors));
    }

    fn pending(&self) -> Option<PendingWork> {
        if self.status() == Status::Stopped {
            return None;
        }
        let cache = Arc::from(self.name.as_str());
        match self.unread().pending {
            _ if !self.is_synced() => Some(PendingWork::Filling { cache }),
            0 => None,
            changes => Some(PendingWork::Changes { cache, changes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeStore, Sample};
    use crate::{Builder, SourceError};
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    fn page(registry: &Registry) -> String {
        let mut page = String::new();
        registry.render(&mut page);
        page
    }

    async fn settle() {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn informer_metrics_show_cache_and_backlog() {
        let (stop, registry) = (CancellationToken::new(), Registry::new());
        let kind = FakeStore::new().kind::<Sample>("samples");
        let source = kind.source();
        source.fail_next(SourceError::Unreachable("starting".into()));
        kind.put(Sample::new("", "a"));
        let cache = Builder::new(source).name("pods").metrics(&registry).spawn(&stop);
        let mut readers: Vec<_> = (0..3).map(|_| cache.subscribe()).collect();
        settle().await;
        readers.iter_mut().for_each(|reader| assert_eq!(reader.try_next().len(), 1));
        for name in ["b", "c"] {
            kind.put(Sample::new("", name));
        }
        settle().await;
        assert_eq!(readers[0].try_next().len(), 2);
        kind.put(Sample::new("", "d"));
        settle().await;
        let text = page(&registry);
        for line in [
            "informer_objects{name=\"pods\"} 4",
            "informer_store_resource_version{name=\"pods\"} 4",
            "informer_synced{name=\"pods\"} 1",
            "informer_undecodable{name=\"pods\"} 0",
            "informer_queued_items{name=\"pods\"} 3",
            "informer_pending{name=\"pods\"} 7",
            "reflector_lists_total{name=\"pods\"} 0",
            "reflector_watches_total{name=\"pods\"} 2",
            "reflector_errors_total{name=\"pods\"} 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_informer_of_a_name_reports_its_own_pending_work() {
        let (stop, registry) = (CancellationToken::new(), Registry::new());
        let kind = FakeStore::new().kind::<Sample>("samples");
        let cache = Builder::new(kind.source()).name("pods").metrics(&registry).spawn(&stop);
        settle().await;
        assert_eq!(registry.pending(), []);
        let mut reader = cache.subscribe();
        assert_eq!(reader.try_next().len(), 0);
        kind.put(Sample::new("", "a"));
        settle().await;
        assert_eq!(registry.pending(), [PendingWork::Changes { cache: "pods".into(), changes: 1 }]);
        reader.try_next();
        let source = kind.source();
        source.fail_next(SourceError::Unreachable("starting".into()));
        let _other = Builder::new(source).name("pods").metrics(&registry).spawn(&stop);
        assert_eq!(registry.pending(), [PendingWork::Filling { cache: "pods".into() }]);
        settle().await;
        assert_eq!(registry.pending(), []);
        stop.cancel();
        settle().await;
        assert_eq!(registry.pending(), [], "what has stopped has nothing to do");
    }

    /// R14: whether the informer is stopped or its last handle is dropped, its series are gone.
    #[tokio::test(start_paused = true)]
    async fn a_stopped_informer_leaves_no_metrics() {
        let registry = Registry::new();
        let kind = FakeStore::new().kind::<Sample>("samples");
        for drop_it in [true, false] {
            let stop = CancellationToken::new();
            let build = || Builder::new(kind.source()).name("pods").metrics(&registry).spawn(&stop);
            let (cache, other) = (build(), build());
            settle().await;
            assert!(page(&registry).contains("informer_objects") && registry.len() == 2);
            match drop_it {
                true => drop((cache, other)),
                false => {
                    stop.cancel();
                    settle().await;
                    assert_eq!(page(&registry), "", "handles remain");
                    drop((cache, other));
                }
            }
            settle().await;
            assert_eq!((page(&registry).as_str(), registry.len()), ("", 0));
        }
    }
}
