//! [`Record`]: an object of storage or of devices in an informer, with its identity, its revision and the fields that the
//! scheduler reads. [`MetaDoc`] is the metadata from which the decoder makes a record.

use crate::pod_constraints::Labels;
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
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetaDoc {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
    pub(super) labels: Option<Labels>,
    annotations: Option<AnnotationsDoc>,
    owner_references: Option<Vec<OwnerDoc>>,
    finalizers: Option<Vec<String>>,
}

/// The annotations about storage.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AnnotationsDoc {
    /// On a claim: its binding is complete.
    #[serde(rename = "pv.kubernetes.io/bind-completed")]
    pub(super) bind_completed: Option<IgnoredAny>,
    /// On a claim: the node for which the provisioner makes its volume.
    #[serde(rename = "volume.kubernetes.io/selected-node")]
    pub(super) selected_node: Option<String>,
    /// On claims and volumes: the name of the class in older objects; it overrides the field.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub(super) class: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnerDoc {
    uid: String,
    controller: Option<bool>,
}

impl MetaDoc {
    /// The record of the object with this metadata.
    pub(crate) fn record<T>(self, fields: T) -> Record<T> {
        Record {
            key: Key::new(&self.namespace, &self.name),
            uid: self.uid,
            revision: Revision(self.resource_version.parse().unwrap_or(0)),
            fields,
        }
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().flatten().any(|finalizer| finalizer == name)
    }

    pub(super) fn take_annotations(&mut self) -> AnnotationsDoc {
        self.annotations.take().unwrap_or_default()
    }

    /// Uid of the owner that controls the object.
    pub(crate) fn controller(&mut self) -> Option<String> {
        let owners = self.owner_references.take().into_iter().flatten();
        owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid)
    }
}
