//! The watch guarantees. `alone` has the checks of a watch by itself, `replayed` those against the replay of all
//! changes.

mod alone;
mod delivery;
mod replayed;

use crate::describe;
use crate::history::{History, Watch};
use crate::timeline::Timeline;
use crate::verdict::{Guarantee, Violation};
use delivery::Delivery;

/// The first violation of each watch, in the order Filter, Ordered, Unique, Atomic, Bookmarkable, Resumable, IsCreate,
/// Reliable, PrevKv, since later ones often follow from earlier ones. Without a timeline only the first five are
/// checked, Bookmarkable in part.
pub(crate) fn check(history: &History, timeline: Option<&Timeline>) -> Vec<Violation> {
    let broken = history.watches.iter().filter_map(|watch| {
        let deliveries = delivery::of(watch);
        alone::check(watch, &deliveries)
            .or_else(|| timeline.and_then(|timeline| replayed::check(history, watch, &deliveries, timeline)))
    });
    broken.collect()
}

/// A violation by one response, shown with the previous one.
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
