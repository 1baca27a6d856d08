//! A module with files of its own is a folder, and its first file is the folder's `mod.rs`.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;
use std::collections::BTreeSet;

pub(super) const RULE: Rule =
    Rule { name: "module-files", summary: "a module with files of its own is a folder with a mod.rs", check };

/// Fewest folders of modules that the rule must recognize.
const FEWEST: usize = 200;

fn check(tree: &Tree) -> Vec<Offence> {
    let rust = || tree.files.iter().map(|file| file.path.as_str()).filter(|path| path.ends_with(".rs"));
    let folders: BTreeSet<&str> = rust().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
    let beside = rust().filter(|path| {
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        folders.contains(stem) && !is_target(path)
    });
    let mut offences: Vec<_> = beside
        .map(|path| {
            let folder = path.strip_suffix(".rs").unwrap_or(path);
            Offence::new(path, 1, format!("move it to {folder}/mod.rs: a folder has all of its module"))
        })
        .collect();
    let count = rust().filter(|path| path.ends_with("/mod.rs")).count();
    offences.extend(Offence::if_fewer(count, FEWEST, "folders of modules"));
    offences
}

/// Whether a file is the root of a test, an example or a benchmark, whose modules may be in a folder of its name.
fn is_target(path: &str) -> bool {
    let mut parts = path.rsplit('/').skip(1);
    let folder = parts.next().unwrap_or_default();
    ["tests", "examples", "benches", "bin"].contains(&folder) && parts.count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_beside_its_folder_is_found() {
        let files = [
            ("a/src/lib.rs", ""),
            ("a/src/read.rs", ""),
            ("a/src/read/line.rs", ""),
            ("a/src/write/mod.rs", ""),
            ("a/src/write/line.rs", ""),
            ("a/tests/it.rs", ""),
            ("a/tests/it/line.rs", ""),
        ];
        let expected = ["a/src/read.rs:1: move it to a/src/read/mod.rs: a folder has all of its module"];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
