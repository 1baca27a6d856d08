//! What a scheduler plugin is: the trait [`Plugin`] with a method per extension point, and the [`Row`] with the facts about the plugin. No
//! plugin is named here. `plugins` has a file for each in-tree plugin; a plugin of another crate implements the same trait and is added
//! with [`Registry::with`](crate::plugins::Registry::with).

mod refused;
mod reservation;
mod set;

use crate::event::{ClusterEvent, EventSet};
use crate::fields::Fields;
use crate::gates::Gates;
use crate::inventory::Inventory;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::pod::PodInfo;
use crate::pod_constraints::Namespaces;
use crate::score::Candidates;
use crate::snapshot::Snapshot;
use kstore_nondet::Rng;
pub(crate) use refused::EXTENDERS;
pub use refused::{Refused, Rejection};
pub use reservation::{PostFilter, Refusals, Reservation, ReservationKind};
use serde_json::Value;
pub use set::{PluginId, PluginSet};
use std::borrow::Cow;

/// A point of the scheduling cycle at which plugins run, under kube-scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtensionPoint {
    /// Before a pod enters the queue of ready pods.
    PreEnqueue,
    /// The order of ready pods.
    QueueSort,
    /// Once per attempt, before any node is checked.
    PreFilter,
    /// Per node.
    Filter,
    /// Once per attempt that no node fits: preemption.
    PostFilter,
    /// Once per attempt with several feasible nodes, before they are scored.
    PreScore,
    /// Once per attempt with several feasible nodes, over all of them.
    Score,
    /// Once per attempt that has a node: the cache assumes the pod there.
    Reserve,
    /// Once per attempt that has a node, before its writes: pods of a gang wait for the others.
    Permit,
    /// The writes before the bind, or together with it, for what was reserved.
    PreBind,
    /// The writes of the binding.
    Bind,
    /// After the binding. No in-tree plugin runs there.
    PostBind,
}

impl ExtensionPoint {
    /// All points in the order of the cycle.
    pub const ALL: [Self; 12] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    /// The point's name in kube-scheduler's metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::Reserve => "Reserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
        }
    }

    /// The point's member of `plugins` in a KubeSchedulerConfiguration.
    pub fn member(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
        }
    }
}

/// The facts about a plugin. Nothing outside the plugin's file repeats them.
#[derive(Debug)]
pub struct Row {
    /// The plugin's name in kube-scheduler's configuration, metrics and texts.
    pub name: &'static str,
    /// The extension points at which the plugin can run; the scheduler calls no method of another point. A filter may have a state per pod
    /// ([`Plugin::prefilter`]) without naming [`ExtensionPoint::PreFilter`].
    pub points: &'static [ExtensionPoint],
    /// The default weight of the plugin's score; zero without one, or if the score is off by default.
    pub weight: i64,
    /// The reasons for refusing a node, in kube-scheduler's words; [`Refused`] names them by index. At most 32.
    pub reasons: &'static [&'static str],
    /// The kinds of events that may turn a refusal. [`Plugin::may_help`] judges events of these kinds only.
    pub events: EventSet,
}

impl Row {
    /// Whether the plugin runs at this point.
    pub fn extends(&self, point: ExtensionPoint) -> bool {
        self.points.contains(&point)
    }
}

/// The cluster as an attempt sees it.
#[derive(Clone, Copy)]
pub struct ClusterView<'a> {
    /// The nodes and the pods on them.
    pub snapshot: &'a Snapshot,
    /// The other objects.
    pub inventory: &'a Inventory,
}

/// How many candidates a preemption looks for: the arguments of DefaultPreemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateShare {
    /// The share of the nodes on which preemption could help, in per cent.
    pub percentage: usize,
    /// The smallest number of nodes.
    pub minimum: usize,
}

