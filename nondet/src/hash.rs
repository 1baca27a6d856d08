//! Hash maps whose iteration order is the same in every run. They are not hardened against chosen keys: if
//! clients choose the keys and nothing bounds their number, use a `BTreeMap`.
#![expect(clippy::disallowed_types, reason = "these aliases fix the hasher, which is what the lint asks for")]

/// Hasher with a fixed seed.
pub type FixedState = foldhash::fast::FixedState;
/// A hash map with a fixed hasher.
pub type HashMap<K, V> = std::collections::HashMap<K, V, FixedState>;
/// A hash set with a fixed hasher.
pub type HashSet<T> = std::collections::HashSet<T, FixedState>;
