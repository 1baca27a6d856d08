//! [`Verdict`]: a count beside the accepted one. Pure.

/// Tolerated difference in per cent: above it a path fails, below it a gain should be accepted.
pub(super) const TOLERANCE: u64 = 3;

/// The comparison of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The count is near the accepted one.
    Holds,
    /// The count is so far below that a loss of the gain would remain unnoticed: accept it.
    Gain,
    /// The count is above the tolerance.
    Exceeded,
    /// The path has no accepted count.
    Unaccepted,
}

impl Verdict {
    /// Compares a count with the accepted one.
    pub(super) fn of(accepted: Option<u64>, measured: u64) -> Self {
        let Some(accepted) = accepted else { return Self::Unaccepted };
        let (accepted, measured) = (u128::from(accepted), u128::from(measured));
        let tolerance = u128::from(TOLERANCE);
        if measured * 100 > accepted * (100 + tolerance) {
            Self::Exceeded
        } else if measured * 100 < accepted * (100 - tolerance) {
            Self::Gain
        } else {
            Self::Holds
        }
    }
}

/// Difference to the accepted count in per cent.
pub(super) fn percent(accepted: u64, measured: u64) -> f64 {
    (measured as f64 / accepted as f64 - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_three_per_cent_above_the_accepted_count_fails() {
        for (measured, expected) in [
            (1_031, Verdict::Exceeded),
            (1_030, Verdict::Holds),
            (1_029, Verdict::Holds),
            (1_000, Verdict::Holds),
            (970, Verdict::Holds),
            (969, Verdict::Gain),
        ] {
            assert_eq!(Verdict::of(Some(1_000), measured), expected, "{measured}");
        }
    }

    #[test]
    fn a_path_without_an_accepted_count_is_unaccepted() {
        assert_eq!(Verdict::of(None, 1), Verdict::Unaccepted);
    }

    #[test]
    fn the_largest_counts_are_compared_exactly() {
        assert_eq!(Verdict::of(Some(u64::MAX), u64::MAX), Verdict::Holds);
        assert_eq!(Verdict::of(Some(u64::MAX / 2), u64::MAX), Verdict::Exceeded);
    }

    #[test]
    fn the_difference_has_a_sign() {
        assert!((percent(1_000, 1_031) - 3.1).abs() < 1e-9);
        assert!((percent(1_000, 900) + 10.0).abs() < 1e-9);
    }
}
