//! Every module of a test binary says what it tests: the list of modules is the table of contents of the tests.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "test-modules",
    summary: "each `mod` line in the main file of a test binary has a doc comment",
    check,
};

/// Fewest modules that the rule must recognize.
const FEWEST: usize = 21;

fn check(tree: &Tree) -> Vec<Offence> {
    let mut modules = 0;
    let mut offences = Vec::new();
    let mains =
        tree.sources().filter(|file| file.path.starts_with("tests/") && file.path.ends_with("/main.rs"));
    for file in mains {
        let mut is_documented = false;
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(name) = module(line) {
                modules += 1;
                if !is_documented {
                    let text = format!("the module `{name}` has no doc comment");
                    offences.push(Offence::new(&file.path, number, text));
                }
            }
            // An attribute may be between the comment and its module.
            is_documented = line.starts_with("///") || (is_documented && line.starts_with("#["));
        }
    }
    offences.extend(Offence::if_fewer(modules, FEWEST, "modules of test binaries"));
    offences
}

/// Name of the module that a line declares at the top level.
fn module(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("mod ")
        .or_else(|| line.strip_prefix("pub")?.split_once("mod ").map(|(_, rest)| rest))?;
    rest.split([';', ' ']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_its_own_comment_is_found() {
        let text = "//! Tests.\n/// A.\nmod a;\nmod b;\n/// C.\n#[cfg(unix)]\nmod c;\n#[cfg(unix)]\nmod d;\n\
                    pub(crate) mod e;\n";
        let files = [("tests/one/main.rs", text), ("a/src/main.rs", text)];
        let expected = [
            "tests/one/main.rs:4: the module `b` has no doc comment",
            "tests/one/main.rs:9: the module `d` has no doc comment",
            "tests/one/main.rs:10: the module `e` has no doc comment",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
