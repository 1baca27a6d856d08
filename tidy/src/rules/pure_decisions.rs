//! Decisions are plain functions: what decides neither waits nor has a clock or a client.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};
use std::path::Path;

pub(super) const RULE: Rule = Rule {
    name: "pure-decisions",
    summary: "plan, decide, scheduler plugins and codec neither await nor use a runtime",
    check,
};

/// Fewest files that the rule must recognize.
const FEWEST: usize = 21;

fn check(tree: &Tree) -> Vec<Offence> {
    let pure: Vec<_> = tree.sources().filter(|file| is_pure(file) && !file.is_test()).collect();
    let impure = |line: &str| ["async ", ".await", "tokio"].into_iter().any(|word| line.contains(word));
    let mut offences: Vec<_> = pure.iter().flat_map(|file| file.wrong_lines(impure)).collect();
    offences.extend(Offence::if_fewer(pure.len(), FEWEST, "files of decisions"));
    offences
}

/// Whether the architecture requires this file to be free of waiting, clocks and clients.
fn is_pure(file: &File) -> bool {
    // A plugin of admission may wait for a server, or count requests by the clock, as its row says.
    if file.path.starts_with("admission/") {
        return false;
    }
    let path = Path::new(&file.path);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let in_folder = |name: &str| {
        path.parent().is_some_and(|parent| parent.components().any(|part| part.as_os_str() == name))
    };
    matches!(name, "plan.rs" | "decide.rs" | "prune.rs" | "shrink.rs")
        || ["plugin", "plugins", "codec", "normalise", "oracle", "pattern"].into_iter().any(in_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_found_in_decisions_only() {
        let text = "// tokio\nasync fn a() {}\n";
        let files = [
            ("a/plan.rs", text),
            ("a/plugins/b.rs", text),
            ("admission/src/plugins/c.rs", text),
            ("a/run.rs", text),
            ("a/codec/tests.rs", text),
        ];
        let expected = ["a/plan.rs:2: async fn a() {}", "a/plugins/b.rs:2: async fn a() {}"];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }

    #[test]
    fn a_tree_without_decisions_is_an_offence() {
        assert_eq!(check(&Tree::of([])).len(), 1);
    }
}
