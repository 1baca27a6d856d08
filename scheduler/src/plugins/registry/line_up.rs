//! [`LineUp`]: which plugins of a registry run at which extension point, in which order, and with which weights.

use crate::plugin::{ExtensionPoint, PluginId, PluginSet, Row};

/// The plugins that run in a profile. By default every plugin runs at every point that its row names, in the registry's order and with the
/// weight of its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineUp {
    /// By [`ExtensionPoint`], in the order in which they run.
    points: [Vec<PluginId>; ExtensionPoint::ALL.len()],
    /// The weights of the scores, in the order of the point Score.
    weights: Vec<i64>,
    /// The plugins whose state is made for a pod, in order: those at Filter, and those only at PreFilter.
    prefilters: Vec<PluginId>,
    /// Whether `prefilters` has another order than the filters, or other plugins.
    is_reordered: bool,
}

impl LineUp {
    /// A line-up of these plugins by point, with the weights of those at Score.
    pub(crate) fn new(points: [Vec<PluginId>; ExtensionPoint::ALL.len()], weights: Vec<i64>) -> Self {
        assert_eq!(points[ExtensionPoint::Score as usize].len(), weights.len(), "every score has a weight");
        let mut line_up = Self { points, weights, ..Self::default() };
        line_up.order_prefilters();
        line_up
    }

    /// Adds a plugin with this row after the others.
    pub(super) fn add(&mut self, id: PluginId, row: &Row) {
        row.points.iter().for_each(|point| self.points[*point as usize].push(id));
        if row.extends(ExtensionPoint::Score) {
            self.weights.push(row.weight.max(1));
        }
        self.order_prefilters();
    }

    /// Filters make their states in their own order if PreFilter has the same one. Then no attempt has to sort them.
    fn order_prefilters(&mut self) {
        let (before, filters) = (self.at(ExtensionPoint::PreFilter), self.at(ExtensionPoint::Filter));
        let common = filters.iter().filter(|id| before.contains(id));
        let is_reordered = !common.eq(before);
        let others = filters.iter().filter(|id| !before.contains(id));
        let prefilters = match is_reordered {
            false => filters.to_vec(),
            true => before.iter().chain(others).copied().collect(),
        };
        (self.prefilters, self.is_reordered) = (prefilters, is_reordered);
    }

    /// The plugins at a point, in order.
    pub(crate) fn at(&self, point: ExtensionPoint) -> &[PluginId] {
        &self.points[point as usize]
    }

    /// Whether the plugin runs at the point.
    pub(crate) fn runs(&self, id: PluginId, point: ExtensionPoint) -> bool {
        self.at(point).contains(&id)
    }

    /// The plugins at a point.
    pub(crate) fn set(&self, point: ExtensionPoint) -> PluginSet {
        self.at(point).iter().copied().collect()
    }

    /// The plugins at Score with their weights.
    pub(crate) fn scorers(&self) -> impl Iterator<Item = (PluginId, i64)> {
        self.at(ExtensionPoint::Score).iter().copied().zip(self.weights.iter().copied())
    }

    /// The plugins whose state is made for a pod, in order.
    pub(crate) fn prefilters(&self) -> &[PluginId] {
        &self.prefilters
    }

    /// The position of a plugin among the filters, if their states are made in another order. The second is `None` for a plugin that
    /// checks no node.
    pub(crate) fn filter_order(&self) -> Option<impl Fn(PluginId) -> Option<usize>> {
        let filters = self.at(ExtensionPoint::Filter);
        self.is_reordered.then_some(move |id| filters.iter().position(|filter| *filter == id))
    }
}
