//! The kept inputs of every fuzz target run as tests: the gate has no fuzzer, and a target whose corpus only the fuzzer reads would rot.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "fuzz-corpora",
    summary: "a fuzz target has a corpus, and a crate's tests replay it",
    check,
};

/// Fewest targets that the rule must recognize.
const FEWEST: usize = 25;

const TARGETS: &str = "fuzz/fuzz_targets/";
const CORPUS: &str = "fuzz/corpus/";

fn check(tree: &Tree) -> Vec<Offence> {
    let corpora: BTreeSet<&str> = tree.files.iter().filter_map(|file| corpus(&file.path)).collect();
    let targets: Vec<(&File, &str)> =
        tree.sources().filter_map(|file| Some((file, target(&file.path)?))).collect();
    let mut offences = Vec::new();
    for (file, target) in &targets {
        if !corpora.contains(target) {
            offences.push(Offence::new(&file.path, 1, format!("{CORPUS}{target} has no inputs")));
        } else if !is_replayed(tree, target) {
            offences.push(Offence::new(&file.path, 1, format!("no test names the corpus `{target}`")));
        }
    }
    offences.extend(Offence::if_fewer(targets.len(), FEWEST, "fuzz targets"));
    offences
}

/// The target whose kept input this is.
fn corpus(path: &str) -> Option<&str> {
    Some(path.strip_prefix(CORPUS)?.split_once('/')?.0)
}

/// The target that this file defines.
fn target(path: &str) -> Option<&str> {
    path.strip_prefix(TARGETS)?.strip_suffix(".rs")
}

/// Whether a crate's source has the target in its table of fuzz targets, whose corpora its tests replay, or names the folder.
fn is_replayed(tree: &Tree, target: &str) -> bool {
    let (row, folder) = (format!("(\"{target}\", "), format!("{CORPUS}{target}\""));
    let mut sources = tree.sources().filter(|file| !file.path.starts_with("fuzz/"));
    sources.any(|file| {
        let is_table = file.path.contains("fuzzing") && file.text.contains(&row);
        is_table || file.text.contains(&folder)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_corpus_or_test_is_found() {
        let files = [
            ("a/src/fuzzing.rs", "const TARGETS: [Target; 1] = [(\"kept\", run)];"),
            ("a/src/tests.rs", "let corpus = \"../fuzz/corpus/named\";"),
            ("fuzz/corpus/forgotten/seed", ""),
            ("fuzz/corpus/kept/seed", ""),
            ("fuzz/corpus/named/seed", ""),
            ("fuzz/fuzz_targets/forgotten.rs", ""),
            ("fuzz/fuzz_targets/kept.rs", ""),
            ("fuzz/fuzz_targets/named.rs", ""),
            ("fuzz/fuzz_targets/new.rs", ""),
        ];
        assert_eq!(
            super::super::offences_of(RULE, files),
            [
                "fuzz/fuzz_targets/forgotten.rs:1: no test names the corpus `forgotten`",
                "fuzz/fuzz_targets/new.rs:1: fuzz/corpus/new has no inputs",
            ]
        );
    }
}
