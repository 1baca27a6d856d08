//! A measured quantity with its unit and limits. Pure.

use std::fmt;

/// The unit of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Mebibytes,
    Kibibytes,
    PercentOfCore,
    PerSecond,
    /// A ratio to a peer measured in the same run.
    Times,
    /// A count.
    Number,
}

/// The goal, and the bound whose violation is a failure; the bound is the laxer of the two.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    AtMost { aim: f64, bound: f64 },
    AtLeast { aim: f64, bound: f64 },
}

impl Limit {
    /// An upper limit.
    pub(super) fn at_most(aim: f64, bound: f64) -> Self {
        Self::AtMost { aim, bound }
    }

    /// A lower limit.
    pub(super) fn at_least(aim: f64, bound: f64) -> Self {
        Self::AtLeast { aim, bound }
    }

    /// The same goal, and a bound that is this many times laxer.
    pub(super) fn relaxed(self, times: f64) -> Self {
        match self {
            Self::AtMost { aim, bound } => Self::AtMost { aim, bound: bound * times },
            Self::AtLeast { aim, bound } => Self::AtLeast { aim, bound: bound / times },
        }
    }

    /// Compares a number with goal and bound.
    pub(super) fn judge(self, measured: f64) -> Verdict {
        let (meets_aim, within_bound) = match self {
            Self::AtMost { aim, bound } => (measured <= aim, measured <= bound),
            Self::AtLeast { aim, bound } => (measured >= aim, measured >= bound),
        };
        match (meets_aim, within_bound) {
            (true, _) => Verdict::MeetsAim,
            (false, true) => Verdict::WithinBound,
            (false, false) => Verdict::Missed,
        }
    }

    /// Goal and bound as the table shows them.
    pub(super) fn show(self, unit: Unit) -> (String, String) {
        let (sign, aim, bound) = match self {
            Self::AtMost { aim, bound } => ('≤', aim, bound),
            Self::AtLeast { aim, bound } => ('≥', aim, bound),
        };
        (format!("{sign} {}", unit.show(aim)), format!("{sign} {}", unit.show(bound)))
    }
}

/// How a result compares with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    MeetsAim,
    WithinBound,
    Missed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MeetsAim => "ok",
            Self::WithinBound => "within bound",
            Self::Missed => "**missed**",
        })
    }
}

impl Unit {
    /// A number in this unit, with meaningful digits only.
    pub(super) fn show(self, number: f64) -> String {
        let digits = match number {
            n if n >= 100.0 => format!("{n:.0}"),
            n if n >= 10.0 => format!("{n:.1}"),
            n => format!("{n:.2}"),
        };
        let digits = match digits.split_once('.') {
            Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole.to_owned(),
            _ => digits,
        };
        match self {
            Self::Milliseconds => format!("{digits} ms"),
            Self::Mebibytes => format!("{digits} MiB"),
            Self::Kibibytes => format!("{digits} KiB"),
            Self::PercentOfCore => format!("{digits} % of a core"),
            Self::PerSecond => format!("{digits}/s"),
            Self::Times => format!("{digits}×"),
            Self::Number => digits,
        }
    }
}

/// A measured quantity: name, unit and limits.
#[derive(Clone, Debug)]
pub(super) struct Quantity {
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) limit: Limit,
}

impl Quantity {
    /// A quantity with its name in the table.
    pub(super) fn new(what: impl Into<String>, unit: Unit, limit: Limit) -> Self {
        Self { what: what.into(), unit, limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_compared_in_the_direction_of_their_limit() {
        let time = Limit::at_most(100.0, 300.0);
        let judged = [50.0, 100.0, 200.0, 300.1].map(|measured| time.judge(measured));
        assert_eq!(judged, [Verdict::MeetsAim, Verdict::MeetsAim, Verdict::WithinBound, Verdict::Missed]);
        let rate = Limit::at_least(300.0, 100.0);
        let judged = [400.0, 200.0, 99.0].map(|measured| rate.judge(measured));
        assert_eq!(judged, [Verdict::MeetsAim, Verdict::WithinBound, Verdict::Missed]);
    }

    #[test]
    fn a_relaxed_limit_has_the_same_goal_and_a_laxer_bound() {
        let judged = |limit: Limit, measured| limit.relaxed(4.0).judge(measured);
        assert_eq!(judged(Limit::at_most(100.0, 300.0), 1_200.0), Verdict::WithinBound);
        assert_eq!(judged(Limit::at_most(100.0, 300.0), 1_201.0), Verdict::Missed);
        assert_eq!(judged(Limit::at_least(300.0, 100.0), 25.0), Verdict::WithinBound);
        assert_eq!(judged(Limit::at_least(300.0, 100.0), 24.9), Verdict::Missed);
    }

    #[test]
    fn numbers_have_a_unit_and_only_meaningful_digits() {
        assert_eq!(Unit::Milliseconds.show(3052.4), "3052 ms");
        assert_eq!(Unit::Times.show(3.0), "3×");
        assert_eq!(Unit::Mebibytes.show(26.34), "26.3 MiB");
        assert_eq!(Unit::PercentOfCore.show(0.05), "0.05 % of a core");
    }
}
