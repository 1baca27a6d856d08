//! The patterns of perturbation by name. The modules of `pattern` make their plans. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A pattern of perturbation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternId {
    /// The program dies at a write and starts again.
    Crash,
    /// One kind lags behind for the program.
    Freeze,
    /// The program does not see a state between two others.
    Skip,
    /// A write is done, and its answer is lost.
    LostAnswer,
    /// Another writer is faster.
    Touch,
    /// Requests are refused, or the server is away.
    Errors,
    /// Watches expire.
    Expire,
    /// Watches end.
    Cut,
    /// The program is down while something happens.
    Down,
    /// After a restart the program reads from a server that lags.
    Stale,
    /// Held events come at once.
    Burst,
    /// The user deletes and creates an object.
    Recreate,
    /// The user changes an object and changes it back.
    Flip,
    /// The program loses its Lease, stands still, or runs twice.
    Leader,
    /// The cluster's clock jumps forward.
    Leap,
    /// A simulated node loses its power.
    Node,
    /// A webhook cannot be reached.
    Webhook,
    /// Requests and events happen in another order.
    Order,
}

impl PatternId {
    /// All patterns, in the order in which they take turns.
    pub const ALL: [Self; 18] = [
        Self::Crash,
        Self::Freeze,
        Self::Skip,
        Self::LostAnswer,
        Self::Touch,
        Self::Errors,
        Self::Expire,
        Self::Cut,
        Self::Down,
        Self::Stale,
        Self::Burst,
        Self::Recreate,
        Self::Flip,
        Self::Leader,
        Self::Leap,
        Self::Node,
        Self::Webhook,
        Self::Order,
    ];

    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Freeze => "freeze",
            Self::Skip => "skip",
            Self::LostAnswer => "lost-answer",
            Self::Touch => "touch",
            Self::Errors => "errors",
            Self::Expire => "expire",
            Self::Cut => "cut",
            Self::Down => "down",
            Self::Stale => "stale",
            Self::Burst => "burst",
            Self::Recreate => "recreate",
            Self::Flip => "flip",
            Self::Leader => "leader",
            Self::Leap => "leap",
            Self::Node => "node",
            Self::Webhook => "webhook",
            Self::Order => "order",
        }
    }

    /// The pattern of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.name() == name)
    }
}

impl fmt::Display for PatternId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
