//! [`Election`]: what one candidate knows of the election, for those who ask: health checks, metrics, people. It decides
//! nothing.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::options::ElectorOptions;

type Told = Arc<dyn Fn(&str) + Send + Sync>;

/// What one candidate knows of the election. Clones show the same; it outlives the elector.
#[derive(Clone)]
pub struct Election {
    state: Arc<Mutex<State>>,
    name: Arc<str>,
    lease: Duration,
}

#[derive(Default)]
struct State {
    leader: Option<Arc<str>>,
    leading: bool,
    renewed: Option<Instant>,
    slow_paths: u64,
    /// The last leader that was told of.
    reported: Option<Arc<str>>,
    told: Option<Told>,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Election")
            .field("name", &self.name)
            .field("leader", &state.leader)
            .field("leading", &state.leading)
            .finish_non_exhaustive()
    }
}

impl Election {
    pub(super) fn new(options: &ElectorOptions) -> Self {
        Self { state: Arc::default(), name: options.name.as_str().into(), lease: options.lease }
    }

    /// What the election is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who leads, as last seen. None if nobody did, or nothing was seen yet. It may have changed since.
    pub fn leader(&self) -> Option<Arc<str>> {
        self.state.lock().leader.clone()
    }

    /// Whether this candidate's work is under way.
    pub fn is_leading(&self) -> bool {
        self.state.lock().leading
    }

    /// False if this candidate's work is under way although its lease ran out more than `tolerance` ago. That does not
    /// happen as long as time passes for the elector; a process of which this is false had better be ended.
    pub fn is_healthy(&self, tolerance: Duration) -> bool {
        let state = self.state.lock();
        !state.leading || state.renewed.is_none_or(|at| at.elapsed() <= self.lease + tolerance)
    }

    /// How often this candidate, leading, had to read the lease before it could renew it.
    pub fn slow_paths(&self) -> u64 {
        self.state.lock().slow_paths
    }

    pub(super) fn on_new_leader(&self, told: impl Fn(&str) + Send + Sync + 'static) {
        self.state.lock().told = Some(Arc::new(told));
    }

    pub(super) fn leads(&self, leading: bool) {
        self.state.lock().leading = leading;
    }

    pub(super) fn slow_path(&self, leading: bool) {
        self.state.lock().slow_paths += u64::from(leading);
    }

    pub(super) fn renewed(&self, began: Instant, leader: Option<&str>) {
        self.state.lock().renewed = Some(began);
        self.saw(leader);
    }

    /// Takes note of who leads, and tells it if it is someone new. A lease that nobody holds is no news by itself.
    pub(super) fn saw(&self, leader: Option<&str>) {
        let mut state = self.state.lock();
        if state.leader.as_deref() != leader {
            state.leader = leader.map(Arc::from);
        }
        let Some(new) = state.leader.clone().filter(|new| state.reported.as_ref() != Some(new)) else {
            return;
        };
        state.reported = Some(new.clone());
        let told = state.told.clone();
        drop(state);
        if let Some(told) = told {
            told(&new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_goes_on_without_a_renewal_is_unhealthy_after_lease_and_tolerance() {
        let (election, tolerance) = (Election::new(&ElectorOptions::new("a")), Duration::from_secs(20));
        assert!(election.is_healthy(Duration::ZERO));
        election.renewed(Instant::now(), Some("a"));
        election.leads(true);
        tokio::time::advance(Duration::from_secs(35)).await;
        assert!(election.is_healthy(tolerance) && !election.is_healthy(Duration::from_secs(19)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!election.is_healthy(tolerance));
        election.leads(false);
        assert!(election.is_healthy(tolerance), "a candidate that only waits owes nothing");
    }
}
