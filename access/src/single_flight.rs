//! [`SingleFlight`]: concurrent callers with the same question share one call.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

type Flights<K, V> = Mutex<BTreeMap<K, Arc<OnceCell<V>>>>;

/// Calls in progress, by question.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, V>(Flights<K, V>);

impl<K: Clone + Ord, V: Clone> SingleFlight<K, V> {
    /// Without calls in progress.
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The answer of the call in progress for `key`, or else of `call`. If the caller that makes the call
    /// goes away, another one makes its own. A caller that gives up does not affect the others. Nothing is
    /// kept after the last caller has its answer.
    pub(crate) async fn run<F: Future<Output = V>>(&self, key: K, call: impl FnOnce() -> F) -> V {
        let flight = self.0.lock().entry(key.clone()).or_default().clone();
        let leaving = Leaving { flights: &self.0, key, flight };
        leaving.flight.get_or_init(call).await.clone()
    }
}

/// Removes a flight when it has its answer or its last caller goes away.
struct Leaving<'f, K: Ord, V> {
    flights: &'f Flights<K, V>,
    key: K,
    flight: Arc<OnceCell<V>>,
}

impl<K: Ord, V> Drop for Leaving<'_, K, V> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        let is_ours = flights.get(&self.key).is_some_and(|other| Arc::ptr_eq(other, &self.flight));
        // Two references: that of the map and this one.
        if is_ours && (self.flight.initialized() || Arc::strong_count(&self.flight) == 2) {
            flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    const CALL: Duration = Duration::from_secs(10);

    struct CountedCalls {
        flights: SingleFlight<&'static str, usize>,
        calls: AtomicUsize,
    }

    impl CountedCalls {
        fn new() -> Arc<Self> {
            Arc::new(Self { flights: SingleFlight::new(), calls: AtomicUsize::new(0) })
        }

        /// The number of the call that answers.
        async fn ask(&self, key: &'static str) -> usize {
            let call = || async {
                let number = self.calls.fetch_add(1, Ordering::Relaxed);
                sleep(CALL).await;
                number
            };
            self.flights.run(key, call).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_a_call_and_later_ones_make_another() {
        let counted = CountedCalls::new();
        let all =
            futures::future::join4(counted.ask("a"), counted.ask("a"), counted.ask("a"), counted.ask("b"));
        assert_eq!(all.await, (0, 0, 0, 1));
        assert!(counted.flights.0.lock().is_empty(), "nothing is kept");
        assert_eq!(counted.ask("a").await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn another_caller_takes_over_when_the_first_goes_away() {
        let counted = CountedCalls::new();
        let first = tokio::spawn({
            let counted = counted.clone();
            async move { timeout(CALL / 2, counted.ask("a")).await.ok() }
        });
        let second = tokio::spawn({
            let counted = counted.clone();
            async move { counted.ask("a").await }
        });
        assert_eq!(first.await.unwrap(), None, "its own deadline ended it");
        assert_eq!(second.await.unwrap(), 1, "the second made its own call");
        assert!(counted.flights.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_caller_that_gives_up_does_not_end_the_call() {
        let counted = CountedCalls::new();
        let (first, second) = tokio::join!(counted.ask("a"), timeout(CALL / 2, counted.ask("a")));
        assert_eq!((first, second.ok()), (0, None));
        assert!(timeout(CALL / 2, counted.ask("c")).await.is_err());
        assert!(counted.flights.0.lock().is_empty(), "abandoned calls leave nothing");
    }
}
