//! [`Expiring`]: a bounded cache of values with a time to live. The cache of API objects is `cache`.

use kstore_nondet::HashMap;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// A map of values with a time to live. When it is full, the oldest value is evicted.
#[derive(Debug)]
pub struct Expiring<K, V> {
    capacity: usize,
    entries: Mutex<ExpiringEntries<K, V>>,
}

#[derive(Debug)]
struct ExpiringEntries<K, V> {
    values: HashMap<K, (Instant, V)>,
    /// Keys in order of insertion, each with the end of the value inserted with it.
    order: VecDeque<(Instant, K)>,
}

impl<K: Clone + Eq + Hash, V: Clone> Expiring<K, V> {
    /// An empty map for at most `capacity` values.
    pub fn new(capacity: usize) -> Self {
        let entries = ExpiringEntries { values: HashMap::default(), order: VecDeque::new() };
        Self { capacity, entries: Mutex::new(entries) }
    }

    /// The value of a key, unless it has expired.
    pub fn get(&self, key: &K) -> Option<V> {
        let now = Instant::now();
        let entries = self.entries.lock();
        entries.values.get(key).filter(|(end, _)| now < *end).map(|(_, value)| value.clone())
    }

    /// Stores a value for a time; a time of zero stores nothing.
    pub fn put(&self, key: K, value: V, time: Duration) {
        if time.is_zero() {
            return;
        }
        let now = Instant::now();
        // An end that the clock cannot represent is replaced by one in the far future.
        let end = now.checked_add(time).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
        let mut entries = self.entries.lock();
        while entries.order.front().is_some_and(|(first, _)| *first <= now)
            || entries.order.len() >= self.capacity
        {
            let Some((ended, oldest)) = entries.order.pop_front() else { break };
            // A renewed value has a later end, and a later position in the order.
            if entries.values.get(&oldest).is_some_and(|(end, _)| *end == ended) {
                entries.values.remove(&oldest);
            }
        }
        entries.order.push_back((end, key.clone()));
        entries.values.insert(key, (end, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_expire_and_the_oldest_is_evicted_at_capacity() {
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
        assert!(cache.entries.lock().order.len() <= 2 && cache.entries.lock().values.len() <= 2);
    }
}
