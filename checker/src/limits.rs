//! The bounds of the judge, with their reasons.

/// Operations that one search for an order tries before it is given up: some tens of seconds. A good history takes a few
/// per call; only one with very many calls of unknown outcome, and hardly anybody who saw what became of them, can take more
/// than this.
pub const SEARCH_TRIES: u64 = 20_000_000;

/// Violations that are reported of each guarantee: the first few show what is wrong, the rest follow from them.
pub const VIOLATIONS_EACH: usize = 3;

/// Calls shown before and after the one that an explanation is about.
pub const WINDOW: usize = 6;
