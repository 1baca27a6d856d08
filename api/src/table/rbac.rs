//! Table columns of role bindings. Roles have only the default columns.

use super::text::{join_or, list, of};
use super::{AGE, NAME, Printer, age, name, printer, text};
use serde_json::Value;

pub(crate) const BINDING: Printer = printer(
    &[
        NAME,
        text("Role", "Role of the binding."),
        AGE,
        text("Users", "Users among the subjects.").wide(),
        text("Groups", "Groups among the subjects.").wide(),
        text("ServiceAccounts", "Service accounts among the subjects.").wide(),
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
