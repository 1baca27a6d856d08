//! Table columns of workloads and controller revisions.
//!
//! Follows `printDeployment`, `printStatefulSet` and `printDaemonSet`.

use super::text::{NONE, containers, count, int, labels, of, selector, selector_or};
use super::{AGE, CONTAINERS, Column, IMAGES, NAME, Printer, SELECTOR, age, name, number, printer, text};
use crate::group_version::split_api_version;
use crate::meta;
use jiff::Timestamp;
use serde_json::Value;

fn template(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

/// Appends names and images of the template's containers.
fn with_containers(mut cells: Vec<Value>, object: &Value) -> Vec<Value> {
    cells.extend(containers(template(object)));
    cells
}

fn fraction(have: &Value, want: &Value) -> Value {
    format!("{}/{}", int(have), int(want)).into()
}

const READY: Column = text("Ready", "Ready replicas of the desired number.");

pub(crate) const DEPLOYMENT: Printer = printer(
    &[
        NAME,
        READY,
        text("Up-to-date", "Replicas of the current template."),
        text("Available", "Replicas that have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |object, now| {
        let status = &object["status"];
        let mut cells = with_containers(
            vec![
                name(object),
                fraction(&status["readyReplicas"], &object["spec"]["replicas"]),
                count(&status["updatedReplicas"]),
                count(&status["availableReplicas"]),
                age(object, now),
            ],
            object,
        );
        cells.push(selector_or(&object["spec"]["selector"], "", "<invalid>").into());
        cells
    },
);

const COUNTS: [Column; 3] = [
    number("Desired", "Desired number of replicas."),
    number("Current", "Number of replicas."),
    number("Ready", "Replicas that are ready."),
];
const REPLICA_COLUMNS: &[Column] =
    &[NAME, COUNTS[0], COUNTS[1], COUNTS[2], AGE, CONTAINERS, IMAGES, SELECTOR];

fn replica_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let cells = vec![
        name(object),
        count(&object["spec"]["replicas"]),
        count(&object["status"]["replicas"]),
        count(&object["status"]["readyReplicas"]),
        age(object, now),
    ];
    with_containers(cells, object)
}

pub(crate) const REPLICA_SET: Printer = printer(REPLICA_COLUMNS, |object, now| {
    let mut cells = replica_cells(object, now);
    cells.push(selector(&object["spec"]["selector"]).into());
    cells
});

pub(crate) const REPLICATION_CONTROLLER: Printer = printer(REPLICA_COLUMNS, |object, now| {
    let mut cells = replica_cells(object, now);
    cells.push(labels(&object["spec"]["selector"]).into());
    cells
});

pub(crate) const STATEFUL_SET: Printer = printer(&[NAME, READY, AGE, CONTAINERS, IMAGES], |object, now| {
    let ready = fraction(&object["status"]["readyReplicas"], &object["spec"]["replicas"]);
    with_containers(vec![name(object), ready, age(object, now)], object)
});

pub(crate) const DAEMON_SET: Printer = printer(
    &[
        NAME,
        COUNTS[0],
        COUNTS[1],
        COUNTS[2],
        number("Up-to-date", "Pods of the current template."),
        number("Available", "Pods that have been ready for long enough."),
        text("Node Selector", "Node selector of the pods."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |object, now| {
        let status = &object["status"];
        let mut cells = vec![name(object)];
        for member in [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ] {
            cells.push(count(&status[member]));
        }
        cells.push(labels(&template(object)["nodeSelector"]).into());
        cells.push(age(object, now));
        let mut cells = with_containers(cells, object);
        cells.push(selector(&object["spec"]["selector"]).into());
        cells
    },
);

pub(crate) const CONTROLLER_REVISION: Printer = printer(
    &[NAME, text("Controller", "Object that owns the revision."), text("Revision", "Revision number."), AGE],
    |object, now| {
        let controller = meta::controller_of(object).map_or_else(
            || NONE.to_owned(),
            |owner| {
                let (group, _) = split_api_version(of(&owner["apiVersion"]));
                let dot = if group.is_empty() { "" } else { "." };
                format!("{}{dot}{group}/{}", of(&owner["kind"]).to_lowercase(), of(&owner["name"]))
            },
        );
        vec![name(object), controller.into(), count(&object["revision"]), age(object, now)]
    },
);

pub(crate) const POD_TEMPLATE: Printer = printer(
    &[
        NAME,
        text("Containers", "Names of the containers."),
        text("Images", "Images of the containers."),
        text("Pod Labels", "Labels of the pods."),
    ],
    |object, _| {
        let [names, images] = containers(&object["template"]["spec"]);
        vec![name(object), names, images, labels(&object["template"]["metadata"]["labels"]).into()]
    },
);
