//! What a search is doing, for a line on a terminal. Pure.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A phase of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The cluster is prepared.
    #[default]
    Prepare,
    /// Runs without a fault.
    References,
    /// Enumerated plans.
    Plans,
    /// Random plans.
    Random,
}

/// The progress of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Phase.
    pub phase: Phase,
    /// Plans of the phase.
    pub plans: usize,
    /// Plans of the phase that ran.
    pub run: usize,
    /// Findings.
    pub findings: usize,
    /// Failures that did not fail again each time.
    pub unsteady: usize,
    /// Finding that is being confirmed or shrunk.
    pub shrinking: Option<String>,
}

impl Progress {
    /// The progress in a line, `elapsed` after the begin of a search with this budget.
    pub fn line(&self, elapsed: Duration, budget: Duration) -> String {
        let per_minute = (self.run as u64 * 60).checked_div(elapsed.as_secs().max(1)).unwrap_or(0);
        let counts = format!("{} findings · {} unsteady", self.findings, self.unsteady);
        let time = format!("{} of {}", shown(elapsed), shown(budget));
        let shrinking = self.shrinking.as_ref().map(|id| format!(" · confirms {id}")).unwrap_or_default();
        match self.phase {
            Phase::Prepare => format!("{} · {time}", self.phase),
            Phase::References => format!("{} · {} runs · {time}", self.phase, self.run),
            Phase::Plans | Phase::Random => format!(
                "{} · {}/{} plans · {per_minute}/min · {counts}{shrinking} · {time}",
                self.phase, self.run, self.plans
            ),
        }
    }
}

/// The progress of a search that another task shows.
#[derive(Clone, Debug, Default)]
pub struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    /// The progress now.
    pub fn get(&self) -> Progress {
        self.0.lock().clone()
    }

    /// Changes it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock());
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "prepares the cluster",
            Self::References => "references",
            Self::Plans => "plans",
            Self::Random => "random plans",
        })
    }
}

/// A duration as `3m12s`.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_running_what_was_found_and_how_much_time_is_left() {
        let progress =
            Progress { phase: Phase::Plans, plans: 398, run: 311, findings: 2, unsteady: 1, shrinking: None };
        let line = progress.line(Duration::from_secs(192), Duration::from_secs(600));
        assert_eq!(line, "plans · 311/398 plans · 97/min · 2 findings · 1 unsteady · 3m12s of 10m00s");
        let progress = Progress { shrinking: Some("s-1".to_owned()), ..progress };
        assert!(
            progress.line(Duration::ZERO, Duration::from_secs(60)).contains("confirms s-1 · 0s of 1m00s")
        );
        assert_eq!(
            Progress::default().line(Duration::ZERO, Duration::from_secs(9)),
            "prepares the cluster · 0s of 9s"
        );
    }
}
