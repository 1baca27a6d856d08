//! The search for an order: places items that must come next, tries items that may, and backtracks when nothing fits.
//! The parent module explains why it is fast. That does not affect the result: what it does not try could be left out
//! of any order, or moved in it.

use super::item::{Item, items};
use super::queue::Queue;
use super::{Failure, Order, PlacedOperation, explain};
use crate::evidence::Evidence;
use crate::fingerprint::Fingerprint;
use crate::history::{History, Operation, Refusal};
use crate::model::{Effect, StoreState, agrees};
use std::collections::BTreeSet;

/// An item to place next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// An item that took effect.
    Sure(usize),
    /// An item that may have taken effect.
    Maybe(usize),
}

/// A position with several choices for the next item.
struct ChoicePoint {
    /// Number of placed items at this position.
    length: usize,
    /// Untried choices; the last one is tried first.
    untried: Vec<Choice>,
}

/// The possible next items.
enum NextStep {
    /// Every item is placed.
    End,
    /// An item that changes nothing, so that no alternative is needed.
    Free(usize),
    /// One of these items, the last one first; empty if none fits.
    OneOf(Vec<Choice>),
}

/// Effects of optional items that would let a waiting item fit.
#[derive(Default)]
struct Prerequisites {
    leases: BTreeSet<i64>,
    compaction: bool,
}

