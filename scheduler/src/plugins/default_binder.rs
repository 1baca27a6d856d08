//! The plugin DefaultBinder: a pod is bound by its subresource `binding`. The writes are in `bind`; this is the only way to bind.

use crate::event::EventSet;
use crate::plugin::{ExtensionPoint, Plugin, Row};

/// The plugin.
#[derive(Default)]
pub(crate) struct DefaultBinder;

impl Plugin for DefaultBinder {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "DefaultBinder",
        points: &[ExtensionPoint::Bind],
        weight: 0,
        reasons: &[],
        events: EventSet::NONE,
    };
}
