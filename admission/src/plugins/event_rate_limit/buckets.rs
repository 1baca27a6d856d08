//! [`Buckets`]: a bounded number of token buckets by key. The least recently used one is dropped first.

use kstore_nondet::HashMap;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Rate and size of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// Tokens that are added per second.
    pub(super) per_second: f64,
    /// Tokens of a full bucket.
    pub(super) burst: f64,
}

/// A token bucket: its content at the time of the last change.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Token buckets of one limit. A new key has a full bucket.
#[derive(Debug)]
pub(super) struct Buckets {
    rate: Rate,
    /// The largest number of buckets.
    capacity: usize,
    /// Buckets by key, each with the number of its last use.
    buckets: HashMap<String, (u64, Bucket)>,
    /// Keys by the number of their last use.
    used: BTreeMap<u64, String>,
    uses: u64,
}

impl Buckets {
    /// No buckets yet, for at most `capacity` keys.
    pub(super) fn new(rate: Rate, capacity: usize) -> Self {
        Self { rate, capacity, buckets: HashMap::default(), used: BTreeMap::new(), uses: 0 }
    }

    /// Takes a token from the bucket of a key; false if there is none.
    pub(super) fn try_take(&mut self, key: &str) -> bool {
        let now = Instant::now();
        self.uses += 1;
        let mut bucket = match self.buckets.get(key) {
            Some((use_before, bucket)) => {
                self.used.remove(use_before);
                *bucket
            }
            None => {
                if self.buckets.len() >= self.capacity
                    && let Some((_, oldest)) = self.used.pop_first()
                {
                    self.buckets.remove(&oldest);
                }
                Bucket { tokens: self.rate.burst, at: now }
            }
        };
        let added = now.duration_since(bucket.at).as_secs_f64() * self.rate.per_second;
        bucket.tokens = (bucket.tokens + added).min(self.rate.burst);
        bucket.at = now;
        let is_taken = bucket.tokens >= 1.0;
        if is_taken {
            bucket.tokens -= 1.0;
        }
        self.buckets.insert(key.to_owned(), (self.uses, bucket));
        self.used.insert(self.uses, key.to_owned());
        is_taken
    }

    /// The number of buckets.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.buckets.len(), self.used.len());
        self.buckets.len()
    }
}
