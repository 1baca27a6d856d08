//! [`Registry`]: the plugins of a scheduler, in-tree ones first, and which of them run at which point.

use super::ActiveFilter;
use crate::event::{ClusterEvent, EventKind};
use crate::inventory::Inventory;
use crate::plugin::{ActivePlugin, ClusterView, ExtensionPoint, Plugin, PluginId, PluginSet, PreFilter, Row};
use crate::pod::PodInfo;
use crate::score::Candidates;
use std::sync::Arc;

/// The number of reasons that a row can have: a refusal has a bit for each.
const MAX_REASONS: usize = u32::BITS as usize;

/// A plugin of a registry. The methods are those of [`Plugin`], without its types.
pub(crate) trait RegisteredPlugin: Send + Sync {
    fn row(&self) -> &'static Row;
    fn admits_to_queue(&self, pod: &PodInfo, inventory: &Inventory) -> bool;
    fn prefilter<'a>(&'a self, pod: &'a PodInfo, cluster: ClusterView<'a>)
    -> PreFilter<'a, ActiveFilter<'a>>;
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool;
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>>;
}

/// A plugin with the way in which its filter becomes an [`ActiveFilter`].
struct Registered<P: Plugin> {
    plugin: P,
    activate: for<'a> fn(ActivePlugin<'a, P>) -> ActiveFilter<'a>,
}

/// A plugin of the list in `plugins`, whose filter is called statically.
pub(super) fn in_tree<P>(plugin: P) -> Arc<dyn RegisteredPlugin>
where
    P: Plugin,
    for<'a> ActiveFilter<'a>: From<ActivePlugin<'a, P>>,
{
    Arc::new(Registered { plugin, activate: |active| active.into() })
}

impl<P: Plugin> RegisteredPlugin for Registered<P> {
    fn row(&self) -> &'static Row {
        P::ROW
    }

    fn admits_to_queue(&self, pod: &PodInfo, inventory: &Inventory) -> bool {
        self.plugin.admits_to_queue(pod, inventory)
    }

    fn prefilter<'a>(
        &'a self,
        pod: &'a PodInfo,
        cluster: ClusterView<'a>,
    ) -> PreFilter<'a, ActiveFilter<'a>> {
        let plugin = &self.plugin;
        plugin.prefilter(pod, cluster).map(|state| (self.activate)(ActivePlugin { plugin, state }))
    }

    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        self.plugin.may_help(pod, event)
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        self.plugin.scores(pod, candidates)
    }
}

/// Why a plugin cannot be added to a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryError {
    /// The registry has a plugin of this name.
    Duplicate(&'static str),
    /// The registry is full; the name of the plugin that is one too many.
    Full(&'static str),
    /// The row of this plugin has more reasons than a refusal can name.
    TooManyReasons(&'static str),
}

impl std::fmt::Display for RegistryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duplicate(name) => write!(f, "a plugin named {name} already exists"),
            Self::Full(name) => {
                write!(
                    f,
                    "a scheduler has at most {} plugins; \"{name}\" is one too many",
                    PluginSet::CAPACITY
                )
            }
            Self::TooManyReasons(name) => {
                write!(f, "the row of plugin \"{name}\" has more than {MAX_REASONS} reasons")
            }
        }
    }
}

impl std::error::Error for RegistryError {}

/// The plugins of a scheduler. Their order is that in which filters run. Clones share the plugins.
#[derive(Clone)]
pub struct Registry {
    plugins: Vec<Arc<dyn RegisteredPlugin>>,
    pre_enqueue: PluginSet,
    filters: PluginSet,
    scorers: PluginSet,
    /// The plugins whose refusals an event may turn, by kind of the event.
    helped: [PluginSet; EventKind::ALL.len()],
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.plugins.iter().map(|plugin| plugin.row().name)).finish()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::in_tree()
    }
}

impl Registry {
    /// kube-scheduler's default plugins.
    pub fn in_tree() -> Self {
        let mut registry = Self {
            plugins: Vec::new(),
            pre_enqueue: PluginSet::default(),
            filters: PluginSet::default(),
            scorers: PluginSet::default(),
            helped: Default::default(),
        };
        for plugin in super::in_tree() {
            registry.add(plugin).expect("the rows of the in-tree plugins are valid");
        }
        registry
    }

    /// Adds a plugin, which runs after those that are there.
    ///
    /// # Errors
    ///
    /// Another plugin has its name, the registry is full, or its row has too many reasons.
    pub fn with<P: Plugin>(mut self, plugin: P) -> Result<Self, RegistryError> {
        self.add(Arc::new(Registered {
            plugin,
            activate: |active| ActiveFilter::OutOfTree(Box::new(active)),
        }))?;
        Ok(self)
    }

    fn add(&mut self, plugin: Arc<dyn RegisteredPlugin>) -> Result<(), RegistryError> {
        let row = plugin.row();
        if self.id(row.name).is_some() {
            return Err(RegistryError::Duplicate(row.name));
        }
        if row.reasons.len() > MAX_REASONS {
            return Err(RegistryError::TooManyReasons(row.name));
        }
        let id = PluginId::of(self.plugins.len()).ok_or(RegistryError::Full(row.name))?;
        for (point, set) in [
            (ExtensionPoint::PreEnqueue, &mut self.pre_enqueue),
            (ExtensionPoint::Filter, &mut self.filters),
            (ExtensionPoint::Score, &mut self.scorers),
        ] {
            if row.extends(point) {
                set.insert(id);
            }
        }
        for (kind, set) in EventKind::ALL.iter().zip(&mut self.helped) {
            if row.events.contains(*kind) {
                set.insert(id);
            }
        }
        self.plugins.push(plugin);
        Ok(())
    }

    /// The plugin of this name.
    pub fn id(&self, name: &str) -> Option<PluginId> {
        PluginId::of(self.plugins.iter().position(|plugin| plugin.row().name == name)?)
    }

    /// The row of a plugin of this registry.
    pub fn row(&self, id: PluginId) -> &'static Row {
        self.get(id).row()
    }

    /// The rows of the plugins, in the registry's order.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.plugins.iter().map(|plugin| plugin.row())
    }

    pub(crate) fn get(&self, id: PluginId) -> &dyn RegisteredPlugin {
        &*self.plugins[id.index()]
    }

    /// The plugins with a filter.
    pub fn filters(&self) -> PluginSet {
        self.filters
    }

    /// The plugins with a score, in the order in which scores are added.
    pub fn scorers(&self) -> PluginSet {
        self.scorers
    }

    /// The first plugin that keeps the pod out of the queue of ready pods.
    pub(crate) fn keeps_out(&self, pod: &PodInfo, inventory: &Inventory) -> Option<PluginId> {
        self.pre_enqueue.iter().find(|id| !self.get(*id).admits_to_queue(pod, inventory))
    }

    /// Whether `event` may have changed the result of one of the plugins `refused_by` for `pod`.
    pub(crate) fn may_help(&self, refused_by: PluginSet, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let candidates = refused_by.intersection(self.helped[event.kind() as usize]);
        candidates.iter().any(|id| self.get(id).may_help(pod, event))
    }
}

#[cfg(test)]
mod tests;