/// The result of a filter's look at a pod, before it checks nodes.
pub enum PreFilter<'a, S> {
    /// The filter admits every node for this pod: it is not asked about nodes.
    Skip,
    /// The filter checks nodes with this state.
    Check(S),
    /// The filter checks nodes with this state, and refuses all nodes but those of these names, which are sorted.
    Narrow(S, Cow<'a, [String]>),
    /// No node can have the pod, for this reason in kube-scheduler's words.
    Refuse(Cow<'static, str>),
}

impl<'a, S> PreFilter<'a, S> {
    /// The same result with another state.
    pub(crate) fn map<T>(self, state: impl FnOnce(S) -> T) -> PreFilter<'a, T> {
        match self {
            Self::Skip => PreFilter::Skip,
            Self::Check(s) => PreFilter::Check(state(s)),
            Self::Narrow(s, names) => PreFilter::Narrow(state(s), names),
            Self::Refuse(why) => PreFilter::Refuse(why),
        }
    }
}

/// Whether a pod is added to a node or removed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodMove {
    /// The pod is added.
    Added,
    /// The pod is removed.
    Removed,
}

impl PodMove {
    /// The count after the move of one counted pod.
    pub fn of(self, count: i64) -> i64 {
        match self {
            Self::Added => count + 1,
            Self::Removed => count - 1,
        }
    }
}

/// An assumed change of the pods on a node, beside the snapshot: a nominated pod that goes first, or a victim that leaves.
#[derive(Clone, Copy)]
pub struct Adjustment<'a> {
    /// The node.
    pub node: &'a NodeInfo,
    /// The pod that is added or removed.
    pub other: &'a PodInfo,
    /// Whether it is added or removed.
    pub change: PodMove,
    /// The labels of the namespaces.
    pub namespaces: &'a Namespaces,
}

/// Hears of the extension points of an attempt, and perhaps of their plugins, as they end, to measure them. The decision itself reads no
/// clock.
pub trait PointObserver {
    /// The first point begins; each other one begins when the one before has ended.
    fn begin(&mut self);
    /// A point has ended: it succeeded, or the pod cannot be scheduled.
    fn end(&mut self, point: ExtensionPoint, is_success: bool);
    /// Whether the observer also hears of each plugin in this attempt.
    fn measures_plugins(&self) -> bool {
        false
    }
    /// The first plugin of a point, or of a point on one node, begins; each other one begins when the one before has ended.
    fn begin_plugins(&mut self) {}
    /// A plugin has ended at a point: it succeeded, or refuses the pod.
    fn end_plugin(&mut self, _point: ExtensionPoint, _plugin: PluginId, _is_success: bool) {}
}

/// An observer that measures nothing.
impl PointObserver for () {
    fn begin(&mut self) {}
    fn end(&mut self, _: ExtensionPoint, _: bool) {}
}

