//! The top modules of a crate stand on floors, and import only from their own floor and lower ones. So a crate can be
//! read from the bottom to the top, and a module can become a crate.

use super::Rule;
use crate::floors::{CRATES, CrateFloors};
use crate::imports::CrateImports;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "module-floors",
    summary: "a top module imports only modules of its floor or lower ones (table: tidy/src/floors.rs)",
    check,
};

/// Fewest imports that the rule must recognize.
const FEWEST: usize = 100;

/// The file with the table.
const TABLE: &str = "tidy/src/floors.rs";

fn check(tree: &Tree) -> Vec<Offence> {
    let mut count = 0;
    let mut offences = Vec::new();
    for floors in CRATES {
        let Some(found) = CrateImports::of(tree, floors.folder) else {
            offences.push(Offence::new(TABLE, 1, format!("there is no crate {}", floors.folder)));
            continue;
        };
        count += found.imports.len();
        offences.extend(compare(floors, &found));
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "imports between modules"));
    offences
}

/// The differences between the table and a crate.
fn compare(floors: &CrateFloors, found: &CrateImports) -> Vec<Offence> {
    let folder = floors.folder;
    let unlisted = found.modules.iter().filter(|module| floors.of(module).is_none());
    let unlisted =
        unlisted.map(|module| Offence::new(&found.root, 1, format!("{module} has no floor in {TABLE}")));
    let listed = floors.floors.iter().flat_map(|floor| *floor);
    let gone = listed.filter(|module| !found.modules.contains(**module));
    let gone = gone.map(|module| Offence::new(TABLE, 1, format!("{folder} has no module {module}")));
    let mut offences: Vec<_> = unlisted.chain(gone).collect();
    for import in &found.imports {
        let wrong = |text| Offence::new(&import.file, import.line, text);
        let Some(to) = &import.to else {
            offences
                .push(wrong(format!("{} is defined in the root, which is above all modules", import.name)));
            continue;
        };
        if let (Some(from_floor), Some(to_floor)) = (floors.of(&import.from), floors.of(to))
            && to_floor > from_floor
        {
            offences.push(wrong(format!("{} → {to} leads up ({})", import.from, import.name)));
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOORS: CrateFloors = CrateFloors { folder: "x", floors: &[&["a"], &["b", "c"], &["gone"]] };

    #[test]
    fn imports_that_lead_up_and_modules_without_a_floor_are_found() {
        let tree = Tree::of([
            ("x/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use c::Up;\npub struct Own;\n"),
            ("x/src/a.rs", "//! A.\nuse crate::Up;\nuse crate::{Own, b::B};\n"),
            ("x/src/b.rs", "use crate::a::A;\nuse crate::c::C;\n"),
            ("x/src/c.rs", "use crate::b::B;\n"),
            ("x/src/d.rs", ""),
        ]);
        let found = CrateImports::of(&tree, "x").unwrap();
        let text = |offence: Offence| format!("{}:{}: {}", offence.path, offence.line, offence.text);
        let expected = [
            "x/src/lib.rs:1: d has no floor in tidy/src/floors.rs",
            "tidy/src/floors.rs:1: x has no module gone",
            "x/src/a.rs:2: a → c leads up (Up)",
            "x/src/a.rs:3: Own is defined in the root, which is above all modules",
            "x/src/a.rs:3: a → b leads up (b)",
        ];
        assert_eq!(compare(&FLOORS, &found).into_iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_module_has_two_floors() {
        for crate_floors in CRATES {
            let mut modules: Vec<_> = crate_floors.floors.iter().flat_map(|floor| *floor).collect();
            let count = modules.len();
            modules.sort_unstable();
            modules.dedup();
            assert_eq!(modules.len(), count, "{}", crate_floors.folder);
        }
    }
}
