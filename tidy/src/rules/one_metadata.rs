//! The loops decode metadata by one type, `kstore_client::ProjectedMeta`: each had its own, with its own rule for a resourceVersion that is
//! missing or no number.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "one-metadata",
    summary: "the loops decode metadata by `kstore_client::ProjectedMeta`",
    check,
};

/// Folders of the crates that read objects as clients.
const FOLDERS: [&str; 4] = ["controllers/src/", "scheduler/src/", "kubelet-sim/src/", "metrics-server/src/"];

/// Fewest files that the rule must read.
const FEWEST: usize = 200;

/// Conversions of a resourceVersion to a revision.
const CONVERSION: &str = "resource_version.parse";

fn check(tree: &Tree) -> Vec<Offence> {
    let loops = tree.sources().filter(|file| FOLDERS.iter().any(|folder| file.path.starts_with(folder)));
    let files: Vec<_> = loops.filter(|file| !file.is_test()).collect();
    let found = files.iter().flat_map(|file| file.wrong_lines(|line| line.contains(CONVERSION)));
    found.chain(Offence::if_fewer(files.len(), FEWEST, "files")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_read_by_a_decoder_of_its_own_is_found() {
        let text = "//! A.\nfn a() {\n    Revision(meta.resource_version.parse().unwrap_or(0));\n}\n";
        let expected = ["scheduler/src/a.rs:3: Revision(meta.resource_version.parse().unwrap_or(0));"];
        let files = [("scheduler/src/a.rs", text), ("client/src/a.rs", text)];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
