//! The deletion state machine (grace periods, finalizers, propagation) as a pure plan, and its execution as a
//! guaranteed update.

use super::guaranteed_update::{Decoding, UpdateEffect};
use super::service::claims_anything;
use super::{Decision, Registry, WriteContext, marked};
use crate::entry::Entry;
use crate::error;
use crate::request::{DeleteOptions, Propagation, Target};
use crate::undecided::Undecided;
use jiff::{SignedDuration, Timestamp};
use kstore_api::resource::{DefaultPropagation, Resource};
use kstore_api::status::Status;
use kstore_api::{crd, meta};
use kstore_storage::limits;
use kstore_storage::storage::{Guard, Outcome, Write};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The finalizer that keeps an owner until its dependents are released.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer that keeps an owner until its blocking dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The effect of a DELETE on an object in a given state.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletePlan {
    /// The object is already being deleted; nothing changes.
    Pending,
    /// The object is marked (deletionTimestamp, grace period, finalizers) and stays for now.
    Mark(Value),
    /// The object is marked, with a grace period of 0, and removed by the next write. Watchers see both, as those of a kube-apiserver do:
    /// controllers look for the deletionTimestamp of a pod.
    MarkAndRemove(Value),
    /// The object is removed at once; this is its last state.
    Remove(Value),
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The object after the deletion: as it was marked, or its last state.
    pub entry: Arc<Entry>,
    /// Whether the object was removed.
    pub gone: bool,
}

/// The first write of a deletion.
struct PlannedDeletion<'t> {
    target: &'t Target,
    /// The revision that the plan is made for.
    revision: i64,
    write: Write,
    /// Whether the write marks the object, and a second one removes it.
    is_marked: bool,
}

impl PlannedDeletion<'_> {
    fn bytes(&self) -> usize {
        match &self.write {
            Write::Put { value, .. } => value.len(),
            Write::Delete { .. } => 0,
        }
    }
}

/// How much of an object its deletion decodes for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Whole,
    /// What `Entry::parse_for_deletion` decodes, if the plan of the deletion needs no more.
    Parts,
}

impl Registry {
    /// Deletes an object as `options` say. `admit` sees the current state before the deletion and may refuse
    /// it.
    pub async fn delete(
        &self,
        target: &Target,
        options: &DeleteOptions,
        context: WriteContext,
        dry_run: bool,
        admit: impl FnMut(&Value) -> Result<(), Undecided> + Send,
    ) -> Result<Deleted, Status> {
        self.delete_showing(Shown::Whole, target, options, context, dry_run, admit).await
    }

    /// Deletes an object like [`Registry::delete`]; `admit` sees as much of it as `shown` says.
    pub async fn delete_showing(
        &self,
        shown: Shown,
        target: &Target,
        options: &DeleteOptions,
        context: WriteContext,
        dry_run: bool,
        mut admit: impl FnMut(&Value) -> Result<(), Undecided> + Send,
    ) -> Result<Deleted, Status> {
        if let Some(deleted) = self.delete_unreadable(target, options, &context, dry_run, &mut admit).await? {
            return Ok(deleted);
        }
        let decoding = match shown == Shown::Parts && self.is_planned_by_parts(target, &context) {
            true => Decoding::Deletion,
            false => Decoding::Whole,
        };
        let now = self.nondet.clock.now_seconds();
        // A dry run writes nothing, and a transaction writes each key once.
        let in_one = dry_run || context.stage.is_some();
        let mut is_marked = false;
        let decide = |current: Option<&Value>| {
            let current = current.ok_or_else(|| super::not_found(target))?;
            check_preconditions(target, current, options)?;
            admit(current)?;
            is_marked = false;
            Ok(match plan_delete(target.resource, current, options, now) {
                DeletePlan::Pending => Decision::Keep,
                DeletePlan::Mark(marked) => Decision::Put(marked),
                DeletePlan::MarkAndRemove(last) if in_one => Decision::Remove(last),
                DeletePlan::MarkAndRemove(marked) => {
                    is_marked = true;
                    Decision::Put(marked)
                }
                DeletePlan::Remove(last) => Decision::Remove(last),
            })
        };
        let span = tracing::debug_span!("registry", key = target.key());
        let update = self.update_loop(decoding, target, context.clone(), dry_run, decide);
        let updated = tracing::Instrument::instrument(update, span).await?;
        if is_marked {
            return self.remove_marked(decoding, target, context, updated.entry).await;
        }
        Ok(Deleted { gone: updated.effect == UpdateEffect::Removed, entry: updated.entry })
    }

