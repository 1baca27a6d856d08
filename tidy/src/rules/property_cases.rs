//! Every case of a table that a document names for a property exists.

use super::Rule;
use crate::offence::Offence;
use crate::promises::{cases, documents};
use crate::text::line_of;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule =
    Rule { name: "property-cases", summary: "a property names cases of tables that exist", check };

/// Fewest cases that the rule must recognize.
const FEWEST: usize = 101;

fn check(tree: &Tree) -> Vec<Offence> {
    let named: Vec<_> = documents(tree)
        .flatten()
        .flat_map(|file| cases(&file.text).map(move |(table, case)| (file, table, case)))
        .collect();
    let missing =
        named.iter().filter(|(_, table, case)| !tree.file(table).is_some_and(|table| has(table, case)));
    let mut offences: Vec<_> = missing
        .map(|(file, table, case)| {
            Offence::new(&file.path, line_of(&file.text, case), format!("{table} has no case \"{case}\""))
        })
        .collect();
    offences.extend(Offence::if_fewer(named.len(), FEWEST, "names of cases"));
    offences
}

/// Whether a table has a case of this name.
fn has(table: &File, case: &str) -> bool {
    let names =
        table.text.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("name: "));
    names.into_iter().any(|name| name == case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_no_table_has_is_found() {
        let text = "| x | a.yaml: \"first\", \"second\" |\n| y | b.yaml: \"first\" |\n";
        let files = [("api/CONFORMANCE.md", text), ("a.yaml", "- name: first\n  input: 1\n")];
        let expected = [
            "api/CONFORMANCE.md:1: a.yaml has no case \"second\"",
            "api/CONFORMANCE.md:2: b.yaml has no case \"first\"",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
