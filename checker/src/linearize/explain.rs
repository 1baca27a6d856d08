//! Explanation of a failed search: which call could not be placed, what the store would have answered, and the
//! neighbouring calls.

use super::item::Item;
use super::search::{Choice, Search};
use crate::describe;
use crate::history::{History, Operation, Outcome};
use crate::limits::EXPLANATION_CONTEXT_CALLS;
use crate::model::{StoreState, agrees};
use crate::verdict::{Guarantee, Violation};

/// The end of the longest attempt.
pub(super) struct Snapshot {
    state: StoreState,
    /// The last placed items.
    last: Vec<Choice>,
    /// The items that may come next but do not fit.
    pending: Vec<usize>,
    /// The item among these that must come before all later ones.
    blocking: Option<usize>,
}

impl Snapshot {
    pub(super) fn take(search: &Search<'_>) -> Self {
        let last = search.trail.iter().rev().take(EXPLANATION_CONTEXT_CALLS).rev().map(|(choice, _)| *choice);
        Self {
            state: search.state.clone(),
            last: last.collect(),
            pending: search.queue.candidates().take(EXPLANATION_CONTEXT_CALLS).collect(),
            blocking: search.queue.first_to_return(),
        }
    }

    pub(super) fn explain(mut self, search: &Search<'_>) -> Violation {
        let item = |choice: &Choice| match choice {
            Choice::Sure(at) => &search.sure[*at],
            Choice::Maybe(at) => &search.maybe[*at],
        };
        let mut window: Vec<_> =
            self.last.iter().map(|choice| describe_item(search.history, item(choice))).collect();
        let (revision, compacted) = (self.state.revision(), self.state.compacted());
        window.push(format!(
            "-- here the store is at revision {revision}, compacted {compacted}; next could be"
        ));
        window.extend(self.pending.iter().map(|at| describe_item(search.history, &search.sure[*at])));
        let known = search.evidence.describe(search.history, revision + 1);
        window.extend(
            known
                .iter()
                .take(EXPLANATION_CONTEXT_CALLS)
                .map(|fact| format!("-- revision {}: {fact}", revision + 1)),
        );
        let Some(blocking) = self.blocking.map(|at| &search.sure[at]) else {
            return self.unmade(window, known);
        };
        let (answer, _) = self.state.apply(&blocking.operation);
        let answers = answer.as_ref().map_or_else(|refusal| format!("refused: {refusal:?}"), describe::reply);
        let expected = if agrees(&blocking.operation, &answer, &blocking.outcome) {
            format!("{answers}; but others saw something else of revision {}", self.state.revision())
        } else {
            format!("{answers}; no other order of the calls around it gives more")
        };
        Violation {
            guarantee: Guarantee::Linearizable,
            summary: format!("no order explains the answer to: {}", describe::operation(&blocking.operation)),
            expected,
            seen: describe::outcome(&blocking.outcome),
            window,
        }
    }

    /// A violation for revisions that were observed although no call made them; every call is placed.
    fn unmade(&self, window: Vec<String>, known: Vec<String>) -> Violation {
        let revision = self.state.revision();
        Violation {
            guarantee: Guarantee::Linearizable,
            summary: format!("nothing made revision {}, which was seen", revision + 1),
            expected: format!("no revision above {revision}"),
            seen: known.into_iter().next().unwrap_or_else(|| "a later revision".into()),
            window,
        }
    }
}

fn describe_item(history: &History, item: &Item) -> String {
    match (item.source, &item.operation) {
        (Some(at), _) => {
            let call = &history.calls[at];
            let note = if call.outcome == Outcome::Unknown { " (taken as done)" } else { "" };
            format!("{}{note}", describe::call(call))
        }
        (None, Operation::LeaseRevoke { id }) => {
            format!("lease {id} expires [{}, …]", describe::time(item.call))
        }
        (None, operation) => describe::operation(operation),
    }
}
