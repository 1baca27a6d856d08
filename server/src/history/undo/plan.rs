//! [`plan`]: what would undo a write to one object. Pure.

use super::super::change::{Change, changes, mask};
use super::merge::{Conflict, Merge};
use crate::args::ConflictPolicy;
use serde::Serialize;
use serde_json::Value;

/// Members of the metadata that belong to one life of an object, or to one write.
const LIFE: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generateName",
];

/// Finalizers that a deletion itself adds, by its propagation policy.
const PROPAGATION: [&str; 2] = ["foregroundDeletion", "orphan"];
/// Annotations of a claim that a controller has bound to a volume, which names the uid of the claim.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// An object in three states: before the undone write, after it, and now; `None`: it was not there.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreeStates {
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub now: Option<Value>,
}

/// What is written to undo a write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UndoStep {
    /// The object is replaced, if it is unchanged until then.
    Update(Box<Value>),
    /// The object, which the write created, is deleted, if it is unchanged until then.
    Delete { uid: String, version: u64 },
    /// The object, which the write deleted or began to delete, is created again.
    Create(Box<Value>),
    /// Nothing is written, for this reason.
    Nothing(&'static str),
}

/// What undoes a write to one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UndoPlan {
    pub step: UndoStep,
    /// What an update changes.
    pub changes: Vec<Change>,
    pub conflicts: Vec<Conflict>,
}

/// The step as a word, for people and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UndoOperation {
    Update,
    Delete,
    Create,
    None,
}

impl UndoPlan {
    fn nothing(reason: &'static str) -> Self {
        Self { step: UndoStep::Nothing(reason), changes: Vec::new(), conflicts: Vec::new() }
    }

    pub(super) fn operation(&self) -> UndoOperation {
        match self.step {
            UndoStep::Update(_) => UndoOperation::Update,
            UndoStep::Delete { .. } => UndoOperation::Delete,
            UndoStep::Create(_) => UndoOperation::Create,
            UndoStep::Nothing(_) => UndoOperation::None,
        }
    }

    /// Hides the values of a Secret.
    pub(super) fn masked(mut self) -> Self {
        mask(&mut self.changes);
        for conflict in &mut self.conflicts {
            for value in [&mut conflict.before, &mut conflict.after, &mut conflict.now].into_iter().flatten()
            {
                *value = "•••".into();
            }
        }
        self
    }
}

/// What undoes the write that led from `before` to `after`.
pub(super) fn plan(states: &ThreeStates, policy: ConflictPolicy) -> UndoPlan {
    // A deletion in two steps: the write marked the object, or wrote to a marked one, which has gone since.
    let after = match (&states.after, &states.now) {
        (Some(after), Some(now)) if uid(after) == uid(now) => Some(after),
        (Some(after), _) if is_terminating(after) => None,
        (after, _) => after.as_ref(),
    };
    match (&states.before, after, &states.now) {
        (_, _, Some(now)) if is_terminating(now) => {
            UndoPlan::nothing("it is being deleted, which cannot be taken back")
        }
        (None, None, _) => UndoPlan::nothing("it was there neither before nor after"),
        (None, Some(_), None) => UndoPlan::nothing("the created object is already gone"),
        (None, Some(after), Some(now)) => delete(after, now),
        (Some(before), None, None) => create(before),
        (Some(_), None, Some(_)) => UndoPlan::nothing("the deleted object is there again"),
        (Some(_), Some(_), None) => UndoPlan::nothing("the object is gone: undo its deletion"),
        (Some(before), Some(after), Some(now)) => update(before, after, now, policy),
    }
}

