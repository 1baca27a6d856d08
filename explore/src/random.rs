//! Random plans: pairs and triples of enumerated ones, by a seed. Pure.

use crate::plan::Plan;
use kstore_nondet::Rng;
use std::collections::BTreeSet;

/// Largest number of plans whose actions one random plan combines.
const PARTS: u64 = 3;

/// Up to `count` plans, made of the enumerated ones; equal seeds make equal plans.
pub fn plans(enumerated: &[Plan], seed: u64, count: usize) -> Vec<Plan> {
    if enumerated.len() < 2 {
        return Vec::new();
    }
    let rng = Rng::seeded(seed);
    let pick = || &enumerated[usize::try_from(rng.next_u64() % enumerated.len() as u64).unwrap_or(0)];
    let mut seen: BTreeSet<String> = enumerated.iter().map(Plan::key).collect();
    let mut made = Vec::new();
    for _ in 0..count {
        let parts = 2 + rng.next_u64() % (PARTS - 1);
        let mut plan = pick().clone();
        for _ in 1..parts {
            plan.actions.extend(pick().actions.iter().cloned());
        }
        if seen.insert(plan.key()) {
            made.push(plan);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tests::replay;

    #[test]
    fn one_seed_makes_the_same_random_plans() {
        let first = replay().plan;
        let mut second = first.clone();
        second.actions[0].times = 3;
        let enumerated = [first, second];
        let made = plans(&enumerated, 7, 20);
        assert_eq!(made, plans(&enumerated, 7, 20));
        assert!(!made.is_empty() && made.iter().all(|plan| plan.actions.len() >= 2));
        assert!(plans(&enumerated[..1], 7, 20).is_empty());
    }
}
