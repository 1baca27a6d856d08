//! The judgement of a whole history: every check in its order, and what one gives to the next.

use std::collections::BTreeMap;

use crate::evidence::{Evidence, Sources};
use crate::history::{History, Outcome, Said};
use crate::limits::{SEARCH_STEPS, VIOLATIONS_EACH};
use crate::linearize::{Failure, Order, linearize};
use crate::timeline::Timeline;
use crate::verdict::{Counts, Guarantee, Verdict, Violation};
use crate::{lease, monotonic, serializable, watch};

/// Judges a history. Takes about a second for 10⁵ calls; a bad history with many calls of unknown outcome can take longer
/// (see [`crate::limits::SEARCH_STEPS`]), and may be left [`Verdict::undecided`].
pub fn judge(history: &History) -> Verdict {
    let evidence = Evidence::gather(history, Sources::CallsAndWatches);
    let (order, failure) = order(history, &evidence);
    let timeline = order.as_ref().map(|order| Timeline::replay(&history.start, order));
    let mut violations = evidence.conflicts;
    violations.extend(monotonic::check(history));
    violations.extend(lease::check(history));
    violations.extend(watch::check(history, timeline.as_ref()));
    violations
        .extend(timeline.as_ref().map(|timeline| serializable::check(history, timeline)).unwrap_or_default());
    let undecided = matches!(failure, Some(Failure::GivenUp));
    match failure {
        // A watch that contradicts the calls has been named by what it breaks.
        Some(Failure::Stuck(stuck)) if order.is_none() || violations.is_empty() => violations.push(*stuck),
        Some(Failure::Stuck(_) | Failure::GivenUp) | None => {}
    }
    let counts = counts(history, order.as_ref(), timeline.as_ref());
    Verdict { violations: few_of_each(violations), undecided, counts }
}

/// The order of operations: one that also agrees with what watches saw or, if there is none, one that the calls alone allow,
/// with the reason why it had to be that.
fn order(history: &History, evidence: &Evidence) -> (Option<Order>, Option<Failure>) {
    let failure = match linearize(history, evidence, SEARCH_STEPS) {
        Ok(order) => return (Some(order), None),
        Err(failure) => failure,
    };
    if history.watches.is_empty() {
        return (None, Some(failure));
    }
    match linearize(history, &Evidence::gather(history, Sources::Calls), SEARCH_STEPS) {
        Ok(order) => (Some(order), Some(failure)),
        Err(alone) => (None, Some(alone)),
    }
}

fn counts(history: &History, order: Option<&Order>, timeline: Option<&Timeline>) -> Counts {
    let responses = history.watches.iter().flat_map(|watch| &watch.responses);
    let events = responses.map(|response| match &response.said {
        Said::Events { events, .. } => events.len(),
        Said::Created | Said::Progress | Said::Canceled { .. } => 0,
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

fn few_of_each(violations: Vec<Violation>) -> Vec<Violation> {
    let mut seen: BTreeMap<Guarantee, usize> = BTreeMap::new();
    let mut few = violations;
    few.retain(|violation| {
        let count = seen.entry(violation.guarantee).or_default();
        *count += 1;
        *count <= VIOLATIONS_EACH
    });
    few
}
