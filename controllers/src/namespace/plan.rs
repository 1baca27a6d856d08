//! Deletion of a terminating namespace's content. Pure.
//!
//! Pods are deleted first, all other objects after them; terminating objects are waited for. A kind that
//! cannot be listed or deleted delays no other kind. When no object is left, the `kubernetes` finalizer is
//! removed. Until then conditions report what blocks the namespace (True means a problem).

use crate::action::{Action, Plan, Propagation, Target};
use crate::definition::CustomKind;
use crate::limits::NAMED_IN_CONDITION;
use crate::object::Object;
use crate::resource::{EVENTS, PODS, Resource};
use crate::view::{Meta, elapsed, seconds};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Finalizer in the spec that keeps a namespace until it is empty.
pub(crate) const KUBERNETES: &str = "kubernetes";

/// The condition about kinds that are unknown.
const DISCOVERY: &str = "NamespaceDeletionDiscoveryFailure";

/// Assumed remaining time of an object with an unknown finalizer.
const UNKNOWN_FINALIZER: Duration = Duration::from_secs(15);

/// Remaining objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// The kind.
    pub resource: Resource,
    /// Objects of the kind in this namespace.
    pub items: Vec<Meta>,
}

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The namespace.
    pub namespace: &'a Namespace,
    /// Contents of the namespace by kind; kinds without objects may be missing.
    pub contents: &'a [Content],
    /// Kinds that could not be listed or deleted, with the error. In a stable order: another text is another
    /// condition.
    pub failures: &'a [String],
    /// Why the kinds of an aggregated API server are unknown, so that its objects may remain.
    pub undiscovered: Option<&'a str>,
}

/// The resource of a CustomResourceDefinition; `None` if it is not namespaced.
pub(crate) fn custom_resource(definition: &Value) -> Option<Resource> {
    CustomKind::from_value(definition).filter(|kind| kind.namespaced).map(|kind| kind.resource)
}

/// Whether the namespace is being deleted.
pub(crate) fn is_terminating(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
}

/// Plan after the deletions: the conditions, or the finalization if no content was left.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> Plan {
    let ns = seen.namespace;
    if !is_terminating(ns) {
        return Plan::nothing();
    }
    let has_finalizer = ns
        .spec
        .as_ref()
        .and_then(|s| s.finalizers.as_ref())
        .is_some_and(|f| f.iter().any(|f| f == KUBERNETES));
    let left = seen.contents.iter().any(|c| !c.items.is_empty());
    if !has_finalizer {
        return Plan::nothing();
    }
    if !left && seen.failures.is_empty() && seen.undiscovered.is_none() {
        return Plan::of(vec![finalize(ns)]);
    }
    let mut plan = Plan::of(describe(seen, now).into_iter().collect());
    let wait =
        seen.contents.iter().flat_map(|c| &c.items).map(|item| patience(item, now)).max().unwrap_or_default();
    plan.wake_in(wait / 2 + Duration::from_secs(1));
    plan
}

/// Whether only events are left: their deletion completes at once, so the run can check again at once.
pub(crate) fn are_events(contents: &[Content]) -> bool {
    contents.iter().all(|c| c.resource == EVENTS)
}

fn finalize(ns: &Namespace) -> Action {
    let mut ns = ns.clone();
    if let Some(finalizers) = ns.spec.as_mut().and_then(|s| s.finalizers.as_mut()) {
        finalizers.retain(|f| f != KUBERNETES);
    }
    Action::Finalize(Box::new(ns))
}

/// The deletions that are due, in one list per kind, which are independent of each other. Only pods while there are any.
/// Pods and events are deleted as a collection: there are the most of them, and not all events are listed. The events of
/// both API groups are stored as one kind.
pub(crate) fn deletions<'a>(namespace: &str, contents: &'a [Content]) -> Vec<(&'a Resource, Vec<Action>)> {
    let pods_left = contents.iter().any(|c| c.resource == PODS && !c.items.is_empty());
    let due = contents.iter().filter(|c| !pods_left || c.resource == PODS);
    let deletions = |content: &Content| -> Vec<Action> {
        let mut due = content.items.iter().filter(|item| !item.is_deleting());
        let all = |is_due: bool| is_due.then(|| delete_all(content, namespace)).into_iter().collect();
        match &content.resource {
            kind if *kind == EVENTS => all(!content.items.is_empty()),
            kind if *kind == PODS => all(due.next().is_some()),
            _ => due.map(|item| delete(content, item)).collect(),
        }
    };
    due.map(|content| (&content.resource, deletions(content))).filter(|(_, list)| !list.is_empty()).collect()
}

/// Text of a kind's failure in a condition.
pub(crate) fn failure_of(resource: &Resource, error: &impl std::fmt::Display) -> String {
    format!("{}.{}: {error}", resource.plural, resource.group)
}

