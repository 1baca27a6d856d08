//! The plugin GangScheduling: the pods of a gang wait until `minCount` of them exist, and get their nodes together or not at all. The
//! cycle over the pods of a gang is in `scheduler::gang`; the plugin stands for it at Permit.

use crate::event::EventKind::PodGroup;
use crate::event::{ClusterEvent, EventSet};
use crate::inventory::Inventory;
use crate::plugin::{ExtensionPoint, Plugin, Row};
use crate::pod::PodInfo;

/// The plugin.
#[derive(Default)]
pub(crate) struct GangScheduling;

impl Plugin for GangScheduling {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "GangScheduling",
        points: &[ExtensionPoint::PreEnqueue, ExtensionPoint::Permit],
        weight: 0,
        reasons: &[],
        events: EventSet::of(&[PodGroup]),
    };

    fn gathers_gangs(&self) -> bool {
        true
    }

    fn admits_to_queue(&self, pod: &PodInfo, inventory: &Inventory) -> bool {
        pod.pod_group.as_ref().is_none_or(|group| inventory.pod_groups.obstacle(group).is_none())
    }

    /// A new pod of the group helps, and so does the PodGroup itself, if the group has its pods then.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::PodGroup(group, groups)
            if pod.pod_group.as_ref() == Some(*group) && groups.obstacle(group).is_none())
    }
}
