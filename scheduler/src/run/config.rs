//! [`Config`]: how a scheduler decides, and what it reports to.

use crate::attempt::AttemptLog;
use crate::configuration::Configuration;
use crate::extender::Extenders;
use crate::gates::Gates;
use crate::plugins::Registry;
use crate::profile::{Profile, Profiles};
use crate::queue::PodBackoff;
use crate::scheduler::{Scheduler, TieMode};
use kstore_api::version::Minor;
use kstore_informer::CacheSet;
use kstore_informer::metrics::Registry as Metrics;
use kstore_nondet::Rng;

/// The configuration of a scheduler.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The scheduler assigns the pods of these profiles.
    pub profiles: Profiles,
    /// The waits of pods after failed attempts.
    pub backoff: PodBackoff,
    /// The registry for the metrics of the caches and of preemption.
    pub metrics: Metrics,
    /// The scheduler's caches, perhaps from an image.
    pub caches: CacheSet,
    /// The servers that take part in decisions over HTTP.
    pub extenders: Extenders,
    /// The version of Kubernetes whose messages the scheduler writes.
    pub minor: Minor,
    /// Where the results of attempts are recorded. The caller keeps a clone to read them.
    pub attempts: AttemptLog,
    /// How the scheduler chooses among nodes of equal score.
    pub ties: TieMode,
}

impl Config {
    /// The scheduler of this configuration before it knows a cluster.
    pub(super) fn scheduler(&self, rng: &Rng) -> Scheduler {
        Scheduler::of(self.profiles.clone(), self.backoff, rng)
            .with_extenders(self.extenders.clone())
            .with_ties(self.ties)
            .of_release(self.minor)
    }

    /// A scheduler of one default profile, with these feature gates.
    pub fn gated(gates: Gates) -> Self {
        let profile = Profile { plugins: Registry::in_tree_with(gates), ..Profile::default() };
        let backoff = PodBackoff { ends_early: gates.pop_from_backoff, ..PodBackoff::default() };
        Self { profiles: profile.into(), backoff, ..Self::default() }
    }
}

impl From<Configuration> for Config {
    /// A scheduler of this configuration. Clients and leadership are the caller's, and no metrics are registered.
    fn from(read: Configuration) -> Self {
        let Configuration { profiles, backoff, extenders, .. } = read;
        Self { profiles, backoff, extenders, ..Self::default() }
    }
}
