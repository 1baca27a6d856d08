//! Deletion of a definition in three steps: DELETE marks it, its objects are deleted, and the finalizer is
//! removed. Each function updates the stored object in place.

use super::CLEANUP_FINALIZER;
use super::condition::{self, Condition, TERMINATING};
use crate::meta;
use serde_json::{Value, json};

/// Progress of deleting a definition's objects. Each is a state of the condition `Terminating`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// DELETE was accepted.
    Pending,
    /// Objects are being deleted.
    InProgress,
    /// Listing the objects failed with this error.
    ListFailed(&'a str),
    /// Deleting objects failed with this error.
    DeleteFailed(&'a str),
    /// Whether objects remain is unknown, for this reason.
    Unconfirmed(&'a str),
    /// No object remains.
    Completed,
    /// The definition was never established, so it has no objects.
    NeverEstablished,
    /// The names are those of a built-in resource, whose objects stay.
    OverlappingBuiltIn,
}

impl Progress<'_> {
    fn condition(self) -> Condition {
        let (status, reason, message) = match self {
            Self::Pending => (
                true,
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                    .to_owned(),
            ),
            Self::InProgress => {
                (true, "InstanceDeletionInProgress", "CustomResource deletion is in progress".to_owned())
            }
            Self::ListFailed(why) => {
                (true, "InstanceDeletionFailed", format!("could not list instances: {why}"))
            }
            Self::DeleteFailed(why) => {
                (true, "InstanceDeletionFailed", format!("could not issue all deletes: {why}"))
            }
            Self::Unconfirmed(why) => (
                true,
                "InstanceDeletionCheck",
                format!("could not confirm zero CustomResources remaining: {why}"),
            ),
            Self::Completed => (false, "InstanceDeletionCompleted", "removed all instances".to_owned()),
            Self::NeverEstablished => {
                (false, "NeverEstablished", "resource was never established".to_owned())
            }
            Self::OverlappingBuiltIn => (
                false,
                "OverlappingBuiltInResource",
                "instances overlap with built-in resources in storage".to_owned(),
            ),
        };
        Condition { kind: TERMINATING, status, reason, message }
    }
}

/// Marks a definition for deletion: finalizer, deletion timestamp `now` (RFC 3339) and condition. A
/// definition that is already terminating stays unchanged, to keep its progress.
pub fn begin(crd: &mut Value, now: &str) {
    if meta::is_being_deleted(crd) {
        return;
    }
    meta::metadata_mut(crd).insert("deletionTimestamp".to_owned(), json!(now));
    let mut finalizers: Vec<String> = meta::finalizers(crd).map(str::to_owned).collect();
    if !finalizers.iter().any(|own| own == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
    meta::set_finalizers(crd, finalizers.iter().map(String::as_str));
    set_progress(crd, Progress::Pending, now);
}

/// Whether the definition's objects must be deleted: it is marked for deletion and still has the finalizer.
#[must_use]
pub fn needs_cleanup(crd: &Value) -> bool {
    meta::is_being_deleted(crd) && meta::finalizers(crd).any(|own| own == CLEANUP_FINALIZER)
}

/// Sets the condition `Terminating`. `now` (RFC 3339) becomes its transition time if its status changes.
/// Returns whether anything changed.
pub fn set_progress(crd: &mut Value, progress: Progress<'_>, now: &str) -> bool {
    let Some(members) = crd.as_object_mut() else { return false };
    let status = members.entry("status").or_insert_with(|| json!({}));
    let before = status.clone();
    condition::set(status, &progress.condition(), now);
    *status != before
}

/// Sets the final condition and removes the finalizer. The definition can be deleted if it has no other
/// finalizer.
pub fn finish(crd: &mut Value, progress: Progress<'_>, now: &str) {
    set_progress(crd, progress, now);
    let rest: Vec<String> =
        meta::finalizers(crd).filter(|own| *own != CLEANUP_FINALIZER).map(str::to_owned).collect();
    meta::set_finalizers(crd, rest.iter().map(String::as_str));
}
