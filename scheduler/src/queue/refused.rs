//! [`RefusedPods`]: how many waiting pods each plugin refused at their last attempt.

use crate::plugin::{PluginId, PluginSet};

/// Counts by profile and plugin. A pod counts for every plugin that refused it, and so do extenders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedPods(Vec<RefusedOfProfile>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RefusedOfProfile {
    /// By the index of the plugin.
    counts: Vec<usize>,
    /// The plugins that have refused a pod, perhaps long ago.
    seen: PluginSet,
}

impl RefusedPods {
    /// Counts a pod of the profile at this place, which the plugins `by` refused.
    pub(super) fn add(&mut self, profile: usize, by: PluginSet) {
        if by.is_empty() {
            return;
        }
        if self.0.len() <= profile {
            self.0.resize_with(profile + 1, RefusedOfProfile::default);
        }
        let of_profile = &mut self.0[profile];
        of_profile.seen = of_profile.seen.union(by);
        for plugin in by.members() {
            if of_profile.counts.len() <= plugin.index() {
                of_profile.counts.resize(plugin.index() + 1, 0);
            }
            of_profile.counts[plugin.index()] += 1;
        }
    }

    /// Takes back what [`add`](Self::add) counted.
    pub(super) fn remove(&mut self, profile: usize, by: PluginSet) {
        for plugin in by.members() {
            self.0[profile].counts[plugin.index()] -= 1;
        }
    }

    /// The plugins that have refused a pod of the profile at this place, each with the number of such pods that wait.
    pub(crate) fn of_profile(&self, profile: usize) -> impl Iterator<Item = (PluginId, usize)> {
        self.0.get(profile).into_iter().flat_map(|one| {
            let counted = move |plugin: PluginId| (plugin, one.counts[plugin.index()]);
            one.seen.members().map(counted)
        })
    }
}
