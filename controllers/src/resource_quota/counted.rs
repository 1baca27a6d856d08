//! [`Counted`]: usage of one object; [`QuotaObject`]: a ResourceQuota, decoded once for all readers.

use super::kinds::CountedKind;
use crate::caches::{Sources, Watched};
use crate::resource::resource_of;
use crate::view::Meta;
use k8s_openapi::api::core::v1::ResourceQuota;
use kstore_api::lenient;
use kstore_api::quota::{Evaluator, Quota, Usage, requests_of_pod};
use kstore_client::WatchParams;
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// The resources for which a pod asks and that devices may satisfy, by the requests of its claim for them. Most pods ask for none, and
    /// an empty map takes no memory of its own.
    asked: BTreeMap<String, String>,
}

/// The key of the pod of this name in its stream.
pub(super) fn pod_key(namespace: &str, name: &str) -> Key {
    key(namespace, "", "Pod", name)
}

/// The key of an object: one stream has several kinds, so the kind is part of it.
fn key(namespace: &str, group: &str, kind: &str, name: &str) -> Key {
    Key::new(namespace, &format!("{kind}.{group}:{name}"))
}

impl Counted {
    /// The resources for which the object, a pod with this uid, asks by each request of its claim for devices.
    pub(super) fn asked(&self, uid: &str) -> Option<&BTreeMap<String, String>> {
        Some(&self.asked).filter(|asked| !asked.is_empty() && self.uid == uid)
    }

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
    let object: Option<Value> = plural.map(|_| serde_json::from_slice(json)).transpose()?;
    let usage = plural.zip(object.as_ref());
    let usage = usage.map(|(plural, object)| Box::new(Evaluator::of(group, plural).usage(object)));
    let asked = object.as_ref().filter(|_| plural == Some("pods")).map(requests_of_pod);
    Ok(Counted {
        key: key(&metadata.namespace, group, &kind, &metadata.name),
        revision: metadata.revision(),
        uid: metadata.uid,
        namespace: metadata.namespace,
        group: group.to_owned(),
        usage,
        asked: asked.unwrap_or_default(),
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
