//! Validation of PodGroups and Workloads: unions, names, and what an update may change. The generated rules of their types say the rest.
//! Of `v1alpha2`, which Kubernetes 1.36 has, nearly all of the spec is immutable; of `v1beta1`, which 1.37 has, counts of gangs are not.
//!
//! Follows `ValidatePodGroup`, `ValidateWorkload` and the marks of the types in `k8s.io/api/scheduling`.

use super::reference::{api_group, conditions};
use crate::check::{IMMUTABLE, each, grammar};
use crate::field::{ErrorList, Path};
use crate::name::{self, Faults};
use crate::object::{int, list, text};
use serde_json::Value;
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

/// Checks a new PodGroup of `v1beta1`.
pub(crate) fn create(group: &Value, errors: &mut ErrorList) {
    let spec = &group["spec"];
    let workload = &spec["workloadRef"];
    let path = SPEC.child("workloadRef");
    format(errors, &path.child("workloadName"), &workload["workloadName"], name::dns1123_subdomain);
    format(errors, &path.child("templateName"), &workload["templateName"], name::dns1123_label);
    policy(errors, &SPEC.child("schedulingPolicy"), &spec["schedulingPolicy"]);
    mode(errors, &SPEC.child("disruptionMode"), &spec["disruptionMode"]);
    priority_class(errors, &SPEC, spec);
}

/// Checks an update of a PodGroup of `v1beta1`.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    policy_change(
        errors,
        &SPEC.child("schedulingPolicy"),
        [&new["spec"]["schedulingPolicy"], &old["spec"]["schedulingPolicy"]],
    );
    mode_change(
        errors,
        &SPEC.child("disruptionMode"),
        [&new["spec"]["disruptionMode"], &old["spec"]["disruptionMode"]],
    );
}

/// Checks an update of the status of a PodGroup of `v1beta1`.
pub(crate) fn status(new: &Value, _: &Value, errors: &mut ErrorList) {
    conditions(errors, &STATUS, &new["status"]);
}

/// Checks a new Workload of `v1beta1`.
pub(crate) fn workload(workload: &Value, errors: &mut ErrorList) {
    let spec = &workload["spec"];
    priorities(spec, errors);
    let members = ["podGroupTemplates", "compositePodGroupTemplates"];
    if list(&spec["podGroupTemplates"]).is_empty() {
        errors.invalid(&SPEC, "", one_of(&members));
    }
    controller(errors, &spec["controllerRef"]);
    each(&SPEC, spec, "podGroupTemplates", |path, template| {
        format(errors, &path.child("name"), &template["name"], name::dns1123_label);
        policy(errors, &path.child("schedulingPolicy"), &template["schedulingPolicy"]);
        mode(errors, &path.child("disruptionMode"), &template["disruptionMode"]);
        priority_class(errors, path, template);
    });
    names(spec, errors);
}

/// Checks an update of a Workload of `v1beta1`: templates stay, and their counts may change.
pub(crate) fn workload_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let stored = list(&old["spec"]["podGroupTemplates"]);
    let find = |templates: &'_ [Value], name: &Value| templates.iter().position(|own| own["name"] == *name);
    let templates = list(&new["spec"]["podGroupTemplates"]);
    each(&SPEC, &new["spec"], "podGroupTemplates", |path, template| {
        let Some(at) = find(stored, &template["name"]) else {
            errors.forbidden(path, "item may not be added");
            return;
        };
        let before = &stored[at];
        let members = [&template["schedulingPolicy"], &before["schedulingPolicy"]];
        policy_change(errors, &path.child("schedulingPolicy"), members);
        let members = [&template["disruptionMode"], &before["disruptionMode"]];
        mode_change(errors, &path.child("disruptionMode"), members);
    });
    for _ in stored.iter().filter(|own| find(templates, &own["name"]).is_none()) {
        errors.forbidden(&SPEC.child("podGroupTemplates"), "item may not be removed");
    }
    names(&new["spec"], errors);
}

