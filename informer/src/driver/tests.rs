//! Tests of the driver's waits. They do not check log output, because other tests of the process share the
//! log.

use super::*;
use crate::Builder;
use crate::testing::{FakeStore, Fault, FaultScript, Sample};
use tokio::time::advance;

#[tokio::test(start_paused = true)]
async fn an_incomplete_initial_state_is_warned_about_every_ten_seconds() {
    let since = Instant::now();
    for (passed, left) in [(0, 10), (4, 6), (6, 10), (13, 7)] {
        advance(Duration::from_secs(passed)).await;
        assert_eq!(next_warning(since) - Instant::now(), Duration::from_secs(left), "{:?}", since.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_initial_state_is_not_visible() {
    let kind = FakeStore::new().kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let source = kind.source().faults(&FaultScript::new([Fault::silence_after(1)]));
    let informer = Builder::new(source).spawn(&CancellationToken::new());
    sleep(Duration::from_secs(35)).await;
    assert!(!informer.is_synced() && informer.is_empty());
}
