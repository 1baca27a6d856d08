//! Table tests of validation: each file has a valid object per topic, and small changes with their errors. A
//! change is a JSON pointer and a value (`-` appends to a list, null removes). `before` changes the stored
//! object too, `set` only the new one.

use super::{complete, judged};
use crate::strategy;
use crate::version::Minor;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topic {
    base: Value,
    #[serde(default)]
    create: Vec<Case>,
    #[serde(default)]
    update: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Subresource of an update; empty for the object itself.
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    before: Map<String, Value>,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    errors: Vec<String>,
}

/// Sets a value at a JSON pointer, adding missing objects.
fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let mut at = object;
    for step in parent.split('/').skip(1) {
        at = enter(at, &step.replace("~1", "/"));
    }
    let last = last.replace("~1", "/");
    if !value.is_null() {
        *enter(at, &last) = value.clone();
    } else if at.is_array() {
        at.as_array_mut().unwrap().remove(last.parse().unwrap());
    } else {
        at.as_object_mut().unwrap().remove(&last);
    }
}

fn enter<'o>(at: &'o mut Value, step: &str) -> &'o mut Value {
    if at.is_null() {
        *at = Value::Object(Map::new());
    }
    if at.is_array() {
        let items = at.as_array_mut().unwrap();
        if step == "-" {
            items.push(Value::Null);
        }
        let i = if step == "-" { items.len() - 1 } else { step.parse().unwrap() };
        return &mut items[i];
    }
    &mut at[step]
}

fn put_all(object: &mut Value, changes: &Map<String, Value>) {
    for (pointer, value) in changes {
        put(object, pointer, value);
    }
}

fn created(minor: Minor, topic: &Topic, case: &Case) -> Vec<String> {
    let mut object = topic.base.clone();
    put_all(&mut object, &case.before);
    put_all(&mut object, &case.set);
    let row = complete(minor, &mut object);
    strategy::prepare_create(row, &mut object);
    crate::validate::create(row, &object).iter().map(ToString::to_string).collect()
}

fn updated(minor: Minor, topic: &Topic, case: &Case) -> Vec<String> {
    let mut old = topic.base.clone();
    put_all(&mut old, &case.before);
    complete(minor, &mut old);
    let mut new = old.clone();
    put_all(&mut new, &case.set);
    let row = complete(minor, &mut new);
    strategy::prepare_update(row, &case.subresource, &mut new, &old);
    let errors = crate::validate::update_subresource(row, &case.subresource, &new, &old);
    errors.iter().map(ToString::to_string).collect()
}

fn check(file: &str) {
    let topics: Vec<Topic> = serde_yaml_ng::from_str(file).unwrap();
    let mut wrong = Vec::new();
    for topic in &topics {
        let good = Case {
            name: format!("as it is: {}", topic.base),
            subresource: String::new(),
            before: Map::new(),
            set: Map::new(),
            errors: Vec::new(),
        };
        wrong.extend(judged(&good.name, &[], |minor| created(minor, topic, &good)));
        for case in &topic.create {
            wrong.extend(judged(&case.name, &case.errors, |minor| created(minor, topic, case)));
        }
        for case in &topic.update {
            wrong.extend(judged(&case.name, &case.errors, |minor| updated(minor, topic, case)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn container_errors_match_kubernetes() {
    check(include_str!("container.yaml"));
}

#[test]
fn pod_spec_errors_match_kubernetes() {
    check(include_str!("pod_spec.yaml"));
}

#[test]
fn pod_volume_errors_match_kubernetes() {
    check(include_str!("pod_volume.yaml"));
}

#[test]
fn pod_update_errors_match_kubernetes() {
    check(include_str!("pod_change.yaml"));
}

#[test]
fn stored_objects_may_keep_breaking_newer_rules() {
    check(include_str!("ratchet.yaml"));
}

#[test]
fn service_errors_match_kubernetes() {
    check(include_str!("service.yaml"));
}

#[test]
fn workload_errors_match_kubernetes() {
    check(include_str!("workload.yaml"));
}

#[test]
fn job_and_cron_job_errors_match_kubernetes() {
    check(include_str!("batch.yaml"));
}

#[test]
fn errors_of_other_core_kinds_match_kubernetes() {
    check(include_str!("core.yaml"));
}
