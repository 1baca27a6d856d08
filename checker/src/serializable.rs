//! Check of serializable reads and reads of explicit revisions: each must return what replaying all changes up to its
//! revision gives. The model checks whether they were possible.

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

/// The expected reply, if it differs from the actual one.
fn wrong(range: &Range, reply: &RangeReply, timeline: &Timeline) -> Option<RangeReply> {
    let at = if range.revision > 0 { range.revision } else { reply.revision };
    let judged =
        (range.revision > 0 || range.serializable) && (timeline.first()..=timeline.last()).contains(&at);
    let expected = RangeReply { revision: reply.revision, ..timeline.range(range, at) };
    (judged && expected != *reply).then_some(expected)
}
