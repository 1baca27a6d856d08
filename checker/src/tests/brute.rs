//! The reference checker: tries every order of every subset.

use crate::history::{Call, History, Outcome, Reply};
use crate::model::{StoreState, agrees};

/// Whether some order of all answered calls and some unanswered ones explains every answer. For histories of a few
/// calls.
pub(super) fn is_linearizable(history: &History) -> bool {
    let left: Vec<_> = history.calls.iter().collect();
    // The header of a compaction may have a later revision, but not a revision that never exists.
    let seen = history.calls.iter().filter_map(|call| match call.outcome {
        Outcome::Ok(Reply::Compact { revision }) => Some(revision),
        _ => None,
    });
    explains(&mut StoreState::new(&history.start), &left, seen.max().unwrap_or(0))
}

fn explains(state: &mut StoreState, left: &[&Call], seen: i64) -> bool {
    let answered = |call: &&&Call| call.outcome != Outcome::Unknown;
    if state.revision() >= seen && !left.iter().any(|call| answered(&call)) {
        return true;
    }
    let first_return = left.iter().filter(answered).map(|call| call.ret).min().unwrap_or(u64::MAX);
    (0..left.len()).filter(|at| left[*at].call <= first_return).any(|at| {
        let call = left[at];
        let (answer, effect) = state.apply(&call.operation);
        let rest: Vec<_> = (0..left.len()).filter(|other| *other != at).map(|other| left[other]).collect();
        let good = agrees(&call.operation, &answer, &call.outcome) && explains(state, &rest, seen);
        state.undo(&effect);
        good
    })
}
