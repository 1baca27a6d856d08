//! Default roles of versions of Kubernetes before 1.36, and of servers with other feature gates, as differences from its roles. Roles that
//! only kstore has stay as they are in every version: the components are the same. So do the roles of the scheduler and of controllers for
//! kinds that 1.33 lacks, and that of the controller that evicts pods from devices with taints: these components run in every version.

use super::{Grant, Named, On, WRITE};
use kstore_api::kind::OptIn;
use kstore_api::version::Minor;
use serde_json::{Value, json};

/// What the role of an older version has and that of 1.36 has not, or the other way round.
struct Difference {
    without: Without,
    kind: &'static str,
    role: &'static str,
    change: Change,
}

/// The servers whose role differs.
#[derive(Clone, Copy)]
enum Without {
    /// Those of versions up to this one.
    Later(Minor),
    /// Those without a feature gate.
    Gate(&'static str),
}
use Without::{Gate, Later};

impl Without {
    fn is_of(self, opt_in: &OptIn) -> bool {
        match self {
            Later(until) => opt_in.minor() <= until,
            Gate(name) => !opt_in.has_gate(name),
        }
    }
}

enum Change {
    /// The older version has a rule in addition.
    Has(Grant),
    /// The older version lacks the rights on a resource: group (`-` is the core group) and resource.
    Lacks(&'static str, &'static str),
    /// The older version lacks a rule of the role.
    LacksRule(Grant),
    /// The older version lacks the rights on paths.
    LacksPaths(&'static [&'static str]),
}
use Change::{Has, Lacks, LacksPaths, LacksRule};

const EDIT: &str = "system:aggregate-to-edit";
const VIEW: &str = "system:aggregate-to-view";
const MONITORING: &str = "system:monitoring";
const SCHEDULER: &str = "system:kube-scheduler";
const NODE: &str = "system:node";
const CLAIMS: &str = "system:controller:resource-claim-controller";
/// The group of claims and devices.
const DEVICES: &str = "resource.k8s.io";
const CONTROLLER_LOCK: &str = "system::leader-locking-kube-controller-manager";
const SCHEDULER_LOCK: &str = "system::leader-locking-kube-scheduler";

const fn cluster(without: Without, role: &'static str, change: Change) -> Difference {
    Difference { without, kind: "ClusterRole", role, change }
}

const fn lock(role: &'static str, rule: Grant) -> Difference {
    Difference { without: Later(Minor::V34), kind: "Role", role, change: Has(rule) }
}

/// The gate of permissions for parts of a claim's status.
const BINDING: &str = "DRAResourceClaimGranularStatusAuthorization";
/// Permission for the allocations of claims.
const BIND_CLAIMS: Grant = On("patch update", DEVICES, "resourceclaims/binding");
/// Permission of the volume controllers for the Services of storage servers.
const READ_SERVICE: Grant = On("get", "-", "services");

const DIFFERENCES: &[Difference] = &[
    cluster(Later(Minor::V33), EDIT, Has(On(WRITE, "-", "endpoints"))),
    cluster(Later(Minor::V33), EDIT, Lacks("resource.k8s.io", "resourceclaims")),
    cluster(Later(Minor::V33), EDIT, Lacks("resource.k8s.io", "resourceclaimtemplates")),
    cluster(Later(Minor::V34), EDIT, Lacks("events.k8s.io", "events")),
    cluster(Later(Minor::V33), VIEW, Lacks("resource.k8s.io", "resourceclaims")),
    cluster(Later(Minor::V33), VIEW, Lacks("resource.k8s.io", "resourceclaims/status")),
    cluster(Later(Minor::V33), VIEW, Lacks("resource.k8s.io", "resourceclaimtemplates")),
    cluster(Later(Minor::V34), VIEW, Lacks("events.k8s.io", "events")),
    cluster(Gate("ComponentFlagz"), MONITORING, LacksPaths(&["/flagz"])),
    cluster(Gate("ComponentStatusz"), MONITORING, LacksPaths(&["/statusz"])),
    cluster(Later(Minor::V33), MONITORING, Lacks("-", "nodes/metrics")),
    cluster(
        Gate("DRAExtendedResource"),
        SCHEDULER,
        LacksRule(On("create delete", DEVICES, "resourceclaims")),
    ),
    cluster(Gate(BINDING), SCHEDULER, LacksRule(BIND_CLAIMS)),
    cluster(Later(Minor::V33), SCHEDULER, Lacks("-", "pods/finalizers")),
    cluster(Later(Minor::V34), NODE, Lacks("events.k8s.io", "events")),
    cluster(Gate("KubeletServiceAccountTokenForCredentialProviders"), NODE, Lacks("-", "serviceaccounts")),
    cluster(Later(Minor::V33), NODE, Lacks(DEVICES, "resourceclaims")),
    cluster(Later(Minor::V33), NODE, Lacks(DEVICES, "resourceslices")),
    cluster(Gate(BINDING), CLAIMS, LacksRule(BIND_CLAIMS)),
    cluster(Later(Minor::V35), "system:controller:expand-controller", Has(READ_SERVICE)),
    cluster(Later(Minor::V35), "system:controller:persistent-volume-binder", Has(READ_SERVICE)),
    cluster(
        Later(Minor::V35),
        "system:controller:pvc-protection-controller",
        Lacks("-", "persistentvolumeclaims/status"),
    ),
    lock(CONTROLLER_LOCK, On("watch", "-", "configmaps")),
    lock(CONTROLLER_LOCK, Named("get update", "-", "configmaps", "kube-controller-manager")),
    lock(SCHEDULER_LOCK, On("watch", "-", "configmaps")),
    lock(SCHEDULER_LOCK, Named("get update", "-", "configmaps", "kube-scheduler")),
];

