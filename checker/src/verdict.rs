//! The verdict on a history: violated guarantees with explanations.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A guarantee that etcd gives to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Guarantee {
    /// A revision has one content: every client observes the same at any time. The typical violation is a store that
    /// shows a write and then loses it.
    OneHistory,
    /// No response has a smaller revision than any observed before the call.
    Monotonic,
    /// All answers are those of a store that executed one operation after the other, each between its call and its
    /// return.
    Linearizable,
    /// A read of a revision returns the result of all changes up to it.
    Serializable,
    /// A lease exists for its whole time to live after it was granted or renewed.
    LeaseKept,
    /// A watch receives only events that it requested.
    Filter,
    /// A watch receives revisions in order.
    Ordered,
    /// A watch receives no event twice.
    Unique,
    /// A watch receives the events of a revision together.
    Atomic,
    /// After a progress response for a revision, no event up to it follows, and none was left out.
    Bookmarkable,
    /// A watch starts at the requested revision.
    Resumable,
    /// An event marks a key as created exactly if it was created.
    IsCreate,
    /// A watch receives all requested events, and no others.
    Reliable,
    /// The previous version in an event is the key's previous version.
    PrevKv,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The violated guarantee.
    pub guarantee: Guarantee,
    /// A sentence that says what violates it.
    pub summary: String,
    /// The expected observation.
    pub expected: String,
    /// The actual observation.
    pub seen: String,
    /// The few calls or responses around the violation, in order; the smallest part of the history that shows it.
    pub window: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.guarantee, self.summary)?;
        writeln!(f, "  expected  {}", self.expected)?;
        write!(f, "  seen      {}", self.seen)?;
        self.window.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// Size of the judged history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of calls.
    pub calls: usize,
    /// Number of calls with unknown outcome.
    pub unknown: usize,
    /// Number of calls with unknown outcome that took effect.
    pub unknown_done: usize,
    /// Number of watches.
    pub watches: usize,
    /// Number of events in the watches.
    pub events: usize,
    /// The last revision whose changes are known.
    pub revision: i64,
    /// Steps that the search for an order took.
    pub steps: u64,
}

/// The verdict on a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The violations, the most significant first; a few of each guarantee.
    pub violations: Vec<Violation>,
    /// Whether the search for an order exceeded its budget, so that guarantees that need an order were not checked.
    pub undecided: bool,
    /// Size of the judged history.
    pub counts: Counts,
}

impl Verdict {
    /// Whether everything was checked without a violation.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && !self.undecided
    }

    /// Whether this guarantee is violated.
    pub fn breaks(&self, guarantee: Guarantee) -> bool {
        self.violations.iter().any(|violation| violation.guarantee == guarantee)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { calls, unknown, unknown_done, watches, events, revision, steps } = self.counts;
        writeln!(
            f,
            "{calls} operations ({unknown} unknown, {unknown_done} of them done), {watches} watches with {events} events, \
             up to revision {revision}, {steps} steps"
        )?;
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        f.write_str(match (self.violations.is_empty(), self.undecided) {
            (true, false) => "good: every guarantee holds",
            (true, true) => "undecided: the search for an order was given up",
            (false, _) => "bad",
        })
    }
}