/// Checks a new PodGroup of `v1alpha2`.
pub(crate) fn alpha_create(group: &Value, errors: &mut ErrorList) {
    let spec = &group["spec"];
    let reference = &spec["podGroupTemplateRef"];
    let path = SPEC.child("podGroupTemplateRef");
    if reference.is_object() {
        union(errors, &path, reference, &["workload"]);
    }
    let (path, workload) = (path.child("workload"), &reference["workload"]);
    format(errors, &path.child("workloadName"), &workload["workloadName"], name::dns1123_subdomain);
    let own = &workload["podGroupTemplateName"];
    format(errors, &path.child("podGroupTemplateName"), own, name::dns1123_label);
    policy(errors, &SPEC.child("schedulingPolicy"), &spec["schedulingPolicy"]);
}

/// Checks an update of the status of a PodGroup of `v1alpha2`.
pub(crate) fn alpha_status(new: &Value, _: &Value, errors: &mut ErrorList) {
    conditions(errors, &STATUS, &new["status"]);
}

/// Checks a new Workload of `v1alpha2`.
pub(crate) fn alpha_workload(workload: &Value, errors: &mut ErrorList) {
    let spec = &workload["spec"];
    controller(errors, &spec["controllerRef"]);
    each(&SPEC, spec, "podGroupTemplates", |path, template| {
        format(errors, &path.child("name"), &template["name"], name::dns1123_label);
        policy(errors, &path.child("schedulingPolicy"), &template["schedulingPolicy"]);
    });
    names(spec, errors);
}

/// Checks the form of a text that is not empty; a generated rule refuses the empty one where the member is required.
fn format(errors: &mut ErrorList, path: &Path<'_>, value: &Value, faults: fn(&str) -> Faults) {
    let own = text(value);
    if !own.is_empty() {
        grammar(errors, path, own, faults(own));
    }
}

fn priority_class(errors: &mut ErrorList, path: &Path<'_>, owner: &Value) {
    let path = path.child("priorityClassName");
    format(errors, &path, &owner["priorityClassName"], name::dns1123_subdomain);
}

fn controller(errors: &mut ErrorList, controller: &Value) {
    let path = SPEC.child("controllerRef");
    if !text(&controller["apiGroup"]).is_empty() {
        api_group(errors, &path.child("apiGroup"), &controller["apiGroup"]);
    }
    format(errors, &path.child("kind"), &controller["kind"], name::path_segment);
    format(errors, &path.child("name"), &controller["name"], name::path_segment);
}

/// Checks that the templates of a Workload have different names.
fn names(spec: &Value, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    each(&SPEC, spec, "podGroupTemplates", |path, template| {
        if !seen.insert(text(&template["name"]).to_owned()) {
            errors.duplicate(path, template);
        }
    });
}

/// Checks that all templates of a Workload have one priority.
fn priorities(spec: &Value, errors: &mut ErrorList) {
    let of = |template: &Value| {
        let given = template["priority"].is_number();
        (text(&template["priorityClassName"]).to_owned(), given, int(&template["priority"]))
    };
    let mut templates = list(&spec["podGroupTemplates"]).iter().map(of);
    let first = templates.next();
    if templates.any(|other| first.as_ref() != Some(&other)) {
        errors.invalid(&SPEC, &Value::Null, "detected multiple priority configurations");
    }
}

fn policy(errors: &mut ErrorList, path: &Path<'_>, policy: &Value) {
    union(errors, path, policy, &["basic", "gang"]);
}

fn policy_change(errors: &mut ErrorList, path: &Path<'_>, [new, old]: [&Value; 2]) {
    let is_set = |policy: &Value, member: &str| !policy[member].is_null();
    let of = |policy: &Value| [is_set(policy, "basic"), is_set(policy, "gang")];
    if of(new) != of(old) {
        union(errors, path, new, &["basic", "gang"]);
    }
    if is_set(new, "basic") != is_set(old, "basic") {
        errors.invalid(&path.child("basic"), &Value::Null, IMMUTABLE);
    }
    match (is_set(old, "gang"), is_set(new, "gang")) {
        (false, true) => {
            errors.invalid(&path.child("gang"), &Value::Null, "field cannot be set once created");
        }
        (true, false) => {
            errors.invalid(&path.child("gang"), &Value::Null, "field cannot be cleared once set");
        }
        _ => {}
    }
}