/// Gives the default roles the rules that they have in an older version, or with other gates.
pub(super) fn apply(objects: &mut [Value], opt_in: &OptIn) {
    for difference in DIFFERENCES.iter().filter(|difference| difference.without.is_of(opt_in)) {
        let is_role = |object: &&mut Value| {
            object["kind"] == difference.kind && object["metadata"]["name"] == difference.role
        };
        let rules = objects.iter_mut().find(is_role).and_then(|role| role["rules"].as_array_mut());
        let rules = rules.expect("the table names default roles");
        match &difference.change {
            Has(rule) => rules.push(rule.to_value()),
            Lacks(group, resource) => {
                let group = if *group == "-" { "" } else { group };
                *rules = rules.iter().flat_map(|rule| without(rule, group, resource)).collect();
            }
            LacksRule(rule) => {
                let (rule, before) = (rule.to_value(), rules.len());
                rules.retain(|own| *own != rule);
                assert!(rules.len() < before, "the table names a rule of {}", difference.role);
            }
            LacksPaths(paths) => {
                let lists =
                    rules.iter_mut().filter_map(|rule| rule.get_mut("nonResourceURLs")?.as_array_mut());
                lists.for_each(|list| list.retain(|path| !paths.iter().any(|lacking| path == lacking)));
            }
        }
    }
}

