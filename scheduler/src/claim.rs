//! A PersistentVolumeClaim as the scheduler sees it: that it exists, and whether it is being deleted. Whether it is bound does
//! not matter here: simulated nodes let a claim act like an emptyDir.

use std::collections::BTreeMap;

use kstore_api::lenient;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;

/// What the scheduler keeps of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// Its namespace and name.
    pub key: Key,
    /// Its identity.
    pub uid: String,
    /// The revision of the object these facts come from.
    pub revision: Revision,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The claims that exist, and whether each is being deleted.
pub type Claims = BTreeMap<Key, bool>;

impl Object for ClaimInfo {
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

/// Reads a claim.
///
/// # Errors
/// When `json` is none.
pub fn decode(json: &[u8]) -> Result<ClaimInfo, serde_json::Error> {
    #[derive(Deserialize)]
    struct Doc {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        name: String,
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        uid: String,
        #[serde(default)]
        resource_version: String,
        #[serde(default)]
        deletion_timestamp: Option<serde::de::IgnoredAny>,
    }
    let meta = lenient::from_slice::<Doc>(json)?.metadata;
    let revision = Revision(meta.resource_version.parse().unwrap_or(0));
    let deleting = meta.deletion_timestamp.is_some();
    Ok(ClaimInfo { key: Key::new(&meta.namespace, &meta.name), uid: meta.uid, revision, deleting })
}
