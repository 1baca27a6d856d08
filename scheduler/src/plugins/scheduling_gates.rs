//! The plugin SchedulingGates: a pod with scheduling gates is in no queue until the last gate is removed. The rule itself is in
//! [`PodInfo::ownership`](crate::pod::PodInfo::ownership): no profile can turn it off, and the API refuses to bind such a pod.

use crate::event::EventSet;
use crate::plugin::{ExtensionPoint, Plugin, Row};

/// The plugin.
#[derive(Default)]
pub(crate) struct SchedulingGates;

impl Plugin for SchedulingGates {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "SchedulingGates",
        points: &[ExtensionPoint::PreEnqueue],
        weight: 0,
        reasons: &[],
        events: EventSet::NONE,
    };
}
