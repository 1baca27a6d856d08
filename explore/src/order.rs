//! The order of the search: patterns take turns, and within a pattern one plan of each distinct resource and verb comes before the second
//! of any. Pure.

use crate::pattern_id::PatternId;
use crate::plan::{Plan, Subject};
use std::collections::{BTreeMap, VecDeque};

/// Orders plans.
pub fn round_robin(plans: Vec<Plan>) -> Vec<Plan> {
    let mut patterns: BTreeMap<PatternId, BTreeMap<Subject, VecDeque<Plan>>> = BTreeMap::new();
    for plan in plans {
        let subjects = patterns.entry(plan.pattern).or_default();
        subjects.entry(plan.subject.clone()).or_default().push_back(plan);
    }
    let lanes = patterns.into_values().map(|subjects| interleaved(subjects.into_values().collect()));
    interleaved(lanes.collect()).into()
}

/// The first of each lane, then the second of each, and so on.
fn interleaved(mut lanes: Vec<VecDeque<Plan>>) -> VecDeque<Plan> {
    let mut all = VecDeque::new();
    while !lanes.is_empty() {
        all.extend(lanes.iter_mut().filter_map(VecDeque::pop_front));
        lanes.retain(|lane| !lane.is_empty());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Operation, PlannedAction, Trigger};

    #[test]
    fn patterns_and_subjects_take_turns() {
        let plan = |pattern, resource: &str, nth| {
            let subject = Subject { resource: resource.to_owned(), verb: "create".to_owned() };
            let action = PlannedAction::at(Trigger::quiet().with_nth(nth), Operation::Touch {});
            Plan { pattern, subject, actions: vec![action] }
        };
        let plans = vec![
            plan(PatternId::Touch, "a", 1),
            plan(PatternId::Crash, "a", 1),
            plan(PatternId::Crash, "a", 2),
            plan(PatternId::Crash, "b", 1),
            plan(PatternId::Touch, "a", 2),
        ];
        let order: Vec<String> = round_robin(plans)
            .iter()
            .map(|plan| {
                let nth = plan.actions[0].trigger.as_ref().unwrap().nth().unwrap();
                format!("{} {}{nth}", plan.pattern, plan.subject.resource)
            })
            .collect();
        assert_eq!(order, ["crash a1", "touch a1", "crash b1", "touch a2", "crash a2"]);
    }
}
