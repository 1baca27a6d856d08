//! Execution of independent lists of writes: a bounded number concurrently, and a failure ends only its own
//! list.

use crate::limits::WRITES_IN_FLIGHT;
use futures::StreamExt;

/// Runs every list to its end, at most [`WRITES_IN_FLIGHT`] at once. Returns the failures with the indexes of
/// their lists, ascending.
pub(super) async fn run_independent<E>(
    lists: Vec<impl Future<Output = Result<(), E>> + Send>,
) -> Vec<(usize, E)> {
    let results = futures::stream::iter(lists).buffered(WRITES_IN_FLIGHT).enumerate();
    let failed =
        results.filter_map(|(index, result)| async move { result.err().map(|error| (index, error)) });
    failed.collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Barrier;

    #[tokio::test]
    async fn a_failed_list_of_writes_does_not_affect_the_others() {
        // Each list waits until the others have started: executed one by one, the lists would never end.
        let (together, done) = (Barrier::new(WRITES_IN_FLIGHT), AtomicUsize::new(0));
        let list = async |number: usize| {
            together.wait().await;
            done.fetch_add(1, Ordering::Relaxed);
            if number % 50 == 3 { Err(number) } else { Ok(()) }
        };
        let lists = (0..WRITES_IN_FLIGHT * 2).map(list).collect();
        let failed = run_independent(lists).await;
        assert_eq!(done.into_inner(), WRITES_IN_FLIGHT * 2, "all were tried");
        assert_eq!(failed, [(3, 3), (53, 53), (103, 103)]);
    }
}