/// What undoes several writes to one object, which has the state `now`. `writes` are the states before and after each, the newest first.
/// Writes of others in between stay, as far as they changed other members.
pub(super) fn plan_each(
    writes: &[(Option<Value>, Option<Value>)],
    now: Option<&Value>,
    policy: ConflictPolicy,
) -> UndoPlan {
    let states = |before: &Option<Value>, after: &Option<Value>, now: Option<Value>| ThreeStates {
        before: before.clone(),
        after: after.clone(),
        now,
    };
    if let [(before, after)] = writes {
        return plan(&states(before, after, now.cloned()), policy);
    }
    let (mut state, mut conflicts) = (now.cloned(), Vec::new());
    for (before, after) in writes {
        let one = plan(&states(before, after, state.clone()), policy);
        conflicts.extend(one.conflicts);
        state = match one.step {
            UndoStep::Update(object) => Some(*object),
            UndoStep::Delete { .. } => None,
            UndoStep::Create(_) => before.as_ref().map(revived),
            UndoStep::Nothing(_) => state,
        };
    }
    let mut plan = match (now, &state) {
        (None, None) => UndoPlan::nothing("it was there neither before nor after"),
        (None, Some(state)) => create(state),
        (Some(now), None) => delete(now, now),
        (Some(now), Some(state)) if without_life(now) == without_life(state) => {
            UndoPlan::nothing("nothing is left to undo")
        }
        (Some(now), Some(state)) => update(state, now, now, policy),
    };
    plan.conflicts = conflicts;
    plan
}

/// Whether an object waits for its finalizers, or for its grace period, to go.
pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn delete(after: &Value, now: &Value) -> UndoPlan {
    if uid(after) != uid(now) {
        return UndoPlan::nothing("the created object is gone, and another one has its name");
    }
    let version = now["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    let step = UndoStep::Delete { uid: uid(now).to_owned(), version: version.unwrap_or(0) };
    UndoPlan { step, changes: Vec::new(), conflicts: Vec::new() }
}

/// An object as if its deletion had not begun.
fn revived(object: &Value) -> Value {
    let mut object = object.clone();
    for mark in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        remove(&mut object, "/metadata", mark);
    }
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|name| !PROPAGATION.iter().any(|own| name == own));
    }
    object
}

/// The object with a new life: without status and the finalizers of its deletion, a pod that no controller owns without its node, and a
/// claim without the volume that was bound to its former life.
fn create(before: &Value) -> UndoPlan {
    let mut object = without_life(&revived(before));
    match object["kind"].as_str() {
        Some("Pod") => drop(remove(&mut object, "/spec", "nodeName")),
        Some("PersistentVolumeClaim") => {
            let is_bound_by_controller = remove(&mut object, "/metadata/annotations", BOUND_BY_CONTROLLER);
            remove(&mut object, "/metadata/annotations", BIND_COMPLETED);
            if is_bound_by_controller {
                remove(&mut object, "/spec", "volumeName");
            }
        }
        _ => {}
    }
    UndoPlan { step: UndoStep::Create(object.into()), changes: Vec::new(), conflicts: Vec::new() }
}

/// What of an object is not made again with it, if anything: `made` is the new object.
pub(super) fn notes_of_creation(before: &Value, made: &Value) -> Option<String> {
    match made["kind"].as_str() {
        Some("Namespace") => Some(
            "only the namespace: the control plane deleted the objects in it, and undo leaves its writes alone".to_owned(),
        ),
        Some("PersistentVolumeClaim") => {
            let volume = before["spec"]["volumeName"].as_str()?;
            made["spec"]["volumeName"].is_null().then(|| {
                format!("with a new volume: {volume} and its data belonged to the deleted claim")
            })
        }
        _ => None,
    }
}

/// Removes a member of an object below a pointer. Returns whether there was one.
fn remove(object: &mut Value, pointer: &str, member: &str) -> bool {
    let parent = object.pointer_mut(pointer).and_then(Value::as_object_mut);
    parent.is_some_and(|parent| parent.remove(member).is_some())
}

fn update(before: &Value, after: &Value, now: &Value, policy: ConflictPolicy) -> UndoPlan {
    if uid(after) != uid(now) {
        return UndoPlan::nothing("the object is gone, and another one has its name");
    }
    let neat = [before, after, now].map(without_life);
    if neat[0] == neat[1] {
        return UndoPlan::nothing("the write changed nothing but the status");
    }
    let mut merge = Merge::new(policy);
    let Some(merged) = merge.merged(Some(&neat[0]), Some(&neat[1]), Some(&neat[2])) else {
        return UndoPlan::nothing("the object would be empty");
    };
    let conflicts = merge.conflicts;
    if merged == neat[2] && conflicts.is_empty() {
        return UndoPlan::nothing("it is undone already");
    }
    let changes = changes(&neat[2], &merged, false);
    let step = UndoStep::Update(with_life(merged, now).into());
    UndoPlan { step, changes, conflicts }
}

