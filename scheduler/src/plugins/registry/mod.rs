//! [`Registry`]: the plugins of a scheduler, in-tree ones first, and which of them run at which point.

mod line_up;

use super::ActiveFilter;
use crate::event::{ClusterEvent, EventKind};
use crate::fields::Fields;
use crate::gates::Gates;
use crate::inventory::Inventory;
use crate::node::NodeInfo;
use crate::plugin::{
    ActivePlugin, CandidateShare, ClusterView, ExtensionPoint, Plugin, PluginId, PluginSet, PostFilter,
    PreFilter, Refusals, Reservation, ReservationKind, Row,
};
use crate::pod::PodInfo;
use crate::score::Candidates;
use kstore_nondet::Rng;
pub use line_up::LineUp;
use serde_json::Value;
use std::sync::Arc;

/// The number of reasons that a row can have: a refusal has a bit for each.
const MAX_REASONS: usize = u32::BITS as usize;

/// A plugin of a registry. The methods are those of [`Plugin`], without its types.
pub(crate) trait RegisteredPlugin: Send + Sync {
    fn row(&self) -> &'static Row;
    fn configured(&self, args: &mut Fields<'_>) -> Option<Arc<dyn RegisteredPlugin>>;
    fn arguments(&self) -> Option<Value>;
    fn preempts(&self) -> Option<CandidateShare>;
    fn gathers_gangs(&self) -> bool;
    fn admits_to_queue(&self, pod: &PodInfo, inventory: &Inventory) -> bool;
    fn prefilter<'a>(&'a self, pod: &'a PodInfo, cluster: ClusterView<'a>)
    -> PreFilter<'a, ActiveFilter<'a>>;
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool;
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>>;
    fn reserves(&self) -> Option<ReservationKind>;
    fn reserve(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        inventory: &mut Inventory,
        random: &dyn Fn() -> Rng,
    ) -> Option<Reservation>;
    fn post_filter(&self, pod: &PodInfo, cluster: ClusterView<'_>, refusals: Refusals<'_>) -> PostFilter;
}

/// A plugin with the way in which its filter becomes an [`ActiveFilter`].
struct Registered<P: Plugin> {
    plugin: P,
    activate: for<'a> fn(ActivePlugin<'a, P>) -> ActiveFilter<'a>,
}

/// A plugin of the list in `plugins`, whose filter is called statically.
pub(super) fn in_tree<P>(gates: Gates) -> Arc<dyn RegisteredPlugin>
where
    P: Plugin + Default,
    for<'a> ActiveFilter<'a>: From<ActivePlugin<'a, P>>,
{
    Arc::new(Registered { plugin: P::default().gated(gates), activate: |active| active.into() })
}