/// The rules that give what one rule gives, but for the rights on a resource of a group.
fn without(rule: &Value, group: &str, resource: &str) -> Vec<Value> {
    let rest = |member: &str, word: &str| -> Option<Vec<Value>> {
        let words = rule[member].as_array()?;
        let rest: Vec<Value> = words.iter().filter(|other| *other != word).cloned().collect();
        (rest.len() < words.len()).then_some(rest)
    };
    let (Some(groups), Some(resources)) = (rest("apiGroups", group), rest("resources", resource)) else {
        return vec![rule.clone()];
    };
    let part = |member: &str, words: Vec<Value>| {
        let mut part = rule.clone();
        part[member] = words.into();
        part
    };
    let mut own = part("resources", resources.clone());
    own["apiGroups"] = json!([group]);
    let parts =
        [(!groups.is_empty()).then(|| part("apiGroups", groups)), (!resources.is_empty()).then_some(own)];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::objects_with;
    use super::*;
    use kstore_api::gate::GateSet;
    use std::collections::BTreeSet;

    /// The verbs that a role has on a resource of a group in a version, sorted.
    fn verbs(minor: Minor, role: &str, group: &str, resource: &str) -> Vec<String> {
        let objects = objects_with(&OptIn::version(minor));
        let role = objects.iter().find(|object| object["metadata"]["name"] == role).unwrap();
        let rules = role["rules"].as_array().unwrap().iter().filter(|rule| {
            let has = |member: &str, word: &str| {
                rule[member].as_array().is_some_and(|words| words.contains(&json!(word)))
            };
            has("apiGroups", group) && has("resources", resource)
        });
        let mut verbs: Vec<String> = rules
            .flat_map(|rule| rule["verbs"].as_array().unwrap().clone())
            .map(|verb| verb.as_str().unwrap().to_owned())
            .collect();
        verbs.sort();
        verbs
    }

    #[test]
    fn an_older_version_has_the_rules_of_its_rows() {
        let has = |minor, role, group, resource| !verbs(minor, role, group, resource).is_empty();
        for minor in Minor::SERVED {
            let writes = verbs(minor, EDIT, "", "endpoints").contains(&"patch".to_owned());
            assert_eq!(writes, minor == Minor::V33, "{minor}");
            assert_eq!(has(minor, EDIT, "events.k8s.io", "events"), minor >= Minor::V35, "{minor}");
            assert_eq!(has(minor, VIEW, "events.k8s.io", "events"), minor >= Minor::V35, "{minor}");
            assert!(has(minor, EDIT, "", "events") && has(minor, VIEW, "", "events"), "{minor}");
            assert_eq!(has(minor, EDIT, "resource.k8s.io", "resourceclaims"), minor >= Minor::V34, "{minor}");
            assert_eq!(has(minor, MONITORING, "", "nodes/metrics"), minor >= Minor::V34, "{minor}");
            assert_eq!(has(minor, SCHEDULER_LOCK, "", "configmaps"), minor <= Minor::V34, "{minor}");
        }
    }

    #[test]
    fn components_of_an_older_version_have_the_rules_of_its_rows() {
        let has = |minor, role, group, resource| !verbs(minor, role, group, resource).is_empty();
        for minor in Minor::SERVED {
            assert_eq!(
                has(minor, SCHEDULER, DEVICES, "resourceclaims/binding"),
                minor >= Minor::V36,
                "{minor}"
            );
            let claims = verbs(minor, SCHEDULER, DEVICES, "resourceclaims");
            assert_eq!(claims.contains(&"delete".to_owned()), minor >= Minor::V36, "{minor}");
            assert!(claims.contains(&"update".to_owned()), "{minor}");
            let has_binding = has(minor, CLAIMS, DEVICES, "resourceclaims/binding");
            assert_eq!(has_binding, minor >= Minor::V36, "{minor}");
            assert_eq!(has(minor, NODE, "events.k8s.io", "events"), minor >= Minor::V35, "{minor}");
            assert_eq!(has(minor, NODE, "", "serviceaccounts"), minor >= Minor::V34, "{minor}");
            assert_eq!(has(minor, NODE, DEVICES, "resourceslices"), minor >= Minor::V34, "{minor}");
            assert!(
                has(minor, NODE, "", "events") && has(minor, NODE, "", "serviceaccounts/token"),
                "{minor}"
            );
            let expand = "system:controller:expand-controller";
            assert_eq!(has(minor, expand, "", "services"), minor < Minor::V36, "{minor}");
        }
    }

    #[test]
    fn roles_have_the_permissions_of_gates_that_are_on() {
        let gated: Vec<&Difference> =
            DIFFERENCES.iter().filter(|difference| matches!(difference.without, Gate(_))).collect();
        assert!(gated.len() > 5);
        for minor in Minor::SERVED {
            let on = GateSet::of(minor, |gate| gate.is_on || !gate.is_locked);
            let off = GateSet::of(minor, |gate| gate.is_on && gate.is_locked);
            let rules = |gates, difference: &Difference| {
                let objects = objects_with(&OptIn::version(minor).with_gates(gates));
                let is_role = |object: &&Value| {
                    object["kind"] == difference.kind && object["metadata"]["name"] == difference.role
                };
                objects.iter().find(is_role).unwrap()["rules"].to_string()
            };
            for difference in &gated {
                let Gate(name) = difference.without else { continue };
                let own: BTreeSet<bool> = [on, off].iter().map(|gates| gates.has(minor, name)).collect();
                let alone = GateSet::of(minor, |gate| match gate.name == name && !gate.is_locked {
                    true => !gate.is_on,
                    false => gate.is_on,
                });
                let is_changed = rules(alone, difference) != rules(GateSet::DEFAULT, difference);
                assert_eq!(is_changed, own.len() == 2, "{minor} {name} {}", difference.role);
            }
        }
    }

    #[test]
    fn a_server_without_optional_kinds_has_the_default_roles() {
        assert_eq!(objects_with(&OptIn::version(Minor::V36)), super::super::objects());
    }

    #[test]
    fn a_rule_without_a_resource_of_a_group_keeps_everything_else() {
        let rule = json!({"apiGroups": ["", "b"], "resources": ["c", "d"], "verbs": ["get"]});
        let parts = without(&rule, "b", "c");
        assert_eq!(
            parts,
            [
                json!({"apiGroups": [""], "resources": ["c", "d"], "verbs": ["get"]}),
                json!({"apiGroups": ["b"], "resources": ["d"], "verbs": ["get"]}),
            ]
        );
        assert_eq!(without(&rule, "e", "c"), [rule]);
        let alone = json!({"apiGroups": ["b"], "resources": ["c"], "verbs": ["get"]});
        assert!(without(&alone, "b", "c").is_empty());
    }
}
