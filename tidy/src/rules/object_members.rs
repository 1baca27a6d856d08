//! Code that names a member of a JSON object names one that exists: `spec["replicsa"]` compiles and reads null.

use super::Rule;
use crate::members;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "object-members",
    summary: "members of objects in code are in api's field table, or in a document of tidy/documents.tbl",
    check,
};

/// Fewest literals that the rule must compare.
const FEWEST: usize = 10_000;

fn check(tree: &Tree) -> Vec<Offence> {
    let members::Findings { count, mut offences } = members::check(tree);
    offences.extend(Offence::if_fewer(count, FEWEST, "members"));
    offences
}