    /// Removes an object that [`DeletePlan::MarkAndRemove`] has marked, unless another writer has given it a finalizer or removed it.
    async fn remove_marked(
        &self,
        decoding: Decoding,
        target: &Target,
        context: WriteContext,
        marked: Arc<Entry>,
    ) -> Result<Deleted, Status> {
        let decide = |current: Option<&Value>| match current {
            Some(current) if meta::uid(current) != marked.uid() => Err(super::not_found(target).into()),
            Some(current) if removed_by_update(target.resource, current) => {
                Ok(Decision::Remove(current.clone()))
            }
            Some(_) => Ok(Decision::Keep),
            None => Err(super::not_found(target).into()),
        };
        match self.update_loop(decoding, target, context, false, decide).await {
            Ok(updated) => {
                Ok(Deleted { gone: updated.effect == UpdateEffect::Removed, entry: updated.entry })
            }
            // Another writer removed it.
            Err(status) if status.code == 404 => Ok(Deleted { gone: true, entry: marked }),
            Err(status) => Err(status),
        }
    }

    /// Deletes objects in one group of commits, each object at a revision of its own, as a kube-apiserver does: a client that waits for the
    /// revision of one of them would else go on before the others are gone. Returns the objects that are left for single deletions: those
    /// that it cannot judge, that are refused, that are terminating already, or that another writer changed. `admit` sees what
    /// `Entry::parse_for_deletion` decodes, and has no side effects.
    pub async fn delete_together<'t>(
        &self,
        targets: &'t [Target],
        options: &DeleteOptions,
        context: &WriteContext,
        admit: impl Fn(&Target, &Value) -> Result<(), Undecided>,
    ) -> Result<Vec<&'t Target>, Status> {
        let now = self.nondet.clock.now_seconds();
        let (mut deletions, mut left, mut bytes) = (Vec::new(), Vec::new(), 0);
        for target in targets {
            let judged = self.is_planned_by_parts(target, context);
            let entry = self.cache.get(target.resource, &target.key()).filter(|_| judged);
            let deletion = entry.and_then(|entry| {
                let current = entry.parse_for_deletion();
                check_preconditions(target, &current, options).ok()?;
                admit(target, &current).ok()?;
                let (write, is_marked) = match plan_delete(target.resource, &current, options, now) {
                    DeletePlan::Pending => return None,
                    DeletePlan::Mark(next) => (self.put(target, marked(target, &entry, &next).ok()?), false),
                    DeletePlan::MarkAndRemove(next) => {
                        (self.put(target, marked(target, &entry, &next).ok()?), true)
                    }
                    DeletePlan::Remove(_) => (Write::Delete { key: target.key() }, false),
                };
                Some(PlannedDeletion { target, revision: entry.revision, write, is_marked })
            });
            match deletion {
                Some(deletion) if bytes + deletion.bytes() <= limits::COLLECTION_BATCH_BYTES => {
                    bytes += deletion.bytes();
                    deletions.push(deletion);
                }
                _ => left.push(target),
            }
        }
        let (marks, unchanged) = self.delete_each(deletions, context).await?;
        left.extend(unchanged);
        let removal = |(target, revision): (&'t Target, i64)| {
            let write = Write::Delete { key: target.key() };
            PlannedDeletion { target, revision, write, is_marked: false }
        };
        let (_, unchanged) = self.delete_each(marks.into_iter().map(removal).collect(), context).await?;
        left.extend(unchanged);
        Ok(left)
    }

    /// Commits each deletion. Returns the objects that are marked now and are to be removed, with the revisions of their marks, and those
    /// that nothing was written for.
    async fn delete_each<'t>(
        &self,
        deletions: Vec<PlannedDeletion<'t>>,
        context: &WriteContext,
    ) -> Result<(Vec<(&'t Target, i64)>, Vec<&'t Target>), Status> {
        let planned: Vec<_> =
            deletions.iter().map(|deletion| (deletion.target, deletion.is_marked)).collect();
        let commits = deletions.into_iter().map(|deletion| {
            (Guard { key: deletion.target.key(), revision: deletion.revision }, deletion.write)
        });
        let outcomes = self.commit_each(commits.collect(), context).await;
        let (mut marks, mut unchanged) = (Vec::new(), Vec::new());
        for ((target, is_marked), outcome) in planned.into_iter().zip(outcomes) {
            match outcome {
                Ok(Outcome::Committed { revision }) if is_marked => marks.push((target, revision)),
                Ok(Outcome::Committed { .. }) => {}
                Ok(Outcome::Lost { .. }) => unchanged.push(target),
                // The group was too large for the storage.
                Err(status) if status.code == 413 => unchanged.push(target),
                Err(status) => return Err(status),
            }
        }
        Ok((marks, unchanged))
    }

    /// Whether what `Entry::parse_for_deletion` decodes is enough to plan the deletion: the deletion changes
    /// nothing else, and no quota compares the object before and after.
    fn is_planned_by_parts(&self, target: &Target, context: &WriteContext) -> bool {
        has_plain_deletion(target) && !self.may_charge_every_update(&self.view(context), target)
    }
}

