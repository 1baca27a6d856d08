//! Prints results: as JSON for programs, or as rows of name and value for people.

use crate::args::Output;
use crate::data_version::DataVersion;
use kstore_store::Alarm;
use kstore_store::maintenance::{Problem, SalvageReport, VerifyReport};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Prints a JSON object in the output format.
pub(super) fn answer(output: Output, answer: &Value) {
    let text = match output {
        Output::Json => format!("{answer}\n"),
        Output::Table => rows(answer, 0),
    };
    self::text(&text);
}

/// Prints a text. The reader of standard output may have exited.
pub(super) fn text(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// One row per field. Fields of nested objects are indented, and each item of a list has its own row.
fn rows(object: &Value, indent: usize) -> String {
    let fields = object.as_object().into_iter().flatten();
    let width = fields.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields {
        let pad = " ".repeat(indent);
        match value {
            Value::Object(_) => text.push_str(&format!("{pad}{name}\n{}", rows(value, indent + 2))),
            Value::Array(items) if items.is_empty() => text.push_str(&format!("{pad}{name:width$}  none\n")),
            Value::Array(items) => {
                text.push_str(&format!("{pad}{name}\n"));
                items.iter().for_each(|item| text.push_str(&format!("{pad}  {}\n", plain(item))));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                text.push_str(&format!("{pad}{name:width$}  {}\n", plain(value)));
            }
        }
    }
    text
}

/// A value on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let shown = fields.values().filter(|value| !value.is_null());
            shown.map(plain).collect::<Vec<_>>().join("  ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => value.to_string(),
    }
}

/// etcd's name of an alarm.
pub(super) fn alarm(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::NoSpace => "NOSPACE",
        Alarm::Corrupt => "CORRUPT",
    }
}

/// The contents of a directory; with its problems if `with_problems`.
pub(super) fn examined(examined: &VerifyReport, version: Option<&DataVersion>, with_problems: bool) -> Value {
    let status = &examined.status;
    let alarms = status.alarms.iter().copied().map(alarm);
    let mut answer = json!({
        "engine": status.engine,
        "identity": format!("{:016x}", status.identity),
        "revision": status.revision.0,
        "compacted": status.compacted.0,
        "keys": status.keys,
        "records": status.records,
        "recordBytes": status.record_bytes,
        "leases": status.leases,
        "alarms": alarms.collect::<Vec<_>>(),
        "checkpoint": status.checkpoint,
        "engineBytes": status.engine_bytes,
        "log": {
            "first": status.log.first,
            "last": status.log.last,
            "files": status.log.files,
            "bytes": status.log.bytes,
        },
    });
    if let Some(version) = version {
        answer["kubernetes"] = json!(version.to_string());
        answer["featureGates"] = json!(version.gates());
    }
    if with_problems {
        answer["problems"] = problems(&examined.problems);
    }
    answer
}

/// The result of a salvage, with what is lost and the problems found.
pub(super) fn salvaged(file: &Path, salvaged: &SalvageReport, output: Output) -> Value {
    let SalvageReport { snapshot, lost, problems: found } = salvaged;
    let revisions: Vec<Value> = match output {
        Output::Table => lost.revisions.iter().map(|range| json!(range.to_string())).collect(),
        Output::Json => {
            lost.revisions.iter().map(|range| json!({"first": range.first.0, "last": range.last.0})).collect()
        }
    };
    let versions = lost.versions.iter().map(|version| match output {
        Output::Table => json!(version.to_string()),
        Output::Json => json!({
            "key": version.key.escape_ascii().to_string(),
            "revision": version.revision.0,
            "kept": version.kept.map(|kept| kept.0),
        }),
    });
    json!({
        "file": file.display().to_string(),
        "revision": snapshot.revision.0,
        "records": snapshot.records,
        "bytes": snapshot.bytes,
        "lostRevisions": revisions,
        "lostVersions": versions.collect::<Vec<_>>(),
        "unknownPlaces": lost.unknown,
        "problems": problems(found),
    })
}

fn problems(problems: &[Problem]) -> Value {
    let each = problems.iter().map(|problem| {
        let file = problem.file.display().to_string();
        json!({"file": file, "offset": problem.offset, "detail": problem.detail})
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_print_as_rows_of_name_and_value() {
        let answer = json!({
            "name": "x",
            "log": {"first": 1, "last": 20},
            "problems": [{"file": "f", "offset": null, "detail": "broken"}],
            "alarms": [],
        });
        let expected = "alarms    none\nlog\n  first  1\n  last   20\nname      x\nproblems\n  broken  f\n";
        assert_eq!(rows(&answer, 0), expected);
    }
}
