//! Desired number of pods of a pod's controller. Pure: the lookup of workloads is an argument.

use crate::claim::controller_of;
use crate::view::Scaled;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kstore_api::kind::{lookup_api_version, split_api_version};

/// A kind with a desired number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
}

/// A workload of a kind with a desired number of pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    /// Uid of the workload.
    pub uid: String,
    /// Desired number of pods.
    pub replicas: i32,
    /// Controller reference of the workload itself.
    pub controller: Option<OwnerReference>,
}

/// Desired size of the workload with this uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Uid of the workload that decides.
    pub uid: String,
    /// Desired number of pods.
    pub replicas: i32,
}

/// The desired size for pods that `owner` controls. The Deployment decides for its ReplicaSets. `None` if
/// `owner` does not exist.
///
/// # Errors
/// A message if objects of the owner's kind have no scale.
pub(crate) fn scale_of(
    owner: &OwnerReference,
    find: &impl Fn(Kind, &str) -> Option<Workload>,
) -> Result<Option<Scale>, String> {
    let kind = Kind::of(owner).ok_or_else(|| never_scales(owner))?;
    let Some(own) = referred(kind, owner, find) else { return Ok(None) };
    let above = own.controller.as_ref().filter(|above| Kind::of(above) == Some(Kind::Deployment));
    let above = above.filter(|_| kind == Kind::ReplicaSet);
    let decides = above.and_then(|above| referred(Kind::Deployment, above, find)).unwrap_or(own);
    Ok(Some(Scale { uid: decides.uid, replicas: decides.replicas }))
}

/// The referenced object, unless it was recreated with another uid.
fn referred(
    kind: Kind,
    reference: &OwnerReference,
    find: &impl Fn(Kind, &str) -> Option<Workload>,
) -> Option<Workload> {
    find(kind, &reference.name).filter(|found| found.uid == reference.uid)
}

fn never_scales(owner: &OwnerReference) -> String {
    match lookup_api_version(&owner.api_version, &owner.kind) {
        Some(row) => format!("{} does not implement the scale subresource", row.qualified()),
        None => format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version),
    }
}

impl Kind {
    /// The kind of a reference, in any version.
    fn of(reference: &OwnerReference) -> Option<Self> {
        let (group, _) = split_api_version(&reference.api_version);
        match (group, reference.kind.as_str()) {
            ("apps" | "extensions", "Deployment") => Some(Self::Deployment),
            ("apps" | "extensions", "ReplicaSet") => Some(Self::ReplicaSet),
            ("", "ReplicationController") => Some(Self::ReplicationController),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

impl Workload {
    fn of(metadata: &ObjectMeta, replicas: Option<i32>) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            replicas: replicas.unwrap_or(1),
            controller: controller_of(metadata.owner_references.as_deref().unwrap_or_default()).cloned(),
        }
    }
}

impl From<&Deployment> for Workload {
    fn from(deployment: &Deployment) -> Self {
        Self::of(&deployment.metadata, deployment.spec.as_ref().and_then(|s| s.replicas))
    }
}

impl From<&ReplicaSet> for Workload {
    fn from(set: &ReplicaSet) -> Self {
        Self::of(&set.metadata, set.spec.as_ref().and_then(|s| s.replicas))
    }
}

impl From<&Scaled> for Workload {
    fn from(scaled: &Scaled) -> Self {
        Self {
            uid: scaled.metadata.uid.clone(),
            replicas: scaled.spec.replicas.unwrap_or(1),
            controller: controller_of(&scaled.metadata.owner_references).cloned(),
        }
    }
}
