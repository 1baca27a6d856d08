//! Table columns of API priority and fairness.

use super::text::{NONE, count, list, of, or};
use super::{AGE, NAME, Printer, age, name, printer, text};
use serde_json::Value;

pub(crate) const FLOW_SCHEMA: Printer = printer(
    &[
        NAME,
        text("PriorityLevel", "Priority level of the requests."),
        text("MatchingPrecedence", "Precedence; lower values are matched first."),
        text("DistinguisherMethod", "How requests are divided into flows."),
        AGE,
        text("MissingPL", "Whether the priority level is missing."),
    ],
    |schema, now| {
        let spec = &schema["spec"];
        let dangling = list(&schema["status"]["conditions"]).iter().find(|c| c["type"] == "Dangling");
        let missing = dangling.map_or("?", |condition| of(&condition["status"]));
        vec![
            name(schema),
            of(&spec["priorityLevelConfiguration"]["name"]).into(),
            count(&spec["matchingPrecedence"]),
            or(&spec["distinguisherMethod"]["type"], NONE).into(),
            age(schema, now),
            missing.into(),
        ]
    },
);

pub(crate) const PRIORITY_LEVEL: Printer = printer(
    &[
        NAME,
        text("Type", "Type of the priority level."),
        text("NominalConcurrencyShares", "Nominal concurrency shares."),
        text("Queues", "Number of queues."),
        text("HandSize", "Number of queues that a flow can use."),
        text("QueueLengthLimit", "Maximum length of a queue."),
        AGE,
    ],
    |level, now| {
        let spec = &level["spec"];
        let queuing = &spec["limited"]["limitResponse"]["queuing"];
        let figure = |value: &Value| value.as_i64().map_or_else(|| NONE.into(), Value::from);
        let shares = figure(&spec["limited"]["nominalConcurrencyShares"]);
        let mut cells = vec![name(level), of(&spec["type"]).into(), shares];
        for member in ["queues", "handSize", "queueLengthLimit"] {
            cells.push(figure(&queuing[member]));
        }
        cells.push(age(level, now));
        cells
    },
);
