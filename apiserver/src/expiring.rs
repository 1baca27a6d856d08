//! [`Expiring`]: answers that are kept for a time, at most a fixed number of them. Not a cache of objects: that is `cache`.

use kstore_nondet::HashMap;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// Values by key until their time is over. When it is full, the value that was put in first goes first.
#[derive(Debug)]
pub(crate) struct Expiring<K, V> {
    capacity: usize,
    kept: Mutex<Kept<K, V>>,
}

#[derive(Debug)]
struct Kept<K, V> {
    values: HashMap<K, (Instant, V)>,
    /// Keys in the order in which they were put in, with the end of the value that was put in then.
    order: VecDeque<(Instant, K)>,
}

impl<K: Clone + Eq + Hash, V: Clone> Expiring<K, V> {
    /// Room for so many.
    pub(crate) fn new(capacity: usize) -> Self {
        let kept = Kept { values: HashMap::default(), order: VecDeque::new() };
        Self { capacity, kept: Mutex::new(kept) }
    }

    /// The value, if its time is not over.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let now = Instant::now();
        let kept = self.kept.lock();
        kept.values.get(key).filter(|(end, _)| now < *end).map(|(_, value)| value.clone())
    }

    /// Keeps a value for a time; zero: not at all.
    pub(crate) fn put(&self, key: K, value: V, time: Duration) {
        if time.is_zero() {
            return;
        }
        let now = Instant::now();
        // What ends beyond the clock is kept until it is pushed out.
        let end = now.checked_add(time).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
        let mut kept = self.kept.lock();
        while kept.order.front().is_some_and(|(first, _)| *first <= now) || kept.order.len() >= self.capacity
        {
            let Some((ended, oldest)) = kept.order.pop_front() else { break };
            // A value that was renewed has a later end, and a later place in the order.
            if kept.values.get(&oldest).is_some_and(|(end, _)| *end == ended) {
                kept.values.remove(&oldest);
            }
        }
        kept.order.push_back((end, key.clone()));
        kept.values.insert(key, (end, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_last_for_their_time_and_the_oldest_make_room() {
        let cache = Expiring::new(2);
        let second = Duration::from_secs(1);
        cache.put("a", 1, second);
        cache.put("never", 1, Duration::ZERO);
        assert_eq!((cache.get(&"a"), cache.get(&"never")), (Some(1), None));
        tokio::time::advance(second).await;
        assert_eq!(cache.get(&"a"), None);
        for key in ["b", "c", "d"] {
            cache.put(key, 2, second * 10);
        }
        assert_eq!([cache.get(&"b"), cache.get(&"c"), cache.get(&"d")], [None, Some(2), Some(2)]);
        cache.put("c", 3, second * 20);
        cache.put("e", 4, second * 20);
        assert_eq!([cache.get(&"c"), cache.get(&"d"), cache.get(&"e")], [Some(3), None, Some(4)]);
        assert!(cache.kept.lock().order.len() <= 2 && cache.kept.lock().values.len() <= 2);
    }
}
