//! Every test that a document names for a property exists.

use super::Rule;
use crate::offence::Offence;
use crate::promises::{self, documents, functions};
use crate::text::line_of;
use crate::tree::Tree;
use std::collections::BTreeSet;

pub(super) const RULE: Rule =
    Rule { name: "property-tests", summary: "a property names tests that exist", check };

/// Fewest tests that the rule must recognize in each document.
const FEWEST: usize = 21;

fn check(tree: &Tree) -> Vec<Offence> {
    let known: BTreeSet<&str> = functions(tree).into_iter().map(|(_, name)| name).collect();
    let mut offences = Vec::new();
    for document in documents(tree) {
        let file = match document {
            Ok(file) => file,
            Err(missing) => {
                offences.push(missing);
                continue;
            }
        };
        let missing = promises::tests(&file.text).filter(|name| !known.contains(name));
        offences.extend(missing.map(|name| {
            Offence::new(&file.path, line_of(&file.text, name), format!("there is no test `{name}`"))
        }));
        let found = promises::tests(&file.text).count();
        offences.extend(Offence::if_fewer(found, FEWEST, &format!("names of tests in {}", file.path)));
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_test_is_found() {
        let text = "| it holds | `it_holds_in_tests` |\n| so does this | `this_one_is_gone` |\n";
        let files = [("store/PROPERTIES.md", text), ("a.rs", "fn it_holds_in_tests() {}")];
        let offences = crate::rules::offences_of(RULE, files);
        assert_eq!(offences[0], "store/PROPERTIES.md:2: there is no test `this_one_is_gone`");
        assert_eq!(offences[1], "informer/PROPERTIES.md:1: the file is missing");
    }
}
