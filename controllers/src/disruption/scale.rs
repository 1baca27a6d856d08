//! Desired number of pods of a pod's controller. Pure: the lookups of workloads are an argument.

use crate::claim::controller_of;
use crate::resource::Resource;
use crate::view::Scaled;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kstore_api::group_version::split_api_version;
use std::collections::BTreeMap;

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

/// Scales of controllers whose kinds have no cache, by the controller's uid: the desired number of pods, `None`
/// if the controller does not exist, or why it is unknown.
pub(crate) type ReadScales = BTreeMap<String, Result<Option<i32>, String>>;

/// Sources of the workloads of a namespace.
pub(crate) struct Workloads<'a, F> {
    /// Finds a workload of a cached kind by its name.
    pub cached: F,
    /// Scales of all other controllers of the pods.
    pub read: &'a ReadScales,
}

/// The desired size for pods that `owner` controls. The Deployment decides for its ReplicaSets. `None` if
/// `owner` does not exist. Follows the finders of upstream's disruption controller, of which the last
/// (`getScaleController`) reads the scale of any kind.
///
/// # Errors
/// A message if the scale is unknown, for example as objects of the owner's kind have none.
pub(crate) fn scale_of<F: Fn(Kind, &str) -> Option<Workload>>(
    owner: &OwnerReference,
    workloads: &Workloads<'_, F>,
) -> Result<Option<Scale>, String> {
    let Some(kind) = Kind::of(owner) else {
        let read = workloads.read.get(&owner.uid).cloned().unwrap_or_else(|| Err(no_kind(owner)))?;
        return Ok(read.map(|replicas| Scale { uid: owner.uid.clone(), replicas }));
    };
    let find = &workloads.cached;
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

/// The text for an owner whose kind is not served.
pub(crate) fn no_kind(owner: &OwnerReference) -> String {
    format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version)
}

/// The text for an owner whose kind has no subresource `scale`.
pub(crate) fn no_scale(Resource { group, plural, .. }: &Resource) -> String {
    let name = if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") };
    format!("{name} does not implement the scale subresource")
}

impl Kind {
    /// The kind of a reference, in any version; `None` for kinds without a cache.
    pub(crate) fn of(reference: &OwnerReference) -> Option<Self> {
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
