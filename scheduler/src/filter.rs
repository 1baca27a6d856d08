//! The filters of an attempt: the state of those that do not skip the pod, and their checks of nodes. Pure. The filters run in the
//! order of the profile, and the first refusal per node counts.

use crate::node_state::NodeState;
use crate::nominations::Nominations;
use crate::plugin::{
    Adjustment, ClusterView, ExtensionPoint, PluginId, PluginSet, PodMove, PointObserver, PreFilter,
    Rejection,
};
use crate::plugins::{ActiveFilter, Registry};
use crate::pod::PodInfo;
use crate::pod_constraints::Namespaces;
use std::borrow::Cow;
use std::sync::Arc;

/// A refusal by a filter before any node is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRefusal {
    /// The filters that refused.
    pub plugins: PluginSet,
    /// The reason in kube-scheduler's words.
    pub why: Cow<'static, str>,
}

/// The state over all nodes, volumes and devices that the filters need before they check one node.
pub(crate) struct PreFilterState<'a> {
    registry: &'a Registry,
    pod: &'a PodInfo,
    /// The filters that do not skip the pod, in order.
    active: Vec<(PluginId, ActiveFilter<'a>)>,
    narrowed: Option<NarrowedNodes<'a>>,
}

/// The only nodes that can have a pod.
struct NarrowedNodes<'a> {
    names: Cow<'a, [String]>,
    /// The filters that name them.
    by: PluginSet,
}

impl<'a> PreFilterState<'a> {
    /// Computes the state for `pod`: kube-scheduler's `RunPreFilterPlugins`.
    ///
    /// # Errors
    ///
    /// Why no node can have the pod.
    pub(crate) fn of(
        registry: &'a Registry,
        cluster: ClusterView<'a>,
        pod: &'a PodInfo,
    ) -> Result<Self, PodRefusal> {
        Self::observed(registry, cluster, pod, &mut ())
    }

    /// [`Self::of`]; `observer` hears of each plugin if it wants to.
    pub(crate) fn observed(
        registry: &'a Registry,
        cluster: ClusterView<'a>,
        pod: &'a PodInfo,
        observer: &mut dyn PointObserver,
    ) -> Result<Self, PodRefusal> {
        let mut state = Self { registry, pod, active: Vec::new(), narrowed: None };
        let measures = observer.measures_plugins();
        if measures {
            observer.begin_plugins();
        }
        for id in registry.line_up().prefilters().iter().copied() {
            let prefiltered = registry.get(id).prefilter(pod, cluster);
            if measures {
                let is_success = !matches!(prefiltered, PreFilter::Refuse(_));
                observer.end_plugin(ExtensionPoint::PreFilter, id, is_success);
            }
            match prefiltered {
                PreFilter::Skip => {}
                PreFilter::Check(filter) => state.active.push((id, filter)),
                PreFilter::Narrow(filter, names) => {
                    state.active.push((id, filter));
                    state.narrow(id, names)?;
                }
                PreFilter::Refuse(why) => {
                    return Err(PodRefusal { plugins: PluginSet::from_iter([id]), why });
                }
            }
        }
        if let Some(order) = registry.line_up().filter_order() {
            state.active.retain(|(id, _)| order(*id).is_some());
            state.active.sort_by_key(|(id, _)| order(*id));
        }
        Ok(state)
    }

    fn narrow(&mut self, id: PluginId, names: Cow<'a, [String]>) -> Result<(), PodRefusal> {
        let Some(before) = self.narrowed.take() else {
            self.narrowed = Some(NarrowedNodes { names, by: PluginSet::from_iter([id]) });
            return Ok(());
        };
        let by: PluginSet = before.by.iter().chain([id]).collect();
        let both: Vec<String> = before.names.iter().filter(|name| names.contains(name)).cloned().collect();
        if both.is_empty() {
            let why = format!("node(s) didn't satisfy plugin(s) {} simultaneously", self.names(by));
            return Err(PodRefusal { plugins: by, why: why.into() });
        }
        self.narrowed = Some(NarrowedNodes { names: both.into(), by });
        Ok(())
    }

