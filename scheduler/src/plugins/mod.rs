//! The in-tree plugins, a file each: its row, filter, hints, score and reservation. The list below is the only other place that names one.
//! Its order is kube-scheduler's default order, in which filters run: the first refusal per node counts.

mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod gang_scheduling;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod priority_sort;
mod registry;
mod scheduling_gates;
mod scored_resources;
mod shape;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use crate::gates::Gates;
use crate::node_state::NodeState;
use crate::plugin::{ActivePlugin, Adjustment, CheckNode, PluginSet, Refused};
use crate::pod::PodInfo;
pub(crate) use registry::RegisteredPlugin;
pub use registry::{LineUp, Registry, RegistryError};

/// Makes [`ActiveFilter`], which calls the listed plugins without virtual calls, and the list itself.
macro_rules! in_tree {
    ($($module:ident::$plugin:ident,)*) => {
        /// A filter that checks nodes for one pod.
        pub(crate) enum ActiveFilter<'a> {
            $($plugin(ActivePlugin<'a, $module::$plugin>),)*
            /// A plugin of another crate.
            OutOfTree(Box<dyn CheckNode + 'a>),
        }

        impl ActiveFilter<'_> {
            pub(crate) fn check(&self, pod: &PodInfo, node: &NodeState) -> Result<(), Refused> {
                match self {
                    $(Self::$plugin(active) => active.check(pod, node),)*
                    Self::OutOfTree(active) => active.check(pod, node),
                }
            }

            pub(crate) fn adjust(&mut self, pod: &PodInfo, adjustment: &Adjustment<'_>) {
                match self {
                    $(Self::$plugin(active) => active.adjust(pod, adjustment),)*
                    Self::OutOfTree(active) => active.adjust(pod, adjustment),
                }
            }
        }

        $(impl<'a> From<ActivePlugin<'a, $module::$plugin>> for ActiveFilter<'a> {
            fn from(active: ActivePlugin<'a, $module::$plugin>) -> Self {
                Self::$plugin(active)
            }
        })*

        /// The names of the in-tree plugins' files; tests compare them with the reference.
        const IN_TREE: &[&str] = &[$(stringify!($module)),*];

        /// The in-tree plugins with these feature gates.
        fn in_tree(gates: Gates) -> Vec<std::sync::Arc<dyn RegisteredPlugin>> {
            vec![$(registry::in_tree::<$module::$plugin>(gates)),*]
        }
    };
}

in_tree! {
    scheduling_gates::SchedulingGates,
    priority_sort::PrioritySort,
    node_unschedulable::NodeUnschedulable,
    node_name::NodeName,
    taint_toleration::TaintToleration,
    node_affinity::NodeAffinity,
    node_ports::NodePorts,
    node_resources_fit::NodeResourcesFit,
    volume_restrictions::VolumeRestrictions,
    node_volume_limits::NodeVolumeLimits,
    volume_binding::VolumeBinding,
    volume_zone::VolumeZone,
    pod_topology_spread::PodTopologySpread,
    inter_pod_affinity::InterPodAffinity,
    dynamic_resources::DynamicResources,
    default_preemption::DefaultPreemption,
    node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
    image_locality::ImageLocality,
    default_binder::DefaultBinder,
    node_declared_features::NodeDeclaredFeatures,
    gang_scheduling::GangScheduling,
}

const _: () = assert!(IN_TREE.len() <= PluginSet::CAPACITY, "a set has a bit for each in-tree plugin");
