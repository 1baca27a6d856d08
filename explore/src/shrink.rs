//! Shrinking: a smaller plan and fewer steps that fail likewise. A state machine without async and I/O: it proposes a candidate, takes the
//! outcome of its run, and ends with a plan that passes without any one of its actions. Pure.

use crate::limits;
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, RequestTrigger, Trigger};
use std::collections::VecDeque;

/// A plan and the number of steps of the scenario that are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The plan.
    pub plan: Plan,
    /// Steps, from the first.
    pub steps: usize,
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Chunks of this many actions are dropped, from this position on.
    Drop { chunk: usize, at: usize },
    /// Actions are made smaller.
    Simplify,
    /// Steps are dropped from the end.
    Steps,
    /// Single actions are dropped once more: others became smaller meanwhile.
    Minimal { at: usize },
    /// Nothing is left to try.
    Done,
}

/// The search for a smaller failure.
#[derive(Clone, Debug)]
pub struct Shrinker {
    best: Candidate,
    stage: Stage,
    proposed: Option<Candidate>,
    simpler: VecDeque<Plan>,
    /// Candidates that may still be tried.
    budget: usize,
}

impl Shrinker {
    /// Begins with a plan that fails, and the number of the scenario's steps.
    pub fn new(plan: Plan, steps: usize) -> Self {
        let chunk = plan.actions.len().div_ceil(2).max(1);
        Self {
            best: Candidate { plan, steps },
            stage: Stage::Drop { chunk, at: 0 },
            proposed: None,
            simpler: VecDeque::new(),
            budget: limits::SHRINK_RUNS / limits::SHRINK_REPEATS,
        }
    }

    /// The smallest failure so far.
    pub fn best(&self) -> &Candidate {
        &self.best
    }

