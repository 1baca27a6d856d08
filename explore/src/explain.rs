//! Explanations of findings: the stale read behind the first write that no reference makes, or the state in which a program died. Pure.

use crate::oracle::Evidence;
use crate::oracle::stale_write::{StaleRead, first_foreign, stale_read};
use crate::record::{RecordedWrite, WriteShape};
use serde::Serialize;
use std::collections::BTreeSet;

/// Most writes that did not come which are listed.
const MISSING: usize = 5;

/// A write that matters to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedWrite {
    /// Who wrote.
    pub client: String,
    /// Verb, with the subresource after a slash.
    pub verb: String,
    /// `plural.group/namespace/name`.
    pub object: String,
    /// Revision.
    pub revision: i64,
}

impl NamedWrite {
    fn of(write: &RecordedWrite) -> Self {
        let (client, verb) = (write.client.clone(), write.verb.clone());
        Self { client, verb, object: write.key.to_string(), revision: write.revision }
    }
}

/// What a write was based on that another write had made old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StaleBasis {
    /// Kind, as `plural.group`.
    pub resource: String,
    /// The newest revision of the kind that the writer had been shown.
    pub delivered: i64,
    /// The newest related change that it had not been shown.
    pub unseen: NamedWrite,
}

/// The write with which a failing run leaves its references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The first write of a program that no reference makes.
    pub write: Option<NamedWrite>,
    /// The stale read behind it.
    pub basis: Option<StaleBasis>,
}

/// The write with which a failing run leaves its references, and what it was based on.
pub fn cause(evidence: &Evidence<'_>) -> Cause {
    let basis = stale_read(evidence).map(|StaleRead { change, seen, .. }| StaleBasis {
        resource: change.key.resource.clone(),
        delivered: seen,
        unseen: NamedWrite::of(change),
    });
    Cause { write: first_foreign(evidence).map(NamedWrite::of), basis }
}

/// What explains a failing run, in lines.
pub fn explain(evidence: &Evidence<'_>, ends_programs: bool) -> Vec<String> {
    let mut lines = Vec::new();
    match (stale_read(evidence), first_foreign(evidence)) {
        (Some(StaleRead { write, change, seen }), _) => {
            lines.push(format!(
                "{} did {} {} at revision {}, which no reference does",
                write.client, write.verb, write.key, write.revision
            ));
            lines.push(format!("it acted on      {} as of revision {seen}", change.key.resource));
            let behind = change.revision - seen;
            lines.push(format!(
                "the cluster had  {} at revision {}, by {} of {}          ({behind} revisions later)",
                change.key, change.revision, change.verb, change.client
            ));
        }
        (None, Some(write)) => {
            lines.push(format!(
                "{} did {} {} at revision {}, which no reference does",
                write.client, write.verb, write.key, write.revision
            ));
        }
        (None, None) => {}
    }
    if ends_programs {
        lines.extend(intermediate(evidence));
    }
    if let Some(unquiet) = &evidence.run.unquiet {
        lines.push(format!("{unquiet}: what follows may differ from run to run"));
    }
    lines
}

/// Of a run in which a program died: its last write before, and writes of a reference that never came.
fn intermediate(evidence: &Evidence<'_>) -> Vec<String> {
    let Some(reference) = evidence.references.first() else { return Vec::new() };
    let shape = |write: &RecordedWrite| {
        let mut shape = write.shape();
        shape.key.name = evidence.slot(write);
        shape
    };
    let done: BTreeSet<WriteShape> = evidence.program_writes().map(&shape).collect();
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    let missing = reference.record.writes.iter().filter(|write| evidence.is_program(&write.client));
    let missing = missing.filter(|write| !done.contains(&shape(write)) && seen.insert(shape(write)));
    for write in missing.take(MISSING) {
        let changed = write.changed();
        let changed = if changed.is_empty() || write.before.is_none() {
            String::new()
        } else {
            format!(" ({})", changed.join(", "))
        };
        lines.push(format!("never came       {} {}{changed}, which a reference does", write.verb, write.key));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalise::Normaliser;
    use crate::oracle::Reference;
    use crate::oracle::tests::{run, scenario, write};
    use serde_json::json;

    #[test]
    fn writes_that_never_came_after_a_crash_are_named() {
        let first = write(5, "op", "configmaps/default/a", json!(null), json!({}));
        let second = write(6, "op", "configmaps/default/b", json!(null), json!({}));
        let (scenario, programs) = (scenario(""), ["op".to_owned()]);
        let normaliser = Normaliser::new(&scenario, &[]);
        let end = normaliser.normalise(&[]);
        let references = [Reference { record: run(vec![first.clone(), second]), end: end.clone() }];
        let record = run(vec![first]);
        let evidence = Evidence {
            scenario: &scenario,
            references: &references,
            normaliser: &normaliser,
            run: &record,
            end: &end,
            programs: &programs,
        };
        assert_eq!(explain(&evidence, false), Vec::<String>::new());
        let expected = "never came       create configmaps/default/b, which a reference does";
        assert_eq!(explain(&evidence, true), [expected]);
    }
}
