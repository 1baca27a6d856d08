//! The bounds of the judge, with their reasons.

/// Steps of the search for an order before it is given up: some tens of seconds. A good history takes about one step per
/// call; only one that is bad and has many calls with unknown outcome can take more than this.
pub const SEARCH_STEPS: u64 = 20_000_000;

/// Violations that are reported of each guarantee: the first few show what is wrong, the rest follow from them.
pub const VIOLATIONS_EACH: usize = 3;

/// Calls shown before and after the one that an explanation is about.
pub const WINDOW: usize = 6;