pub(super) struct Search<'a> {
    pub(super) history: &'a History,
    pub(super) evidence: &'a Evidence<'a>,
    /// Whether changes of answered calls must agree with all watches too.
    misses_none: bool,
    pub(super) sure: Vec<Item>,
    pub(super) maybe: Vec<Item>,
    pub(super) queue: Queue,
    pub(super) state: StoreState,
    used: Vec<bool>,
    /// Revisions that answered calls made.
    owned: BTreeSet<i64>,
    /// Every revision up to this one must be made.
    needed: i64,
    pub(super) trail: Vec<(Choice, Effect)>,
    /// Fingerprint of the set of placed items.
    placed: Fingerprint,
    branches: Vec<ChoicePoint>,
    tried: BTreeSet<(Fingerprint, Fingerprint)>,
    steps: u64,
    /// Number of operations that may still be tried.
    budget: u64,
    /// The longest attempt and its explanation.
    best: Option<(usize, explain::Snapshot)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        history: &'a History,
        evidence: &'a Evidence<'a>,
        misses_none: bool,
        budget: u64,
    ) -> Self {
        let (sure, maybe) = items(history);
        Self {
            history,
            evidence,
            misses_none,
            queue: Queue::new(&sure),
            state: StoreState::new(&history.start),
            used: vec![false; maybe.len()],
            owned: sure.iter().filter_map(|item| item.took).collect(),
            needed: sure.iter().filter_map(Item::seen).max().unwrap_or(0).max(evidence.last()),
            sure,
            maybe,
            trail: Vec::new(),
            placed: Fingerprint::default(),
            branches: Vec::new(),
            tried: BTreeSet::new(),
            steps: 0,
            budget,
            best: None,
        }
    }

    pub(super) fn run(mut self) -> Result<Order, Failure> {
        loop {
            if self.budget == 0 {
                return Err(Failure::GivenUp);
            }
            match self.next() {
                NextStep::End => return Ok(self.order()),
                NextStep::Free(item) => self.put(Choice::Sure(item)),
                NextStep::OneOf(choices) => {
                    if !self.branch(choices) && !self.back() {
                        return Err(self.failure());
                    }
                }
            }
        }
    }

    /// Continues with one of the choices, if there is one that was not tried in this configuration.
    fn branch(&mut self, mut choices: Vec<Choice>) -> bool {
        let Some(choice) = choices.pop() else {
            self.note_best();
            return false;
        };
        if !choices.is_empty() {
            if !self.tried.insert((self.placed, self.state.fingerprint())) {
                return false;
            }
            self.branches.push(ChoicePoint { length: self.trail.len(), untried: choices });
        }
        self.put(choice);
        true
    }

    /// Backtracks to the last position with an untried choice, and tries it.
    fn back(&mut self) -> bool {
        while let Some(branch) = self.branches.last_mut() {
            let (length, choice) = (branch.length, branch.untried.pop());
            while self.trail.len() > length {
                self.take_back();
            }
            match choice {
                Some(choice) => {
                    self.put(choice);
                    return true;
                }
                None => drop(self.branches.pop()),
            }
        }
        false
    }

    fn put(&mut self, choice: Choice) {
        self.steps += 1;
        self.budget = self.budget.saturating_sub(1);
        let effect = match choice {
            Choice::Sure(item) => {
                self.queue.take(item);
                self.state.apply(&self.sure[item].operation).1
            }
            Choice::Maybe(item) => {
                self.used[item] = true;
                self.state.apply(&self.maybe[item].operation).1
            }
        };
        self.placed.toggle(Fingerprint::of(&choice));
        self.trail.push((choice, effect));
    }

    fn take_back(&mut self) {
        let (choice, effect) = self.trail.pop().expect("only what was put is taken back");
        self.state.undo(&effect);
        self.placed.toggle(Fingerprint::of(&choice));
        match choice {
            Choice::Sure(item) => self.queue.put_back(item),
            Choice::Maybe(item) => self.used[item] = false,
        }
    }

    fn next(&mut self) -> NextStep {
        let revision = self.state.revision();
        if self.queue.left() == 0 && revision >= self.needed {
            return NextStep::End;
        }
        let (mut sure, mut wanted) = (Vec::new(), Prerequisites::default());
        let candidates: Vec<_> = self.queue.candidates().collect();
        for at in candidates {
            let item = &self.sure[at];
            if revision > item.at.1 {
                // Its revision has passed, and revisions do not go back.
                return NextStep::OneOf(Vec::new());
            }
            let effect = (revision >= item.at.0).then(|| self.try_sure(at)).flatten();
            match effect {
                Some(effect) if effect.is_none() => return NextStep::Free(at),
                Some(_) => sure.push(Choice::Sure(at)),
                None if revision >= self.sure[at].at.0 => wanted.add(&self.sure[at]),
                None => {}
            }
        }
        let mut choices = self.makers(&mut wanted);
        choices.extend(self.helpers(&wanted));
        // Answered items are tried first, in the order of their calls.
        choices.extend(sure.into_iter().rev());
        NextStep::OneOf(choices)
    }

    /// The effect of an item that took effect, if its answer and its changes agree with the evidence.
    fn try_sure(&mut self, at: usize) -> Option<Effect> {
        self.budget = self.budget.saturating_sub(1);
        let item = &self.sure[at];
        let (answer, effect) = self.state.apply(&item.operation);
        let admitted = effect.changes.is_empty()
            || self.evidence.admits(&self.state, &effect.changes)
                && self.evidence.admits_at(self.state.revision(), item.call)
                && (!self.misses_none || self.evidence.misses_none(self.state.revision(), &effect.changes));
        let fits = admitted && agrees(&item.operation, &answer, &item.outcome);
        self.state.undo(&effect);
        fits.then_some(effect)
    }

    /// Unanswered items that can have made the next revision, if no answered call made it and a client observed it.
    fn makers(&mut self, wanted: &mut Prerequisites) -> Vec<Choice> {
        let next = self.state.revision() + 1;
        let missing = next <= self.needed || self.queue.candidates().any(|at| self.sure[at].is_refused());
        if !missing || self.owned.contains(&next) {
            return Vec::new();
        }
        let before = self.queue.first_return();
        let mut makers = Vec::new();
        for at in 0..self.maybe.len() {
            let item = &self.maybe[at];
            if item.call > before {
                break;
            }
            if self.used[at] || is_dead_lease(&item.operation, &self.state) {
                continue;
            }
            self.budget = self.budget.saturating_sub(1);
            let (answer, effect) = self.state.apply(&item.operation);
            if answer == Err(Refusal::LeaseNotFound) {
                wanted.leases.extend(item.leases());
            }
            let (changes, call) = (&effect.changes, item.call);
            if !changes.is_empty()
                && self.evidence.admits(&self.state, changes)
                && self.evidence.admits_at(next, call)
                && self.evidence.misses_none(next, changes)
            {
                makers.push(Choice::Maybe(at));
            }
            self.state.undo(&effect);
        }
        makers
    }

    /// Unanswered items that make no revision, but without which a waiting item cannot fit.
    fn helpers(&mut self, wanted: &Prerequisites) -> Vec<Choice> {
        if wanted.leases.is_empty() && !wanted.compaction {
            return Vec::new();
        }
        let before = self.queue.first_return();
        let mut helpers = Vec::new();
        for at in 0..self.maybe.len() {
            let item = &self.maybe[at];
            if item.call > before {
                break;
            }
            if self.used[at] || !wanted.includes(item) {
                continue;
            }
            let (_, effect) = self.state.apply(&item.operation);
            if effect.changes.is_empty() && !effect.is_none() {
                helpers.push(Choice::Maybe(at));
            }
            self.state.undo(&effect);
        }
        helpers
    }

    fn note_best(&mut self) {
        let length = self.sure.len() - self.queue.left();
        if self.best.as_ref().is_none_or(|(best, _)| length > *best) {
            self.best = Some((length, explain::Snapshot::take(self)));
        }
    }

    fn failure(mut self) -> Failure {
        self.note_best();
        let (_, snapshot) = self.best.take().expect("it was noted just now");
        Failure::Stuck(Box::new(snapshot.explain(&self)))
    }

    fn order(self) -> Order {
        let item = |choice: &Choice| match choice {
            Choice::Sure(at) => &self.sure[*at],
            Choice::Maybe(at) => &self.maybe[*at],
        };
        let called = |choice: &&(Choice, Effect)| matches!(choice.0, Choice::Maybe(at) if self.maybe[at].source.is_some());
        let done = self.trail.iter().map(|(choice, _)| {
            let item = item(choice);
            let (operation, is_expiry) = (item.operation.clone(), item.source.is_none());
            let is_guess = matches!(choice, Choice::Maybe(_));
            PlacedOperation { call: item.call, operation, is_expiry, is_guess }
        });
        Order {
            done: done.collect(),
            unknown_done: self.trail.iter().filter(called).count(),
            steps: self.steps,
        }
    }
}

/// Whether the operation revokes a lease that does not exist. Most leases have ended, and such a revocation has no
/// effect.
fn is_dead_lease(operation: &Operation, state: &StoreState) -> bool {
    matches!(operation, Operation::LeaseRevoke { id } if !state.has_lease(*id))
}

impl Prerequisites {
    /// Notes what could make an item fit that took effect.
    fn add(&mut self, item: &Item) {
        self.leases.extend(item.leases());
        self.compaction |= item.is_refused_as_compacted();
    }

    fn includes(&self, item: &Item) -> bool {
        match &item.operation {
            Operation::LeaseGrant { id, .. } | Operation::LeaseRevoke { id } => self.leases.contains(id),
            Operation::Compact { .. } => self.compaction,
            Operation::Range(_)
            | Operation::Txn(_)
            | Operation::LeaseKeepAlive { .. }
            | Operation::Defragment => false,
        }
    }
}