fn delete_all(content: &Content, namespace: &str) -> Action {
    Action::DeleteAll { resource: content.resource.clone(), namespace: namespace.to_owned() }
}

fn delete(content: &Content, item: &Meta) -> Action {
    Action::Delete {
        target: Target {
            resource: content.resource.clone(),
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            uid: item.uid.clone(),
            resource_version: None,
        },
        propagation: Propagation::Background,
        force: false,
    }
}

/// How long the object may still take. Most pods end long before their grace is over. An object without a
/// finalizer is therefore checked again after as long as its deletion has taken so far, so that a namespace
/// does not wait for unused grace.
fn patience(item: &Meta, now: Timestamp) -> Duration {
    let grace = Duration::from_secs(item.deletion_grace_period_seconds.unwrap_or(0).unsigned_abs());
    let passed = item.deletion_timestamp.as_ref().map_or(Duration::ZERO, |at| elapsed(at.0, now));
    let left = grace.saturating_sub(passed);
    if !item.finalizers.is_empty() {
        return left.max(UNKNOWN_FINALIZER);
    }
    let Some(end) = &item.deletion_timestamp else { return left };
    let begun = SignedDuration::try_from(grace).ok().and_then(|grace| end.0.checked_sub(grace).ok());
    left.min(begun.map_or(Duration::ZERO, |begun| elapsed(begun, now)).saturating_mul(2))
}

fn describe(seen: Observed<'_>, now: Timestamp) -> Option<Action> {
    let mut status = seen.namespace.status.clone().unwrap_or_default();
    status.phase = Some("Terminating".into());
    let conditions = status.conditions.get_or_insert_default();
    let clear = |type_, reason, message: &str| (type_, "False", reason, message.to_owned());
    let wanted = [
        match seen.undiscovered {
            Some(failure) => (DISCOVERY, "True", "DiscoveryFailed", failure.to_owned()),
            None => clear(DISCOVERY, "ResourcesDiscovered", "All resources successfully discovered"),
        },
        clear(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        failure(seen.failures),
        content(seen.contents),
        finalizers(seen.contents),
    ];
    for (type_, value, reason, message) in wanted {
        let old = conditions.iter().position(|c| c.type_ == type_);
        let since = old
            .map(|i| &conditions[i])
            .filter(|c| c.status == value)
            .and_then(|c| c.last_transition_time.clone());
        let fresh = NamespaceCondition {
            type_: type_.into(),
            status: value.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: since.or_else(|| Some(seconds(now))),
        };
        match old {
            Some(i) => conditions[i] = fresh,
            None => conditions.push(fresh),
        }
    }
    if seen.namespace.status.as_ref() == Some(&status) {
        return None;
    }
    let namespace = Namespace { status: Some(status), ..seen.namespace.clone() };
    Some(Action::UpdateStatus(Object::of(&namespace)))
}

type ExpectedCondition = (&'static str, &'static str, &'static str, String);

fn failure(failures: &[String]) -> ExpectedCondition {
    let type_ = "NamespaceDeletionContentFailure";
    if failures.is_empty() {
        let message = "All content successfully deleted, may be waiting on finalization";
        return (type_, "False", "ContentDeleted", message.into());
    }
    let named: Vec<&str> = failures.iter().take(NAMED_IN_CONDITION).map(String::as_str).collect();
    let message =
        format!("Failed to delete all resource types, {} remaining: {}", failures.len(), named.join(", "));
    (type_, "True", "ContentDeletionFailed", message)
}

fn content(contents: &[Content]) -> ExpectedCondition {
    let type_ = "NamespaceContentRemaining";
    let mut named: Vec<String> = contents
        .iter()
        .filter(|c| !c.items.is_empty())
        .map(|c| {
            format!("{}.{} has {} resource instances", c.resource.plural, c.resource.group, c.items.len())
        })
        .collect();
    if named.is_empty() {
        return (type_, "False", "ContentRemoved", "All content successfully removed".into());
    }
    named.sort();
    (type_, "True", "SomeResourcesRemain", format!("Some resources are remaining: {}", named.join(", ")))
}

fn finalizers(contents: &[Content]) -> ExpectedCondition {
    let type_ = "NamespaceFinalizersRemaining";
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for item in contents.iter().flat_map(|c| &c.items).filter(|i| i.is_deleting()) {
        item.finalizers.iter().for_each(|f| *counts.entry(f).or_default() += 1);
    }
    if counts.is_empty() {
        return (
            type_,
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".into(),
        );
    }
    let named: Vec<String> = counts.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    let message = format!("Some content in the namespace has finalizers remaining: {}", named.join(", "));
    (type_, "True", "SomeFinalizersRemain", message)
}
