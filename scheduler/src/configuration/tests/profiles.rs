//! Decisions by random profiles, read from text, equal those of the reference.

use crate::affinity::{Preference, Term};
use crate::configuration::Configuration;
use crate::decide::tests::{any_tie, caches, reference_decision, world_of};
use crate::decide::{Terms, decide};
use crate::plugin::ClusterView;
use crate::plugins::Registry;
use crate::pod::WorkloadKind;
use crate::pod_constraints::{LabelSelector, Spread};
use crate::reference::profile::{ReferenceProfile, ReferenceStrategy};
use crate::testing::{any_pod, set};
use crate::workloads::{WorkloadChange, decode_labels};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

/// A profile as a file, and as the reference has it.
type BothForms = (Value, ReferenceProfile);

fn any_strategy() -> impl Strategy<Value = (Value, ReferenceStrategy, Vec<(&'static str, i64)>)> {
    let resources = subsequence(vec!["cpu", "memory", "x.io/gpu"], 1..=3);
    let shape = btree_map(0i64..101, 0i64..11, 1..4);
    (0..3, resources, vec(1i64..8, 3), shape).prop_map(|(kind, names, weights, shape)| {
        let resources: Vec<_> = names.into_iter().zip(weights).collect();
        let printed = |(name, weight): &(&str, i64)| json!({ "name": name, "weight": weight });
        let list: Vec<Value> = resources.iter().map(printed).collect();
        let (name, strategy) = match kind {
            0 => ("LeastAllocated", ReferenceStrategy::LeastAllocated),
            1 => ("MostAllocated", ReferenceStrategy::MostAllocated),
            _ => ("RequestedToCapacityRatio", ReferenceStrategy::Ratio(shape.into_iter().collect())),
        };
        let mut args = json!({ "type": name, "resources": list });
        if let ReferenceStrategy::Ratio(points) = &strategy {
            let point = |(used, score): &(i64, i64)| json!({ "utilization": used, "score": score });
            args["requestedToCapacityRatio"] =
                json!({ "shape": points.iter().map(point).collect::<Vec<_>>() });
        }
        (args, strategy, resources)
    })
}

/// The constraints of a list of default ones, hard and soft, for the pods of a Service of the label `app: a`.
fn any_spread() -> impl Strategy<Value = (Value, (Vec<Spread>, Vec<Spread>, LabelSelector))> {
    let one = (1i64..3, option::of(1i64..3), proptest::bool::ANY, proptest::bool::ANY);
    let keys = subsequence(vec!["topology.kubernetes.io/zone", "disk"], 0..=2);
    let all = (keys, vec((one, proptest::bool::ANY), 2));
    all.prop_map(|(keys, constraints)| {
        let (mut hard, mut soft, mut listed) = (Vec::new(), Vec::new(), Vec::new());
        for (key, ((max_skew, min_domains, honor_affinity, honor_taints), is_hard)) in
            keys.into_iter().zip(constraints)
        {
            let policy = |honors: bool| if honors { "Honor" } else { "Ignore" };
            listed.push(json!({
                "maxSkew": max_skew, "topologyKey": key, "minDomains": min_domains,
                "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
                "nodeAffinityPolicy": policy(honor_affinity), "nodeTaintsPolicy": policy(honor_taints),
            }));
            let spread = Spread {
                topology_key: key.to_owned(),
                max_skew,
                min_domains: min_domains.unwrap_or(1),
                selector: None,
                honor_affinity,
                honor_taints,
            };
            if is_hard { hard.push(spread) } else { soft.push(spread) }
        }
        let service =
            LabelSelector { match_labels: [("app".into(), "a".into())].into(), ..LabelSelector::default() };
        (json!({ "defaultingType": "List", "defaultConstraints": listed }), (hard, soft, service))
    })
}

/// `addedAffinity`: required and preferred kinds of disks.
fn any_added() -> impl Strategy<Value = (Value, (Option<Vec<Term>>, Vec<Preference>))> {
    let disk = || option::of(select(vec!["ssd", "hdd"]));
    (disk(), disk(), 1i64..50).prop_map(|(required, preferred, weight)| {
        let term = |disk: &str| json!({ "matchExpressions": [{ "key": "disk", "operator": "In", "values": [disk] }] });
        let mut added = json!({});
        let parsed = |value: Value| serde_json::from_value(value).unwrap();
        let required = required.map(|disk| {
            added["requiredDuringSchedulingIgnoredDuringExecution"] = json!({ "nodeSelectorTerms": [term(disk)] });
            vec![parsed(term(disk))]
        });
        let preferred: Vec<Preference> = preferred
            .map(|disk| {
                let wish = json!({ "weight": weight, "preference": term(disk) });
                added["preferredDuringSchedulingIgnoredDuringExecution"] = json!([wish]);
                serde_json::from_value(wish).unwrap()
            })
            .into_iter()
            .collect();
        (json!({ "addedAffinity": added }), (required, preferred))
    })
}

/// Sets of filters and scores, with the sets of a file.
fn any_plugins() -> impl Strategy<Value = BothForms> {
    let base = ReferenceProfile::default();
    let (filters, scores) = (base.filters.clone(), base.scores.clone());
    let scores: Vec<&'static str> = scores.into_iter().map(|(name, _)| name).collect();
    let filters = subsequence(filters.clone(), 0..=filters.len()).prop_shuffle();
    let scores = (subsequence(scores.clone(), 0..=scores.len()).prop_shuffle(), vec(0i64..5, scores.len()));
    (filters, scores, proptest::bool::ANY).prop_map(|(filters, (scores, weights), has_all_prefilters)| {
        let without_prefilter = ["NodeUnschedulable", "NodeName", "TaintToleration"];
        let prefilters: Vec<&str> =
            filters.iter().copied().filter(|name| !without_prefilter.contains(name)).collect();
        let set = |names: &[&str]| {
            let enabled: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "disabled": [{ "name": "*" }], "enabled": enabled })
        };
        let mut score = set(&scores);
        for (index, weight) in weights.iter().enumerate().take(scores.len()) {
            score["enabled"][index]["weight"] = json!(weight);
        }
        let mut plugins = json!({ "filter": set(&filters), "score": score });
        if !has_all_prefilters {
            plugins["preFilter"] = set(&prefilters);
        }
        let scores = scores.into_iter().zip(weights.into_iter().map(|weight| weight.max(1))).collect();
        let narrows = has_all_prefilters || filters.contains(&"NodeAffinity");
        (plugins, ReferenceProfile { filters, narrows, scores, ..ReferenceProfile::default() })
    })
}