/// Whether the deletion of objects of this kind changes only their metadata and releases no claims.
pub fn has_plain_deletion(target: &Target) -> bool {
    let resource = target.resource;
    let is_definition = resource.group == crd::GROUP && resource.kind == crd::KIND;
    target.custom.is_none() && !is_namespace(resource) && !is_definition && !claims_anything(target)
}

/// Plans the deletion of `current` with these options.
pub fn plan_delete(
    resource: &Resource,
    current: &Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> DeletePlan {
    if is_namespace(resource) {
        return plan_namespace(current, now);
    }
    if resource.group == crd::GROUP && resource.kind == crd::KIND {
        return plan_definition(current, now);
    }
    let stored = current["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let deleting = deletion_timestamp(current);
    let grace = if resource.graceful_delete { grace_seconds(current, options) } else { 0 };
    if let (Some(at), Some(stored)) = (deleting, stored)
        && resource.graceful_delete
        && stored > 0
    {
        return shorten(current, options, grace, stored, at, now);
    }
    let mut next = current.clone();
    set_finalizers(&mut next, collection_finalizers(resource, current, options));
    let has_finalizers = !finalizers(&next).is_empty();
    match (has_finalizers, grace) {
        (false, 0) if resource.graceful_delete && deleting.is_none() => {
            DeletePlan::MarkAndRemove(marked_until(next, now, 0))
        }
        (false, 0) => DeletePlan::Remove(next),
        (true, _) if deleting.is_some() => {
            if finalizers(&next) == finalizers(current) {
                DeletePlan::Pending
            } else {
                DeletePlan::Mark(next)
            }
        }
        (true, 0) => mark(next, now, 0),
        (_, grace) if deleting.is_none() => mark(next, now, grace),
        _ => DeletePlan::Remove(next),
    }
}

/// Whether an update to `next` completes a deletion that waited only for finalizers. The object is then
/// removed instead of written.
pub fn removed_by_update(resource: &Resource, next: &Value) -> bool {
    let has_finalizers =
        !finalizers(next).is_empty() || (is_namespace(resource) && !namespace_finalizers(next).is_empty());
    let grace = next["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    deletion_timestamp(next).is_some() && grace == 0 && !has_finalizers
}

/// Plans the deletion of a CustomResourceDefinition, which stays until the objects of its kind are gone.
fn plan_definition(current: &Value, now: Timestamp) -> DeletePlan {
    if deletion_timestamp(current).is_some() {
        return match finalizers(current).is_empty() {
            true => DeletePlan::Remove(current.clone()),
            false => DeletePlan::Pending,
        };
    }
    let mut next = current.clone();
    crd::deletion::begin(&mut next, &now.to_string());
    DeletePlan::Mark(next)
}

fn plan_namespace(current: &Value, now: Timestamp) -> DeletePlan {
    if finalizers(current).is_empty() && namespace_finalizers(current).is_empty() {
        return DeletePlan::Remove(current.clone());
    }
    if deletion_timestamp(current).is_some() {
        return DeletePlan::Pending;
    }
    let mut next = current.clone();
    next["status"]["phase"] = json!("Terminating");
    let meta = metadata(&mut next);
    meta.insert("deletionTimestamp".into(), json!(now.to_string()));
    DeletePlan::Mark(next)
}

/// Plans a repeated DELETE of a pod in its grace period, which can only shorten it.
fn shorten(
    current: &Value,
    options: &DeleteOptions,
    grace: i64,
    stored: i64,
    at: Timestamp,
    now: Timestamp,
) -> DeletePlan {
    if options.grace_period_seconds.is_none() || grace >= stored {
        return DeletePlan::Pending;
    }
    let sooner = at.saturating_sub(SignedDuration::from_secs(stored - grace)).unwrap_or(now);
    let (at, grace) = if sooner < now { (now, grace.min(1)) } else { (sooner, grace) };
    let mut next = current.clone();
    let meta = metadata(&mut next);
    meta.insert("deletionTimestamp".into(), json!(at.to_string()));
    meta.insert("deletionGracePeriodSeconds".into(), json!(grace));
    match (grace, finalizers(current).is_empty()) {
        (0, true) => DeletePlan::MarkAndRemove(next),
        _ => DeletePlan::Mark(next),
    }
}

fn mark(next: Value, now: Timestamp, grace: i64) -> DeletePlan {
    DeletePlan::Mark(marked_until(next, now, grace))
}

/// The object as it is marked by its first deletion, as `BeforeDelete` in `registry/rest/delete.go` does.
fn marked_until(mut next: Value, now: Timestamp, grace: i64) -> Value {
    let at = now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let meta = metadata(&mut next);
    meta.insert("deletionTimestamp".into(), json!(at.to_string()));
    meta.insert("deletionGracePeriodSeconds".into(), json!(grace));
    if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        meta.insert("generation".into(), json!(generation + 1));
    }
    next
}

/// The pod's grace period in seconds: the caller's, else the spec's; 0 if the pod was never scheduled or has
/// ended.
fn grace_seconds(pod: &Value, options: &DeleteOptions) -> i64 {
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unscheduled || ended {
        return 0;
    }
    let grace =
        options.grace_period_seconds.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
    match grace.unwrap_or(0) {
        negative if negative < 0 => 1,
        grace => grace,
    }
}

/// The finalizers after the deletion. The options decide on the garbage collector's two, else the present
/// ones, else the kind's default.
fn collection_finalizers(resource: &Resource, current: &Value, options: &DeleteOptions) -> Vec<String> {
    let present = finalizers(current);
    let has = |name: &str| present.iter().any(|f| f == name);
    let wanted = match (options.propagation, resource.default_propagation) {
        (_, DefaultPropagation::Unsupported) => None,
        (Some(Propagation::Orphan), _) => Some(ORPHAN),
        (Some(Propagation::Foreground), _) => Some(FOREGROUND),
        (Some(Propagation::Background), _) => None,
        (None, _) if has(ORPHAN) => Some(ORPHAN),
        (None, _) if has(FOREGROUND) => Some(FOREGROUND),
        (None, DefaultPropagation::Orphan) => Some(ORPHAN),
        (None, DefaultPropagation::Background) => None,
    };
    let mut next: Vec<String> = present.into_iter().filter(|f| f != ORPHAN && f != FOREGROUND).collect();
    next.extend(wanted.map(str::to_owned));
    next
}

pub(super) fn check_preconditions(
    target: &Target,
    current: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let uid = current["metadata"]["uid"].as_str().unwrap_or_default();
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return Err(error::uid_precondition(target, wanted, uid));
    }
    let version = current["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    match options.resource_version {
        Some(wanted) if wanted.to_string() != version => {
            Err(error::version_precondition(target, wanted, version))
        }
        _ => Ok(()),
    }
}

fn is_namespace(resource: &Resource) -> bool {
    resource.is("", "namespaces")
}

fn deletion_timestamp(value: &Value) -> Option<Timestamp> {
    value["metadata"]["deletionTimestamp"].as_str()?.parse().ok()
}

fn finalizers(value: &Value) -> Vec<String> {
    strings(&value["metadata"]["finalizers"])
}

fn namespace_finalizers(value: &Value) -> Vec<String> {
    strings(&value["spec"]["finalizers"])
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn set_finalizers(value: &mut Value, finalizers: Vec<String>) {
    let meta = metadata(value);
    if finalizers.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers".into(), json!(finalizers));
    }
}

fn metadata(value: &mut Value) -> &mut Map<String, Value> {
    value["metadata"].as_object_mut().expect("a stored object has metadata")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kstore_api::kind;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn pod(extra: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "a", "uid": "u", "generation": 1},
            "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}});
        json_patch::merge(&mut pod, &extra);
        pod
    }

    fn plan(current: &Value, options: DeleteOptions) -> DeletePlan {
        plan_delete(kind::lookup("", "v1", "pods").unwrap(), current, &options, now())
    }

    fn grace(seconds: i64) -> DeleteOptions {
        DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() }
    }

    #[test]
    fn a_running_pod_gets_a_grace_period_that_can_only_become_shorter() {
        let DeletePlan::Mark(marked) = plan(&pod(json!({})), DeleteOptions::default()) else {
            panic!("it is marked")
        };
        assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
        assert_eq!(marked["metadata"]["generation"], 2);
        assert_eq!(plan(&marked, DeleteOptions::default()), DeletePlan::Pending);
        assert_eq!(plan(&marked, grace(60)), DeletePlan::Pending);
        let DeletePlan::Mark(sooner) = plan(&marked, grace(5)) else { panic!("it is moved") };
        assert_eq!(sooner["metadata"]["deletionTimestamp"], "2026-01-01T00:00:05Z");
        let DeletePlan::MarkAndRemove(last) = plan(&marked, grace(0)) else { panic!("it goes") };
        assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0);
        assert!(matches!(plan(&last, grace(0)), DeletePlan::Remove(_)), "its removal failed");
    }

    #[test]
    fn deletion_without_grace_of_a_pod_with_finalizers_is_due_at_once() {
        let running = pod(json!({"metadata": {"finalizers": ["x/y"]}}));
        let DeletePlan::Mark(marked) = plan(&running, DeleteOptions::default()) else {
            panic!("it is marked")
        };
        assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
        let DeletePlan::Mark(due) = plan(&marked, grace(0)) else { panic!("it is held") };
        assert_eq!(due["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(due["metadata"]["deletionGracePeriodSeconds"], 0);
    }

    #[test]
    fn a_pod_that_never_ran_or_has_ended_is_marked_and_removed_at_once() {
        for extra in [json!({"spec": {"nodeName": null}}), json!({"status": {"phase": "Failed"}})] {
            let DeletePlan::MarkAndRemove(marked) = plan(&pod(extra), DeleteOptions::default()) else {
                panic!("it has no grace period")
            };
            assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
            assert_eq!(
                (&marked["metadata"]["deletionGracePeriodSeconds"], &marked["metadata"]["generation"]),
                (&json!(0), &json!(2))
            );
        }
    }

    #[test]
    fn finalizers_delay_removal_and_propagation_adds_its_own() {
        let finalized = pod(json!({"metadata": {"finalizers": ["x/y"]}, "status": {"phase": "Failed"}}));
        let DeletePlan::Mark(marked) = plan(&finalized, DeleteOptions::default()) else {
            panic!("it is held")
        };
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
        assert!(!removed_by_update(kind::lookup("", "v1", "pods").unwrap(), &marked));
        let foreground =
            DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
        let ended = pod(json!({"status": {"phase": "Failed"}}));
        let DeletePlan::Mark(marked) = plan(&ended, foreground) else { panic!("it is held") };
        assert_eq!(marked["metadata"]["finalizers"], json!([FOREGROUND]));
        let mut released = marked;
        set_finalizers(&mut released, Vec::new());
        assert!(removed_by_update(kind::lookup("", "v1", "pods").unwrap(), &released));
    }

    /// An entry for a stored object.
    fn entry(object: &Value) -> Entry {
        let row = kind::lookup("", "v1", "pods").unwrap();
        let stored = kstore_api::object::encode_stored(object).into();
        Entry::new(row, "/registry/pods/ns/a", object, stored, 7, 3).unwrap()
    }

    #[test]
    fn a_deletion_planned_by_parts_equals_one_of_the_whole_object() {
        let states = [
            json!({}),
            json!({"metadata": {"finalizers": ["x/y", "orphan"], "annotations": {"é\"": "{[\\"}}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:20Z", "deletionGracePeriodSeconds": 30}}),
            json!({"metadata": {"finalizers": ["x/y"], "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 0, "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {}}}]}}),
            json!({"metadata": {"generation": null}, "spec": {"nodeName": null, "containers": [{"name": "c"}]}}),
            json!({"status": {"phase": "Failed"}}),
            json!({"spec": null, "status": null, "zone": {"metadata": {"finalizers": ["no"]}}}),
        ];
        let foreground = DeleteOptions { propagation: Some(Propagation::Foreground), ..grace(5) };
        let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
        for state in states.map(pod) {
            let entry = entry(&state);
            for options in [DeleteOptions::default(), grace(0), grace(5), foreground.clone(), orphan.clone()]
            {
                let bytes = |value: &Value| Bytes::from(kstore_api::object::encode_stored(value));
                let parts = |value: &Value| entry.stored_as_marked(value).unwrap();
                let plans =
                    (plan(&entry.parse(), options.clone()), plan(&entry.parse_for_deletion(), options));
                match plans {
                    (DeletePlan::Pending, DeletePlan::Pending) => {}
                    (DeletePlan::Mark(whole), DeletePlan::Mark(part))
                    | (DeletePlan::MarkAndRemove(whole), DeletePlan::MarkAndRemove(part))
                    | (DeletePlan::Remove(whole), DeletePlan::Remove(part)) => {
                        assert_eq!(parts(&part), bytes(&whole));
                        let marked = entry.marked(parts(&part)).at(9, entry.created);
                        assert_eq!((marked.name(), marked.revision, marked.created), (entry.name(), 9, 3));
                    }
                    plans => panic!("{plans:?}"),
                }
            }
        }
    }
}
