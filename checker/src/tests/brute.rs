//! The dumb judge: tries every order of every subset.

use crate::history::{Call, History, Outcome};
use crate::model::{State, agrees};

/// Whether some order of all answered calls and some unanswered ones explains every answer. For a handful of calls.
pub(super) fn is_linearizable(history: &History) -> bool {
    let left: Vec<_> = history.calls.iter().collect();
    explains(&mut State::new(&history.start), &left)
}

fn explains(state: &mut State, left: &[&Call]) -> bool {
    let answered = |call: &&&Call| call.outcome != Outcome::Unknown;
    if !left.iter().any(|call| answered(&call)) {
        return true;
    }
    let first_return = left.iter().filter(answered).map(|call| call.ret).min().unwrap_or(u64::MAX);
    (0..left.len()).filter(|at| left[*at].call <= first_return).any(|at| {
        let call = left[at];
        let (answer, effect) = state.apply(&call.operation);
        let rest: Vec<_> = (0..left.len()).filter(|other| *other != at).map(|other| left[other]).collect();
        let good = agrees(&call.operation, &answer, &call.outcome) && explains(state, &rest);
        state.undo(&effect);
        good
    })
}
