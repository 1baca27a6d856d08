//! Table columns of PodGroups and Workloads.

use super::text::{NONE, list, or};
use super::{AGE, NAME, Printer, age, name, printer, text};
use serde_json::Value;

pub(crate) const WORKLOAD: Printer =
    printer(&[NAME, AGE], |workload, now| vec![name(workload), age(workload, now)]);

pub(crate) const POD_GROUP: Printer = printer(COLUMNS, |group, now| {
    let workload = or(&group["spec"]["workloadRef"]["workloadName"], NONE);
    vec![
        name(group),
        policy(group).into(),
        workload.into(),
        status(group, "PodGroupInitiallyScheduled").into(),
        age(group, now),
    ]
});

pub(crate) const POD_GROUP_ALPHA: Printer = printer(COLUMNS, |group, now| {
    let workload = or(&group["spec"]["podGroupTemplateRef"]["workload"]["workloadName"], NONE);
    vec![
        name(group),
        policy(group).into(),
        workload.into(),
        status(group, "PodGroupScheduled").into(),
        age(group, now),
    ]
});

const COLUMNS: &[super::Column] = &[
    NAME,
    text("Policy", "How the pods are scheduled: together as a gang, or one by one."),
    text("Workload", "Workload with the template of the group."),
    text("Status", "Whether the pods have nodes, or why they have none."),
    AGE,
];

fn policy(group: &Value) -> &'static str {
    let policy = &group["spec"]["schedulingPolicy"];
    let of = |member: &str| policy[member].is_object();
    match (of("gang"), of("basic")) {
        (true, _) => "Gang",
        (false, true) => "Basic",
        (false, false) => NONE,
    }
}

/// The reason of the condition that says whether the pods of a group have nodes.
fn status<'g>(group: &'g Value, condition: &str) -> &'g str {
    let found = list(&group["status"]["conditions"]).iter().find(|one| one["type"] == condition);
    found.map_or("Pending", |one| or(&one["reason"], "Pending"))
}
