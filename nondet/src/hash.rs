//! Hash maps whose iteration order is the same in every run. Not hardened against chosen keys: where a stranger chooses
//! the keys and there is no bound on their number, use a `BTreeMap`.
#![expect(clippy::disallowed_types, reason = "these aliases fix the hasher, which is what the lint asks for")]

/// The fixed hasher.
pub type FixedState = foldhash::fast::FixedState;
/// A hash map with a fixed hasher.
pub type HashMap<K, V> = std::collections::HashMap<K, V, FixedState>;
/// A hash set with a fixed hasher.
pub type HashSet<T> = std::collections::HashSet<T, FixedState>;
