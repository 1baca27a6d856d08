//! [`VERSION`] of the program.

/// The version; release builds from a clone include the commit: `0.1.0 (abcdef123456)`.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("KSTORE_COMMIT_SUFFIX"));
