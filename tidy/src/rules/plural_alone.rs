//! No code compares the plural of a resource without its group: a custom kind may have the plural of a built-in one, and would get its
//! special treatment. Objects of a custom kind with the plural `events` once expired after an hour.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "plural-alone",
    summary: "code asks `resource.is(group, plural)`; a plural alone may be that of a custom kind",
    check,
};

/// Folders of crates whose rows may be of custom kinds.
const FOLDERS: [&str; 8] = [
    "api/src/",
    "storage/src/",
    "registry/src/",
    "access/src/",
    "admission/src/",
    "pipeline/src/",
    "apiserver/src/",
    "controllers/src/",
];

/// Fewest files that the rule must read.
const FEWEST: usize = 500;

fn check(tree: &Tree) -> Vec<Offence> {
    let ours = tree.files.iter().filter(|file| FOLDERS.iter().any(|folder| file.path.starts_with(folder)));
    let files: Vec<_> = ours.filter(|file| file.path.ends_with(".rs")).collect();
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        for (number, line) in (1..).zip(file.code().lines()).filter(|(_, line)| compares_alone(line)) {
            let text = format!("compares a plural, ask `is(group, plural)`: {}", line.trim());
            offences.push(Offence::new(&file.path, number, text));
        }
    }
    offences.extend(Offence::if_fewer(files.len(), FEWEST, "files"));
    offences
}

/// Whether a line compares a plural, in a field or in a variable, with a text and does not speak of its group; or compares group and
/// plural as a pair, where `is` says the same.
fn compares_alone(line: &str) -> bool {
    let compares = ["plural == \"", "plural != \"", "(place.plural, \"", "(resource.plural, \""];
    let is_alone = compares.iter().any(|found| line.contains(found)) && !line.contains("group");
    is_alone || line.contains(".plural) == (\"") || line.contains("(place.plural, \"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plural_without_its_group_is_found() {
        let text = "//! A.\nfn a() {\n    resource.plural == \"events\";\n    a.group == \"\" && a.plural == \"pods\";\n    \
                    plural != \"pods\";\n    (a.group, a.plural) == (\"\", \"pods\");\n    a.is(\"\", \"pods\");\n}\n";
        let found = |line: usize, code: &str| {
            format!("api/src/a.rs:{line}: compares a plural, ask `is(group, plural)`: {code}")
        };
        let expected = [
            found(3, "resource.plural == \"events\";"),
            found(5, "plural != \"pods\";"),
            found(6, "(a.group, a.plural) == (\"\", \"pods\");"),
        ];
        assert_eq!(
            crate::rules::offences_of(RULE, [("api/src/a.rs", text), ("store/src/a.rs", text)]),
            expected
        );
    }
}
