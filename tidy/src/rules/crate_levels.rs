//! The table of ARCHITECTURE.md points down, and the crates that few may use have no other users.

use super::Rule;
use crate::crate_table::{self, CrateTable, Row, Uses};
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "crate-levels",
    summary: "in the table of ARCHITECTURE.md, arrows go to a lower level; store, etcd, the API server and the loops keep their users",
    check,
};

/// Crates that few may use, with their users, as the text below the table says. A new user is a decision about the
/// architecture, not a line in the table.
const USERS: [(&str, &[&str]); 12] = [
    ("store", &["etcd", "storage", "cluster", "lab", "testing", "server"]),
    ("etcd", &["server"]),
    (
        "storage",
        &["registry", "access", "admission", "pipeline", "apiserver", "cluster", "lab", "testing", "server"],
    ),
    ("registry", &["access", "admission", "pipeline", "apiserver", "cluster", "lab", "testing", "server"]),
    ("access", &["admission", "pipeline", "apiserver", "cluster", "lab", "testing", "server"]),
    ("admission", &["pipeline", "apiserver", "server"]),
    ("pipeline", &["apiserver", "cluster", "server"]),
    ("apiserver", &["cluster", "lab", "testing", "server"]),
    ("controllers", &["cluster", "server"]),
    ("scheduler", &["cluster", "server"]),
    ("kubelet-sim", &["cluster", "lab", "testing", "server"]),
    ("tidy", &[]),
];

fn check(tree: &Tree) -> Vec<Offence> {
    match CrateTable::of(tree) {
        Ok(table) => down(&table).into_iter().chain(users(&table)).collect(),
        Err(offence) => vec![offence],
    }
}

/// Arrows that do not go down, or lead out of the table.
fn down(table: &CrateTable) -> Vec<Offence> {
    let mut offences = Vec::new();
    for row in &table.rows {
        let wrong = |text| Offence::new(crate_table::PATH, row.line, text);
        let Uses::Only(uses) = &row.uses else { continue };
        offences.extend(uses.iter().filter_map(|used| match table.row(used) {
            None => Some(wrong(format!("{} → {used}: there is no such crate", row.folder))),
            Some(lower) if lower.level >= row.level => {
                Some(wrong(format!("{} → {used} does not go down", row.folder)))
            }
            Some(_) => None,
        }));
    }
    offences
}

/// Users that are missing from [`USERS`] or from the table. The top, which may use all crates, is no user.
fn users(table: &CrateTable) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (folder, users) in USERS {
        let is_user = |row: &Row| matches!(row.uses, Uses::Only(_)) && row.may_use(folder);
        for row in &table.rows {
            let text = match (is_user(row), users.contains(&row.folder.as_str())) {
                (true, false) => format!("{} is not one of the users of {folder}: {users:?}", row.folder),
                (false, true) => format!("{} no longer uses {folder}", row.folder),
                _ => continue,
            };
            offences.push(Offence::new(crate_table::PATH, row.line, text));
        }
        let mut missing = users.iter().chain([&folder]).filter(|name| table.row(name).is_none());
        offences.extend(
            missing
                .next()
                .map(|name| Offence::new(crate_table::PATH, 1, format!("the table has no crate {name}"))),
        );
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| level | folder | may use (ours) |\n|---|---|---|\n| 0 | `tidy`, `nondet` | – |\n\
                         | 1 | `store` | nondet |\n| 2 | `etcd`, `storage` | store |\n\
                         | 3 | `controllers`, `scheduler`, `kubelet-sim` | nondet |\n\
                         | 4 | `registry` | storage |\n| 5 | `access` | storage, registry |\n\
                         | 6 | `admission` | storage, registry, access |\n\
                         | 7 | `pipeline` | storage, registry, access, admission |\n\
                         | 8 | `apiserver` | storage, registry, access, admission, pipeline |\n\
                         | 9 | `cluster` | store, storage, registry, access, pipeline, apiserver, controllers, scheduler, \
                         kubelet-sim |\n\
                         | 10 | `server` | store, etcd, storage, registry, access, admission, pipeline, apiserver, \
                         controllers, scheduler, kubelet-sim |\n\
                         | 10 | `testing` | store, storage, registry, access, apiserver, kubelet-sim |\n\
                         | 10 | `lab` | store, storage, registry, access, apiserver, kubelet-sim |\n\
                         | 11 | `tests` | all |\n";

    fn offences(from: &str, to: &str) -> Vec<String> {
        crate::rules::offences_of(RULE, [(crate_table::PATH, TABLE.replace(from, to).as_str())])
    }

    #[test]
    fn a_table_that_points_down_has_no_offences() {
        assert_eq!(offences("", ""), <[String; 0]>::default());
    }

    #[test]
    fn arrows_up_and_out_are_found() {
        assert_eq!(
            offences("| nondet |\n| 2", "| tests |\n| 2"),
            ["ARCHITECTURE.md:4: store → tests does not go down"]
        );
        let sideways = offences("kubelet-sim` | nondet", "kubelet-sim` | tidy, nondt");
        assert_eq!(sideways[0], "ARCHITECTURE.md:6: controllers → nondt: there is no such crate");
    }

    #[test]
    fn new_and_lost_users_are_found() {
        let new = "ARCHITECTURE.md:6: scheduler is not one of the users of store: \
                   [\"etcd\", \"storage\", \"cluster\", \"lab\", \"testing\", \"server\"]";
        let offence = offences("kubelet-sim` | nondet", "kubelet-sim` | nondet, store");
        assert!(offence.contains(&new.to_owned()), "{offence:?}");
        let lost = offences("store, etcd, storage,", "store, storage,");
        assert_eq!(lost, ["ARCHITECTURE.md:13: server no longer uses etcd"]);
    }
}
