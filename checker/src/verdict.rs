//! What a judgement says, for people and for programs. Not how it comes about.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A promise that an etcd makes to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Guarantee {
    /// A revision is one thing: whoever sees it, and whenever, sees the same. Broken above all by a store that shows what it
    /// then loses.
    OneHistory,
    /// A revision that anybody has seen is never followed by a smaller one.
    Monotonic,
    /// All answers are those of a store that did one operation after the other, each between its call and its return.
    Linearizable,
    /// A read of a revision sees what all changes up to it have left.
    Serializable,
    /// A lease lives for its whole time after it was granted or renewed.
    LeaseKept,
    /// A watch sees only what it asked for.
    Filter,
    /// A watch sees revisions in order.
    Ordered,
    /// A watch sees no event twice.
    Unique,
    /// A watch sees the events of a revision together.
    Atomic,
    /// After word of progress to a revision, nothing up to it comes any more, and nothing was left out.
    Bookmarkable,
    /// A watch begins at the revision where it was asked to begin.
    Resumable,
    /// An event says of a key that it is new exactly if it is.
    IsCreate,
    /// A watch leaves nothing out and makes nothing up.
    Reliable,
    /// The version before an event is the version before it.
    PrevKv,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which.
    pub guarantee: Guarantee,
    /// By what, in a sentence.
    pub summary: String,
    /// What should have been seen.
    pub expected: String,
    /// What was.
    pub seen: String,
    /// The few calls or responses around it, in order; the smallest part of the history that shows it.
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

/// How much was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Calls.
    pub calls: usize,
    /// Of them, calls whose outcome is unknown.
    pub unknown: usize,
    /// Of these, calls that turned out to have been done.
    pub unknown_done: usize,
    /// Watches.
    pub watches: usize,
    /// Events in them.
    pub events: usize,
    /// The last revision whose change is known.
    pub revision: i64,
    /// Steps that the search for an order took.
    pub steps: u64,
}

/// The judgement of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was broken, the most telling first; a few of each kind.
    pub violations: Vec<Violation>,
    /// The search for an order was given up, so that nothing is said about what needs one.
    pub undecided: bool,
    /// How much was judged.
    pub counts: Counts,
}

impl Verdict {
    /// Whether everything was judged, and good.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && !self.undecided
    }

    /// Whether this promise was found broken.
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
