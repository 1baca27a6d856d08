//! Comparison of a report with an earlier one: [`Comparison`]. Pure.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Members that every report has; another file is none.
const MEMBERS: [&str; 6] = ["until", "seed", "pods", "evictions", "groups", "writes"];

/// What differs between two reports, by the path of the value; nothing if they are equal.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Comparison(Vec<Difference>);

/// A value that differs. A member that only one of the reports has, such as a group, is null in the other.
#[derive(Debug, PartialEq, Serialize)]
struct Difference {
    path: String,
    before: Value,
    now: Value,
}

/// Reads the report of an earlier simulation.
///
/// # Errors
/// The text is none, with what to do.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| format!("no report: {error}"))?;
    // The report of a run that itself compared has the comparison beside it.
    match MEMBERS.iter().find(|member| report.get(member).is_none()) {
        Some(missing) => Err(format!(
            "no report of a simulation: it has no \"{missing}\"; `kstore-server simulate SCENARIO -o json` prints one"
        )),
        None => Ok(report),
    }
}

impl Comparison {
    /// What differs from `before` in `now`, in the order of the paths.
    pub(super) fn of(before: &Value, now: &Value) -> Self {
        let (before, mut now) = (values(before), values(now));
        let mut differences = Vec::new();
        for (path, before) in before {
            let now = now.remove(&path).unwrap_or_default();
            if before != now {
                differences.push(Difference { path, before, now });
            }
        }
        let only_now = now.into_iter().map(|(path, now)| Difference { path, before: Value::Null, now });
        differences.extend(only_now);
        differences.sort_by(|a, b| a.path.cmp(&b.path));
        Self(differences)
    }

    /// The comparison for people: a line per value that differs.
    pub(super) fn text(&self, file: &str) -> String {
        if self.0.is_empty() {
            return format!("\nequal to {file}\n");
        }
        let mut text = format!("\ncompared with {file}\n");
        for Difference { path, before, now } in &self.0 {
            let word = |value: &Value| match value {
                Value::Null => "-".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let change = change(before, now).map_or(String::new(), |change| format!("  ({change})"));
            // Writing into a text does not fail.
            let _ = writeln!(text, "{path:<34} {:>14} -> {}{change}", word(before), word(now));
        }
        text
    }
}

/// By how much a number has changed, as a share of the earlier one.
fn change(before: &Value, now: &Value) -> Option<String> {
    let (before, now) = (before.as_f64()?, now.as_f64()?);
    (before != 0.0).then(|| format!("{:+.1} %", (now - before) / before * 100.0))
}

/// The values of a report without lists, by path. Groups have their names as indexes, so that one more moves none. The comparison of an
/// earlier report is left out.
fn values(report: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for member in MEMBERS {
        collect(member, &report[member], &mut all);
    }
    all
}

fn collect(path: &str, value: &Value, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter().filter(|(name, _)| *name != "name") {
                collect(&format!("{path}.{name}"), member, all);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = item["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                collect(&format!("{path}[{name}]"), item, all);
            }
        }
        Value::Null => {}
        value => drop(all.insert(path.to_owned(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(groups: Value, p90: f64) -> Value {
        json!({
            "until": "30m0s", "seed": 7, "pods": {"created": 5, "startSeconds": {"p90": p90}}, "evictions": {},
            "groups": groups, "writes": {"total": 9, "byWriter": {"kubelets": 9}},
        })
    }

    #[test]
    fn values_that_differ_are_shown_by_path_and_groups_by_name() {
        let before = report(json!([{"name": "web", "cost": 2.0}]), 4.0);
        let now = report(json!([{"name": "gpu", "cost": 8.0}, {"name": "web", "cost": 3.0}]), 4.0);
        let found = Comparison::of(&before, &now);
        let expected =
            [("groups[gpu].cost", Value::Null, json!(8.0)), ("groups[web].cost", json!(2.0), json!(3.0))];
        let expected =
            expected.map(|(path, before, now)| Difference { path: path.to_owned(), before, now }).into();
        assert_eq!(found, Comparison(expected));
        let text = found.text("first.json");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "compared with first.json");
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["groups[gpu].cost", "-", "->", "8.0"]);
        assert!(lines[2].ends_with("2.0 -> 3.0  (+50.0 %)"), "{text}");
    }

    #[test]
    fn equal_reports_have_no_difference_and_another_file_is_none() {
        let one = report(json!([]), 1.5);
        assert_eq!(Comparison::of(&one, &one).text("a.json"), "\nequal to a.json\n");
        assert_eq!(read(&one.to_string()), Ok(one.clone()));
        let refused = read(r#"{"until": "1h", "seed": 1}"#).unwrap_err();
        assert!(refused.contains("it has no \"pods\""), "{refused}");
        assert!(read("pods: 3").is_err());
        // A report that was itself compared can be compared with.
        let mut compared = one.clone();
        compared["differences"] = json!([{"path": "seed", "before": 1, "now": 7}]);
        assert_eq!(Comparison::of(&compared, &one), Comparison(Vec::new()));
    }
}
