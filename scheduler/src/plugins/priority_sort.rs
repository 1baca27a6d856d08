//! The plugin PrioritySort: ready pods are tried by priority, then by the time at which they were queued. The queue itself has the rule; it
//! is the only order that there is.

use crate::event::EventSet;
use crate::plugin::{ExtensionPoint, Plugin, Row};

/// The plugin.
#[derive(Default)]
pub(crate) struct PrioritySort;

impl Plugin for PrioritySort {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "PrioritySort",
        points: &[ExtensionPoint::QueueSort],
        weight: 0,
        reasons: &[],
        events: EventSet::NONE,
    };
}
