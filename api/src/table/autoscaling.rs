//! Table columns of horizontal pod autoscalers and disruption budgets.
//!
//! Follows `printHorizontalPodAutoscaler` and `printPodDisruptionBudget`.

use super::text::{NONE, UNKNOWN, UNSET, count, first_of, int_or_string, list, of};
use super::{AGE, Column, NAME, Printer, age, name, number, printer as row, text};
use crate::convert::autoscaler::in_v2;
use jiff::Timestamp;
use serde_json::Value;

const COLUMNS: &[Column] = &[
    NAME,
    text("Reference", "Scaled object."),
    text("Targets", "Current and target values of the metrics."),
    text("MinPods", "Minimum number of replicas."),
    text("MaxPods", "Maximum number of replicas."),
    text("Replicas", "Number of replicas."),
    AGE,
];

/// Prints a v1 autoscaler after conversion to v2.
pub(crate) const V1: Printer = row(COLUMNS, |hpa, now| cells(&in_v2(hpa), now));

pub(crate) const V2: Printer = row(COLUMNS, cells);

/// Metrics shown; the rest is counted.
const SHOWN: usize = 2;

fn targets(hpa: &Value) -> String {
    let none = Value::Null;
    let statuses = list(&hpa["status"]["currentMetrics"]);
    let specs = list(&hpa["spec"]["metrics"]).iter().enumerate();
    let targets: Vec<_> = specs.map(|(i, spec)| target(spec, statuses.get(i).unwrap_or(&none))).collect();
    first_of(&targets, SHOWN, ", ", NONE)
}

fn cells(hpa: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, scaled) = (&hpa["spec"], &hpa["spec"]["scaleTargetRef"]);
    vec![
        name(hpa),
        format!("{}/{}", of(&scaled["kind"]), of(&scaled["name"])).into(),
        targets(hpa).into(),
        int_or_string(&spec["minReplicas"], UNSET).into(),
        count(&spec["maxReplicas"]),
        count(&hpa["status"]["currentReplicas"]),
        age(hpa, now),
    ]
}

fn percent(value: &Value) -> String {
    value.as_i64().map_or_else(|| UNKNOWN.to_owned(), |n| format!("{n}%"))
}

/// Formats one metric: `[name: ]current/target[ (avg)]`.
fn target(spec: &Value, status: &Value) -> String {
    let kind = of(&spec["type"]);
    let member = match kind {
        "ContainerResource" => "containerResource".to_owned(),
        _ => kind.to_lowercase(),
    };
    let (spec, current) = (&spec[&member], &status[&member]["current"]);
    let amount = |value: &Value| int_or_string(value, UNKNOWN);
    let (average, wanted) = (&spec["target"]["averageValue"], &spec["target"]["value"]);
    match kind {
        "Resource" | "ContainerResource" => {
            let label = of(&spec["name"]);
            if average.is_null() {
                let wanted = match &spec["target"]["averageUtilization"] {
                    Value::Null => "<auto>".to_owned(),
                    wanted => percent(wanted),
                };
                return format!("{label}: {}/{wanted}", percent(&current["averageUtilization"]));
            }
            format!("{label}: {}/{}", amount(&current["averageValue"]), amount(average))
        }
        "Pods" => format!("{}/{}", amount(&current["averageValue"]), amount(average)),
        "Object" | "External" if !average.is_null() => {
            format!("{}/{} (avg)", amount(&current["averageValue"]), amount(average))
        }
        "Object" | "External" => format!("{}/{}", amount(&current["value"]), amount(wanted)),
        _ => "<unknown type>".to_owned(),
    }
}

pub(crate) const DISRUPTION_BUDGET: Printer = row(
    &[
        NAME,
        text("Min Available", "Minimum number of available pods."),
        text("Max Unavailable", "Maximum number of unavailable pods."),
        number("Allowed Disruptions", "Number of pods that can be evicted now."),
        AGE,
    ],
    |budget, now| {
        let spec = &budget["spec"];
        vec![
            name(budget),
            int_or_string(&spec["minAvailable"], "N/A").into(),
            int_or_string(&spec["maxUnavailable"], "N/A").into(),
            count(&budget["status"]["disruptionsAllowed"]),
            age(budget, now),
        ]
    },
);
