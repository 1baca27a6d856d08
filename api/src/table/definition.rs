//! Table columns of CustomResourceDefinitions since Kubernetes 1.37; before, they had those of kinds without columns of their own.

use super::text::{join_or, list, of};
use super::{CREATED_AT, NAME, Printer, flag, name, printer, text};
use crate::group_version::by_priority;
use crate::meta;
use serde_json::Value;

/// Name, scope, served versions and time of creation.
pub(crate) const SERVED_VERSIONS: Printer = printer(
    &[
        NAME,
        text("Scope", "Whether objects are in namespaces or cluster-wide."),
        text("Versions", "Served versions, with a mark at the one in which objects are stored."),
        CREATED_AT,
        text("Group", "API group.").wide(),
        text("Kind", "Kind of the objects.").wide(),
        text("ShortNames", "Short names.").wide(),
        flag("Established", "Whether the kind is served.").wide(),
    ],
    |definition, _| {
        let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
        vec![
            name(definition),
            of(&spec["scope"]).into(),
            versions(spec).into(),
            meta::creation_timestamp(definition).into(),
            of(&spec["group"]).into(),
            of(&names["kind"]).into(),
            join_or(list(&names["shortNames"]).iter().filter_map(Value::as_str), ",", "").into(),
            is_established(definition).into(),
        ]
    },
);

/// The served versions, the preferred one first.
fn versions(spec: &Value) -> String {
    let mut served: Vec<&Value> =
        list(&spec["versions"]).iter().filter(|version| version["served"] == true).collect();
    served.sort_by(|a, b| by_priority(of(&a["name"]), of(&b["name"])));
    let shown = served.iter().map(|version| {
        let mark = if version["storage"] == true { "(storage)" } else { "" };
        format!("{}{mark}", of(&version["name"]))
    });
    shown.collect::<Vec<_>>().join(",")
}

fn is_established(definition: &Value) -> bool {
    list(&definition["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
