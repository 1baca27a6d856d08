//! `refused`: the server answered 400, 403 or 422 to a tested program, in no reference, and not by an injected fault.

use super::{Evidence, OracleId, Severity, Verdict};
use crate::limits;
use crate::record::RunRecord;
use std::collections::BTreeMap;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let known: Vec<_> = evidence
        .references
        .iter()
        .flat_map(|reference| refusals(evidence, &reference.record).into_keys())
        .collect();
    let found = refusals(evidence, evidence.run).into_iter().filter(|(refusal, _)| !known.contains(refusal));
    found
        .map(|((what, code), count)| {
            let summary = format!("the server refused {what} with {code}, {count} times");
            let verdict = Verdict::new(OracleId::Refused, format!("{what} {code}"), summary);
            if count < limits::REFUSALS { verdict.with_severity(Severity::Suspicion) } else { verdict }
        })
        .collect()
}

/// Refusals by request and code, without names of objects, which may be generated.
fn refusals(evidence: &Evidence<'_>, run: &RunRecord) -> BTreeMap<(String, u16), usize> {
    let mut counts = BTreeMap::new();
    let refused = run.requests.iter().filter(|request| {
        matches!(request.code, 400 | 403 | 422)
            && request.fault.is_empty()
            && evidence.is_program(&request.client)
    });
    for request in refused {
        let what = format!("{} {} of {}", request.verb, request.resource, request.client);
        *counts.entry((what, request.code)).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, request, scenario};
    use super::*;

    #[test]
    fn a_refusal_is_a_suspicion_and_three_are_a_bug() {
        let with = |codes: &[u16], fault: &str| {
            let requests = codes.iter().enumerate().map(|(n, code)| {
                let mut request = request(n as u64, "op", "create", "configmaps/default/a", *code);
                request.fault = fault.to_owned();
                request
            });
            RunRecord { requests: requests.collect(), ..RunRecord::empty() }
        };
        let severity = |run: &RunRecord, reference: &RunRecord| {
            let found = judged(&scenario(""), std::slice::from_ref(reference), run, judge);
            found.first().map(|verdict| verdict.severity)
        };
        let none = RunRecord::empty();
        for (run, expected) in [
            (with(&[200, 404, 409], ""), None),
            (with(&[422], ""), Some(Severity::Suspicion)),
            (with(&[422, 422, 422], ""), Some(Severity::Bug)),
            (with(&[403, 422, 400], ""), Some(Severity::Suspicion)),
            (with(&[403, 403, 403], "forbidden-yet"), None),
        ] {
            assert_eq!(severity(&run, &none), expected, "{run:?}");
        }
        assert_eq!(severity(&with(&[422], ""), &with(&[422], "")), None);
    }
}
