//! [`PluginId`] and [`PluginSet`]: which plugin, and which plugins. Extenders count as one more plugin, which no registry has.

/// A plugin by its index in a [registry](crate::plugins::Registry), which is below [`PluginSet::CAPACITY`]; or the extenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginId(u8);

impl PluginId {
    /// The id under which extenders refuse nodes.
    pub(crate) const EXTENDERS: Self = Self(64);

    /// The id of an index; none for an index that no set can have.
    pub(crate) fn of(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < PluginSet::CAPACITY).map(Self)
    }

    /// The index.
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// A set of plugins of one registry, perhaps with the extenders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginSet(u128);

impl PluginSet {
    /// The number of plugins that a registry, and so a set, can have.
    pub const CAPACITY: usize = u64::BITS as usize;

    /// The set of the extenders alone.
    pub(crate) const EXTENDERS: Self = Self(1 << 64);

    /// The bit of a plugin. The only shift: an id is at most the capacity.
    fn bit(plugin: PluginId) -> u128 {
        1 << plugin.0
    }

    /// Adds a plugin.
    pub fn insert(&mut self, plugin: PluginId) {
        self.0 |= Self::bit(plugin);
    }

    /// Whether the plugin is in the set.
    pub fn contains(self, plugin: PluginId) -> bool {
        self.0 & Self::bit(plugin) != 0
    }

    /// Whether no plugin is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The plugins that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The plugins that are in one of the sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The plugins of the set in the registry's order, then the extenders.
    pub(crate) fn members(self) -> impl Iterator<Item = PluginId> {
        let extenders = self.contains(PluginId::EXTENDERS).then_some(PluginId::EXTENDERS);
        self.iter().chain(extenders)
    }

    /// The plugins of the set in the registry's order, without the extenders.
    pub fn iter(self) -> impl Iterator<Item = PluginId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lowest = PluginId::of(left.trailing_zeros() as usize)?;
            left &= !Self::bit(lowest);
            Some(lowest)
        })
    }
}

impl FromIterator<PluginId> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginId>>(plugins: I) -> Self {
        let mut set = Self::default();
        plugins.into_iter().for_each(|plugin| set.insert(plugin));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_as_many_plugins_as_a_registry_can_have_confuse_none() {
        let ids: Vec<PluginId> = (0..64).map(|index| PluginId::of(index).unwrap()).collect();
        assert_eq!(PluginId::of(64), None, "and no id has the bit of another");
        for (index, id) in ids.iter().enumerate() {
            let only = PluginSet::from_iter([*id]);
            assert!(ids.iter().all(|other| only.contains(*other) == (other == id)), "{index}");
            assert_eq!(only.iter().collect::<Vec<_>>(), [*id]);
        }
        let all: PluginSet = ids.iter().copied().collect();
        assert!(all.iter().eq(ids.iter().copied()));
        assert_eq!(all.intersection(PluginSet::from_iter([ids[63]])).iter().collect::<Vec<_>>(), [ids[63]]);
        assert!(PluginSet::default().is_empty() && PluginSet::default().iter().next().is_none());
        let extenders = PluginSet::EXTENDERS;
        assert!(extenders.contains(PluginId::EXTENDERS) && extenders.iter().next().is_none());
        assert!(all.intersection(extenders).is_empty() && !all.contains(PluginId::EXTENDERS));
        assert!(all.union(extenders).iter().eq(ids));
    }
}
