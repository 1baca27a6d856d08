//! The row of a role binding. Roles print as kinds without columns of their own.

use serde_json::Value;

use super::text::{join_or, list, of};
use super::{AGE, NAME, Printer, age, name, printer, text};

pub(super) const BINDING: Printer = printer(
    &[
        NAME,
        text("Role", "Role that is given."),
        AGE,
        text("Users", "Users it is given to.").wide(),
        text("Groups", "Groups it is given to.").wide(),
        text("ServiceAccounts", "Service accounts it is given to.").wide(),
    ],
    |binding, now| {
        let role = &binding["roleRef"];
        vec![
            name(binding),
            format!("{}/{}", of(&role["kind"]), of(&role["name"])).into(),
            age(binding, now),
            subjects(binding, "User").into(),
            subjects(binding, "Group").into(),
            subjects(binding, "ServiceAccount").into(),
        ]
    },
);

fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = list(&binding["subjects"]).iter().filter(|subject| subject["kind"] == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", of(&subject["namespace"]), of(&subject["name"])),
        _ => of(&subject["name"]).to_owned(),
    });
    join_or(names, ", ", "")
}