/// A plugin of the scheduler: its row, and a method per extension point. The methods are pure: everything that they depend on is an
/// argument, and equal arguments have equal results.
///
/// The scheduler calls in-tree plugins statically, and a plugin of another crate through one virtual call per node for the pods that its
/// [`prefilter`](Self::prefilter) does not skip.
pub trait Plugin: Send + Sync + 'static {
    /// What the filter needs to know about a pod before it checks nodes; `()` for a plugin without a filter, or one that needs nothing.
    type State<'a>: 'a;

    /// The facts about the plugin.
    const ROW: &'static Row;

    /// What [`reserve`](Self::reserve) reserves; `None` for a plugin without the method.
    const RESERVES: Option<ReservationKind> = None;

    /// The plugin with these feature gates, before a profile gives it arguments.
    #[must_use]
    fn gated(self, _gates: Gates) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// The plugin with the arguments that a profile gives it in `pluginConfig`; no member if it gives none. Members that are not read are
    /// refused as unknown. `None` if the plugin has no arguments.
    fn configured(&self, _args: &mut Fields<'_>) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// The arguments in effect, defaults included, as `pluginConfig` has them; `None` if the plugin has none.
    fn arguments(&self) -> Option<Value> {
        None
    }

    /// How preemption searches victims if the plugin runs at [`ExtensionPoint::PostFilter`]; `None` if the plugin is not the one that
    /// stands for preemption.
    fn preempts(&self) -> Option<CandidateShare> {
        None
    }

    /// Whether the plugin is the one that stands for gangs at [`ExtensionPoint::Permit`]: the pods of a gang are decided on in one cycle.
    fn gathers_gangs(&self) -> bool {
        false
    }

    /// Whether the pod may enter the queue of ready pods. Otherwise it waits for an event that helps, without an attempt.
    fn admits_to_queue(&self, _pod: &PodInfo, _inventory: &Inventory) -> bool {
        true
    }

    /// The filter's state for `pod`, once per attempt.
    fn prefilter<'a>(&self, _pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, Self::State<'a>> {
        PreFilter::Skip
    }

    /// Whether the node may take `pod`, for which `state` was made.
    ///
    /// # Errors
    ///
    /// The reasons of the refusal, or why the node cannot be checked, which ends the attempt ([`Refused::error`]).
    fn check(&self, _pod: &PodInfo, _state: &Self::State<'_>, _node: &NodeState) -> Result<(), Refused> {
        Ok(())
    }

    /// Changes the state of `pod` as if it had been made after the adjustment.
    fn adjust(&self, _pod: &PodInfo, _state: &mut Self::State<'_>, _adjustment: &Adjustment<'_>) {}

    /// Whether an event of a kind that the row names may have changed the filter's result for `pod`. A wrong yes costs an attempt. A wrong
    /// no delays the pod for minutes, until the queue flushes the unschedulable pods.
    fn may_help(&self, _pod: &PodInfo, _event: &ClusterEvent<'_>) -> bool {
        true
    }

    /// Reserves what `pod` needs on `node`, to which the filters admitted it, besides the room there: `inventory` shows it as taken, so
    /// that no other pod gets it. `random` makes the random numbers of the attempt. `None` if the pod needs nothing.
    fn reserve(
        &self,
        _pod: &PodInfo,
        _node: &NodeInfo,
        _inventory: &mut Inventory,
        _random: &dyn Fn() -> Rng,
    ) -> Option<Reservation> {
        None
    }

    /// What may be done so that `pod`, which no node fits, fits; once per attempt, besides preemption.
    fn post_filter(&self, _pod: &PodInfo, _cluster: ClusterView<'_>, _refusals: Refusals<'_>) -> PostFilter {
        PostFilter::default()
    }

    /// The unweighted score, 0 to 100, of each candidate for `pod`. `None` if the plugin skips the pod; it counts as zero for every node
    /// then.
    fn scores(&self, _pod: &PodInfo, _candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        None
    }
}

/// A filter that checks nodes for one pod: the plugin and its state.
pub(crate) struct ActivePlugin<'a, P: Plugin> {
    pub(crate) plugin: &'a P,
    pub(crate) state: P::State<'a>,
}

impl<P: Plugin> ActivePlugin<'_, P> {
    pub(crate) fn check(&self, pod: &PodInfo, node: &NodeState) -> Result<(), Refused> {
        self.plugin.check(pod, &self.state, node)
    }

    pub(crate) fn adjust(&mut self, pod: &PodInfo, adjustment: &Adjustment<'_>) {
        self.plugin.adjust(pod, &mut self.state, adjustment);
    }
}

/// [`ActivePlugin`] of any plugin, for those of other crates.
pub(crate) trait CheckNode {
    fn check(&self, pod: &PodInfo, node: &NodeState) -> Result<(), Refused>;
    fn adjust(&mut self, pod: &PodInfo, adjustment: &Adjustment<'_>);
}

impl<P: Plugin> CheckNode for ActivePlugin<'_, P> {
    fn check(&self, pod: &PodInfo, node: &NodeState) -> Result<(), Refused> {
        ActivePlugin::check(self, pod, node)
    }

    fn adjust(&mut self, pod: &PodInfo, adjustment: &Adjustment<'_>) {
        ActivePlugin::adjust(self, pod, adjustment);
    }
}
