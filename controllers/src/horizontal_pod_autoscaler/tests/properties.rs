//! Properties for all metrics and histories.

use super::{History, at, autoscaler, evaluate_with, rescaled};
use kstore_api::version::Minor;
use proptest::prelude::*;
use serde_json::{Value, json};

fn behavior() -> impl Strategy<Value = Value> {
    let policy = (prop::bool::ANY, 1..20, prop::sample::select(vec![15, 60, 300]))
        .prop_map(|(pods, value, period)| json!({"type": if pods { "Pods" } else { "Percent" }, "value": value, "periodSeconds": period}));
    let select = prop::sample::select(vec!["Max", "Min", "Disabled"]);
    let rules = (0..400, select, prop::collection::vec(policy, 1..3)).prop_map(
        |(window, select, policies)| json!({"stabilizationWindowSeconds": window, "selectPolicy": select, "policies": policies}),
    );
    prop::option::of((rules.clone(), rules)).prop_map(|both| match both {
        None => Value::Null,
        Some((up, down)) => json!({"scaleUp": up, "scaleDown": down}),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sizes_respect_bounds_and_windows(
        rules in behavior(), min in 1..4i32, more in 0..12i32, loads in prop::collection::vec(1..3000i64, 1..40),
    ) {
        let hpa = autoscaler(json!({"minReplicas": min, "maxReplicas": min + more, "behavior": rules}));
        let (mut size, mut history) = (min, History::default());
        for (turn, load) in loads.iter().enumerate() {
            let now = at(600 + 15 * i64::try_from(turn).unwrap());
            let pods = usize::try_from(size).unwrap();
            let used = vec![load / i64::from(size); pods];
            let decision = evaluate_with(&hpa, &used, &mut history, now);
            let next = decision.rescale.as_ref().map_or(size, |(next, _)| *next);
            prop_assert!((min..=min + more).contains(&next), "{next}");
            prop_assert_eq!(decision.status.desired_replicas, next);
            rescaled(Minor::DEFAULT, decision, &hpa, size, &mut history, now);
            size = next;
        }
    }

    #[test]
    fn fast_load_oscillation_does_not_scale_both_ways(low in 40..60i64, high in 200..400i64) {
        let window = json!({"stabilizationWindowSeconds": 120, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]});
        let hpa = autoscaler(json!({"maxReplicas": 20, "behavior": {"scaleUp": window, "scaleDown": window}}));
        let (mut size, mut history, mut turns, mut direction) = (3_i32, History::default(), 0, 0);
        for turn in 0..60 {
            let now = at(600 + 15 * turn);
            let load = if turn % 4 < 2 { low } else { high };
            let used = vec![load / i64::from(size); usize::try_from(size).unwrap()];
            let decision = evaluate_with(&hpa, &used, &mut history, now);
            let next = decision.rescale.as_ref().map_or(size, |(next, _)| *next);
            if next != size {
                turns += i32::from(direction != 0 && direction != (next - size).signum());
                direction = (next - size).signum();
            }
            rescaled(Minor::DEFAULT, decision, &hpa, size, &mut history, now);
            size = next;
        }
        prop_assert_eq!(turns, 0, "the size went up and down");
    }

    #[test]
    fn more_usage_never_proposes_fewer_replicas(used in prop::collection::vec(0..300i64, 1..8), which in 0..8usize, more in 1..200i64) {
        let hpa = autoscaler(json!({"maxReplicas": 100}));
        let size = |used: &[i64]| evaluate_with(&hpa, used, &mut History::default(), at(600)).status.desired_replicas;
        let mut fuller = used.clone();
        let which = which % used.len();
        fuller[which] += more;
        prop_assert!(size(&fuller) >= size(&used));
    }

    #[test]
    fn a_steady_load_converges(load in 50..900i64) {
        let hpa = autoscaler(json!({"maxReplicas": 30}));
        let (mut size, mut history) = (1_i32, History::default());
        let mut sizes = Vec::new();
        for turn in 0..80 {
            let now = at(600 + 15 * turn);
            let used = vec![load / i64::from(size); usize::try_from(size).unwrap()];
            let decision = evaluate_with(&hpa, &used, &mut history, now);
            size = decision.rescale.as_ref().map_or(size, |(next, _)| *next);
            rescaled(Minor::DEFAULT, decision, &hpa, size, &mut history, now);
            sizes.push(size);
        }
        prop_assert!(sizes[40..].iter().all(|later| *later == size), "{sizes:?}");
        prop_assert!(i64::from(size) * 50 * 12 / 10 >= load, "{size} for {load}");
    }
}

#[test]
fn recommendation_history_is_bounded() {
    let hpa = autoscaler(json!({"maxReplicas": 4}));
    let mut history = History::default();
    for turn in 0..200 {
        let used = [if turn % 2 == 0 { 50 } else { 70 }; 2];
        evaluate_with(&hpa, &used, &mut history, at(600 + turn));
    }
    assert!(history.recommendations.len() <= 4, "{history:?}");
}
