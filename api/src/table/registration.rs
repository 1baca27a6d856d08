//! Table columns of API services.

use super::text::{list, of};
use super::{AGE, NAME, Printer, age, name, printer, text};
use serde_json::Value;

pub(crate) const API_SERVICE: Printer = printer(
    &[
        NAME,
        text("Service", "Service of the API, or `Local` for this server."),
        text("Available", "Whether the API is available, and if not, the reason."),
        AGE,
    ],
    |object, now| {
        vec![
            name(object),
            service(&object["spec"]["service"]).into(),
            available(object).into(),
            age(object, now),
        ]
    },
);

fn service(reference: &Value) -> String {
    if reference.is_null() {
        return "Local".to_owned();
    }
    format!("{}/{}", of(&reference["namespace"]), of(&reference["name"]))
}

fn available(object: &Value) -> String {
    let conditions = list(&object["status"]["conditions"]);
    let Some(condition) = conditions.iter().find(|condition| condition["type"] == "Available") else {
        return "Unknown".to_owned();
    };
    match (of(&condition["status"]), of(&condition["reason"])) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
