//! What a watch promises, one guarantee after the other. `alone` holds what a watch breaks by itself, `replayed` what it
//! breaks against the replay of all changes.

mod alone;
mod delivery;
mod replayed;

use delivery::Delivery;

use crate::describe;
use crate::history::{History, Watch};
use crate::timeline::Timeline;
use crate::verdict::{Guarantee, Violation};

/// The first thing that each watch does wrong, in the order Filter, Ordered, Unique, Atomic, Bookmarkable, Resumable,
/// IsCreate, Reliable, PrevKv: what comes later often follows from what came before. Without a timeline only the first five
/// can be judged, Bookmarkable in part.
pub(crate) fn check(history: &History, timeline: Option<&Timeline>) -> Vec<Violation> {
    let broken = history.watches.iter().filter_map(|watch| {
        let deliveries = delivery::of(watch);
        alone::check(watch, &deliveries)
            .or_else(|| timeline.and_then(|timeline| replayed::check(history, watch, &deliveries, timeline)))
    });
    broken.collect()
}

/// A violation by one delivery, shown with the one before it.
fn violation(
    guarantee: Guarantee,
    watch: &Watch,
    around: &[&Delivery<'_>],
    summary: &str,
    (expected, seen): (String, String),
) -> Violation {
    let deliveries = around.iter().map(|delivery| delivery.describe());
    let window = std::iter::once(describe::watch(watch)).chain(deliveries).collect();
    Violation { guarantee, summary: summary.into(), expected, seen, window }
}
