//! Tests of the rules: those of the file, and what they make of objects in each version.

use super::{RULES, Rule};
use crate::kind::{Kinds, OptIn};
use crate::resource::Resource;
use crate::schema::{Elem, Shape, all_minor};
use crate::validate;
use crate::version::Minor;
use serde_json::{Value, json};

fn row(minor: Minor, group: &str, version: &str, plural: &str) -> &'static Resource {
    Kinds::new(OptIn::version(minor), &[], &[]).lookup(group, version, plural).unwrap()
}

#[test]
fn every_rule_is_about_a_member_of_a_version_that_enforces_it_and_fits_its_type() {
    assert!(RULES.len() > 75, "{} members", RULES.len());
    for ((package, ty, member), rules) in RULES.iter() {
        let of = |minor| all_minor(minor).find(|own| own.package.short == *package && own.name == *ty);
        let found = of(if *package == "scheduling/v1alpha2" { Minor::V36 } else { Minor::V37 });
        let field =
            found.and_then(|ty| ty.field(member)).unwrap_or_else(|| panic!("{package} {ty} {member}"));
        for line in rules {
            let rule = line.rule;
            let fits = match rule {
                Rule::Required | Rule::Immutable | Rule::NoModify => true,
                Rule::Minimum(_) | Rule::Maximum(_) => matches!(field.elem, Elem::Int32 | Elem::Int64),
                Rule::MaxItems(_) => field.shape == Shape::List,
                Rule::MaxLength(_) | Rule::MaxBytes(_) => field.elem == Elem::String,
            };
            assert!(fits, "{package} {ty} {member} {rule:?}");
        }
    }
}

/// The errors of a new object in a version, without those of other fields.
fn created(
    minor: Minor,
    (group, version, plural): (&str, &str, &str),
    object: &Value,
    field: &str,
) -> Vec<String> {
    let errors = validate::create(row(minor, group, version, plural), object);
    errors.iter().filter(|error| error.field == field).map(ToString::to_string).collect()
}

const SCALERS: (&str, &str, &str) = ("autoscaling", "v2", "horizontalpodautoscalers");

#[test]
fn generated_errors_take_the_place_of_hand_written_ones_since_1_37() {
    let scaler = |most: i64| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"maxReplicas": most, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "c"}}})
    };
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "a", "namespace": "b"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]});
    let roles = ("rbac.authorization.k8s.io", "v1", "roles");
    let job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a", "namespace": "b"},
        "spec": {"schedule": "", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {}}}});
    for (kind, object, field, former, present) in [
        (
            SCALERS,
            &scaler(0),
            "spec.maxReplicas",
            "Required value: must be set and greater than 0",
            "Required value",
        ),
        (
            SCALERS,
            &scaler(-1),
            "spec.maxReplicas",
            "Invalid value: -1: must be greater than or equal to 1",
            "Invalid value: -1: must be greater than or equal to 1",
        ),
        (
            roles,
            &role,
            "rules[0].verbs",
            "Required value: verbs must contain at least one value",
            "Required value",
        ),
        (("batch", "v1", "cronjobs"), &job, "spec.schedule", "Required value", "Required value"),
    ] {
        for (minor, text) in [(Minor::V36, former), (Minor::V37, present)] {
            let errors = created(minor, kind, object, field);
            let bound = errors.iter().filter(|error| !error.contains("`minReplicas`")).collect::<Vec<_>>();
            assert_eq!(bound, [&format!("{field}: {text}")], "{minor}");
        }
    }
}

#[test]
fn an_update_is_judged_by_what_it_changes() {
    let class = |provisioner: &str, label: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "a", "resourceVersion": "1", "labels": {"l": label}},
            "provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
    };
    let update = |minor, new: &Value, old: &Value| {
        let row = row(minor, "storage.k8s.io", "v1", "storageclasses");
        let errors = validate::update(row, new, old);
        errors
            .iter()
            .filter(|error| error.field == "provisioner")
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let (old, moved) = (class("example.com/a", "x"), class("example.com/b", "x"));
    let shown = |minor| update(minor, &moved, &old);
    assert_eq!(shown(Minor::V37), ["provisioner: Invalid value: null: field is immutable"]);
    assert_eq!(shown(Minor::V36).len(), 1);
    assert!(!shown(Minor::V36)[0].contains("null"), "{:?}", shown(Minor::V36));
    // A stored object without a provisioner keeps it so: the hand-written rule decides about that.
    let unset = |label| class("", label);
    let kept = update(Minor::V37, &unset("y"), &unset("x"));
    assert_eq!(kept, update(Minor::V36, &unset("y"), &unset("x")));
}

#[test]
fn items_of_a_list_with_keys_are_updates_of_the_items_with_the_same_keys() {
    let slice = |addresses: usize| {
        let addresses: Vec<String> = (0..addresses).map(|at| format!("10.0.0.{at}")).collect();
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "a", "namespace": "b", "resourceVersion": "1"}, "endpoints": [{"addresses": addresses}]})
    };
    let row = row(Minor::V37, "discovery.k8s.io", "v1", "endpointslices");
    let errors = validate::create(row, &slice(101));
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]);
    let none = validate::create(row, &slice(0));
    let shown: Vec<String> = none.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["endpoints[0].addresses: Required value"]);
}