    /// The names of plugins in Go's form of a list, sorted.
    fn names(&self, plugins: PluginSet) -> String {
        let mut names: Vec<&str> = plugins.iter().map(|id| self.registry.row(id).name).collect();
        names.sort_unstable();
        format!("[{}]", names.join(" "))
    }

    /// The names of the only nodes that the filters may admit, sorted; `None` if no filter names nodes.
    pub(crate) fn node_names(&self) -> Option<&[String]> {
        self.narrowed.as_ref().map(|narrowed| &*narrowed.names)
    }

    /// The filters that named nodes, and the reason for each other node.
    pub(crate) fn narrowed_by(&self) -> Option<(PluginSet, String)> {
        let by = self.narrowed.as_ref()?.by;
        Some((by, format!("node(s) didn't satisfy plugin(s) {}", self.names(by))))
    }

    /// Changes the state as if it had been computed after the adjustment.
    pub(crate) fn adjust(&mut self, adjustment: &Adjustment<'_>) {
        self.active.iter_mut().for_each(|(_, filter)| filter.adjust(self.pod, adjustment));
    }

    /// Runs the filters in order on `node`.
    fn check(&self, node: &NodeState, observer: &mut dyn PointObserver) -> Result<(), Rejection> {
        let measures = observer.measures_plugins();
        if measures {
            observer.begin_plugins();
        }
        for (id, filter) in &self.active {
            let checked = filter.check(self.pod, node);
            if measures {
                observer.end_plugin(ExtensionPoint::Filter, *id, checked.is_ok());
            }
            if let Err(refused) = checked {
                return Err(Rejection::new(*id, self.registry.row(*id), refused));
            }
        }
        Ok(())
    }

    /// The filters that do not skip the pod, in order.
    pub(crate) fn filter_names(&self) -> Vec<&'static str> {
        self.active.iter().map(|(id, _)| self.registry.row(*id).name).collect()
    }

    /// The refusals of *all* filters for `node`, for explanations. If only waiting pods that are nominated for the node and go before the
    /// pod are in the way, the first refusal because of them. None if [`Self::check_with_nominated`] admits the pod.
    pub(crate) fn refusals(
        &mut self,
        node: &NodeState,
        nominations: &Nominations,
        namespaces: &Namespaces,
    ) -> Vec<Rejection> {
        let all = |state: &Self, node: &NodeState| {
            let refused = state.active.iter().filter_map(|(id, filter)| {
                let refused = filter.check(state.pod, node).err()?;
                Some(Rejection::new(*id, state.registry.row(*id), refused))
            });
            refused.collect::<Vec<_>>()
        };
        let found = all(self, node);
        if !found.is_empty() {
            return found;
        }
        self.check_with_nominated(node, nominations, namespaces).err().into_iter().collect()
    }

    /// Runs the filters in order on `node`, which must also admit the pod together with the waiting pods that are nominated for it and go
    /// before the pod. It must admit the pod without them as well: they may come later or never. kube-scheduler's
    /// `RunFilterPluginsWithNominatedPods`.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub(crate) fn check_with_nominated(
        &mut self,
        node: &NodeState,
        nominations: &Nominations,
        namespaces: &Namespaces,
    ) -> Result<(), Rejection> {
        self.check_observed(node, (nominations, namespaces), &mut ())
    }

    /// [`Self::check_with_nominated`]; `observer` hears of each filter if it wants to.
    pub(crate) fn check_observed(
        &mut self,
        node: &NodeState,
        (nominations, namespaces): (&Nominations, &Namespaces),
        observer: &mut dyn PointObserver,
    ) -> Result<(), Rejection> {
        let mut ahead = nominations.ahead_of(self.pod, &node.info().name).peekable();
        if ahead.peek().is_some() {
            let ahead: Vec<_> = ahead.collect();
            let mut crowded = node.clone();
            for other in &ahead {
                crowded.add(Arc::clone(other));
                self.adjust(&Adjustment { node: node.info(), other, change: PodMove::Added, namespaces });
            }
            let verdict = self.check(&crowded, observer);
            for other in &ahead {
                self.adjust(&Adjustment { node: node.info(), other, change: PodMove::Removed, namespaces });
            }
            verdict?;
        }
        self.check(node, observer)
    }
}
