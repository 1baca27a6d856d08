//! The real time that a search may take. Pure.

use crate::limits;
use std::time::Duration;

/// The budget of a search. No plan begins in its last part, which is left to confirmations, and nothing begins after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SearchBudget {
    total: Duration,
    /// The last part.
    reserve: Duration,
}

impl SearchBudget {
    /// Most parts of the budget of which one is the reserve.
    const PARTS: u32 = 4;

    /// A budget for runs of which the longest took so many milliseconds.
    pub(super) fn new(total: Duration, longest: Option<u64>) -> Self {
        let confirmation = Duration::from_millis(longest.unwrap_or(0)).saturating_mul(CONFIRMING);
        Self { total, reserve: confirmation.min(total / Self::PARTS) }
    }

    /// Whether a plan may begin after so long.
    pub(super) fn allows_plan(&self, elapsed: Duration) -> bool {
        elapsed + self.reserve < self.total
    }

    /// Whether the budget is used up after so long.
    pub(super) fn is_spent(&self, elapsed: Duration) -> bool {
        elapsed >= self.total
    }
}

/// Runs of a confirmation with its control.
#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const CONFIRMING: u32 = limits::CONFIRMATIONS as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_begin_early_enough_for_their_confirmation_and_nothing_begins_after_the_budget() {
        let seconds = Duration::from_secs;
        let budget = SearchBudget::new(seconds(100), Some(2_000));
        assert!(budget.allows_plan(seconds(89)) && !budget.allows_plan(seconds(90)));
        assert!(!budget.is_spent(seconds(99)) && budget.is_spent(seconds(100)));
        let slow = SearchBudget::new(seconds(100), Some(60_000));
        assert!(slow.allows_plan(seconds(74)), "most of a budget is for plans");
        assert!(!SearchBudget::new(seconds(0), None).allows_plan(seconds(0)));
    }
}
