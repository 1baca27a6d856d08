//! Each form of one report.

use super::*;
use crate::explain::{NamedWrite, StaleBasis};
use crate::replay::tests::replay;
use serde_json::{Value, json};

/// A value of the Secret of [`finding`].
const SECRET: &str = "hunter2";

/// A finding whose differences, summary and explanation have had values of a Secret.
pub(crate) fn finding() -> Finding {
    let object = json!({"metadata": {"name": "s", "namespace": "default"}, "stringData": {"a": SECRET}});
    let difference = |slot: &str| Difference {
        slot: slot.to_owned(),
        path: vec!["data".to_owned(), "a".to_owned()],
        reference: Some(json!(SECRET)),
        run: Some(json!("<b> & \"c\"")),
    };
    let differences = vec![difference("secrets/default/s"), difference("configmaps/default/c")];
    let summary = format!("the end state is <another>: {}", differences[0]);
    let verdict = Verdict { differences, ..Verdict::new(OracleId::EndState, "f", summary) };
    let secrets = SecretValues::of([("secrets", &object)]);
    Finding {
        id: "s-1".to_owned(),
        pattern: Some(PatternId::Crash),
        plan: Some(replay().plan),
        fails: (5, 5),
        control: Some(true),
        cause: Cause {
            write: Some(write("op", 9)),
            basis: Some(StaleBasis {
                resource: "configmaps".to_owned(),
                delivered: 5,
                unseen: write("user", 7),
            }),
        },
        explanation: vec![secrets.hide("it had done create configmaps/default/a with hunter2")],
        replay: Some("findings/s-1.yaml".to_owned()),
        snapshot: Some("findings/s-1.snapshot".to_owned()),
        log: Some("findings/s-1.log".to_owned()),
        ..Finding::of(&verdict, &secrets, 4_100)
    }
}

fn write(client: &str, revision: i64) -> NamedWrite {
    let (verb, object) = ("update".to_owned(), "configmaps/default/a".to_owned());
    NamedWrite { client: client.to_owned(), verb, object, revision }
}

fn report() -> Report {
    let finding = finding();
    let case = |title: &str, outcome| PlanCase {
        pattern: PatternId::Crash,
        subject: replay().plan.subject,
        title: title.to_owned(),
        outcome,
    };
    Report {
        scenario: "t".to_owned(),
        path: "t.yaml".to_owned(),
        program: "kstore-server explore".to_owned(),
        version: "0.1.0".to_owned(),
        seed: 1,
        command: vec!["./op".to_owned(), "--x".to_owned()],
        references: vec![1_400, 1_500],
        traffic: (61, 19),
        volatility: Volatility { paths: 60, volatile: 7, unordered: vec!["configmaps list".to_owned()] },
        plans: PlanCounts {
            made: BTreeMap::from([(PatternId::Crash, 3)]),
            pruned: PrunedCounts { unchanged: 2, ..PrunedCounts::default() },
            run: 3,
            not_reached: 1,
        },
        findings: vec![finding.clone()],
        unsteady: Vec::new(),
        suspicions: vec![Finding { id: "s-2".to_owned(), severity: Severity::Suspicion, ..finding }],
        cases: vec![
            case("crash 1", CaseOutcome::Passed),
            case("crash 2", CaseOutcome::NotReached("action 1: its trigger never came".to_owned())),
            case("crash 3", CaseOutcome::Failed("s-1".to_owned())),
        ],
        took: 9_000,
    }
}