impl<P: Plugin> RegisteredPlugin for Registered<P> {
    fn row(&self) -> &'static Row {
        P::ROW
    }

    fn configured(&self, args: &mut Fields<'_>) -> Option<Arc<dyn RegisteredPlugin>> {
        let plugin = self.plugin.configured(args)?;
        Some(Arc::new(Self { plugin, activate: self.activate }))
    }

    fn arguments(&self) -> Option<Value> {
        self.plugin.arguments()
    }

    fn preempts(&self) -> Option<CandidateShare> {
        self.plugin.preempts()
    }

    fn gathers_gangs(&self) -> bool {
        self.plugin.gathers_gangs()
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

    fn reserves(&self) -> Option<ReservationKind> {
        P::RESERVES
    }

    fn reserve(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        inventory: &mut Inventory,
        random: &dyn Fn() -> Rng,
    ) -> Option<Reservation> {
        self.plugin.reserve(pod, node, inventory, random)
    }

    fn post_filter(&self, pod: &PodInfo, cluster: ClusterView<'_>, refusals: Refusals<'_>) -> PostFilter {
        self.plugin.post_filter(pod, cluster, refusals)
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

/// The plugins of a scheduler, and which of them run at which point. A profile with a configuration has a registry of its own, with the
/// same plugins in the same places and thus the same ids. Clones share the plugins.
#[derive(Clone)]
pub struct Registry {
    plugins: Vec<Arc<dyn RegisteredPlugin>>,
    /// The number of in-tree plugins, which are the first ones.
    in_tree: usize,
    gates: Gates,
    line_up: LineUp,
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
        Self::in_tree_with(Gates::default())
    }

    /// kube-scheduler's default plugins with these feature gates, which are also those of a configuration that is read with the registry.
    pub fn in_tree_with(gates: Gates) -> Self {
        let (line_up, helped) = (LineUp::default(), Default::default());
        let mut registry = Self { plugins: Vec::new(), in_tree: 0, gates, line_up, helped };
        let plugins = super::in_tree(gates);
        for plugin in plugins.into_iter().filter(|plugin| gates.schedules_gangs || !plugin.gathers_gangs()) {
            registry.add(plugin).expect("the rows of the in-tree plugins are valid");
        }
        registry.in_tree = registry.plugins.len();
        registry
    }

    /// Adds a plugin, which runs after those that are there.
    ///
    /// # Errors
    ///
    /// Another plugin has its name, the registry is full, or its row has too many reasons.
    pub fn with<P: Plugin>(mut self, plugin: P) -> Result<Self, RegistryError> {
        self.add(Arc::new(Registered {
            plugin: plugin.gated(self.gates),
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
        self.line_up.add(id, row);
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

    /// The feature gates of the plugins.
    pub fn gates(&self) -> Gates {
        self.gates
    }

    /// The plugins that run, by point.
    pub fn line_up(&self) -> &LineUp {
        &self.line_up
    }

    /// The same plugins with this line-up, in which a profile's configuration has replaced those of `configured`.
    pub(crate) fn with_line_up(
        &self,
        line_up: LineUp,
        configured: impl IntoIterator<Item = (PluginId, Arc<dyn RegisteredPlugin>)>,
    ) -> Self {
        let mut registry = Self { line_up, ..self.clone() };
        configured.into_iter().for_each(|(id, plugin)| registry.plugins[id.index()] = plugin);
        registry
    }

    /// The number of in-tree plugins, which are the first ones of the registry.
    pub(crate) fn in_tree_plugins(&self) -> usize {
        self.in_tree
    }

    /// The plugin that stands for gangs; `None` if pods are scheduled one by one.
    pub(crate) fn gangs(&self) -> Option<PluginId> {
        let permits = self.line_up.at(ExtensionPoint::Permit).iter();
        permits.copied().find(|id| self.get(*id).gathers_gangs())
    }

    /// How preemption searches victims; `None` if no plugin at PostFilter evicts pods.
    pub(crate) fn preemption(&self) -> Option<CandidateShare> {
        self.line_up.at(ExtensionPoint::PostFilter).iter().find_map(|id| self.get(*id).preempts())
    }

    /// What the plugins reserve for `pod` on `node`.
    pub(crate) fn reserve<'a>(
        &'a self,
        pod: &'a PodInfo,
        (node, inventory): (&'a NodeInfo, &'a mut Inventory),
        random: &'a dyn Fn() -> Rng,
    ) -> impl Iterator<Item = Reservation> {
        // What is reserved is written in PreBind: without it the pod would be bound to what it does not have.
        let writers = self.line_up.at(ExtensionPoint::PreBind);
        let reservers = self.line_up.at(ExtensionPoint::Reserve).iter().filter(|id| writers.contains(id));
        reservers.filter_map(move |id| self.get(*id).reserve(pod, node, inventory, random))
    }

    /// What plugins do for `pod`, which no node fits.
    pub(crate) fn post_filter(
        &self,
        pod: &PodInfo,
        cluster: ClusterView<'_>,
        refusals: Refusals<'_>,
    ) -> PostFilter {
        let post_filters = self.line_up.at(ExtensionPoint::PostFilter).iter();
        post_filters.fold(PostFilter::default(), |done, id| {
            let is_own = refusals.by.contains(*id);
            let more = self.get(*id).post_filter(pod, cluster, Refusals { is_own, ..refusals });
            PostFilter {
                deallocation: done.deallocation.or(more.deallocation),
                text: done.text.or(more.text),
                has_failed: done.has_failed || more.has_failed,
            }
        })
    }

    /// The error of a pod whose reservation could not be written, in kube-scheduler's words.
    pub(crate) fn pre_bind_error(&self, kind: ReservationKind, why: &str) -> String {
        let writer = self.plugins.iter().rfind(|plugin| plugin.reserves() == Some(kind));
        let name = writer.map_or("", |plugin| plugin.row().name);
        format!("running PreBind plugin \"{name}\": {why}")
    }

    /// The first plugin that keeps the pod out of the queue of ready pods.
    pub(crate) fn keeps_out(&self, pod: &PodInfo, inventory: &Inventory) -> Option<PluginId> {
        let plugins = self.line_up.at(ExtensionPoint::PreEnqueue).iter();
        plugins.copied().find(|id| !self.get(*id).admits_to_queue(pod, inventory))
    }

    /// Whether `event` may have changed the result of one of the plugins `refused_by` for `pod`. What helps an extender is unknown.
    pub(crate) fn may_help(&self, refused_by: PluginSet, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let candidates = refused_by.intersection(self.helped[event.kind() as usize]);
        refused_by.contains(PluginId::EXTENDERS)
            || candidates.iter().any(|id| self.get(id).may_help(pod, event))
    }

    /// Whether all these plugins are of this crate, and none are extenders.
    pub(crate) fn are_in_tree(&self, plugins: PluginSet) -> bool {
        !plugins.contains(PluginId::EXTENDERS) && plugins.iter().all(|id| id.index() < self.in_tree)
    }

    /// Whether one of the plugins `refused_by` asks about events of this kind. What helps an extender is unknown: it asks about all.
    pub(crate) fn hear(&self, refused_by: PluginSet, kind: EventKind) -> bool {
        let hearers = refused_by.intersection(self.helped[kind as usize]);
        refused_by.contains(PluginId::EXTENDERS) || !hearers.is_empty()
    }

    /// The plugins, and extenders, whose refusal of `pod` `event` may change.
    pub(crate) fn helped(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> PluginSet {
        let candidates = self.helped[event.kind() as usize];
        let helped: PluginSet = candidates.iter().filter(|id| self.get(*id).may_help(pod, event)).collect();
        helped.union(PluginSet::EXTENDERS)
    }
}

#[cfg(test)]
mod tests;
