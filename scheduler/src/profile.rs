//! [`Profiles`]: for which pods the scheduler is responsible, and the plugins that decide on each of them.

use crate::gates::Gates;
use crate::plugins::Registry;
use crate::pod::PodInfo;
use std::sync::Arc;

/// The scheduler name of pods that name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// The pods of one scheduler name, and how they are scheduled.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The profile is for pods with this `spec.schedulerName`.
    pub scheduler_name: String,
    /// The share of the nodes to score for a pod, in per cent. Zero is adaptive: all nodes of a very small
    /// cluster, half of a small one, a twentieth of a large one.
    pub percentage_of_nodes_to_score: usize,
    /// The plugins, and which of them run.
    pub plugins: Registry,
}

impl Default for Profile {
    fn default() -> Self {
        Self::named(DEFAULT_SCHEDULER_NAME)
    }
}

impl Profile {
    /// A profile for pods of this scheduler name, with the default plugins.
    pub fn named(scheduler_name: &str) -> Self {
        Self {
            scheduler_name: scheduler_name.to_owned(),
            percentage_of_nodes_to_score: 0,
            plugins: Registry::in_tree(),
        }
    }
}

/// The profiles of a scheduler, at least one, with distinct names. They share the queue and the cache. Their registries have the same
/// plugins in the same places. Clones share the profiles.
#[derive(Clone, Debug)]
pub struct Profiles(Arc<[Profile]>);

impl Default for Profiles {
    fn default() -> Self {
        Profile::default().into()
    }
}

impl From<Profile> for Profiles {
    fn from(profile: Profile) -> Self {
        Self(Arc::new([profile]))
    }
}

impl Profiles {
    /// These profiles; the default one if there are none.
    pub(crate) fn new(profiles: Vec<Profile>) -> Self {
        if profiles.is_empty() { Self::default() } else { Self(profiles.into()) }
    }

    /// The feature gates, which all profiles share.
    pub(crate) fn gates(&self) -> Gates {
        self.0[0].plugins.gates()
    }

    /// The profiles, in the order of the configuration.
    pub fn iter(&self) -> std::slice::Iter<'_, Profile> {
        self.0.iter()
    }

    /// Whether the scheduler is responsible for pods of this scheduler name.
    pub fn has(&self, scheduler_name: &str) -> bool {
        self.iter().any(|profile| profile.scheduler_name == scheduler_name)
    }

    /// The place of the profile of a pod for which the scheduler is responsible; of another pod, any.
    pub fn place_of(&self, pod: &PodInfo) -> usize {
        match &self.0[..] {
            [_] => 0,
            many => many.iter().position(|p| p.scheduler_name == pod.scheduler_name).unwrap_or_default(),
        }
    }

    /// The profile at a place that [`place_of`](Self::place_of) gave.
    pub(crate) fn at(&self, place: usize) -> &Profile {
        &self.0[place]
    }

    /// The profile of a pod for which the scheduler is responsible; of another pod, any.
    pub fn of(&self, pod: &PodInfo) -> &Profile {
        &self.0[self.place_of(pod)]
    }
}