#[test]
fn the_text_has_findings_actions_and_how_to_run_them_again() {
    let text = report().render(ReportForm::Text);
    for expected in [
        "reference   2 runs, 1.4 s each; 61 requests, 19 writes, 7 volatile fields",
        "plans       3 after pruning: crash 3",
        "FAILED      s-1  crash  end-state  found after 4.1 s, fails 5 of 5, passes without the fault",
        "1. kill op, start it  when op does create configmaps/default, after it is done",
        "again: kstore-server explore --replay findings/s-1.yaml t.yaml -- ./op --x",
        "files: findings/s-1.log, findings/s-1.snapshot",
        "not reached\n  crash 2",
        "WARNING     7 of 60 values of the end state differ",
        "unordered   configmaps list: the order",
        "coverage\n  create configmaps: crash 2\n",
        "1 finding",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
}

#[test]
fn values_of_secrets_are_in_no_form_of_a_report() {
    for form in [ReportForm::Text, ReportForm::Json, ReportForm::Junit, ReportForm::Sarif] {
        let text = report().render(form);
        assert!(!text.contains(SECRET), "{form:?}: {text}");
    }
    let [own, copy] = &report().findings[0].differences[..] else { panic!() };
    assert_eq!(own.reference.as_ref().unwrap()["bytes"], 9);
    assert!(copy.reference.as_ref().unwrap().as_str().unwrap().starts_with("<7 bytes of a Secret"));
}

/// Whether a value is as a schema says: types, members and items.
fn fits(schema: &Value, value: &Value, root: &Value, depth: usize) -> Result<(), String> {
    assert!(depth > 0);
    if let Some(name) = schema["$ref"].as_str() {
        return fits(root.pointer(name.trim_start_matches('#')).unwrap(), value, root, depth - 1);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = match &schema["type"] {
        Value::String(wanted) => wanted == kind,
        Value::Array(wanted) => wanted.iter().any(|wanted| wanted == kind),
        _ => true,
    };
    if !is_kind || schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err(format!("{value} is not of {schema}"));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(&schema["items"], item, root, depth - 1)?;
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        value.get(name.as_str().unwrap()).ok_or_else(|| format!("{name} is missing"))?;
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => return Err(format!("{name} is not in the schema")),
            (Value::Null, of_all) => fits(of_all, member, root, depth - 1)?,
            (own, _) => fits(own, member, root, depth - 1)?,
        }
    }
    Ok(())
}

#[test]
fn json_has_the_members_of_its_schema() {
    let schema: Value = serde_json::from_str(include_str!("../../report.schema.json")).unwrap();
    let value: Value = serde_json::from_str(&report().render(ReportForm::Json)).unwrap();
    fits(&schema, &value, &schema, 20).unwrap();
    assert_eq!(value["findings"][0]["actions"][0]["action"], "kill");
    assert_eq!(value["plans"]["notReached"], 1);
    assert_eq!(value["coverage"]["crash"], 2);
    let found = &value["findings"][0];
    assert_eq!(
        (&found["write"]["revision"], &found["basis"]["unseen"]["client"]),
        (&json!(9), &json!("user"))
    );
    assert_eq!((&value["unordered"][0], &value["volatile"]), (&json!("configmaps list"), &json!(7)));
    let mut few = report();
    few.volatility.paths = 70;
    assert_eq!(few.warnings(), [""; 0], "a tenth is not more than a tenth");
    let mut wrong = value.clone();
    wrong["findings"][0]["more"] = json!(1);
    assert!(fits(&schema, &wrong, &schema, 20).is_err());
    wrong = value;
    wrong["findings"][0]["severity"] = json!("bad");
    assert!(fits(&schema, &wrong, &schema, 20).is_err());
}

#[test]
fn junit_has_a_suite_per_pattern_and_escapes_texts() {
    let text = report().render(ReportForm::Junit);
    assert!(text.contains("<testsuite name=\"crash\" tests=\"3\" failures=\"1\" skipped=\"1\">"), "{text}");
    assert!(text.contains("message=\"the end state is &lt;another&gt;: "), "{text}");
    assert_eq!(text.matches("<testcase").count(), 3);
}

#[test]
fn sarif_has_a_rule_per_oracle_and_a_result_per_finding() {
    let value: Value = serde_json::from_str(&report().render(ReportForm::Sarif)).unwrap();
    let run = &value["runs"][0];
    assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), OracleId::ALL.len());
    let levels: Vec<&Value> =
        run["results"].as_array().unwrap().iter().map(|result| &result["level"]).collect();
    assert_eq!(levels, ["error", "warning"]);
    let attached = |nth: usize| &run["results"][0]["attachments"][nth]["artifactLocation"]["uri"];
    assert_eq!([attached(0), attached(1)], ["findings/s-1.yaml", "findings/s-1.log"]);
}

#[test]
fn only_bugs_fail_a_search_unless_it_is_strict() {
    let mut report = report();
    assert!(report.has_failed(false));
    report.findings.clear();
    assert!(!report.has_failed(false) && report.has_failed(true));
}
