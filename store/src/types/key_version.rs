//! [`KeyVersion`]: a change of one key, by its revision, without its value.

use crate::Revision;

/// What a change did to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionEffect {
    /// The key did not exist before.
    Created,
    /// The key had another version before.
    Updated,
    /// The key does not exist after it.
    Deleted,
}

/// A change of a key whose result can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// The revision of the change.
    pub revision: Revision,
    /// What it did.
    pub effect: VersionEffect,
}
