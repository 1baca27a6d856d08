//! The judgement of a history: runs every check in order, and passes results between checks.

use crate::evidence::{Evidence, Sources};
use crate::history::{History, Outcome, WatchContent};
use crate::limits::{SEARCH_TRIES, VIOLATIONS_EACH};
use crate::linearize::{Failure, Order, linearize, linearize_unmissed};
use crate::timeline::Timeline;
use crate::verdict::{Counts, Guarantee, Verdict, Violation};
use crate::{lease, monotonic, serializable, watch};
use std::collections::BTreeMap;

/// Judges a history. Takes about a second for 10⁵ calls. A bad history with many unknown outcomes can take longer (see
/// [`crate::limits::SEARCH_TRIES`]), and may be left [`Verdict::undecided`].
pub fn judge(history: &History) -> Verdict {
    let evidence = Evidence::gather(history, Sources::Everything);
    let (order, failure) = order(history, &evidence);
    let timeline = order.as_ref().map(|order| Timeline::replay(&history.start, order));
    let mut violations = evidence.conflicts;
    violations.extend(monotonic::check(history));
    violations.extend(lease::check(history, timeline.as_ref()));
    violations.extend(watch::check(history, timeline.as_ref()));
    violations
        .extend(timeline.as_ref().map(|timeline| serializable::check(history, timeline)).unwrap_or_default());
    let undecided = matches!(failure, Some(Failure::GivenUp));
    match failure {
        // Evidence that contradicts the calls is reported under the guarantee that it violates.
        Some(Failure::Stuck(stuck)) if order.is_none() || violations.is_empty() => violations.push(*stuck),
        Some(Failure::Stuck(_) | Failure::GivenUp) | None => {}
    }
    let counts = counts(history, order.as_ref(), timeline.as_ref());
    Verdict { violations: limit_per_guarantee(violations), undecided, counts }
}

/// An order of the operations that agrees with all evidence. If there is none, an order that agrees with less evidence,
/// together with the failure of the full search, so that a watch or historical read that contradicts the rest is reported
/// under the guarantee that it violates.
fn order(history: &History, evidence: &Evidence<'_>) -> (Option<Order>, Option<Failure>) {
    if let Ok(order) = linearize_unmissed(history, evidence, SEARCH_TRIES) {
        return (Some(order), None);
    }
    let mut failure = match linearize(history, evidence, SEARCH_TRIES) {
        Ok(order) => return (Some(order), None),
        Err(Failure::GivenUp) => return (None, Some(Failure::GivenUp)),
        Err(failure) => failure,
    };
    for sources in [Sources::Calls, Sources::Present] {
        match linearize(history, &Evidence::gather(history, sources), SEARCH_TRIES) {
            Ok(order) => return (Some(order), Some(failure)),
            // With less evidence the search would only take longer. The full search has shown that no order fits all
            // evidence.
            Err(Failure::GivenUp) => return (None, Some(failure)),
            Err(alone) => failure = alone,
        }
    }
    (None, Some(failure))
}

fn counts(history: &History, order: Option<&Order>, timeline: Option<&Timeline>) -> Counts {
    let responses = history.watches.iter().flat_map(|watch| &watch.responses);
    let events = responses.map(|response| match &response.said {
        WatchContent::Events { events, .. } => events.len(),
        WatchContent::Created | WatchContent::Progress | WatchContent::Canceled { .. } => 0,
    });
    Counts {
        calls: history.calls.len(),
        unknown: history.calls.iter().filter(|call| call.outcome == Outcome::Unknown).count(),
        unknown_done: order.map_or(0, |order| order.unknown_done),
        watches: history.watches.len(),
        events: events.sum(),
        revision: timeline.map_or(0, Timeline::last),
        steps: order.map_or(0, |order| order.steps),
    }
}

fn limit_per_guarantee(violations: Vec<Violation>) -> Vec<Violation> {
    let mut seen: BTreeMap<Guarantee, usize> = BTreeMap::new();
    let mut few = violations;
    few.retain(|violation| {
        let count = seen.entry(violation.guarantee).or_default();
        *count += 1;
        *count <= VIOLATIONS_EACH
    });
    few
}
