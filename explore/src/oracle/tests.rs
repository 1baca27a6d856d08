//! Tools for the tables of the oracles: logs of writes and requests in short forms.

use super::*;
use crate::record::{Effect, ObjectKey, RecordedRequest, RecordedWrite, StoredObject};
use crate::scenario::ObjectRef;
use serde_json::{Value, json};
use std::path::Path;

/// A scenario without steps, with further members.
pub(crate) fn scenario(more: &str) -> Scenario {
    let head = "apiVersion: explore.kstore.io/v1alpha1\nkind: Scenario\nmetadata: {name: t}\nsteps: []\n";
    Scenario::parse(&format!("{head}{more}"), Path::new("t.yaml")).unwrap()
}

/// The key of `configmaps/default/a`.
pub(crate) fn key(text: &str) -> ObjectKey {
    let ObjectRef { resource, namespace, name } = ObjectRef::parse(text).unwrap();
    ObjectKey { resource, namespace, name }
}

/// An object with a UID and a value.
pub(crate) fn object(text: &str, uid: &str, value: Value) -> Value {
    let key = key(text);
    let mut object = json!({"metadata": {"name": key.name, "uid": uid}, "spec": value});
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = json!(key.namespace);
    }
    object
}

pub(crate) fn stored(text: &str, uid: &str, value: Value) -> StoredObject {
    StoredObject { resource: key(text).resource, object: object(text, uid, value) }
}

/// A write by `client` from one spec to another; `null` is no object.
pub(crate) fn write(revision: i64, client: &str, text: &str, before: Value, after: Value) -> RecordedWrite {
    let some = |value: Value| (!value.is_null()).then(|| object(text, "u1", value));
    let (before, after) = (some(before), some(after));
    let (verb, effect) = match (&before, &after) {
        (None, _) => ("create", Effect::Created),
        (_, None) => ("delete", Effect::Deleted),
        _ => ("update", Effect::Updated),
    };
    RecordedWrite {
        revision,
        real: u64::try_from(revision).unwrap() * 10,
        time: 0,
        client: client.to_owned(),
        incarnation: 0,
        verb: verb.to_owned(),
        key: key(text),
        effect,
        before,
        after,
        views: Vec::new(),
        causes: Vec::new(),
    }
}

pub(crate) fn request(n: u64, client: &str, verb: &str, text: &str, code: u16) -> RecordedRequest {
    let key = key(text);
    RecordedRequest {
        n,
        real: n * 10,
        took: 0,
        client: client.to_owned(),
        verb: verb.to_owned(),
        resource: key.resource,
        subresource: String::new(),
        namespace: key.namespace,
        name: key.name,
        version: "unset".to_owned(),
        code,
        revision: 1,
        fault: String::new(),
    }
}

/// A record of these writes.
pub(crate) fn run(writes: Vec<RecordedWrite>) -> RunRecord {
    RunRecord { writes, ..RunRecord::empty() }
}

/// Judges a run beside references by one oracle. The tested program is `op`.
pub(crate) fn judged(
    scenario: &Scenario,
    references: &[RunRecord],
    run: &RunRecord,
    oracle: impl Fn(&Evidence<'_>) -> Vec<Verdict>,
) -> Vec<Verdict> {
    let ends: Vec<&[StoredObject]> = references.iter().map(|reference| &*reference.end).collect();
    let normaliser = match ends.is_empty() {
        true => Normaliser::new(scenario, &[]),
        false => Normaliser::new(scenario, &[]).learn(&ends),
    };
    let references: Vec<Reference> = references
        .iter()
        .map(|record| Reference { end: normaliser.normalise(&record.end), record: record.clone() })
        .collect();
    let (end, programs) = (normaliser.normalise(&run.end), ["op".to_owned()]);
    let evidence = Evidence {
        scenario,
        references: &references,
        normaliser: &normaliser,
        run,
        end: &end,
        programs: &programs,
    };
    oracle(&evidence)
}

/// Asserts which runs of a table an oracle rejects.
pub(crate) fn table(
    oracle: impl Fn(&Evidence<'_>) -> Vec<Verdict> + Copy,
    reference: &RunRecord,
    rows: &[(&str, RunRecord, bool)],
) {
    let scenario = scenario("");
    for (name, run, is_rejected) in rows {
        let verdicts = judged(&scenario, std::slice::from_ref(reference), run, oracle);
        assert_eq!(!verdicts.is_empty(), *is_rejected, "{name}: {verdicts:?}");
    }
}

#[test]
fn severities_of_the_scenario_replace_those_of_the_oracles() {
    let scenario = scenario("severity: {end-state: note}\n");
    let reference =
        RunRecord { end: vec![stored("configmaps/default/a", "u", json!({}))], ..RunRecord::empty() };
    let found = judged(&scenario, &[reference], &RunRecord::empty(), judge);
    assert_eq!(found[0].key().0, OracleId::EndState);
    assert_eq!(found[0].severity, Severity::Note);
}

#[test]
fn a_reference_is_judged_by_the_oracles_that_need_none() {
    let mut run = run(vec![]);
    run.ended = crate::record::RunEnd::Busy(vec!["client op: 1 request in flight".to_owned()]);
    let oracles = |run: &RunRecord| {
        let found = judged(&scenario(""), &[], run, judge);
        found.iter().map(|verdict| verdict.oracle).collect::<Vec<_>>()
    };
    assert_eq!(oracles(&run), [OracleId::Stuck]);
    // A program that asks without pause, or ends by itself, does so without a fault, too.
    let mut run = RunRecord::empty();
    run.requests = (0..60).map(|n| request(n, "op", "get", "configmaps/default/a", 404)).collect();
    let exit = crate::record::RecordedExit {
        program: "op".to_owned(),
        code: 1,
        output: String::new(),
        after_fault: false,
    };
    run.exits = vec![exit];
    assert_eq!(oracles(&run), [OracleId::RequestStorm, OracleId::Exit]);
}

#[test]
fn every_oracle_has_its_own_name() {
    for oracle in OracleId::ALL {
        assert_eq!(OracleId::named(oracle.name()), Some(*oracle));
        assert_eq!(serde_json::to_value(oracle).unwrap(), oracle.name());
    }
}
