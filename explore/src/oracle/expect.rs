//! `expect`: an expectation of the scenario fails in the end state.

use super::{Evidence, OracleId, Verdict};
use crate::limits::DEPTH;
use crate::record::RunEnd;
use crate::scenario::ObjectRef;
use serde_json::Value;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !matches!(evidence.run.ended, RunEnd::Converged | RunEnd::Quiet) {
        return Vec::new();
    }
    let mut verdicts = Vec::new();
    for expected in &evidence.scenario.expect {
        let ObjectRef { resource, namespace, name } = &expected.object;
        let is_it = |key: &crate::record::ObjectKey| {
            key.resource == *resource && key.namespace == *namespace && key.name == *name
        };
        let found = evidence.run.end.iter().find(|stored| is_it(&stored.key()));
        let problem = match (found, expected.exists) {
            (Some(_), false) => "exists, and must not",
            (None, true) => "does not exist",
            (Some(found), true)
                if expected
                    .matches
                    .as_ref()
                    .is_some_and(|wanted| !includes(&found.object, wanted, DEPTH)) =>
            {
                "does not have the expected members"
            }
            _ => continue,
        };
        let object = expected.object.to_string();
        verdicts.push(Verdict::new(
            OracleId::Expect,
            format!("{object} {problem}"),
            format!("{object} {problem}"),
        ));
    }
    verdicts
}

/// Whether a value has all members of `wanted`. Lists must have equal lengths.
pub(crate) fn includes(value: &Value, wanted: &Value, depth: usize) -> bool {
    match (value, wanted) {
        _ if depth == 0 => false,
        (Value::Object(value), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            value.get(name).map_or(wanted.is_null(), |value| includes(value, wanted, depth - 1))
        }),
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len()
                && value.iter().zip(wanted).all(|(value, wanted)| includes(value, wanted, depth - 1))
        }
        (value, wanted) => value == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, scenario, stored};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn an_expected_object_exists_and_has_the_expected_members() {
        let with = |value: Value| RunRecord {
            end: vec![stored("configmaps/default/a", "u", value)],
            ..RunRecord::empty()
        };
        for (expected, run, is_rejected) in [
            ("exists: true", with(json!({})), false),
            ("exists: true", RunRecord::empty(), true),
            ("exists: false", with(json!({})), true),
            ("exists: false", RunRecord::empty(), false),
            ("matches: {spec: {n: 1}}", with(json!({"n": 1, "m": 2})), false),
            ("matches: {spec: {n: 1}}", with(json!({"n": 2})), true),
            ("matches: {spec: {n: 1}}", RunRecord::empty(), true),
        ] {
            let scenario = scenario(&format!("expect: [{{object: configmaps/default/a, {expected}}}]\n"));
            let found = judged(&scenario, &[], &run, judge);
            assert_eq!(!found.is_empty(), is_rejected, "{expected}: {found:?}");
        }
    }
}
