//! Random plans, guided by what runs showed: pairs and triples of enumerated plans, other turns in the serial order, and changes of plans
//! whose runs showed something new. By a seed; pure.

use crate::limits;
use crate::normalise::Normaliser;
use crate::plan::{Operation, Plan, PlannedAction};
use crate::record::{ObjectKey, RecordedWrite, RunRecord, digest};
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Largest number of plans whose actions one random plan combines.
const PARTS: u64 = 3;
/// Most actions of a random plan: shrinking needs a run for each.
const ACTIONS: usize = 8;
/// Attempts for each plan that is wanted: some equal one that was made.
const ATTEMPTS: usize = 4;
/// One in this many combined plans also has another turn in the serial order.
const SWAPPED: u64 = 3;
/// Most requests in a row that a changed fault hits.
const TIMES: u64 = 3;

/// What a run showed: pairs of consecutive writes of programs, by their shapes, and the conditions of objects, by their slots.
pub type Shown = BTreeSet<String>;

/// What a run showed.
pub fn shown(record: &RunRecord, normaliser: &Normaliser, programs: &[String]) -> Shown {
    let slot = |key: &ObjectKey, write: &RecordedWrite| normaliser.slot_of(key, write.object());
    let shape = |write: &&RecordedWrite| {
        json!([write.client, write.verb, write.key.resource, slot(&write.key, write), write.changed()])
    };
    let own = record.writes.iter().filter(|write| programs.contains(&write.client));
    let shapes: Vec<Value> = own.map(|write| shape(&write)).collect();
    let pairs = shapes.windows(2).map(|pair| digest(&json!(pair)));
    let conditions = record.writes.iter().filter_map(|write| {
        let conditions = write.after.as_ref()?["status"]["conditions"].as_array()?;
        let states: BTreeSet<String> =
            conditions.iter().map(|one| format!("{}={}", one["type"], one["status"])).collect();
        Some(digest(&json!([write.key.resource, slot(&write.key, write), states])))
    });
    pairs.chain(conditions).collect()
}

/// Makes random plans. Equal seeds and equal runs make equal plans in the same order, however many run at a time: those of a round depend
/// on the rounds before alone.
#[derive(Debug)]
pub struct Guide<'p> {
    enumerated: &'p [Plan],
    rng: Rng,
    /// Turns of a reference.
    turns: u64,
    /// Keys of all plans so far.
    made: BTreeSet<String>,
    /// Plans whose runs showed something new.
    kept: Vec<Plan>,
    seen: Shown,
}

impl<'p> Guide<'p> {
    /// Begins with the enumerated plans. `turns` is how many turns a reference has.
    pub fn new(enumerated: &'p [Plan], seed: u64, turns: u64) -> Self {
        let made = enumerated.iter().map(Plan::key).collect();
        let rng = Rng::seeded(seed);
        Self { enumerated, rng, turns, made, kept: Vec::new(), seen: Shown::new() }
    }

    /// Learns what the run of a plan showed; `None`: that of a reference.
    pub fn learn(&mut self, plan: Option<&Plan>, shown: Shown) {
        let before = self.seen.len();
        self.seen.extend(shown);
        if let Some(plan) = plan.filter(|_| self.seen.len() > before && self.kept.len() < limits::KEPT_PLANS)
        {
            self.kept.push(plan.clone());
        }
    }

    /// Up to `most` plans that were not made before; none if there is too little to combine.
    pub fn round(&mut self, most: usize) -> Vec<Plan> {
        let mut round = Vec::new();
        if self.enumerated.len() < 2 {
            return round;
        }
        for _ in 0..ATTEMPTS * most {
            if round.len() == most {
                break;
            }
            let changes = !self.kept.is_empty() && self.rng.below(2) == 0;
            let mut plan = if changes { self.changed() } else { self.combined() };
            plan.actions.truncate(ACTIONS);
            if self.made.insert(plan.key()) {
                round.push(plan);
            }
        }
        round
    }

    fn pick<'a>(&self, plans: &'a [Plan]) -> &'a Plan {
        &plans[self.index_below(plans.len())]
    }

    /// A random index of a list of this length.
    fn index_below(&self, len: usize) -> usize {
        usize::try_from(self.rng.below(len as u64)).unwrap_or(0)
    }

    /// Two or three enumerated plans as one.
    fn combined(&self) -> Plan {
        let parts = 2 + self.rng.below(PARTS - 1);
        let mut plan = self.pick(self.enumerated).clone();
        for _ in 1..parts {
            plan.actions.extend(self.pick(self.enumerated).actions.iter().cloned());
        }
        if self.rng.below(SWAPPED) == 0 {
            self.swap(&mut plan);
        }
        plan
    }

    /// A plan whose run showed something new, with one change.
    fn changed(&self) -> Plan {
        let mut plan = self.pick(&self.kept).clone();
        let index = self.index_below(plan.actions.len());
        match self.rng.below(5) {
            0 => plan.actions.extend(self.pick(self.enumerated).actions.iter().cloned()),
            1 if plan.actions.len() > 1 => drop(plan.actions.remove(index)),
            2 => move_by_one(&mut plan.actions[index], self.rng.below(2) == 0),
            3 if plan.actions[index].operation.is_fault() => {
                plan.actions[index].times = 1 + plan.actions[index].times % TIMES;
            }
            _ => self.swap(&mut plan),
        }
        plan
    }

    /// Lets another request or event have a turn.
    fn swap(&self, plan: &mut Plan) {
        if self.turns > 1 {
            let swaps = BTreeSet::from([1 + self.rng.below(self.turns)]);
            plan.actions.insert(0, PlannedAction::at_once(Operation::Order { seed: None, swaps }));
        }
    }
}

