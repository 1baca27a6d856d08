//! The Rust examples in a crate's README compile: they are documentation tests of the crate, or of `kstore-tests` where the crate has none.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "readme-examples",
    summary: "a README with a Rust block is included in its crate's documentation tests",
    check,
};

/// Fewest READMEs that the rule must recognize.
const FEWEST: usize = 11;

/// How a crate's root includes the README.
const INCLUDED: &str = "doc = include_str!(\"../README.md\")]";

/// How the root of a crate includes the README in its pages alone.
const IN_PAGES: &str = "cfg_attr(not(doctest), doc = include_str!(\"../README.md\"))]";

/// Has the examples of crates without documentation tests.
const OTHERS_TESTS: &str = "tests/src/lib.rs";

fn check(tree: &Tree) -> Vec<Offence> {
    let mut count = 0;
    let mut offences = Vec::new();
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/README.md") else { continue };
        let (Some(line), true) = (example(file), tree.file(&format!("{folder}/Cargo.toml")).is_some()) else {
            continue;
        };
        count += 1;
        let includes = |root: &str, included: &str| {
            let has = |root: &File| root.lines().any(|(_, line)| line.trim().ends_with(included));
            tree.file(root).is_some_and(has)
        };
        let mut needed = (format!("{folder}/src/lib.rs"), INCLUDED.to_owned());
        if includes(&needed.0, IN_PAGES) {
            needed = (OTHERS_TESTS.to_owned(), INCLUDED.replace("..", &format!("../../{folder}")));
        }
        let (root, included) = needed;
        if !includes(&root, &included) {
            let text = format!("the example is not compiled: {root} lacks `#[{included}`");
            offences.push(Offence::new(&file.path, line, text));
        }
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "READMEs with Rust blocks"));
    offences
}

/// Line of the first Rust block.
fn example(file: &File) -> Option<usize> {
    let mut lines = (1..).zip(file.text.lines());
    lines.find(|(_, line)| line.trim_start().starts_with("```rust")).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_is_not_compiled_is_found() {
        let (readme, root) =
            ("# A\n\n```rust\nfn a() {}\n```\n", "#![doc = include_str!(\"../README.md\")]\n");
        let pages = "#![cfg_attr(not(doctest), doc = include_str!(\"../README.md\"))]\n";
        let files = [
            ("a/Cargo.toml", ""),
            ("a/README.md", readme),
            ("a/src/lib.rs", root),
            ("b/Cargo.toml", ""),
            ("b/README.md", readme),
            ("b/src/lib.rs", "// #![doc = include_str!(\"../README.md\")]\n"),
            ("c/README.md", readme),
            ("d/Cargo.toml", ""),
            ("d/README.md", "```sh\n```\n"),
            ("e/Cargo.toml", ""),
            ("e/README.md", readme),
            ("e/src/lib.rs", pages),
            ("f/Cargo.toml", ""),
            ("f/README.md", readme),
            ("f/src/lib.rs", pages),
            ("tests/src/lib.rs", "#[cfg(doctest)]\n#[doc = include_str!(\"../../e/README.md\")]\nmod e {}\n"),
        ];
        let texts = [
            "b/README.md:3: the example is not compiled: b/src/lib.rs lacks `#[doc = include_str!(\"../README.md\")]`",
            "f/README.md:3: the example is not compiled: tests/src/lib.rs lacks `#[doc = include_str!(\"../../f/README.md\")]`",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), texts);
    }
}
