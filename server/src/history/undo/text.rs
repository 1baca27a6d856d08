//! The plan of an undo as text for people. Pure.

use super::super::text::{line, shown};
use super::merge::Conflict;
use super::plan::{UndoOperation, UndoPlan, UndoStep};
use std::fmt::Write as _;

/// The plan of one object.
#[derive(Debug)]
pub(super) struct PlannedObject {
    /// The object in a few words: `deployments.apps default/web`.
    pub title: String,
    pub plan: UndoPlan,
    /// What is lost or left out.
    pub notes: Vec<String>,
}

/// A line for each object, with what changes below it.
pub(super) fn planned(title: &str, objects: &[PlannedObject]) -> String {
    let mut out = format!("{title}\n");
    for object in objects {
        let what = match (object.plan.operation(), &object.plan.step) {
            (UndoOperation::Update, _) => "update",
            (UndoOperation::Delete, _) => "delete",
            (UndoOperation::Create, _) => "create",
            (UndoOperation::None, UndoStep::Nothing(reason)) => {
                let _ = writeln!(out, "  leave  {}: {reason}", object.title);
                continue;
            }
            (UndoOperation::None, _) => continue,
        };
        let _ = writeln!(out, "  {what} {}", object.title);
        for change in &object.plan.changes {
            let _ = writeln!(out, "      {}", line(change, &[]));
        }
        object.plan.conflicts.iter().for_each(|conflict| show_conflict(&mut out, conflict));
        for note in &object.notes {
            let _ = writeln!(out, "      note: {note}");
        }
    }
    out
}

fn show_conflict(out: &mut String, conflict: &Conflict) {
    let Conflict { path, before, after, now } = conflict;
    let [before, after, now] = [before, after, now].map(|value| shown(value.as_ref()));
    let _ =
        writeln!(out, "      conflict {path}: {before} before, the write left {after}, and now it is {now}");
}

#[cfg(test)]
mod tests {
    use super::super::plan::{ThreeStates, plan};
    use super::*;
    use crate::args::ConflictPolicy;
    use serde_json::{Value, json};

    #[test]
    fn a_plan_names_each_object_with_its_changes_conflicts_and_notes() {
        let object = |a: i64, b: i64| -> Option<Value> {
            Some(json!({"metadata": {"uid": "u"}, "spec": {"a": a, "b": b}}))
        };
        let of = |title: &str, before, after, now| PlannedObject {
            title: title.to_owned(),
            plan: plan(&ThreeStates { before, after, now }, ConflictPolicy::Fail),
            notes: vec!["a note".to_owned()],
        };
        let text = planned(
            "undo of #5",
            &[
                of("cm ns/a", object(1, 1), object(2, 2), object(2, 3)),
                of("cm ns/b", None, object(1, 1), object(1, 1)),
                of("cm ns/c", None, object(1, 1), None),
            ],
        );
        let expected = "\
undo of #5
  update cm ns/a
      spec.a                                        2 → 1
      conflict spec.b: 1 before, the write left 2, and now it is 3
      note: a note
  delete cm ns/b
      note: a note
  leave  cm ns/c: the created object is already gone
";
        assert_eq!(text, expected);
    }
}
