//! `end-state`: the normalised end state equals no reference's.

use super::{Evidence, OracleId, Verdict};
use crate::normalise::{Difference, differences};
use crate::record::RunEnd;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    // A run that was cut off has no end state.
    if !matches!(evidence.run.ended, RunEnd::Converged | RunEnd::Quiet) {
        return Vec::new();
    }
    let compared = evidence.references.iter().map(|reference| differences(&reference.end, evidence.end));
    // The nearest reference explains most.
    let Some(mut found) = compared.min_by_key(Vec::len).filter(|found| !found.is_empty()) else {
        return Vec::new();
    };
    found.sort_by_key(Difference::is_of_numbers);
    let fingerprint = fingerprint(&found);
    let more = match found.len() {
        1 => String::new(),
        2 => ", and 1 more difference".to_owned(),
        count => format!(", and {} more differences", count - 1),
    };
    let summary = format!("the end state is another: {}{more}", found[0]);
    vec![Verdict { differences: found, ..Verdict::new(OracleId::EndState, fingerprint, summary) }]
}

/// What is the same in each run that fails likewise.
fn fingerprint(found: &[Difference]) -> String {
    let steady = found.iter().filter(|difference| !difference.is_of_numbers());
    let mut parts: Vec<String> = steady.map(Difference::fingerprint).collect();
    if parts.is_empty() {
        parts = found.iter().map(Difference::fingerprint).collect();
    }
    parts.sort();
    parts.dedup();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{stored, table};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn the_end_state_is_that_of_a_reference_or_another() {
        let with = |value: i64| RunRecord {
            end: vec![stored("configmaps/default/a", &format!("u{value}"), json!({ "n": value }))],
            ..RunRecord::empty()
        };
        let cut = RunRecord { ended: RunEnd::Busy(vec!["x".to_owned()]), ..with(2) };
        let mut touched = with(1);
        touched.end[0].object["metadata"]["annotations"] = json!({"lab.kstore.io/touch": "1"});
        let rows = [
            ("the same with another UID", with(1), false),
            ("an annotation of the lab", touched, false),
            ("another value", with(2), true),
            ("nothing", RunRecord::empty(), true),
            ("no end", cut, false),
        ];
        table(judge, &with(1), &rows);
    }

    #[test]
    fn runs_fail_likewise_whatever_numbers_equal_objects_have() {
        let surplus = |number: usize| Difference {
            slot: format!("configmaps/default/<a->#{number}"),
            path: Vec::new(),
            reference: None,
            run: Some(json!({})),
        };
        let named = Difference {
            slot: "backups/default/b".to_owned(),
            path: vec!["made".to_owned()],
            reference: Some(json!("<a->#0")),
            run: Some(json!("<a->#1")),
        };
        let alone = fingerprint(&[surplus(1)]);
        assert_eq!(fingerprint(&[surplus(1), named.clone()]), alone);
        assert_eq!(fingerprint(&[surplus(0)]), alone);
        assert_ne!(fingerprint(std::slice::from_ref(&named)), alone);
        let other = Difference { run: Some(json!("<b->#1")), ..named };
        assert_ne!(fingerprint(&[surplus(1), other]), alone);
    }
}