    /// Whether every smaller plan was tried: the result is minimal in one step.
    pub fn is_minimal(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The next candidate; `None`: nothing is left, or the budget is used up.
    pub fn propose(&mut self) -> Option<Candidate> {
        if self.budget == 0 {
            return None;
        }
        let candidate = self.next_candidate()?;
        self.budget -= 1;
        self.proposed = Some(candidate.clone());
        Some(candidate)
    }

    /// Tells whether the proposed candidate fails likewise.
    pub fn report(&mut self, fails: bool) {
        let Some(candidate) = self.proposed.take() else { return };
        if fails {
            self.best = candidate;
        }
        match (&mut self.stage, fails) {
            // The actions after the dropped ones are now at the same position.
            (Stage::Drop { .. }, true) => {}
            // What was needed beside the dropped action may not be needed without it.
            (Stage::Minimal { at }, true) => *at = 0,
            (Stage::Drop { chunk, at }, false) => *at += *chunk,
            (Stage::Minimal { at }, false) => *at += 1,
            (Stage::Simplify, true) => self.simpler = simpler(&self.best.plan).into(),
            (Stage::Steps, false) => self.stage = Stage::Minimal { at: 0 },
            (Stage::Simplify, false) | (Stage::Steps, true) | (Stage::Done, _) => {}
        }
    }

    fn next_candidate(&mut self) -> Option<Candidate> {
        loop {
            let len = self.best.plan.actions.len();
            match self.stage {
                // A plan without actions is the scenario itself, which the control runs judge.
                Stage::Drop { chunk, at } if at < len && chunk < len => {
                    return Some(self.without(at, (at + chunk).min(len)));
                }
                Stage::Drop { chunk, .. } if chunk > 1 => {
                    self.stage = Stage::Drop { chunk: chunk / 2, at: 0 }
                }
                Stage::Drop { .. } => {
                    self.simpler = simpler(&self.best.plan).into();
                    self.stage = Stage::Simplify;
                }
                Stage::Simplify => match self.simpler.pop_front() {
                    Some(plan) => return Some(Candidate { plan, steps: self.best.steps }),
                    None => self.stage = Stage::Steps,
                },
                Stage::Steps if self.best.steps > 1 => {
                    return Some(Candidate { plan: self.best.plan.clone(), steps: self.best.steps - 1 });
                }
                Stage::Steps => self.stage = Stage::Minimal { at: 0 },
                Stage::Minimal { at } if at < len && len > 1 => return Some(self.without(at, at + 1)),
                Stage::Minimal { .. } => self.stage = Stage::Done,
                Stage::Done => return None,
            }
        }
    }

    fn without(&self, from: usize, to: usize) -> Candidate {
        let mut plan = self.best.plan.clone();
        plan.actions.drain(from..to);
        Candidate { plan, steps: self.best.steps }
    }
}

/// The plans with one action made smaller, the smallest first.
fn simpler(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    for (at, action) in plan.actions.iter().enumerate() {
        for smaller in smaller(action) {
            let mut plan = plan.clone();
            plan.actions[at] = smaller;
            all.push(plan);
        }
    }
    all
}

fn smaller(action: &PlannedAction) -> Vec<PlannedAction> {
    let mut all = Vec::new();
    if action.times > 1 {
        all.push(PlannedAction { times: 1, ..action.clone() });
    }
    if let Some(trigger) = &action.trigger {
        all.extend(earlier(trigger).map(|trigger| with_trigger(action, trigger)));
        if let Trigger::Request(request) = trigger
            && request.phase == RequestPhase::Done
        {
            let before = RequestTrigger { phase: RequestPhase::Arrived, ..request.clone() };
            all.push(with_trigger(action, Trigger::Request(before)));
        }
    }
    // What holds for fewer events.
    if let Some(until) = action.operation.clone().until_mut() {
        all.extend(earlier(until).map(|sooner| {
            let mut smaller = action.clone();
            smaller.operation.until_mut().into_iter().for_each(|until| *until = sooner.clone());
            smaller
        }));
    }
    if let Operation::Thaw { cache, step: Some(step) } = &action.operation {
        all.extend(fewer(*step).into_iter().map(|step| {
            let operation = Operation::Thaw { cache: cache.clone(), step: Some(step) };
            PlannedAction { operation, ..action.clone() }
        }));
    }
    if let Operation::Freeze { cache, resources } = &action.operation
        && resources.len() > 1
    {
        for at in 0..resources.len() {
            let mut fewer = resources.clone();
            fewer.remove(at);
            let operation = Operation::Freeze { cache: cache.clone(), resources: fewer };
            all.push(PlannedAction { operation, ..action.clone() });
        }
    }
    if let Operation::Order { seed, swaps } = &action.operation {
        let with = |seed, swaps| {
            let operation = Operation::Order { seed, swaps };
            PlannedAction { operation, ..action.clone() }
        };
        if seed.is_some() && !swaps.is_empty() {
            all.push(with(None, swaps.clone()));
        }
        for swap in swaps.iter().filter(|_| swaps.len() > 1 || seed.is_some()) {
            let fewer = swaps.iter().copied().filter(|other| other != swap).collect();
            all.push(with(*seed, fewer));
        }
    }
    all
}

/// A trigger with smaller numbers of the match, the smallest first.
fn earlier(trigger: &Trigger) -> impl Iterator<Item = Trigger> + use<> {
    let (trigger, numbers) = (trigger.clone(), fewer(trigger.nth().unwrap_or(1)));
    numbers.into_iter().map(move |nth| trigger.clone().with_nth(nth))
}

/// Smaller numbers than this one, which begin at 1.
fn fewer(number: u64) -> Vec<u64> {
    let mut all: Vec<u64> =
        [1, number / 2, number.saturating_sub(1)].into_iter().filter(|n| *n >= 1 && *n < number).collect();
    all.dedup();
    all
}

fn with_trigger(action: &PlannedAction, trigger: Trigger) -> PlannedAction {
    PlannedAction { trigger: Some(trigger), ..action.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern_id::PatternId;
    use crate::plan::Subject;
    use proptest::prelude::*;

    /// A plan whose actions are numbered by the resources of a freeze.
    fn plan(actions: usize) -> Plan {
        let subject = Subject { resource: "a".to_owned(), verb: "create".to_owned() };
        let action = |n: usize| {
            let freeze = Operation::Freeze { cache: "c".to_owned(), resources: vec![n.to_string()] };
            PlannedAction::at(Trigger::quiet().with_nth(3), freeze)
        };
        Plan { pattern: PatternId::Freeze, subject, actions: (0..actions).map(action).collect() }
    }

    fn numbers(plan: &Plan) -> Vec<usize> {
        let number = |action: &PlannedAction| match &action.operation {
            Operation::Freeze { resources, .. } => resources[0].parse().unwrap(),
            other => panic!("{other}"),
        };
        plan.actions.iter().map(number).collect()
    }

    fn shrunk(actions: usize, steps: usize, fails: impl Fn(&Candidate) -> bool) -> Shrinker {
        let mut shrinker = Shrinker::new(plan(actions), steps);
        while let Some(candidate) = shrinker.propose() {
            let fails = fails(&candidate);
            shrinker.report(fails);
        }
        shrinker
    }

    proptest! {
        #[test]
        fn a_shrunk_plan_passes_without_any_one_of_its_actions(
            actions in 1_usize..7,
            needed in prop::collection::btree_set(0_usize..7, 1..4),
        ) {
            let needed: Vec<usize> = needed.into_iter().filter(|n| *n < actions).collect();
            prop_assume!(!needed.is_empty());
            let fails = |candidate: &Candidate| needed.iter().all(|n| numbers(&candidate.plan).contains(n));
            let shrinker = shrunk(actions, 1, fails);
            prop_assert_eq!(numbers(&shrinker.best().plan), needed);
        }
    }

    proptest! {
        #[test]
        fn also_a_plan_whose_actions_depend_on_each_other_is_minimal(
            actions in 2_usize..6,
            failing in prop::collection::btree_set(1_u32..64, 1..20),
        ) {
            // Any set of actions may fail or pass; all of them together fail.
            let whole = (1_u32 << actions) - 1;
            let bits = |plan: &Plan| numbers(plan).into_iter().fold(0, |bits, n| bits | (1_u32 << n));
            let fails = |bits: u32| bits == whole || failing.contains(&bits);
            let shrinker = shrunk(actions, 1, |candidate| fails(bits(&candidate.plan)));
            prop_assume!(shrinker.is_minimal());
            let best = &shrinker.best().plan;
            prop_assert!(fails(bits(best)));
            for n in numbers(best) {
                let without = bits(best) & !(1_u32 << n);
                prop_assert!(without == 0 || !fails(without));
            }
        }
    }

    #[test]
    fn triggers_times_and_steps_become_smaller() {
        let nth = |candidate: &Candidate| candidate.plan.actions[0].trigger.as_ref().unwrap().nth().unwrap();
        let shrinker = shrunk(1, 5, |candidate| nth(candidate) >= 2 && candidate.steps >= 3);
        assert_eq!((nth(shrinker.best()), shrinker.best().steps), (2, 3));
        assert!(shrinker.is_minimal());
    }

    #[test]
    fn holds_become_shorter_and_faults_come_before_a_request() {
        let key = crate::record::ObjectKey {
            resource: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
        };
        let trigger = crate::plan::at_request(("op", "update", ""), &key, 1, RequestPhase::Done);
        let skip = Operation::Skip { until: Box::new(Trigger::quiet().with_nth(8)) };
        let actions = vec![
            PlannedAction::at(trigger, skip),
            PlannedAction::at_once(Operation::Thaw { cache: "c".to_owned(), step: Some(9) }),
        ];
        let mut shrinker = Shrinker::new(Plan { actions, ..plan(0) }, 1);
        let until =
            |action: &PlannedAction| action.operation.clone().until_mut().and_then(|until| until.nth());
        let step = |action: &PlannedAction| match action.operation {
            Operation::Thaw { step, .. } => step,
            _ => None,
        };
        while let Some(candidate) = shrinker.propose() {
            let actions = &candidate.plan.actions;
            let fails = actions.len() == 2 && until(&actions[0]) >= Some(3) && step(&actions[1]) >= Some(2);
            shrinker.report(fails);
        }
        let best = &shrinker.best().plan.actions;
        assert_eq!((until(&best[0]), step(&best[1])), (Some(3), Some(2)));
        let phase = best[0].trigger.as_ref().map(|trigger| match trigger {
            Trigger::Request(request) => request.phase,
            other => panic!("{other}"),
        });
        assert_eq!(phase, Some(RequestPhase::Arrived));
        assert!(shrinker.is_minimal());
    }

    #[test]
    fn an_order_has_fewer_swaps_and_no_seed_that_it_does_not_need() {
        let order = Operation::Order { seed: Some(5), swaps: (1..=6).collect() };
        let plan = Plan { actions: vec![PlannedAction::at_once(order)], ..plan(0) };
        let mut shrinker = Shrinker::new(plan, 1);
        while let Some(candidate) = shrinker.propose() {
            let fails = candidate.plan.order().1.contains(&4);
            shrinker.report(fails);
        }
        assert_eq!(shrinker.best().plan.order(), (None, [4].into()));
        assert!(shrinker.is_minimal());
    }

    #[test]
    fn the_number_of_candidates_is_bounded() {
        let mut shrinker = Shrinker::new(plan(40), 100);
        let mut count = 0;
        while shrinker.propose().is_some() {
            shrinker.report(false);
            count += 1;
        }
        assert!(count <= limits::SHRINK_RUNS / limits::SHRINK_REPEATS);
        assert!(!shrinker.is_minimal());
    }
}
