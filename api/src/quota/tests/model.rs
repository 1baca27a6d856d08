//! Property test with random writes: used amounts never exceed the bounds, and match a count of all objects.

use super::{NOW, judged};
use crate::quota::{Evaluator, Quota, to_value};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum QuotaWrite {
    Create(usize, usize, u8),
    Update(usize, usize, u8),
    Delete(usize, usize),
    Recount,
}

fn step() -> impl Strategy<Value = QuotaWrite> {
    let at = || (0..4_usize, 0..6_usize);
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|((kind, name), size)| QuotaWrite::Create(kind, name, size)),
        3 => (at(), any::<u8>()).prop_map(|((kind, name), size)| QuotaWrite::Update(kind, name, size)),
        2 => at().prop_map(|(kind, name)| QuotaWrite::Delete(kind, name)),
        1 => Just(QuotaWrite::Recount),
    ]
}

fn kinds() -> [Evaluator; 4] {
    [("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("", "configmaps")]
        .map(|(group, plural)| Evaluator::of(group, plural))
}

fn object(kind: usize, size: u8) -> Value {
    let amount = format!("{}m", u32::from(size) * 10);
    match kind {
        0 => {
            let deadline = if size.is_multiple_of(3) { json!(5) } else { Value::Null };
            let resources = json!({"requests": {"cpu": amount}, "limits": {"cpu": amount}});
            json!({"spec": {"activeDeadlineSeconds": deadline, "containers": [{"name": "c", "resources": resources}]}})
        }
        1 => {
            let kind = ["ClusterIP", "NodePort", "LoadBalancer"][usize::from(size % 3)];
            json!({"spec": {"type": kind, "ports": vec![json!({"port": 1}); usize::from(size % 4)]}})
        }
        2 => {
            json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": format!("{size}Mi")}}}})
        }
        _ => json!({}),
    }
}

/// Whether updates of the kind are charged.
fn is_charged_update(kind: usize) -> bool {
    let evaluator = &kinds()[kind];
    evaluator.charges_every_update("") || evaluator.charges_every_update("resize")
}

fn fresh() -> Vec<Quota> {
    let bounds = [
        json!({"hard": {"pods": "3", "requests.cpu": "4", "count/configmaps": "3", "services": "2"}}),
        json!({"hard": {"limits.cpu": "2", "pods": "2"}, "scopes": ["NotTerminating"]}),
        json!({"hard": {"services.nodeports": "4", "requests.storage": "300Mi",
            "gold.storageclass.storage.k8s.io/requests.storage": "256Mi"}}),
    ];
    let quota = |spec: Value| {
        let zero: BTreeMap<String, Value> =
            spec["hard"].as_object().unwrap().keys().map(|name| (name.clone(), json!("0"))).collect();
        let status = json!({"hard": spec["hard"], "used": zero});
        Quota::of(&json!({"metadata": {"name": "q"}, "spec": spec, "status": status}))
    };
    bounds.into_iter().map(quota).collect()
}

fn recount(quotas: &mut [Quota], objects: &BTreeMap<(usize, usize), Value>) {
    for quota in quotas {
        quota.used.values_mut().for_each(|used| *used = crate::quantity::Quantity::ZERO);
        for ((kind, _), object) in objects {
            let evaluator = &kinds()[*kind];
            let usage = evaluator.usage(object);
            if quota.selects(evaluator, &usage) {
                usage.add_to(&mut quota.used, NOW);
            }
        }
    }
}

proptest! {
    #[test]
    fn used_amounts_stay_within_bounds_and_match_a_recount(steps in proptest::collection::vec(step(), 1..120)) {
        let (mut quotas, mut objects) = (fresh(), BTreeMap::new());
        for step in steps {
            let wanted = match step {
                QuotaWrite::Create(kind, name, size) if !objects.contains_key(&(kind, name)) => {
                    Some((kind, name, object(kind, size)))
                }
                QuotaWrite::Update(kind, name, size) if objects.contains_key(&(kind, name)) && is_charged_update(kind) => {
                    Some((kind, name, object(kind, size)))
                }
                QuotaWrite::Delete(kind, name) => {
                    objects.remove(&(kind, name));
                    None
                }
                QuotaWrite::Recount => {
                    recount(&mut quotas, &objects);
                    None
                }
                QuotaWrite::Create(..) | QuotaWrite::Update(..) => None,
            };
            if let Some((kind, name, new)) = wanted {
                let old = objects.get(&(kind, name));
                if let Ok(charges) = judged(&quotas, &kinds()[kind], old, &new) {
                    prop_assert!(charges.pending.is_empty());
                    for (at, used) in charges.used {
                        quotas[at].used.extend(used);
                    }
                    objects.insert((kind, name), new);
                }
            }
            let mut counted = quotas.clone();
            recount(&mut counted, &objects);
            for (quota, counted) in quotas.iter().zip(&counted) {
                for (name, used) in &quota.used {
                    // Amounts that writes release are credited by the next recount.
                    prop_assert!(*used <= quota.hard[name], "{name}: {}", to_value(&quota.used));
                    prop_assert!(counted.used[name] <= *used, "{name}: {}", to_value(&counted.used));
                }
            }
        }
        recount(&mut quotas, &objects);
        let mut again = quotas.clone();
        recount(&mut again, &objects);
        prop_assert_eq!(again, quotas);
    }
}
