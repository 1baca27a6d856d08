//! Reads of an explicit revision, and reads that were content with an old one: each must see what replaying all changes up
//! to that revision gives. That they were possible at all is the model's to judge.

use crate::describe;
use crate::history::{History, Operation, Outcome, Range, RangeReply, Reply};
use crate::timeline::Timeline;
use crate::verdict::{Guarantee, Violation};

pub(crate) fn check(history: &History, timeline: &Timeline) -> Vec<Violation> {
    let broken = history.calls.iter().filter_map(|call| match (&call.operation, &call.outcome) {
        (Operation::Range(range), Outcome::Ok(Reply::Range(reply))) => {
            let expected = wrong(range, reply, timeline)?;
            Some(Violation {
                guarantee: Guarantee::Serializable,
                summary: format!(
                    "a read of the past sees another past: {}",
                    describe::operation(&call.operation)
                ),
                expected: describe::reply(&Reply::Range(expected)),
                seen: describe::outcome(&call.outcome),
                window: vec![describe::call(call)],
            })
        }
        _ => None,
    });
    broken.collect()
}

/// What should have been answered, if it was not.
fn wrong(range: &Range, reply: &RangeReply, timeline: &Timeline) -> Option<RangeReply> {
    let at = if range.revision > 0 { range.revision } else { reply.revision };
    let judged =
        (range.revision > 0 || range.serializable) && (timeline.first()..=timeline.last()).contains(&at);
    let expected = RangeReply { revision: reply.revision, ..timeline.range(range, at) };
    (judged && expected != *reply).then_some(expected)
}
