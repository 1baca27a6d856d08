//! [`Record`]: an object as the informers of storage kinds hold it, with its identity, its revision and the fields that the scheduler
//! reads; and the metadata from which a record is made.

use std::ops::Deref;

use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::companions::Labels;

/// An object with its identity and the fields `T` of it that the scheduler reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<T> {
    /// Namespace and name of the object.
    pub key: Key,
    /// Uid of the object: one created again under the same name has another.
    pub uid: String,
    /// Revision of the object from which the fields were read.
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

/// Metadata of an object in JSON, as far as any storage kind needs it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetaDoc {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
    pub(super) labels: Option<Labels>,
    annotations: Option<AnnotationsDoc>,
    owner_references: Option<Vec<OwnerDoc>>,
}

/// Annotations that say something about storage.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AnnotationsDoc {
    /// On a claim: its binding was completed.
    #[serde(rename = "pv.kubernetes.io/bind-completed")]
    pub(super) bind_completed: Option<IgnoredAny>,
    /// On a claim: the node for which its volume is to be made.
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
    pub(super) fn record<T>(self, fields: T) -> Record<T> {
        Record {
            key: Key::new(&self.namespace, &self.name),
            uid: self.uid,
            revision: Revision(self.resource_version.parse().unwrap_or(0)),
            fields,
        }
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(super) fn take_annotations(&mut self) -> AnnotationsDoc {
        self.annotations.take().unwrap_or_default()
    }

    /// Uid of the owner that controls the object.
    pub(super) fn controller(&mut self) -> Option<String> {
        let owners = self.owner_references.take().into_iter().flatten();
        owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid)
    }
}
