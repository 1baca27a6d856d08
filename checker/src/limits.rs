//! Limits of the checker, with their reasons.

/// Operations that a search for an order tries before it gives up: some tens of seconds. A good history takes a few per
/// call. Only a history with very many unknown outcomes, and little evidence of them, exceeds the limit.
pub const SEARCH_TRIES: u64 = 20_000_000;

/// Violations that are reported per guarantee: the first few show what is wrong, and the others follow from them.
pub const VIOLATIONS_EACH: usize = 3;

/// Calls shown before and after the call of an explanation.
pub const EXPLANATION_CONTEXT_CALLS: usize = 6;
