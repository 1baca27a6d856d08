//! Table columns of dynamic resource allocation: device classes, device taint rules, resource claims, claim templates and resource
//! slices.

use super::text::{list, of};
use super::{AGE, NAME, Printer, age, name, printer, text};
use crate::meta;
use serde_json::Value;

/// Device classes and claim templates have only name and age.
pub(crate) const PLAIN: Printer = printer(&[NAME, AGE], |object, now| vec![name(object), age(object, now)]);

/// Device taint rules have only the name.
pub(crate) const NAMED: Printer = printer(&[NAME], |object, _| vec![name(object)]);

pub(crate) const CLAIM: Printer = printer(
    &[NAME, text("State", "State of the claim: pending, allocated, reserved or deleted."), AGE],
    |claim, now| vec![name(claim), state(claim).into(), age(claim, now)],
);

fn state(claim: &Value) -> String {
    let status = &claim["status"];
    let (deleted, allocated) = (meta::is_being_deleted(claim), status["allocation"].is_object());
    let reserved = allocated && !list(&status["reservedFor"]).is_empty();
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    states.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

pub(crate) const SLICE: Printer = printer(
    &[
        NAME,
        text("Node", "Node the devices belong to."),
        text("Driver", "Driver that publishes the slice."),
        text("Pool", "Pool of the slice."),
        AGE,
    ],
    |slice, now| {
        let spec = &slice["spec"];
        let texts = [&spec["nodeName"], &spec["driver"], &spec["pool"]["name"]].map(|text| of(text).into());
        let mut cells = vec![name(slice)];
        cells.extend(texts);
        cells.push(age(slice, now));
        cells
    },
);
