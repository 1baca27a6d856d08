//! The steps of a scenario.

use super::fields::Reading;
use super::parts::object;
use super::{Step, StepAction, WaitGoal};
use crate::limits;
use crate::yaml::{Content, Node};
use std::collections::BTreeMap;

/// The verbs of steps.
const VERBS: [&str; 8] = ["apply", "wait", "patch", "settle", "advance", "exec", "delete", "recreate"];

pub(super) fn steps(reading: &mut Reading<'_>, node: Option<&Node>) -> Vec<Step> {
    let items = node.map(|node| reading.list(node, "steps")).unwrap_or_default();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for item in items {
        let Some(action) = step(reading, item) else { continue };
        let count = counts.entry(action.verb()).or_default();
        *count += 1;
        let name = format!("{}-{count}", action.verb());
        all.push(Step { name, position: item.position, action });
    }
    all
}

fn step(reading: &mut Reading<'_>, node: &Node) -> Option<StepAction> {
    let fields = reading.fields(node, "a step", &VERBS)?;
    let given = fields.given(&VERBS);
    let [(verb, value)] = given[..] else {
        let is_unknown =
            given.is_empty() && matches!(&node.content, Content::Map(entries) if !entries.is_empty());
        if !is_unknown {
            reading.wrong(node.position, format!("a step has one verb of {}", VERBS.join(", ")));
        }
        return None;
    };
    match verb.text.as_str() {
        "apply" => reading.path(value, "apply").map(StepAction::Apply),
        "wait" => wait(reading, value),
        "patch" => {
            let fields = reading.fields(value, "patch", &["object", "merge"])?;
            let target = reading.required(&fields, "patch", "object")?;
            let merge = reading.required(&fields, "patch", "merge")?;
            Some(StepAction::Patch { object: object(reading, target, "patch.object")?, merge: merge.json() })
        }
        "settle" => {
            reading.fields(value, "settle", &[])?;
            Some(StepAction::Settle)
        }
        "advance" => reading.duration(value, "advance").map(StepAction::Advance),
        "exec" => {
            let command = reading.texts(value, "exec");
            if command.is_empty() {
                reading.wrong(value.position, "exec needs a command");
                return None;
            }
            Some(StepAction::Exec(command))
        }
        "delete" => {
            let fields = reading.fields(value, "delete", &["object", "wait"])?;
            let target = reading.required(&fields, "delete", "object")?;
            let waits = fields.get("wait").and_then(|node| reading.boolean(node, "delete.wait"));
            let object = object(reading, target, "delete.object")?;
            Some(StepAction::Delete { object, waits: waits.unwrap_or(false) })
        }
        _ => {
            let fields = reading.fields(value, "recreate", &["object"])?;
            let target = reading.required(&fields, "recreate", "object")?;
            object(reading, target, "recreate.object").map(StepAction::Recreate)
        }
    }
}

fn wait(reading: &mut Reading<'_>, node: &Node) -> Option<StepAction> {
    let known = ["object", "condition", "matches", "deleted", "exists", "within"];
    let fields = reading.fields(node, "wait", &known)?;
    let target = reading.required(&fields, "wait", "object")?;
    let object = object(reading, target, "wait.object")?;
    let within = fields.get("within").and_then(|node| reading.duration(node, "wait.within"));
    let goals = fields.given(&["condition", "matches", "deleted", "exists"]);
    let [(kind, value)] = goals[..] else {
        reading.wrong(node.position, "wait has one of condition, matches, deleted, exists");
        return None;
    };
    let goal = match kind.text.as_str() {
        "condition" => WaitGoal::Condition(reading.text(value, "wait.condition")?),
        "matches" => WaitGoal::Matches(value.json()),
        name => {
            if !reading.boolean(value, name)? {
                reading.wrong(value.position, format!("{name} can only be true"));
            }
            if name == "deleted" { WaitGoal::Deleted } else { WaitGoal::Exists }
        }
    };
    Some(StepAction::Wait { object, goal, within: within.unwrap_or(limits::WAIT) })
}