/// An object without what belongs to one life of it, and without status.
fn without_life(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            LIFE.iter().for_each(|name| drop(metadata.remove(*name)));
        }
    }
    object
}

/// The merged object with the life of the present one, so that a write of another since then is a conflict.
fn with_life(mut merged: Value, now: &Value) -> Value {
    for name in LIFE.iter().filter(|name| **name != "managedFields") {
        if !now["metadata"][*name].is_null() {
            merged["metadata"][*name] = now["metadata"][*name].clone();
        }
    }
    if !now["status"].is_null() {
        merged["status"] = now["status"].clone();
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(uid: &str, version: &str, replicas: i64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas}, "status": {"ready": 1},
            "metadata": {"name": "web", "uid": uid, "resourceVersion": version, "managedFields": [{"manager": "x"}]}})
    }

    fn planned(before: Option<Value>, after: Option<Value>, now: Option<Value>) -> UndoPlan {
        plan(&ThreeStates { before, after, now }, ConflictPolicy::Fail)
    }

    #[test]
    fn an_update_is_put_back_on_the_object_of_now() {
        let plan = planned(Some(object("u", "1", 1)), Some(object("u", "2", 5)), Some(object("u", "9", 5)));
        let UndoStep::Update(written) = &plan.step else { panic!("{plan:?}") };
        assert_eq!(written["spec"]["replicas"], 1);
        assert_eq!(written["metadata"], json!({"name": "web", "uid": "u", "resourceVersion": "9"}));
        assert_eq!(plan.changes[0].path, "spec.replicas");
        let conflict =
            planned(Some(object("u", "1", 1)), Some(object("u", "2", 5)), Some(object("u", "9", 7)));
        assert_eq!(conflict.conflicts[0].path, "spec.replicas");
        assert_eq!(conflict.conflicts[0].now, Some(json!(7)));
        let hidden = conflict.masked();
        assert_eq!(hidden.conflicts[0].now, Some(json!("•••")));
    }

    #[test]
    fn a_created_object_is_deleted_and_a_deleted_one_is_created_again() {
        let plan = planned(None, Some(object("u", "2", 5)), Some(object("u", "9", 6)));
        assert_eq!(plan.step, UndoStep::Delete { uid: "u".to_owned(), version: 9 });
        let plan = planned(Some(object("u", "1", 1)), None, None);
        let UndoStep::Create(written) = &plan.step else { panic!("{plan:?}") };
        assert_eq!(written["metadata"], json!({"name": "web"}));
        assert!(written["status"].is_null() && written["spec"]["replicas"] == 1);
        let pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n", "x": 1}});
        let UndoStep::Create(pod) = planned(Some(pod), None, None).step else { panic!("a pod") };
        assert_eq!(pod["spec"], json!({"x": 1}));
    }

    fn ending(object: &Value) -> Value {
        let mut ending = object.clone();
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        ending["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        ending["metadata"]["finalizers"] = json!(["foregroundDeletion", "example.com/backup"]);
        ending
    }

    /// `kubectl delete` marks pods, namespaces and objects with finalizers, which are removed later: `undo` found nothing to do.
    #[test]
    fn a_deletion_in_two_steps_is_undone_by_its_first_one() {
        let mut live = object("u", "1", 1);
        live["metadata"]["finalizers"] = json!(["example.com/backup"]);
        let made = |plan: UndoPlan| {
            let UndoStep::Create(object) = plan.step else { panic!("{plan:?}") };
            *object
        };
        let expected = json!({"name": "web", "finalizers": ["example.com/backup"]});
        let marked = planned(Some(live.clone()), Some(ending(&live)), None);
        assert_eq!(made(marked)["metadata"], expected, "{live}");
        let between = planned(Some(live.clone()), Some(ending(&live)), Some(ending(&live)));
        assert!(matches!(between.step, UndoStep::Nothing(reason) if reason.contains("being deleted")));
        let again = planned(Some(live.clone()), Some(ending(&live)), Some(object("v", "9", 1)));
        assert!(
            matches!(again.step, UndoStep::Nothing(reason) if reason.contains("there again")),
            "{again:?}"
        );
        // The second step, if the state before the deletion is not retained.
        assert_eq!(made(planned(Some(ending(&live)), None, None))["metadata"], expected);
        // Together with earlier writes to the object.
        let writes = [(Some(live.clone()), Some(ending(&live))), (Some(object("u", "1", 7)), Some(live))];
        let all = plan_each(&writes, None, ConflictPolicy::Fail);
        assert_eq!(made(all)["spec"]["replicas"], 7);
        let created_and_deleted = [(Some(object("u", "1", 1)), Some(ending(&object("u", "1", 1))))];
        let with_creation = [&created_and_deleted[..], &[(None, Some(object("u", "1", 1)))]].concat();
        let plan = plan_each(&with_creation, None, ConflictPolicy::Fail);
        assert_eq!(plan.operation(), UndoOperation::None, "{plan:?}");
    }

    #[test]
    fn a_claim_is_created_without_the_volume_that_a_controller_bound_to_its_former_life() {
        let claim = |annotations: Value| {
            json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": annotations,
                "finalizers": ["kubernetes.io/pvc-protection"]}, "spec": {"volumeName": "pv-1", "x": 1}})
        };
        let made = |annotations: Value| {
            let UndoStep::Create(made) = planned(Some(claim(annotations)), None, None).step else {
                panic!("a claim")
            };
            (made["spec"].clone(), made["metadata"]["annotations"].clone())
        };
        let bound = json!({BOUND_BY_CONTROLLER: "yes", BIND_COMPLETED: "yes", "team": "a"});
        assert_eq!(made(bound), (json!({"x": 1}), json!({"team": "a"})));
        let chosen = json!({BIND_COMPLETED: "yes"});
        assert_eq!(made(chosen), (json!({"volumeName": "pv-1", "x": 1}), json!({})), "its manifest names it");
    }

    #[test]
    fn several_writes_are_undone_from_the_newest_to_the_oldest() {
        let of = |replicas: i64, paused: bool| {
            let mut object = object("u", "1", replicas);
            object["spec"]["paused"] = json!(paused);
            Some(object)
        };
        // 1 → 2 by the writer, paused by another, 2 → 3 by the writer.
        let writes = [(of(2, true), of(3, true)), (of(1, false), of(2, false))];
        let now = of(3, true);
        let plan = plan_each(&writes, now.as_ref(), ConflictPolicy::Fail);
        let UndoStep::Update(written) = &plan.step else { panic!("{plan:?}") };
        assert_eq!((&written["spec"], plan.conflicts.len()), (&json!({"replicas": 1, "paused": true}), 0));
        let created = [(of(1, false), of(3, false)), (None, of(1, false))];
        let plan = plan_each(&created, of(3, false).as_ref(), ConflictPolicy::Fail);
        assert!(matches!(plan.step, UndoStep::Delete { .. }), "{plan:?}");
        let gone = [(of(2, false), None), (of(1, false), of(2, false))];
        let plan = plan_each(&gone, None, ConflictPolicy::Fail);
        let UndoStep::Create(written) = &plan.step else { panic!("{plan:?}") };
        assert_eq!(written["spec"]["replicas"], 1);
        let conflict = [(of(1, false), of(2, false)), (of(0, false), of(1, false))];
        let plan = plan_each(&conflict, of(9, false).as_ref(), ConflictPolicy::Fail);
        assert_eq!(plan.conflicts.len(), 2, "{plan:?}");
    }

    #[test]
    fn what_cannot_be_undone_says_why() {
        let (one, two, other) = (object("u", "1", 1), object("u", "2", 5), object("v", "9", 5));
        let mut ending = two.clone();
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut status = one.clone();
        status["status"] = json!({"ready": 7});
        for (before, after, now, part) in [
            (None, Some(&two), None, "already gone"),
            (None, Some(&two), Some(&other), "another one has its name"),
            (Some(&one), None, Some(&other), "is there again"),
            (Some(&one), Some(&two), None, "undo its deletion"),
            (Some(&one), Some(&two), Some(&other), "another one has its name"),
            (Some(&one), Some(&two), Some(&ending), "being deleted"),
            (Some(&one), Some(&status), Some(&status), "nothing but the status"),
            (Some(&one), Some(&two), Some(&one), "undone already"),
        ] {
            let plan = planned(before.cloned(), after.cloned(), now.cloned());
            assert!(
                matches!(plan.step, UndoStep::Nothing(reason) if reason.contains(part)),
                "{part}: {plan:?}"
            );
            assert_eq!(plan.operation(), UndoOperation::None);
        }
    }
}