/// Moves the trigger of an action to the match before or after.
fn move_by_one(action: &mut PlannedAction, is_later: bool) {
    let Some(trigger) = &mut action.trigger else { return };
    if let Some(nth) = trigger.nth() {
        let nth = if is_later { nth + 1 } else { nth.saturating_sub(1).max(1) };
        *trigger = trigger.clone().with_nth(nth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::tests::{run, scenario, write};
    use crate::plan::Trigger;
    use crate::replay::tests::replay;

    fn enumerated() -> [Plan; 2] {
        let first = replay().plan;
        let mut second = first.clone();
        second.actions[0].times = 3;
        [first, second]
    }

    fn shows(text: &str) -> Shown {
        Shown::from([text.to_owned()])
    }

    #[test]
    fn one_seed_makes_the_same_random_plans() {
        let enumerated = enumerated();
        let made = |seed| {
            let mut guide = Guide::new(&enumerated, seed, 30);
            guide.learn(None, shows("reference"));
            let mut all = Vec::new();
            for round in 0..4 {
                let plans = guide.round(5);
                guide.learn(plans.first(), shows(&format!("new in round {round}")));
                all.extend(plans);
            }
            all
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        let keys: BTreeSet<String> = made(7).iter().map(Plan::key).collect();
        assert!(keys.len() == made(7).len() && keys.len() > 10, "no plan is made twice: {keys:?}");
        assert!(made(7).iter().any(|plan| !plan.order().1.is_empty()), "some have other turns");
        assert!(Guide::new(&enumerated[..1], 7, 30).round(5).is_empty());
    }

    #[test]
    fn only_plans_whose_runs_showed_something_new_are_changed() {
        let enumerated = enumerated();
        let mut guide = Guide::new(&enumerated, 7, 0);
        guide.learn(None, shows("a"));
        guide.learn(Some(&enumerated[0]), shows("a"));
        assert!(guide.kept.is_empty());
        guide.learn(Some(&enumerated[0]), shows("b"));
        guide.learn(Some(&enumerated[1]), shows("b"));
        assert_eq!(guide.kept, [enumerated[0].clone()]);
        let changed: Vec<Plan> = (0..50).map(|_| guide.changed()).collect();
        assert!(changed.iter().any(|plan| plan.actions.len() == 1), "an action is dropped");
        assert!(changed.iter().any(|plan| plan.actions.len() > 2), "actions are added");
        let nth = |plan: &Plan| plan.actions[0].trigger.as_ref().and_then(Trigger::nth);
        assert!(changed.iter().any(|plan| nth(plan) == Some(2)), "a trigger is moved");
        assert!(changed.iter().all(|plan| plan.order().1.is_empty()), "there are no turns");
        for round in 0..2 * limits::KEPT_PLANS {
            guide.learn(Some(&enumerated[1]), shows(&round.to_string()));
        }
        assert_eq!(guide.kept.len(), limits::KEPT_PLANS);
    }

    #[test]
    fn a_run_shows_pairs_of_writes_and_sets_of_conditions() {
        let normaliser = Normaliser::new(&scenario(""), &[]);
        let make = |revision, name: &str, status: &Value| {
            let mut write = write(revision, "op", &format!("{name}/default/x"), Value::Null, json!({}));
            write.after.as_mut().unwrap()["status"] = status.clone();
            write
        };
        let of = |names: [&str; 3], status: &str| {
            let ready = json!({"conditions": [{"type": "Ready", "status": status}]});
            let writes = (1..).zip(names).map(|(revision, name)| make(revision, name, &ready));
            shown(&run(writes.collect()), &normaliser, &["op".to_owned()])
        };
        let first = of(["a", "b", "a"], "True");
        assert_eq!((first.len(), of(["a", "b", "a"], "True")), (4, first.clone()));
        assert_eq!(of(["b", "a", "b"], "True"), first, "the same pairs and conditions");
        assert!(!of(["a", "a", "b"], "True").is_subset(&first), "another pair");
        assert_eq!(
            of(["a", "b", "a"], "False").difference(&first).count(),
            2,
            "other conditions of two objects"
        );
    }
}
