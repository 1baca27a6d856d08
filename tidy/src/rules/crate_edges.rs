//! A crate uses only the crates that the table of ARCHITECTURE.md lists for it.

use super::Rule;
use crate::crate_table::{self, CrateTable};
use crate::manifest::{self, Package};
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "crate-edges",
    summary: "crates use only what the table of ARCHITECTURE.md allows, and the table has every crate",
    check,
};

fn check(tree: &Tree) -> Vec<Offence> {
    let both = CrateTable::of(tree).and_then(|table| Ok((table, manifest::packages(tree)?)));
    match both {
        Ok((table, packages)) => compare(&table, &packages),
        Err(offence) => vec![offence],
    }
}

fn compare(table: &CrateTable, packages: &[Package]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for Package { folder, uses } in packages {
        let manifest = format!("{folder}/Cargo.toml");
        let Some(row) = table.row(folder) else {
            let text = format!("{folder} is not in the table of {}", crate_table::PATH);
            offences.push(Offence::new(&manifest, 1, text));
            continue;
        };
        // A crate's tests may use only what the crate may use, with the exceptions that the document lists.
        let is_allowed = |used: &manifest::Use| {
            row.may_use(&used.folder) || (used.is_for_tests && table.tests_may_use(folder, &used.folder))
        };
        offences.extend(uses.iter().filter(|used| !is_allowed(used)).map(|used| {
            let text = format!(
                "{folder} uses {}: a new edge needs a reason and its place in {}",
                used.folder,
                crate_table::PATH
            );
            Offence::new(&manifest, used.line, text)
        }));
    }
    let is_package = |folder: &str| packages.iter().any(|package| package.folder == folder);
    for row in table.rows.iter().filter(|row| !is_package(&row.folder)) {
        let text = format!("{} is in the table, but not in the workspace", row.folder);
        offences.push(Offence::new(crate_table::PATH, row.line, text));
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_beyond_the_table_are_found() {
        let table = "| level | folder | may use (ours) |\n|---|---|---|\n| 0 | `a`, `c` | – |\n| 1 | `b` | a |\n\
                     | 2 | `top` | all |\n\n- the tests of `a` also use b: they need it\n";
        let crate_a = "[package]\nname = \"kstore-a\"\n[dependencies]\nserde = \"1\"\n[dev-dependencies]\n\
                       kstore-b.workspace = true\n";
        let crate_b = "[package]\nname = \"kstore-b\"\n[dependencies]\nkstore-a.workspace = true\n\
                       kstore-top = { workspace = true }\n[dev-dependencies]\nkstore-c.workspace = true\n";
        let top = "[package]\nname = \"kstore-top\"\n[dependencies]\nkstore-b.workspace = true\n";
        let new = "[package]\nname = \"kstore-new\"\n";
        let files = [
            (crate_table::PATH, table),
            ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\", \"top\", \"new\"]\n"),
            ("a/Cargo.toml", crate_a),
            ("b/Cargo.toml", crate_b),
            ("top/Cargo.toml", top),
            ("new/Cargo.toml", new),
        ];
        let expected = [
            "b/Cargo.toml:5: b uses top: a new edge needs a reason and its place in ARCHITECTURE.md",
            "b/Cargo.toml:7: b uses c: a new edge needs a reason and its place in ARCHITECTURE.md",
            "new/Cargo.toml:1: new is not in the table of ARCHITECTURE.md",
            "ARCHITECTURE.md:3: c is in the table, but not in the workspace",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
        let normal = crate_a.replace("dev-dependencies", "build-dependencies");
        let mut files = files;
        files[2].1 = &normal;
        let offences = crate::rules::offences_of(RULE, files);
        assert!(offences[0].starts_with("a/Cargo.toml:6: a uses b"), "only tests may: {offences:?}");
    }
}
