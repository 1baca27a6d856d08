//! [`Member`]: the metadata of any object of any kind, and the stream that all of them come on.

use super::graph::Node;
use super::plan::{Kinds, OwnerKind, group_of};
use crate::resource::Resource;
use crate::view::Meta;
use kstore_api::kind::RESOURCES;
use kstore_api::lenient;
use kstore_client::{Client, Gvr, Source, WatchParams};
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use std::sync::{Arc, LazyLock};

/// Events own nothing, are owned by nothing, and there are many.
const LEFT_OUT: &str = "events";

/// The kinds that are watched: everything that is stored and can be deleted, each in the version it is stored in.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let rows = RESOURCES.iter().filter(|row| {
        row.storage.is_some()
            && row.storage_version.is_none()
            && row.plural != LEFT_OUT
            && ["delete", "list", "watch"].iter().all(|verb| row.verbs.contains(verb))
    });
    rows.map(|row| {
        let resource =
            Resource { group: row.group.into(), version: row.version.into(), plural: row.plural.into() };
        ((row.group.to_owned(), row.kind.to_owned()), OwnerKind { resource, namespaced: row.namespaced })
    })
    .collect()
});

/// The watched kinds, by group and kind.
pub(crate) fn kinds() -> &'static Kinds {
    &KINDS
}

/// Everything that is watched, on one stream in revision order.
pub(crate) fn source(client: &Client) -> Source<Member> {
    let mut all = kinds().values().map(|kind| crate::apply::gvr(&kind.resource));
    let first = all.next().unwrap_or_else(|| Gvr::new("", "v1", "pods"));
    client.dynamic(first).project(WatchParams::default(), decode).and(all)
}

/// An object, as far as ownership goes.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    key: Key,
    uid: String,
    revision: Revision,
    /// `None` for a kind that is not watched.
    node: Option<Arc<Node>>,
}

impl Member {
    /// What the graph holds of it.
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// Its namespace; empty for cluster-scoped kinds.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.node.as_ref().map(|n| n.namespace.as_str())
    }
}

fn decode(json: &[u8]) -> Result<Member, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Any {
        api_version: String,
        kind: String,
        metadata: Meta,
    }
    let Any { api_version, kind, metadata } = lenient::from_slice(json)?;
    let known = kinds().get_key_value(&(group_of(&api_version).to_owned(), kind.clone()));
    // One cache holds all kinds, so the kind belongs to the key.
    let key = format!("{kind}.{}:{}:{}", group_of(&api_version), metadata.namespace, metadata.name);
    Ok(Member {
        key: Key::new("", &key),
        uid: metadata.uid,
        revision: Revision(metadata.resource_version.parse().unwrap_or(0)),
        node: known.map(|((_, kind), row)| {
            Arc::new(Node {
                resource: row.resource.clone(),
                kind,
                namespace: metadata.namespace,
                name: metadata.name,
                resource_version: metadata.resource_version,
                owners: metadata.owner_references,
                deleting: metadata.deletion_timestamp.is_some(),
                finalizers: metadata.finalizers,
            })
        }),
    })
}

impl Object for Member {
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
