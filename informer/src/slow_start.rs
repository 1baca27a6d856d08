//! [`slow_start`]: calls of one kind in batches of growing size, as in Kubernetes' controllers. Not a rate
//! limit: it tests whether calls succeed before it makes many.

use futures::{StreamExt, stream};
use std::future::Future;

/// Results of a [`slow_start`].
#[derive(Debug, PartialEq, Eq)]
pub struct Started<I, T, E> {
    /// The results of the calls, in the order of their items.
    pub results: Vec<Result<T, E>>,
    /// The items without a call, in order.
    pub untouched: Vec<I>,
}

impl<I, T, E> Started<I, T, E> {
    /// Whether every item was tried and no call failed.
    pub fn is_complete(&self) -> bool {
        self.untouched.is_empty() && self.results.iter().all(Result::is_ok)
    }
}

/// Calls `call` for the items, in order: a batch of `first` (zero counts as one), then batches of twice the
/// size, each only if the previous one had no failure. A call that always fails, for example at a quota, is
/// therefore made a few times instead of thousands of times. With `first` of one, at most `2 i + 1`
/// calls are made if item i, counted from zero, is the first to fail.
///
/// Within a batch up to `parallel` calls (zero counts as one) are active at a time, in the caller's task:
/// dropping the future drops them all. A started batch is always finished.
pub async fn slow_start<I, T, E, Fut>(
    items: Vec<I>,
    first: usize,
    parallel: usize,
    call: impl Fn(I) -> Fut,
) -> Started<I, T, E>
where
    Fut: Future<Output = Result<T, E>>,
{
    let one = |mut items: Vec<I>| {
        let result = call(items.remove(0));
        async { vec![result.await] }
    };
    slow_start_together(items, first, (1, parallel), one).await
}

/// Calls `call` for the items like [`slow_start`], but for up to `together` items (zero counts as one) of a batch by one call. Such a call
/// returns the results of its items in order.
pub async fn slow_start_together<I, T, E, Fut>(
    items: Vec<I>,
    first: usize,
    (together, parallel): (usize, usize),
    call: impl Fn(Vec<I>) -> Fut,
) -> Started<I, T, E>
where
    Fut: Future<Output = Vec<Result<T, E>>>,
{
    let mut results = Vec::with_capacity(items.len());
    let mut items = items.into_iter();
    let mut size = first.max(1);
    while items.len() > 0 {
        let batch = items.len().min(size);
        let calls = (0..batch).step_by(together.max(1)).map(|from| (batch - from).min(together.max(1)));
        let calls: Vec<Vec<I>> = calls.map(|count| items.by_ref().take(count).collect()).collect();
        let done: Vec<_> =
            stream::iter(calls.into_iter().map(&call)).buffered(parallel.max(1)).collect().await;
        let failed = done.iter().flatten().any(Result::is_err);
        results.extend(done.into_iter().flatten());
        if failed {
            break;
        }
        size = size.saturating_mul(2);
    }
    Started { results, untouched: items.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    /// Model: the number of calls.
    fn model(items: usize, first: usize, failing: &BTreeSet<usize>) -> usize {
        let (mut made, mut size) = (0, first.max(1));
        while made < items {
            let end = (made + size).min(items);
            let failed = (made..end).any(|i| failing.contains(&i));
            made = end;
            if failed {
                break;
            }
            size *= 2;
        }
        made
    }

    proptest! {
        /// S1: calls ≤ 2
        /// (index of first failure)+1; the rest is reported untouched.
        #[test]
        fn slow_start_stops_after_a_failure_and_returns_the_rest(
            items in 0_usize..200, first in 0_usize..5, parallel in 0_usize..9,
            failing in proptest::collection::btree_set(0_usize..200, 0..4),
        ) {
            let calls = Cell::new(0);
            let started = slow_start((0..items).collect(), first, parallel, |i| {
                calls.set(calls.get() + 1);
                std::future::ready(if failing.contains(&i) { Err(i) } else { Ok(i) })
            }).now_or_never().unwrap();
            prop_assert_eq!(calls.get(), model(items, first, &failing));
            prop_assert_eq!(started.results.len(), calls.get());
            prop_assert_eq!(&started.untouched, &(calls.get()..items).collect::<Vec<_>>());
            for (i, result) in started.results.iter().enumerate() {
                prop_assert_eq!(result, &if failing.contains(&i) { Err(i) } else { Ok(i) });
            }
            let failed = failing.iter().next().filter(|i| **i < items);
            prop_assert_eq!(started.is_complete(), failed.is_none());
            if let (Some(i), 0 | 1) = (failed, first) {
                prop_assert!(calls.get() <= 2 * i + 1);
            }
        }

        #[test]
        fn calls_of_several_items_try_the_same_items_as_calls_of_one(
            items in 0_usize..200, first in 0_usize..5, together in 0_usize..20,
            failing in proptest::collection::btree_set(0_usize..200, 0..4),
        ) {
            let result = |i| if failing.contains(&i) { Err(i) } else { Ok(i) };
            let sizes = std::cell::RefCell::new(Vec::new());
            let several = slow_start_together((0..items).collect(), first, (together, 3), |items: Vec<usize>| {
                sizes.borrow_mut().push(items.len());
                std::future::ready(items.into_iter().map(result).collect())
            }).now_or_never().unwrap();
            let one = slow_start((0..items).collect(), first, 3, |i| std::future::ready(result(i)));
            prop_assert_eq!(several, one.now_or_never().unwrap());
            prop_assert!(sizes.borrow().iter().all(|size| (1..=together.max(1)).contains(size)));
        }

        #[test]
        fn concurrent_calls_are_bounded(items in 0_usize..100, parallel in 1_usize..9) {
            let (now, most) = (Cell::new(0), Cell::new(0));
            let started = slow_start((0..items).collect(), 1, parallel, |_: usize| async {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                // Lets the other calls of the batch start.
                tokio::task::yield_now().await;
                now.set(now.get() - 1);
                Ok::<_, ()>(())
            });
            let mut started = std::pin::pin!(started);
            while started.as_mut().now_or_never().is_none() {}
            prop_assert!(most.get() <= parallel);
        }
    }
}
