//! A test that a document names for a property is in the file that the document names.

use super::Rule;
use crate::offence::Offence;
use crate::promises::{documents, functions, tests_by_file};
use crate::text::line_of;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "property-files", summary: "a property names the files of its tests", check };

fn check(tree: &Tree) -> Vec<Offence> {
    let known = functions(tree);
    let wrong = documents(tree).flatten().flat_map(|file| {
        let wrong = tests_by_file(&file.text).into_iter().filter(|pair| !known.contains(pair));
        wrong.map(|(path, name)| {
            Offence::new(&file.path, line_of(&file.text, name), format!("{path} has no test `{name}`"))
        })
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_in_another_file_is_found() {
        let text = "| it | a.rs: `it_holds_in_tests` |\n| that | b.rs: `it_holds_in_tests` |\n";
        let files = [("store/PROPERTIES.md", text), ("a.rs", "fn it_holds_in_tests() {}")];
        let expected = ["store/PROPERTIES.md:2: b.rs has no test `it_holds_in_tests`"];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
