//! [`Record`]: an object of storage or of devices in an informer, with its identity, its revision and the fields that the
//! scheduler reads. [`MetaDoc`] is the metadata from which the decoder makes a record.

use crate::pod_constraints::Labels;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::ops::Deref;

/// An object with its identity and the fields `T` of it that the scheduler reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<T> {
    /// Namespace and name of the object.
    pub key: Key,
    /// The uid of the object: an object created again under the same name has another.
    pub uid: String,
    /// The revision of the decoded object.
    pub revision: Revision,
    /// Fields that the scheduler reads.
    pub fields: T,
}

impl<T> Record<T> {
    /// The record of the object with this metadata.
    pub(crate) fn of(metadata: MetaDoc, fields: T) -> Self {
        Self { key: metadata.key(), revision: metadata.revision(), uid: metadata.uid, fields }
    }
}

impl<T> Deref for Record<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.fields
    }
}

impl<T: Send + Sync + 'static> Object for Record<T> {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

/// The metadata of an object in JSON, reduced to the fields of the kinds with records.
pub(crate) type MetaDoc = ProjectedMeta<Labels, AnnotationsDoc, Vec<OwnerDoc>>;

/// The annotations about storage and devices.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct AnnotationsDoc {
    /// On a claim: its binding is complete.
    #[serde(rename = "pv.kubernetes.io/bind-completed")]
    pub(super) bind_completed: Option<IgnoredAny>,
    /// On a claim: the node for which the provisioner makes its volume.
    #[serde(rename = "volume.kubernetes.io/selected-node")]
    pub(super) selected_node: Option<String>,
    /// On claims and volumes: the name of the class in older objects; it overrides the field.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub(super) class: Option<String>,
    /// On a ResourceClaim: `true` if a scheduler made it for the extended resources of a pod.
    #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
    pub(crate) is_of_resources: Option<String>,
}

/// An owner reference.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct OwnerDoc {
    uid: String,
    controller: Option<bool>,
}

/// Uid of the owner that controls the object with this metadata.
pub(crate) fn controller_uid(metadata: &MetaDoc) -> Option<String> {
    let owner = metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.clone())
}