fn mode(errors: &mut ErrorList, path: &Path<'_>, mode: &Value) {
    if mode.is_object() {
        union(errors, path, mode, &["single", "all"]);
    }
}

/// Checks that the disruption mode stays. Its members have no content, so that a comparison of content finds no difference.
fn mode_change(errors: &mut ErrorList, path: &Path<'_>, modes: [&Value; 2]) {
    let [new, old] = modes.map(|mode| ["single", "all"].map(|member| !mode[member].is_null()));
    if new != old {
        errors.invalid(path, &Value::Null, IMMUTABLE);
    }
}

/// Checks that exactly one member of a union is set.
fn union(errors: &mut ErrorList, path: &Path<'_>, value: &Value, members: &[&str]) {
    let given: Vec<&str> = members.iter().copied().filter(|member| !value[*member].is_null()).collect();
    match given.len() {
        0 => errors.invalid(path, "", one_of(members)),
        1 => {}
        _ => {
            let detail = format!("must specify exactly one of: {}", quoted(members));
            errors.invalid(path, &format!("{{{}}}", given.join(", ")), detail);
        }
    }
}

fn one_of(members: &[&str]) -> String {
    format!("must specify one of: {}", quoted(members))
}

fn quoted(members: &[&str]) -> String {
    members.iter().map(|member| format!("`{member}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::kind::known_in;
    use crate::resource::Resource;
    use crate::version::Minor;
    use crate::{defaults, strategy, validate};
    use serde_json::{Value, json};

    const VERSIONS: [(Minor, &str); 2] =
        [(Minor::V36, "scheduling.k8s.io/v1alpha2"), (Minor::V37, "scheduling.k8s.io/v1beta1")];

    fn row(minor: Minor, kind: &str) -> &'static Resource {
        let version = VERSIONS.iter().find(|(own, _)| *own == minor).unwrap().1;
        known_in(minor, version, kind).unwrap()
    }

    /// An object as the validation of a create sees it.
    fn prepared(minor: Minor, kind: &str, spec: &Value) -> Value {
        let row = row(minor, kind);
        let mut object = json!({
            "apiVersion": row.api_version(), "kind": kind, "metadata": {"name": "a", "namespace": "b"}, "spec": spec,
        });
        defaults::apply(row, &mut object);
        strategy::prepare_create(row, &mut object);
        object
    }

    fn created(minor: Minor, kind: &str, spec: &Value) -> Vec<String> {
        let errors = validate::create(row(minor, kind), &prepared(minor, kind, spec));
        errors.iter().map(ToString::to_string).collect()
    }

    fn updated(minor: Minor, kind: &str, new: &Value, old: &Value) -> Vec<String> {
        let [mut new, mut old] = [new, old].map(|spec| prepared(minor, kind, spec));
        for object in [&mut new, &mut old] {
            object["metadata"]["resourceVersion"] = "1".into();
        }
        let errors = validate::update(row(minor, kind), &new, &old);
        errors.iter().map(ToString::to_string).collect()
    }

    fn gang(count: i64) -> Value {
        json!({"gang": {"minCount": count}})
    }

    #[test]
    fn a_group_has_one_policy_and_a_gang_at_least_one_pod() {
        let policy = "spec.schedulingPolicy";
        for (minor, _) in VERSIONS {
            let of = |policy: Value| created(minor, "PodGroup", &json!({ "schedulingPolicy": policy }));
            assert_eq!(of(gang(1)), [""; 0], "{minor}");
            assert_eq!(of(json!({"basic": {}})), [""; 0], "{minor}");
            let one = format!("{policy}: Invalid value: \"\": must specify one of: `basic`, `gang`");
            assert_eq!(of(json!({})), [one], "{minor}");
            let both = of(json!({"basic": {}, "gang": {"minCount": 1}}));
            let text = "Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`";
            assert_eq!(both, [format!("{policy}: {text}")], "{minor}");
            assert_eq!(of(gang(0)), [format!("{policy}.gang.minCount: Required value")], "{minor}");
            let least = "Invalid value: -1: must be greater than or equal to 1";
            assert_eq!(of(gang(-1)), [format!("{policy}.gang.minCount: {least}")], "{minor}");
        }
    }

    #[test]
    fn the_counts_of_gangs_change_in_1_37_and_the_policy_does_not() {
        let change = |minor, new: &Value, old: &Value| {
            let of = |policy: &Value| json!({ "schedulingPolicy": policy });
            updated(minor, "PodGroup", &of(new), &of(old))
        };
        let immutable = "Invalid value: null: field is immutable";
        assert_eq!(change(Minor::V36, &gang(2), &gang(1)), [format!("spec.schedulingPolicy: {immutable}")]);
        assert_eq!(change(Minor::V37, &gang(2), &gang(1)), [""; 0]);
        let zero = "spec.schedulingPolicy.gang.minCount: Required value";
        assert_eq!(change(Minor::V37, &gang(0), &gang(1)), [zero]);
        let basic = json!({"basic": {}});
        let cleared = "Invalid value: null: field cannot be cleared once set";
        assert_eq!(
            change(Minor::V37, &basic, &gang(1)),
            [
                format!("spec.schedulingPolicy.basic: {immutable}"),
                format!("spec.schedulingPolicy.gang: {cleared}")
            ]
        );
        let set = "Invalid value: null: field cannot be set once created";
        assert_eq!(
            change(Minor::V37, &gang(1), &basic),
            [
                format!("spec.schedulingPolicy.basic: {immutable}"),
                format!("spec.schedulingPolicy.gang: {set}")
            ]
        );
        let mode = |member: &str| json!({"schedulingPolicy": basic, "disruptionMode": {member: {}}});
        assert_eq!(
            updated(Minor::V37, "PodGroup", &mode("all"), &mode("single")),
            [format!("spec.disruptionMode: {immutable}")]
        );
    }

    #[test]
    fn a_group_names_its_template_in_the_form_of_its_version() {
        let alpha = |reference: Value| {
            let spec = json!({"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": reference});
            created(Minor::V36, "PodGroup", &spec)
        };
        let path = "spec.podGroupTemplateRef";
        let whole = json!({"workload": {"workloadName": "w.x", "podGroupTemplateName": "t"}});
        assert_eq!(alpha(whole), [""; 0]);
        assert_eq!(
            alpha(json!({})),
            [format!("{path}: Invalid value: \"\": must specify one of: `workload`")]
        );
        let wrong = alpha(json!({"workload": {"workloadName": "", "podGroupTemplateName": "A"}}));
        assert!(
            wrong[0].starts_with(&format!("{path}.workload.podGroupTemplateName: Invalid value: \"A\"")),
            "{wrong:?}"
        );
        assert_eq!(wrong[1..], [format!("{path}.workload.workloadName: Required value")]);
        let beta = |reference: Value, priority: i64| {
            let spec = json!({"schedulingPolicy": {"basic": {}}, "workloadRef": reference, "priority": priority,
                "priorityClassName": "p"});
            created(Minor::V37, "PodGroup", &spec)
        };
        assert_eq!(beta(json!({"workloadName": "w.x", "templateName": "t"}), 1), [""; 0]);
        let most = "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000";
        assert_eq!(
            beta(json!({"workloadName": "w"}), 1_000_000_001),
            ["spec.workloadRef.templateName: Required value", most]
        );
    }

    #[test]
    fn defaults_and_members_of_features_that_are_off_are_those_of_the_version() {
        let spec = json!({
            "schedulingPolicy": {"basic": {}}, "priorityClassName": "p", "priority": 3,
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
            "resourceClaims": [{"name": "c", "resourceClaimName": "d"}],
        });
        let alpha = prepared(Minor::V36, "PodGroup", &spec);
        assert_eq!(alpha["spec"], json!({"schedulingPolicy": {"basic": {}}}));
        let beta = prepared(Minor::V37, "PodGroup", &spec);
        let kept = json!({
            "schedulingPolicy": {"basic": {}}, "priorityClassName": "p", "priority": 3, "disruptionMode": {"single": {}},
        });
        assert_eq!(beta["spec"], kept);
    }

    #[test]
    fn a_workload_has_at_most_eight_templates_with_names_of_their_own() {
        let template = |name: &str| json!({"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}});
        for (minor, _) in VERSIONS {
            let of = |names: &[&str]| {
                let templates: Vec<Value> = names.iter().map(|name| template(name)).collect();
                created(minor, "Workload", &json!({ "podGroupTemplates": templates }))
            };
            assert_eq!(of(&["a", "b"]), [""; 0], "{minor}");
            let twice = of(&["a", "a"]);
            assert!(
                twice.len() == 1 && twice[0].starts_with("spec.podGroupTemplates[1]: Duplicate value"),
                "{twice:?}"
            );
            let many = of(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
            assert_eq!(many, ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"], "{minor}");
            let unnamed = of(&[""]);
            assert_eq!(unnamed, ["spec.podGroupTemplates[0].name: Required value"], "{minor}");
            let none = match minor {
                Minor::V36 => "spec.podGroupTemplates: Required value",
                _ => {
                    "spec: Invalid value: \"\": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
                }
            };
            assert_eq!(of(&[]), [none], "{minor}");
            let controller = json!({"podGroupTemplates": [template("a")], "controllerRef": {"apiGroup": "A", "kind": "a/b"}});
            let wrong = created(minor, "Workload", &controller);
            assert!(wrong[0].starts_with("spec.controllerRef.apiGroup: Invalid value: \"A\""), "{wrong:?}");
            assert!(wrong[1].starts_with("spec.controllerRef.kind: Invalid value: \"a/b\""), "{wrong:?}");
            assert_eq!(wrong[2..], ["spec.controllerRef.name: Required value"], "{minor}");
        }
        let two = |priority: i64| {
            let mut other = template("b");
            other["priority"] = priority.into();
            json!({"podGroupTemplates": [template("a"), other]})
        };
        let mixed = created(Minor::V37, "Workload", &two(5));
        assert_eq!(mixed, ["spec: Invalid value: null: detected multiple priority configurations"]);
        assert_eq!(created(Minor::V36, "Workload", &two(5)), [""; 0], "1.36 drops priorities");
    }

    #[test]
    fn templates_of_a_workload_stay_and_their_counts_change_in_1_37() {
        let of = |templates: &[(&str, i64)]| {
            let one = |(name, count): &(&str, i64)| json!({"name": name, "schedulingPolicy": gang(*count)});
            json!({"podGroupTemplates": templates.iter().map(one).collect::<Vec<_>>()})
        };
        let old = of(&[("a", 1), ("b", 1)]);
        let immutable = "spec.podGroupTemplates: Invalid value: null: field is immutable";
        assert_eq!(updated(Minor::V36, "Workload", &of(&[("a", 1), ("b", 2)]), &old), [immutable]);
        let change = |new: &Value| updated(Minor::V37, "Workload", new, &old);
        assert_eq!(change(&of(&[("b", 3), ("a", 2)])), [""; 0], "the order does not matter");
        assert_eq!(
            change(&of(&[("a", 1), ("c", 1)])),
            [
                "spec.podGroupTemplates[1]: Forbidden: item may not be added",
                "spec.podGroupTemplates: Forbidden: item may not be removed"
            ]
        );
        assert_eq!(
            change(&of(&[("a", 0), ("b", 1)])),
            ["spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value"]
        );
    }

    #[test]
    fn a_status_has_whole_conditions() {
        for (minor, _) in VERSIONS {
            let row = row(minor, "PodGroup");
            let group = |conditions: Value| {
                let mut group = prepared(minor, "PodGroup", &json!({"schedulingPolicy": {"basic": {}}}));
                group["metadata"]["resourceVersion"] = "1".into();
                group["status"] = json!({ "conditions": conditions });
                group
            };
            let check = |conditions: Value| {
                let errors =
                    validate::update_subresource(row, "status", &group(conditions), &group(json!([])));
                errors.iter().map(|error| error.field.clone()).collect::<Vec<_>>()
            };
            let whole = json!([{"type": "T", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            assert_eq!(check(whole), [""; 0], "{minor}");
            let wrong = check(json!([{"type": "T", "status": "Yes", "reason": "R"}]));
            assert_eq!(
                wrong,
                ["status.conditions[0].status", "status.conditions[0].lastTransitionTime"],
                "{minor}"
            );
        }
    }
}
