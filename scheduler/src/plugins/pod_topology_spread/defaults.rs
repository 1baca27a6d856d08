//! Reading of the arguments of PodTopologySpread: the constraints of pods that have none.

use crate::fields::Fields;
use crate::pod_constraints::Spread;
use crate::spread_constraints::SpreadDefaults;
use kstore_api::name::qualified_name;
use serde_json::{Value, json};

const TYPE: &str = "defaultingType";
const CONSTRAINTS: &str = "defaultConstraints";
const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";

/// A constraint of the list, and whether a node must keep it.
struct Listed {
    spread: Spread,
    when: String,
    /// The member `minDomains` if it is there.
    min_domains: Option<i64>,
    has_selector: bool,
}

/// Reads the arguments.
pub(super) fn read(args: &mut Fields<'_>) -> SpreadDefaults {
    let defaulting = args.text(TYPE).unwrap_or_else(|| "System".to_owned());
    let listed = args.objects(CONSTRAINTS, constraint).unwrap_or_default();
    match &*defaulting {
        "System" if !listed.is_empty() => {
            args.invalid(TYPE, &defaulting, "when .defaultConstraints are not empty");
        }
        "System" | "List" => {}
        other => args.not_supported(TYPE, other, &["System", "List"]),
    }
    check(args, &listed);
    if defaulting != "List" {
        return SpreadDefaults::System;
    }
    let (hard, soft): (Vec<_>, Vec<_>) = listed.into_iter().partition(|listed| listed.when == HARD);
    let spreads = |listed: Vec<Listed>| listed.into_iter().map(|listed| listed.spread).collect();
    SpreadDefaults::Listed { hard: spreads(hard), soft: spreads(soft) }
}

fn constraint(item: &mut Fields<'_>) -> Listed {
    let min_domains = item.integer("minDomains");
    let mut policy = |name, default: &str| item.text(name).unwrap_or_else(|| default.to_owned()) == "Honor";
    let (honor_affinity, honor_taints) =
        (policy("nodeAffinityPolicy", "Honor"), policy("nodeTaintsPolicy", "Ignore"));
    // The selector is that of each pod's workload: keys of labels would change nothing in it.
    if item.value("matchLabelKeys").is_some() {
        item.warn("matchLabelKeys", "has no effect in a default constraint");
    }
    Listed {
        spread: Spread {
            topology_key: item.text("topologyKey").unwrap_or_default(),
            max_skew: item.integer("maxSkew").unwrap_or_default(),
            min_domains: min_domains.unwrap_or(1),
            selector: None,
            honor_affinity,
            honor_taints,
        },
        when: item.text("whenUnsatisfiable").unwrap_or_default(),
        min_domains,
        has_selector: item.value("labelSelector").is_some(),
    }
}

fn check(args: &mut Fields<'_>, listed: &[Listed]) {
    for (index, Listed { spread, when, min_domains, has_selector }) in listed.iter().enumerate() {
        let place = |name: &str| format!("{CONSTRAINTS}[{index}].{name}");
        if spread.max_skew <= 0 {
            args.invalid(&place("maxSkew"), &spread.max_skew, "not in valid range (0, inf)");
        }
        let key = &spread.topology_key;
        if key.is_empty() {
            args.required(&place("topologyKey"), "can not be empty");
        } else {
            let faults = qualified_name(key).into_iter();
            faults.for_each(|fault| args.invalid(&place("topologyKey"), key, fault));
        }
        match &**when {
            HARD | SOFT => {}
            "" => args.required(&place("whenUnsatisfiable"), "can not be empty"),
            other => args.not_supported(&place("whenUnsatisfiable"), other, &[HARD, SOFT]),
        }
        if min_domains.is_some_and(|domains| domains <= 0) {
            // kube-scheduler does not check this one, and would count with it.
            args.invalid(&place("minDomains"), min_domains, "must be greater than 0");
        }
        if *has_selector {
            let text = "constraint must not define a selector, as they deduced for each pod";
            args.forbidden(&place("labelSelector"), text);
        }
        let is_same = |before: &Listed| before.spread.topology_key == *key && before.when == *when;
        if listed[..index].iter().any(is_same) {
            args.duplicate(&format!("{CONSTRAINTS}[{index}]"), &format!("{{{key}, {when}}}"));
        }
    }
}

/// The arguments as they are in effect.
pub(super) fn print(defaults: &SpreadDefaults) -> Value {
    let SpreadDefaults::Listed { hard, soft } = defaults else { return json!({ TYPE: "System" }) };
    let policy = |honors: bool| if honors { "Honor" } else { "Ignore" };
    let one = |spread: &Spread, when: &str| {
        json!({
            "maxSkew": spread.max_skew, "topologyKey": spread.topology_key, "whenUnsatisfiable": when,
            "minDomains": spread.min_domains, "nodeAffinityPolicy": policy(spread.honor_affinity),
            "nodeTaintsPolicy": policy(spread.honor_taints),
        })
    };
    let hard = hard.iter().map(|spread| one(spread, HARD));
    let all: Vec<Value> = hard.chain(soft.iter().map(|spread| one(spread, SOFT))).collect();
    json!({ TYPE: "List", CONSTRAINTS: all })
}
