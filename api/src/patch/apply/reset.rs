//! Fields that an endpoint does not write. A request does not change the ownership of those fields, even if its
//! body has them.

use super::set::FieldSet;
use crate::kind::Resource;

/// Filter for the fields whose ownership a write can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// All fields except these dotted paths and the fields below them.
    Fields(&'static [&'static str]),
    /// Only fields at or below these paths; `*` stands for any list element.
    AllBut(&'static [&'static [&'static str]]),
}

impl Reset {
    /// Removes the fields that do not count from a set.
    pub(super) fn filter(self, set: FieldSet) -> FieldSet {
        match self {
            Self::Fields([]) => set,
            Self::Fields(names) => set.without(&FieldSet::of_names(names)),
            Self::AllBut(patterns) => set.matching(patterns),
        }
    }
}

const SPEC: Reset = Reset::Fields(&["spec"]);
const SPEC_AND_METADATA: Reset = Reset::Fields(&["metadata", "spec"]);
const STATUS: Reset = Reset::Fields(&["status"]);
const RESIZE: Reset = Reset::AllBut(&[
    &["spec", "containers", "*", "resources"],
    &["spec", "containers", "*", "resizePolicy"],
    &["spec", "initContainers", "*", "resources"],
    &["spec", "initContainers", "*", "resizePolicy"],
    &["spec", "resources"],
]);

/// Filter for an endpoint of a kind, for [`super::Write::reset`].
#[must_use]
pub fn reset_fields(resource: &Resource, subresource: &str) -> Reset {
    match (subresource, resource.kind) {
        ("", _) if resource.has_status() => STATUS,
        ("finalize", _) => STATUS,
        ("approval", _) => Reset::Fields(&["spec", "status.certificate"]),
        ("ephemeralcontainers", _) => Reset::AllBut(&[&["spec", "ephemeralContainers"]]),
        ("resize", _) => RESIZE,
        ("status", "CertificateSigningRequest") => Reset::Fields(&["spec", "status.conditions"]),
        ("status", "Deployment") => Reset::Fields(&["metadata.labels", "spec"]),
        ("status", "Pod") => {
            Reset::Fields(&["metadata.deletionTimestamp", "metadata.ownerReferences", "spec"])
        }
        (
            "status",
            "APIService"
            | "CustomResourceDefinition"
            | "FlowSchema"
            | "PriorityLevelConfiguration"
            | "ResourceClaim"
            | "VolumeAttachment",
        ) => SPEC_AND_METADATA,
        ("status", _) if resource.is_custom() => SPEC_AND_METADATA,
        ("status", _) => SPEC,
        _ => Reset::Fields(&[]),
    }
}
