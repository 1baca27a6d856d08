//! Recorded answers of a Kubernetes server to writes of webhook configurations and policies.
//! `KSTORE_TRANSCRIPTS` names the folder of the recordings; without it the test prints a note and passes.

use crate::kind::{Kinds, OptIn, lookup};
use crate::object::{list, text};
use crate::patch::{json as json_patch, merge};
use crate::resource::Resource;
use crate::schema::decode::{Mode, normalize};
use crate::status::Status;
use crate::version::Minor;
use crate::{defaults, meta, schema, validate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PATH: &str = "/apis/admissionregistration.k8s.io/v1/";

fn lines(file: &str) -> Vec<Value> {
    let Some(folder) = std::env::var_os("KSTORE_TRANSCRIPTS") else {
        eprintln!("skipped: KSTORE_TRANSCRIPTS names no folder of recordings");
        return Vec::new();
    };
    let text = std::fs::read_to_string(std::path::PathBuf::from(folder).join(file)).unwrap();
    let text = text.replace("{{CA}}", "Q0E=").replace("{{HOOK}}", "https://127.0.0.1:8443");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn prepared(row: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    normalize(&mut object, schema::lookup(row.schema).unwrap(), Mode::Whole).unwrap();
    defaults::apply(row, &mut object);
    object
}

fn causes(status: &Value) -> BTreeSet<String> {
    list(&status["details"]["causes"])
        .iter()
        .map(|cause| {
            format!("{}: {} ({})", text(&cause["field"]), text(&cause["message"]), text(&cause["reason"]))
        })
        .collect()
}

/// The object that a recorded request would store, and the stored object that it replaces.
fn written(line: &Value, row: &Resource, stored: &BTreeMap<String, Value>) -> (Value, Option<Value>) {
    if line["method"] == "POST" {
        return (prepared(row, &line["body"]), None);
    }
    let old = stored[&format!("{}/{}", row.plural, text(&line["path"]).rsplit('/').next().unwrap())].clone();
    let new = match &line["body"] {
        Value::Array(_) => json_patch::apply(&old, &line["body"]).unwrap(),
        body => merge::apply(&old, body).unwrap(),
    };
    (prepared(row, &new), Some(old))
}

#[test]
fn admission_configuration_errors_match_recorded_ones() {
    let recorded_kinds = Kinds::new(OptIn::version(Minor::V36), &[], &[]);
    let (mut stored, mut compared, mut wrong) = (BTreeMap::new(), 0, Vec::new());
    for line in lines("webhooks.jsonl").into_iter().chain(lines("policies.jsonl")) {
        let (method, path) = (text(&line["method"]), text(&line["path"]));
        let is_write = ["POST", "PATCH"].contains(&method) && !path.ends_with("/status");
        let Some(rest) = path.strip_prefix(PATH).filter(|_| is_write && line["status"] != 403) else {
            continue;
        };
        let plural = rest.split(['/', '?']).next().unwrap();
        let row = recorded_kinds.lookup("admissionregistration.k8s.io", "v1", plural).unwrap();
        if text(&line["headers"]["Content-Type"]).contains("strategic") || path.contains("fieldManager") {
            continue;
        }
        let (new, old) = written(&line, row, &stored);
        let errors = match &old {
            None => validate::create(row, &new),
            Some(old) => validate::update(row, &new, old),
        };
        let status = json!(Status::invalid(row.group, row.kind, meta::name(&new), &errors));
        let recorded = if line["status"] == 422 { &line["response"] } else { &Value::Null };
        if causes(&status) != causes(recorded) {
            wrong.push(format!(
                "{}: {:#?}\n   recorded {:#?}",
                line["id"],
                causes(&status),
                causes(recorded)
            ));
        }
        if line["status"] != 422 && !path.contains("dryRun") {
            stored.insert(format!("{}/{}", row.plural, meta::name(&new)), new);
        }
        compared += 1;
    }
    eprintln!("compared {compared} answers");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn unchanged_match_conditions_are_not_validated_again() {
    let row = lookup("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies").unwrap();
    let policy = |conditions: Value, message: &str| {
        prepared(
            row,
            &json!({"metadata": {"name": "p", "resourceVersion": "1"}, "spec": {"matchConditions": conditions,
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]}]},
            "validations": [{"expression": "true", "message": message}]}}),
        )
    };
    let broken = json!([{"name": "c", "expression": "zork"}]);
    let old = policy(broken.clone(), "a");
    assert!(validate::update(row, &policy(broken.clone(), "b"), &old).is_empty());
    assert_eq!(validate::update(row, &policy(broken, "b"), &policy(json!([]), "b")).len(), 1);
}

#[test]
fn long_lists_of_expressions_are_validated_in_bounded_time() {
    let row = lookup("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies").unwrap();
    let policy = |variables: usize, validations: usize, expression: &str| {
        let list = |length: usize| -> Vec<Value> {
            (0..length).map(|i| json!({"name": format!("v{i}"), "expression": expression})).collect()
        };
        prepared(
            row,
            &json!({"metadata": {"name": "p"}, "spec": {"variables": list(variables), "validations": list(validations),
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]}]}}}),
        )
    };
    let refusals =
        |object: &Value| validate::create(row, object).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(refusals(&policy(256, 1, "true")), Vec::<String>::new());
    assert_eq!(
        refusals(&policy(4000, 1, "true")),
        ["spec.variables: Too many: 4000: must have at most 256 items"]
    );
    assert_eq!(refusals(&policy(200, 4000, "zork")).len(), crate::limits::ERRORS_MAX);
}