fn any_profile() -> impl Strategy<Value = BothForms> {
    let affinity = (0i64..6, proptest::bool::ANY);
    let balanced = subsequence(vec!["cpu", "memory", "x.io/gpu"], 1..=3);
    let ignored = select(vec![None, Some("ignoredResources"), Some("ignoredResourceGroups")]);
    let args = (any_strategy(), option::of(any_spread()), any_added(), affinity, balanced, ignored);
    (option::of(any_plugins()), args).prop_map(|(plugins, (fit, spread, added, affinity, balanced, ignored))| {
        let (plugins, profile) = plugins.unwrap_or_else(|| (json!({}), ReferenceProfile::default()));
        let (strategy_args, strategy, resources) = fit;
        let mut fit_args = json!({ "scoringStrategy": strategy_args });
        if let Some(member) = ignored {
            fit_args[member] = json!([if member == "ignoredResources" { "x.io/gpu" } else { "x.io" }]);
        }
        let (required_weight, ignores_others) = affinity;
        let names: Vec<Value> = balanced.iter().map(|name| json!({ "name": name })).collect();
        let weight = json!({ "hardPodAffinityWeight": required_weight, "ignorePreferredTermsOfExistingPods": ignores_others });
        let mut config = vec![
            json!({ "name": "NodeResourcesFit", "args": fit_args }),
            json!({ "name": "NodeAffinity", "args": added.0 }),
            json!({ "name": "InterPodAffinity", "args": weight }),
            json!({ "name": "NodeResourcesBalancedAllocation", "args": { "resources": names } }),
        ];
        if let Some((args, _)) = &spread {
            config.push(json!({ "name": "PodTopologySpread", "args": args }));
        }
        let profile = ReferenceProfile {
            strategy,
            resources,
            balanced,
            ignored: ignored.iter().map(|_| "x.io/gpu").collect(),
            required_weight,
            ignores_others,
            added: added.1,
            spread: spread.map(|(_, spread)| spread),
            ..profile
        };
        (json!({ "plugins": plugins, "pluginConfig": config }), profile)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn decisions_of_random_profiles_equal_the_reference(
        mut cluster in world_of(0usize..7), pod in any_pod("p".to_owned()), start in 0usize..10, tie in any_tie(),
        (file, reference) in any_profile(),
    ) {
        let text = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [file],
        });
        let read = Configuration::parse(&text.to_string(), &Registry::in_tree()).unwrap();
        let (mut cache, snapshot) = caches(&cluster);
        if reference.spread.is_some() {
            let service = json!({ "metadata": { "namespace": "ns", "name": "web" }, "spec": { "selector": { "app": "a" } } });
            let change = set(&service, decode_labels);
            cache.workloads_mut().apply(WorkloadChange { kind: WorkloadKind::Service, change });
        }
        cluster.profile = reference;
        let terms = Terms { start, tie, percentage: 0 };
        let plugins = &read.profiles.of(&pod).plugins;
        let view = ClusterView { snapshot: &snapshot, inventory: cache.inventory() };
        let decision = decide(plugins, view, &pod, terms, &mut ());
        let (expected, next_start) = cluster.decide(&pod, terms);
        prop_assert_eq!(reference_decision(&decision.outcome), expected);
        prop_assert_eq!(decision.next_start, next_start);
    }
}
