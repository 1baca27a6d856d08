//! [`Counted`]: usage of one object; [`QuotaObject`]: a ResourceQuota, decoded once for all readers.

use super::kinds::CountedKind;
use crate::caches::{Sources, Watched};
use crate::resource::resource_of;
use crate::view::Meta;
use k8s_openapi::api::core::v1::ResourceQuota;
use kstore_api::lenient;
use kstore_api::quota::{Evaluator, Quota, Usage};
use kstore_client::WatchParams;
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use serde::Deserialize;
use serde_json::Value;

/// An object with its quota usage.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    key: Key,
    uid: String,
    revision: Revision,
    namespace: String,
    group: String,
    kind: String,
    /// Usage of the object; `None` for kinds whose objects are only counted.
    usage: Option<Box<Usage>>,
}

impl Counted {
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether the object has this kind.
    pub(super) fn is(&self, kind: &CountedKind) -> bool {
        self.kind == kind.kind && self.group == kind.resource.group
    }

    /// Usage of the object beside its count.
    pub(super) fn usage(&self) -> Option<&Usage> {
        self.usage.as_deref()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
    metadata: Meta,
}

pub(super) fn decode(json: &[u8]) -> Result<Counted, serde_json::Error> {
    let Head { api_version, kind, metadata } = lenient::from_slice(json)?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let plural = match (group, kind.as_str()) {
        ("", "Pod") => Some("pods"),
        ("", "Service") => Some("services"),
        ("", "PersistentVolumeClaim") => Some("persistentvolumeclaims"),
        ("resource.k8s.io", "ResourceClaim") => Some("resourceclaims"),
        _ => None,
    };
    let usage = |plural| {
        let object: Value = serde_json::from_slice(json)?;
        Ok::<_, serde_json::Error>(Box::new(Evaluator::of(group, plural).usage(&object)))
    };
    Ok(Counted {
        // One stream has several kinds, so the kind is part of the key.
        key: Key::new(&metadata.namespace, &format!("{kind}.{group}:{}", metadata.name)),
        revision: metadata.revision(),
        uid: metadata.uid,
        namespace: metadata.namespace,
        group: group.to_owned(),
        usage: plural.map(usage).transpose()?,
        kind,
    })
}

impl Object for Counted {
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

/// A cached ResourceQuota.
#[derive(Clone, Debug)]
pub(super) struct QuotaObject {
    key: Key,
    uid: String,
    revision: Revision,
    quota: Quota,
    object: Value,
}

impl QuotaObject {
    /// The quota's rules and amounts.
    pub(super) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The whole object.
    pub(super) fn object(&self) -> &Value {
        &self.object
    }

    pub(super) fn namespace(&self) -> &str {
        self.key.namespace()
    }

    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let object: Value = serde_json::from_slice(json)?;
        let metadata: Meta = lenient::from_value(&object["metadata"])?;
        Ok(Self {
            key: metadata.key(),
            revision: metadata.revision(),
            uid: metadata.uid,
            quota: Quota::of(&object),
            object,
        })
    }
}

impl Object for QuotaObject {
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

impl Watched for Informer<QuotaObject> {
    fn start(from: &Sources<'_>) -> Self {
        let source = from.multi.project::<ResourceQuota, _, _>(WatchParams::default(), QuotaObject::decode);
        from.start("resourcequotas", Some(resource_of::<ResourceQuota>()), Builder::new(source))
    }
}
