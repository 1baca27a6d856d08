//! Recorded answers of a Kubernetes server to requests with policies. `KSTORE_TRANSCRIPTS` names the folder
//! of the recordings; without it the test prints a note and passes.

use super::{Call, Server};
use crate::admission::attributes::Operation;
use crate::admission::tests::replay::{content, lines, target};
use crate::object::{list, text};
use crate::patch::merge;
use crate::resource::Resource;
use crate::{defaults, meta, schema};
use serde_json::Value;

/// The object of a write as admission sees it.
fn object_of(line: &Value, row: &Resource, namespace: &str, old: Option<&Value>) -> Value {
    let mut object = match (text(&line["method"]), old) {
        ("PATCH", Some(old)) => merge::apply(old, &line["body"]).unwrap(),
        _ => line["body"].clone(),
    };
    meta::set_namespace(&mut object, namespace);
    let _ = schema::decode::normalize(
        &mut object,
        schema::lookup(row.schema).unwrap(),
        schema::decode::Mode::Whole,
    );
    defaults::apply(row, &mut object);
    object
}

/// Parameters that were created before the recorded server had loaded the policies that refuse them.
const SET_UP: [&str; 4] = ["policies-131", "policies-132", "policies-133", "policies-241"];

fn compare(server: &mut Server, line: &Value, wrong: &mut Vec<String>) -> bool {
    let (id, path) = (text(&line["id"]), text(&line["path"]));
    let Some(target) = target(path).filter(|target| target.subresource.is_empty()) else { return false };
    if SET_UP.contains(&id) {
        let key = (target.row.plural.to_owned(), target.namespace, meta::name(&line["response"]).to_owned());
        server.objects.insert(key, line["response"].clone());
        return false;
    }
    // A line that only validation refuses, and the deletion of a collection.
    if id == "policies-254"
        || (target.name.is_empty() && line["method"] == "DELETE")
        || line["method"] == "GET"
    {
        return false;
    }
    let name = if target.name.is_empty() { meta::name(&line["body"]) } else { &target.name };
    let key = (target.row.plural.to_owned(), target.namespace.clone(), name.to_owned());
    let old = server.objects.get(&key).cloned();
    let operation = match (text(&line["method"]), &old) {
        ("DELETE", _) => Operation::Delete,
        (_, Some(_)) => Operation::Update,
        (_, None) => Operation::Create,
    };
    let object = (operation != Operation::Delete)
        .then(|| object_of(line, target.row, &target.namespace, old.as_ref()));
    let dry_run = path.contains("dryRun=All");
    let (object, outcome) = server.admit(Call {
        operation,
        row: target.row,
        subresource: "",
        namespace: &target.namespace,
        name,
        dry_run,
        object,
        old_object: old,
    });
    let recorded: Vec<&str> = list(&line["warnings"]).iter().map(text).collect();
    let said: Vec<String> =
        outcome.warnings.iter().map(|text| format!("299 - {}", Value::from(&**text))).collect();
    if said != recorded {
        wrong.push(format!("{id}: warnings {said:?}, recorded {recorded:?}"));
    }
    match (outcome.denial, line["status"].as_u64().unwrap()) {
        (None, 200 | 201) => {
            if let Some(object) = &object
                && target.row.plural == "configmaps"
                && content(object) != content(&line["response"])
            {
                wrong.push(format!("{id}: {object}, recorded {}", line["response"]));
            }
            match (object, dry_run) {
                (_, true) => {}
                (Some(object), _) => drop(server.objects.insert(key, object)),
                (None, _) => drop(server.objects.remove(&key)),
            }
        }
        (None, status) => {
            wrong.push(format!("{id}: admitted, recorded {status}: {}", line["response"]["message"]));
        }
        (Some(status), _) => {
            let status = serde_json::to_value(status).unwrap();
            if status != line["response"] && status != line["other"]["response"] {
                wrong.push(format!("{id}: {status}\n   recorded {}", line["response"]));
            }
        }
    }
    true
}

#[test]
fn policy_decisions_match_recorded_answers() {
    let (mut server, mut compared, mut wrong) = (Server::default(), 0, Vec::new());
    for line in lines("policies.jsonl") {
        if line.get("id").is_none() || server.configure(&line) {
            continue;
        }
        compared += usize::from(compare(&mut server, &line, &mut wrong));
    }
    eprintln!("compared {compared} answers");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
