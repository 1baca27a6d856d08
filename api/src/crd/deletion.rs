//! The end of a definition: DELETE marks it, its objects are deleted, then it goes. Each step is a function of the stored object
//! that returns the next one.

use serde_json::Value;

/// How far the deletion of a definition's objects has come. Each is a state of the condition `Terminating`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// DELETE was accepted.
    Pending,
    /// Objects are being deleted.
    InProgress,
    /// Objects could not be listed or deleted; the text says why.
    Failed(&'a str),
    /// It is not known whether objects remain; the text says why.
    Unconfirmed(&'a str),
    /// No object remains.
    Completed,
    /// The definition never was established, so there were no objects.
    NeverEstablished,
    /// The names are those of a built-in resource, whose objects are left alone.
    OverlappingBuiltIn,
}

/// What DELETE makes of a definition that is not terminating yet: finalizer, deletion timestamp `now` (RFC 3339), condition.
pub fn begin(crd: &mut Value, now: &str) {
    let _ = (crd, now);
    todo!()
}

/// Sets the condition `Terminating`; `now` (RFC 3339) is its transition time if its status changes. Returns whether anything changed.
pub fn set_progress(crd: &mut Value, progress: Progress<'_>, now: &str) -> bool {
    let _ = (crd, progress, now);
    todo!()
}

/// Sets the condition to the end that `progress` names and takes the finalizer away. The definition may go if no other finalizer
/// is left.
pub fn finish(crd: &mut Value, progress: Progress<'_>, now: &str) {
    let _ = (crd, progress, now);
    todo!()
}
