//! The clock of a cluster: its modes, and what an advance does next, as values. `gate` holds the runtime's clock, and `driver` moves it on
//! the cluster's thread.

pub mod driver;
pub mod gate;

use crate::limits;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

/// How the time of a cluster passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    /// As real time does.
    #[default]
    Real,
    /// As real time does, times a factor.
    Scaled(f64),
    /// Only while a call lets it pass.
    Manual,
    /// By itself whenever everything is quiet, up to this much at a time.
    Auto(Duration),
}

/// A factor is a number: [`Mode::from_str`] and the API refuse others.
impl Eq for Mode {}

/// The default of `upTo` in mode `auto`.
pub const UP_TO: Duration = Duration::from_secs(600);

impl Mode {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Scaled(_) => "scaled",
            Self::Manual => "manual",
            Self::Auto(_) => "auto",
        }
    }

    /// Whether time passes only when the lab lets it pass.
    pub fn is_virtual(self) -> bool {
        matches!(self, Self::Manual | Self::Auto(_))
    }
}

/// A text names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mode of a clock: use real, manual, auto, or a factor such as 60x")]
pub struct ModeError(String);

impl FromStr for Mode {
    type Err = ModeError;

    /// Reads the value of `--lab-clock`.
    fn from_str(text: &str) -> Result<Self, ModeError> {
        let factor = text.strip_suffix('x').and_then(|factor| factor.parse::<f64>().ok());
        let [least, most] = limits::FACTORS;
        match (text, factor) {
            ("real", _) => Ok(Self::Real),
            ("manual", _) => Ok(Self::Manual),
            ("auto", _) => Ok(Self::Auto(UP_TO)),
            (_, Some(factor)) if (least..=most).contains(&factor) => Ok(Self::Scaled(factor)),
            _ => Err(ModeError(text.to_owned())),
        }
    }
}

/// Why an advance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The time asked for is there.
    There,
    /// The cluster is settled.
    Settled,
    /// The condition holds.
    Condition,
    /// The time limit, or the largest number of stops.
    Limit,
    /// A counted client was not quiet within the patience.
    Busy,
}

/// What an advance knows when no task of the cluster is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepFacts {
    /// Whether anything was delivered to or answered for a counted client since the last barrier, or a request of one is in flight.
    pub has_traffic: bool,
    /// Whether the goal of the advance is reached: settled, or a condition.
    pub has_goal: bool,
    /// Whether the target time is there.
    pub is_there: bool,
    /// Whether a bound of the advance is used up.
    pub is_exhausted: bool,
}

/// What an advance does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until all counted clients are quiet.
    Barrier,
    /// Let time pass to the next deadline or to the target.
    Move,
    /// End. `Settled` and `Condition` are not told apart here: the caller knows its goal.
    End(Ended),
}

/// Decides the next step of an advance (§3.2): traffic has to settle before time passes, also before the advance ends.
pub fn next_step(facts: StepFacts) -> Step {
    match facts {
        StepFacts { has_traffic: true, .. } => Step::Barrier,
        StepFacts { has_goal: true, .. } => Step::End(Ended::Condition),
        StepFacts { is_there: true, .. } => Step::End(Ended::There),
        StepFacts { is_exhausted: true, .. } => Step::End(Ended::Limit),
        _ => Step::Move,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_from_the_values_of_the_flag() {
        let mode = |text: &str| text.parse::<Mode>();
        assert_eq!(mode("real"), Ok(Mode::Real));
        assert_eq!(mode("60x"), Ok(Mode::Scaled(60.0)));
        assert_eq!(mode("auto"), Ok(Mode::Auto(UP_TO)));
        for wrong in ["", "x", "0x", "20000x", "NaNx", "fast", "-1x"] {
            assert_eq!(mode(wrong), Err(ModeError(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn traffic_comes_before_the_end_and_before_time() {
        let facts = StepFacts { has_traffic: true, has_goal: true, is_there: true, is_exhausted: true };
        assert_eq!(next_step(facts), Step::Barrier);
        let quiet = StepFacts { has_traffic: false, ..facts };
        assert_eq!(next_step(quiet), Step::End(Ended::Condition));
        assert_eq!(next_step(StepFacts { has_goal: false, ..quiet }), Step::End(Ended::There));
        let exhausted = StepFacts { is_exhausted: true, ..StepFacts::default() };
        assert_eq!(next_step(exhausted), Step::End(Ended::Limit));
        assert_eq!(next_step(StepFacts::default()), Step::Move);
    }
}
