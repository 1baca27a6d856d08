//! [`Election`]: one candidate's view of the election, for health checks, metrics and logs. It decides
//! nothing.

use super::options::ElectorOptions;
use crate::metrics::{Collect, Metric, Page, Registry};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const STATUS: Metric = Metric::gauge("leader_election_master_status", "1 while this candidate leads, else 0");
const SLOW_PATHS: Metric =
    Metric::counter("leader_election_slowpath_total", "Number of renewals that had to read the lease first");

type LeaderCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// One candidate's view of the election. Clones share state; the view outlives the elector.
#[derive(Clone)]
pub struct Election(Arc<Shared>);

struct Shared {
    state: Mutex<ElectionState>,
    name: String,
    lease: Duration,
}

#[derive(Default)]
struct ElectionState {
    leader: Option<Arc<str>>,
    leading: bool,
    renewed: Option<Instant>,
    renewals_with_read: u64,
    /// The last leader that the callback was called with.
    reported: Option<Arc<str>>,
    callback: Option<LeaderCallback>,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("Election")
            .field("name", &self.0.name)
            .field("leader", &state.leader)
            .field("leading", &state.leading)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a float; exact up to 2^53")]
impl Collect for Shared {
    fn collect(&self, into: &mut Page) {
        let state = self.state.lock();
        let labels = [("name", self.name.as_str())];
        into.add(&STATUS, &labels, f64::from(u8::from(state.leading)));
        into.add(&SLOW_PATHS, &labels, state.renewals_with_read as f64);
    }
}

impl Election {
    pub(super) fn new(options: &ElectorOptions) -> Self {
        let (state, name, lease) = (Mutex::default(), options.name.clone(), options.lease);
        Self(Arc::new(Shared { state, name, lease }))
    }

    /// The name of the election.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The leader as last seen. `None` if the lease was free or not seen yet. It may have changed since.
    pub fn leader(&self) -> Option<Arc<str>> {
        self.0.state.lock().leader.clone()
    }

    /// Whether this candidate's work is running.
    pub fn is_leading(&self) -> bool {
        self.0.state.lock().leading
    }

    /// Whether the work has stopped in time: false if it still runs although the lease expired more than
    /// `tolerance` ago. That happens only if the elector's task is blocked; such a process should be
    /// restarted.
    pub fn is_healthy(&self, tolerance: Duration) -> bool {
        let state = self.0.state.lock();
        !state.leading || state.renewed.is_none_or(|at| at.elapsed() <= self.0.lease + tolerance)
    }

    /// How often this candidate, while leading, had to read the lease before it could renew it.
    pub fn renewals_with_read(&self) -> u64 {
        self.0.state.lock().renewals_with_read
    }

    /// Exposes in `registry` whether this candidate leads, as long as its elector or one of its [`Election`]s
    /// exists.
    pub fn metrics(&self, registry: &Registry) {
        let shared: Arc<Shared> = self.0.clone();
        registry.add(Arc::downgrade(&shared) as _);
    }

    pub(super) fn on_new_leader(&self, callback: impl Fn(&str) + Send + Sync + 'static) {
        self.0.state.lock().callback = Some(Arc::new(callback));
    }

    /// Marks the work as running until the guard is dropped.
    pub(super) fn lead(&self) -> LeadingGuard {
        self.0.state.lock().leading = true;
        LeadingGuard(self.clone())
    }

    pub(super) fn slow_path(&self, leading: bool) {
        self.0.state.lock().renewals_with_read += u64::from(leading);
    }

    pub(super) fn renewed(&self, began: Instant, leader: Option<&str>) {
        self.0.state.lock().renewed = Some(began);
        self.saw(leader);
    }

    /// Records the leader, and calls the callback if it is new. A free lease does not trigger the callback.
    pub(super) fn saw(&self, leader: Option<&str>) {
        let mut state = self.0.state.lock();
        if state.leader.as_deref() != leader {
            state.leader = leader.map(Arc::from);
        }
        let Some(new) = state.leader.clone().filter(|new| state.reported.as_ref() != Some(new)) else {
            return;
        };
        state.reported = Some(new.clone());
        let callback = state.callback.clone();
        drop(state);
        if let Some(callback) = callback {
            callback(&new);
        }
    }
}

pub(super) struct LeadingGuard(Election);

impl Drop for LeadingGuard {
    fn drop(&mut self) {
        self.0.0.state.lock().leading = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_without_a_renewal_is_unhealthy_after_lease_plus_tolerance() {
        let (election, tolerance) = (Election::new(&ElectorOptions::new("a")), Duration::from_secs(20));
        assert!(election.is_healthy(Duration::ZERO));
        election.renewed(Instant::now(), Some("a"));
        let leading = election.lead();
        tokio::time::advance(Duration::from_secs(35)).await;
        assert!(election.is_healthy(tolerance) && !election.is_healthy(Duration::from_secs(19)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!election.is_healthy(tolerance));
        drop(leading);
        assert!(election.is_healthy(tolerance), "a waiting candidate is healthy");
    }

    #[test]
    fn election_metrics_have_client_gos_names() {
        let (election, registry) = (Election::new(&ElectorOptions::new("a")), Registry::new());
        election.metrics(&registry);
        let leading = election.lead();
        election.slow_path(true);
        let mut page = String::new();
        registry.render(&mut page);
        assert!(page.contains("leader_election_master_status{name=\"\"} 1\n"), "{page}");
        assert!(page.contains("leader_election_slowpath_total{name=\"\"} 1\n"), "{page}");
        drop((election, leading));
        assert!(registry.is_empty());
    }
}
