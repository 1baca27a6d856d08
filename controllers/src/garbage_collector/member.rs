//! [`OwnershipRecord`]: the metadata of any object, and the watch stream of all built-in kinds. Custom kinds have
//! streams of their own in `custom`, because these kinds change; the kinds of aggregated API servers have theirs
//! in `aggregated`.

use super::graph::{Node, Uid};
use super::plan::{Kinds, OwnerKind, group_of, kind_key};
use crate::caches::{Sources, Watched};
use crate::definition::CustomKind;
use crate::resource::{DEFINITIONS, Resource};
use crate::view::Meta;
use kstore_api::kind::RESOURCES;
use kstore_api::lenient;
use kstore_client::{Client, Gvr, RestSource, Source, WatchParams};
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// Resource that is not watched, as upstream: events are numerous and end by themselves. So an event is not
/// collected with its owner. An event that owns an object is read when that object is checked.
const LEFT_OUT: &str = "events";

/// The watched built-in kinds: all stored and deletable kinds, each in its storage version.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let rows = RESOURCES.iter().filter(|row| {
        row.storage.is_some()
            && row.storage_version.is_none()
            && row.plural != LEFT_OUT
            && ["delete", "list", "watch"].iter().all(|verb| row.verbs.contains(verb))
    });
    rows.map(|row| {
        let resource = Resource::named(row.group, row.version, row.plural);
        (kind_key(row.group, row.kind), OwnerKind { resource, namespaced: row.namespaced })
    })
    .collect()
});

/// The watched built-in kinds.
pub(crate) fn kinds() -> &'static Kinds {
    &KINDS
}

/// The kinds that built-in owners have: the watched kinds, and events.
pub(super) fn owners() -> Kinds {
    let events = RESOURCES.iter().filter(|row| row.plural == LEFT_OUT && row.verbs.contains(&"get"));
    let events = events.map(|row| {
        let resource = Resource::named(row.group, row.version, row.plural);
        (kind_key(row.group, row.kind), OwnerKind { resource, namespaced: row.namespaced })
    });
    KINDS.iter().map(|(key, kind)| (key.clone(), kind.clone())).chain(events).collect()
}

/// The objects of all built-in kinds, on one stream in revision order.
fn source(client: &Client) -> Source<OwnershipRecord> {
    let mut all = kinds().values().map(|kind| crate::resource::gvr(&kind.resource));
    let first = all.next().unwrap_or_else(|| Gvr::new("", "v1", "pods"));
    source_of(client, first, all)
}

/// The objects of these resources, on one stream in revision order.
pub(crate) fn source_of(
    client: &Client,
    first: Gvr,
    rest: impl IntoIterator<Item = Gvr>,
) -> Source<OwnershipRecord> {
    let all = WatchParams::default().include_uninitialized();
    client.dynamic(first).project(all, decode).and(rest)
}

/// The objects of a kind of an aggregated API server.
pub(crate) fn aggregated_source(
    client: &Client,
    kind: &str,
    resource: &Resource,
) -> RestSource<OwnershipRecord> {
    // Objects in lists need not name their kind.
    let (group, kind) = (resource.group.to_string(), kind.to_owned());
    client.rest(crate::resource::gvr(resource)).project(move |raw| {
        let Any { metadata, .. } = lenient::from_slice(raw.json())?;
        let mut record = record(&group, &kind, metadata);
        record.revision = raw.revision_of(&record.node.resource_version);
        Ok::<_, serde_json::Error>(record)
    })
}

/// Cache of the objects of all built-in kinds.
impl Watched for Informer<OwnershipRecord> {
    fn start(from: &Sources<'_>) -> Self {
        from.start("everything", None, Builder::new(from.multi.part(source(from.client))))
    }
}

/// Ownership data of a cached object.
#[derive(Clone, Debug)]
pub(crate) struct OwnershipRecord {
    key: Key,
    uid: Uid,
    revision: Revision,
    node: Arc<Node>,
    /// The declared kind, if the object is an established CustomResourceDefinition.
    declares: Option<Arc<CustomKind>>,
}

impl OwnershipRecord {
    /// The object's uid, which the graph shares.
    pub(crate) fn shared_uid(&self) -> &Uid {
        &self.uid
    }

    /// The object's node in the graph.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Namespace of the object; empty for cluster-scoped kinds.
    pub(crate) fn namespace(&self) -> &str {
        &self.node.namespace
    }

    /// Whether the object is a CustomResourceDefinition.
    pub(crate) fn is_definition(&self) -> bool {
        self.node.group == DEFINITIONS.group && self.node.kind == "CustomResourceDefinition"
    }

    /// The declared kind, if the object is an established CustomResourceDefinition.
    pub(crate) fn declares(&self) -> Option<&Arc<CustomKind>> {
        self.declares.as_ref()
    }
}

/// An object of any kind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Any {
    api_version: String,
    kind: String,
    metadata: Meta,
}

fn decode(json: &[u8]) -> Result<OwnershipRecord, serde_json::Error> {
    let Any { api_version, kind, metadata } = lenient::from_slice(json)?;
    let mut member = record(group_of(&api_version), &kind, metadata);
    if member.is_definition() {
        member.declares = CustomKind::from_slice(json).map(Arc::new);
    }
    Ok(member)
}

/// The record of an object with this metadata.
fn record(group: &str, kind: &str, metadata: Meta) -> OwnershipRecord {
    // One cache stores all kinds, so the kind is part of the key.
    let key = format!("{kind}.{group}:{}:{}", metadata.namespace, metadata.name);
    // All objects share the strings of built-in kinds.
    let (group, kind) = match kinds().get_key_value(&kind_key(group, kind)) {
        Some(((group, kind), _)) => (Cow::Borrowed(group.as_str()), Cow::Borrowed(kind.as_str())),
        None => (Cow::Owned(group.to_owned()), Cow::Owned(kind.to_owned())),
    };
    OwnershipRecord {
        key: Key::new("", &key),
        revision: metadata.revision(),
        uid: metadata.uid.into(),
        node: Arc::new(Node {
            group,
            kind,
            namespace: metadata.namespace,
            name: metadata.name,
            resource_version: metadata.resource_version,
            owners: metadata.owner_references,
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers,
        }),
        declares: None,
    }
}

impl Object for OwnershipRecord {
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
