//! [`RawNode`]: a node as the API has it, for extenders that do not know the nodes.

use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A node as JSON.
#[derive(Debug)]
pub(crate) struct RawNode {
    key: Key,
    uid: String,
    revision: Revision,
    json: Box<RawValue>,
}

impl RawNode {
    /// The whole object.
    pub(super) fn json(&self) -> &RawValue {
        &self.json
    }
}

impl Object for RawNode {
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

/// Decodes a node.
///
/// # Errors
///
/// `json` is not a node.
pub(crate) fn decode(json: &[u8]) -> Result<RawNode, serde_json::Error> {
    #[derive(Deserialize)]
    struct Doc {
        metadata: ProjectedMeta,
    }
    let Doc { metadata } = lenient::from_slice(json)?;
    let json: Box<RawValue> = serde_json::from_slice(json)?;
    let (key, revision) = (metadata.key(), metadata.revision());
    Ok(RawNode { key, uid: metadata.uid, revision, json })
}
