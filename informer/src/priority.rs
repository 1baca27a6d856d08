//! [`Priority`]: the order of runs in a queue.

/// Priority of a key: higher ones run first. Meant for a handful of levels; the default is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// The lowest priority: that of a key without adds.
    pub(crate) const LOWEST: Self = Self(i32::MIN);
}
