//! The search itself: takes what must come next, tries what may, goes back when nothing fits. See the module above for why
//! it is fast. Its result does not depend on that: everything that it does not try could be left out of any order, or moved
//! in it.

use std::collections::BTreeSet;

use super::item::{Item, items};
use super::queue::Queue;
use super::{Done, Failure, Order, explain};
use crate::evidence::Evidence;
use crate::fingerprint::Fingerprint;
use crate::history::{History, Operation, Refusal};
use crate::model::{Effect, State, agrees};

/// An item that is put next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// One that was done.
    Sure(usize),
    /// One that may have been done.
    Maybe(usize),
}

/// A place where more than one thing could come next.
struct Branch {
    /// How many were in order then.
    length: usize,
    /// What is still to be tried; the last first.
    untried: Vec<Choice>,
}

/// What can come next.
enum Next {
    /// Everything has its place.
    End,
    /// This, since it changes nothing.
    Free(usize),
    /// One of these, the last first; nothing if none fits.
    OneOf(Vec<Choice>),
}

/// What is needed of items that may have been done.
#[derive(Default)]
struct Wanted {
    leases: BTreeSet<i64>,
    compaction: bool,
}

pub(super) struct Search<'a> {
    pub(super) history: &'a History,
    pub(super) evidence: &'a Evidence<'a>,
    /// Whether changes of answered calls, too, must agree with all watches.
    misses_none: bool,
    pub(super) sure: Vec<Item>,
    pub(super) maybe: Vec<Item>,
    pub(super) queue: Queue,
    pub(super) state: State,
    used: Vec<bool>,
    /// Revisions that somebody was answered for.
    owned: BTreeSet<i64>,
    /// Every revision up to this one must be made.
    needed: i64,
    pub(super) trail: Vec<(Choice, Effect)>,
    /// Stands for the set of what is in order.
    placed: Fingerprint,
    branches: Vec<Branch>,
    tried: BTreeSet<(Fingerprint, Fingerprint)>,
    steps: u64,
    /// Operations that may still be tried.
    budget: u64,
    /// The longest attempt, and its explanation.
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
            state: State::new(&history.start),
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
                Next::End => return Ok(self.order()),
                Next::Free(item) => self.put(Choice::Sure(item)),
                Next::OneOf(choices) => {
                    if !self.branch(choices) && !self.back() {
                        return Err(self.failure());
                    }
                }
            }
        }
    }

    /// Goes on with one of the choices, if there is one that has not been tried in this situation.
    fn branch(&mut self, mut choices: Vec<Choice>) -> bool {
        let Some(choice) = choices.pop() else {
            self.note_best();
            return false;
        };
        if !choices.is_empty() {
            if !self.tried.insert((self.placed, self.state.fingerprint())) {
                return false;
            }
            self.branches.push(Branch { length: self.trail.len(), untried: choices });
        }
        self.put(choice);
        true
    }

    /// Goes back to the last place where something is left to be tried, and tries it.
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

    fn next(&mut self) -> Next {
        let revision = self.state.revision();
        if self.queue.left() == 0 && revision >= self.needed {
            return Next::End;
        }
        let (mut sure, mut wanted) = (Vec::new(), Wanted::default());
        let candidates: Vec<_> = self.queue.candidates().collect();
        for at in candidates {
            let item = &self.sure[at];
            if revision > item.at.1 {
                // Its revision has passed: no choice from here on brings it back.
                return Next::OneOf(Vec::new());
            }
            let effect = (revision >= item.at.0).then(|| self.try_sure(at)).flatten();
            match effect {
                Some(effect) if effect.is_none() => return Next::Free(at),
                Some(_) => sure.push(Choice::Sure(at)),
                None if revision >= self.sure[at].at.0 => wanted.note(&self.sure[at]),
                None => {}
            }
        }
        let mut choices = self.makers(&mut wanted);
        choices.extend(self.helpers(&wanted));
        // Those that were answered are tried first, in the order of their calls.
        choices.extend(sure.into_iter().rev());
        Next::OneOf(choices)
    }

    /// What an item that was done would do here, if that agrees with what was seen.
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

    /// Items without answer that can have made the next revision, if nobody was answered for it and somebody saw it.
    fn makers(&mut self, wanted: &mut Wanted) -> Vec<Choice> {
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

    /// Items without answer that take no revision, but without which something that waits cannot fit.
    fn helpers(&mut self, wanted: &Wanted) -> Vec<Choice> {
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
            Done { call: item.call, operation, is_expiry, is_guess }
        });
        Order {
            done: done.collect(),
            unknown_done: self.trail.iter().filter(called).count(),
            steps: self.steps,
        }
    }
}

/// Most leases are long gone, and the end of one that is gone does nothing.
fn is_dead_lease(operation: &Operation, state: &State) -> bool {
    matches!(operation, Operation::LeaseRevoke { id } if !state.has_lease(*id))
}

impl Wanted {
    /// A sure item does not fit; what could help it?
    fn note(&mut self, item: &Item) {
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
