//! Reads a whole scenario.

use super::fields::{Reading, nearest};
use super::{API_VERSION, Scenario, parts, steps};
use crate::limits;
use crate::yaml::{self, Mistake, Node, Position};
use std::path::Path;

/// The fields of a scenario.
const FIELDS: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "cluster",
    "operators",
    "steps",
    "invariants",
    "expect",
    "volatile",
    "fungible",
    "ignore",
    "severity",
];

/// Reads a scenario whose paths are relative to `folder`.
///
/// # Errors
/// The mistakes, in the order of the text.
pub(super) fn scenario(text: &str, folder: &Path) -> Result<Scenario, Vec<Mistake>> {
    if text.len() > limits::FILE_BYTES {
        let problem = format!("a scenario has at most {} bytes", limits::FILE_BYTES);
        return Err(vec![Mistake { position: Position { line: 1, column: 1 }, problem }]);
    }
    let root = yaml::parse(text).map_err(|mistake| vec![mistake])?;
    let mut reading = Reading { mistakes: Vec::new(), folder };
    let read = whole(&mut reading, &root);
    reading.mistakes.sort_by_key(|mistake| mistake.position);
    match read {
        Some(scenario) if reading.mistakes.is_empty() => Ok(scenario),
        _ => Err(reading.mistakes),
    }
}

fn whole(reading: &mut Reading<'_>, root: &Node) -> Option<Scenario> {
    let fields = reading.fields(root, "a scenario", &FIELDS)?;
    for (name, expected) in [("apiVersion", API_VERSION), ("kind", "Scenario")] {
        let Some(node) = reading.required(&fields, "a scenario", name) else { continue };
        let Some(text) = reading.text(node, name) else { continue };
        if text != expected {
            let near = nearest(&text, &[expected]).map_or("is", |_| "is probably");
            reading.wrong(node.position, format!("{name} {near} {expected}, and not {text:?}"));
        }
    }
    let name = reading.required(&fields, "a scenario", "metadata").and_then(|node| {
        let metadata = reading.fields(node, "metadata", &["name"])?;
        let name = reading.required(&metadata, "metadata", "name")?;
        reading.text(name, "metadata.name")
    });
    let read = Scenario {
        name: name.unwrap_or_default(),
        cluster: parts::cluster(reading, fields.get("cluster")),
        operators: parts::operators(reading, fields.get("operators")),
        steps: steps::steps(reading, fields.get("steps")),
        invariants: parts::invariants(reading, fields.get("invariants")),
        expect: parts::expectations(reading, fields.get("expect")),
        volatile: parts::volatile(reading, fields.get("volatile")),
        fungible: parts::fungible(reading, fields.get("fungible")),
        ignore: parts::ignored(reading, fields.get("ignore")),
        severity: parts::severities(reading, fields.get("severity")),
    };
    if read.steps.is_empty() && fields.get("steps").is_none() {
        reading.wrong(fields.position, "a scenario needs the field \"steps\"");
    }
    Some(read)
}
