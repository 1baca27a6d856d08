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
    /// Runs of the phase: those that confirm and shrink findings, too.
    pub runs: usize,
    /// Time from the begin of the search to that of the phase.
    pub before: Duration,
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
        let seconds = elapsed.saturating_sub(self.before).as_secs().max(1);
        let per_minute = self.runs as u64 * 60 / seconds;
        let counts = format!("{} · {} unsteady", counted(self.findings, "finding"), self.unsteady);
        let time = format!("{} of {}", shown(elapsed), shown(budget));
        let confirming =
            self.shrinking.as_ref().map(|what| format!(" · confirming {what}")).unwrap_or_default();
        match self.phase {
            Phase::Prepare => format!("{} · {time}", self.phase),
            Phase::References => format!("{} · {} · {time}", self.phase, counted(self.run, "run")),
            Phase::Plans | Phase::Random => format!(
                "{} · {} of {} · {per_minute} runs/min · {counts}{confirming} · {time}",
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
            Self::Prepare => "preparing the cluster",
            Self::References => "references",
            Self::Plans => "plans",
            Self::Random => "random plans",
        })
    }
}

/// A number with its noun.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
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
        let progress = Progress {
            phase: Phase::Plans,
            plans: 398,
            run: 311,
            runs: 620,
            before: Duration::from_secs(6),
            findings: 2,
            unsteady: 1,
            shrinking: None,
        };
        let line = progress.line(Duration::from_secs(192), Duration::from_secs(600));
        assert_eq!(line, "plans · 311 of 398 · 200 runs/min · 2 findings · 1 unsteady · 3m12s of 10m00s");
        let progress = Progress { shrinking: Some("end-state".to_owned()), findings: 1, ..progress };
        let line = progress.line(Duration::ZERO, Duration::from_secs(60));
        assert!(line.contains("1 finding · 1 unsteady · confirming end-state · 0s of 1m00s"), "{line}");
        let progress = Progress { phase: Phase::References, run: 1, ..Progress::default() };
        assert_eq!(progress.line(Duration::ZERO, Duration::from_secs(9)), "references · 1 run · 0s of 9s");
        assert_eq!(
            Progress::default().line(Duration::ZERO, Duration::from_secs(9)),
            "preparing the cluster · 0s of 9s"
        );
    }
}
