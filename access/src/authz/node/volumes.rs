//! [`VolumeSecrets`]: the secrets to which PersistentVolumes refer. Follows the changes of volumes.

use crate::persistent_index::{PersistentIndex, delimited};
use kstore_api::meta;
use kstore_api::resource::Resource;
use kstore_registry::cache::Change;
use kstore_registry::derived::Derive;
use kstore_registry::lookup::Lookup;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Pointers to the secret references of a volume's spec.
const REFERENCES: [&str; 10] = [
    "/cephfs/secretRef",
    "/cinder/secretRef",
    "/flexVolume/secretRef",
    "/iscsi/secretRef",
    "/rbd/secretRef",
    "/scaleIO/secretRef",
    "/storageos/secretRef",
    "/csi/nodePublishSecretRef",
    "/csi/nodeStageSecretRef",
    "/csi/nodeExpandSecretRef",
];

/// A volume that refers to secrets, and the claim to which it is bound.
#[derive(Debug)]
pub(super) struct BoundVolume {
    pub(super) name: String,
    pub(super) claim_namespace: String,
    pub(super) claim: String,
}

/// Volumes by the secrets to which they refer. Volumes without a claim grant nothing and are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeSecrets(PersistentIndex<BoundVolume>);

impl VolumeSecrets {
    /// The bound volumes that refer to a secret.
    pub(super) fn of_secret<'v>(
        &'v self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &'v BoundVolume> {
        self.0.at(prefix(namespace, name))
    }

    fn put(&mut self, key: &str, volume: Option<&Value>) {
        self.0.set(key, volume.and_then(bound));
    }
}

/// The beginning of the places of the volumes that refer to a secret. The volume's name follows.
fn prefix(namespace: &str, name: &str) -> String {
    delimited(namespace) + &delimited(name)
}

/// The volume with a place for each secret to which it refers; `None` if it is not bound or refers to none.
fn bound(volume: &Value) -> Option<(BoundVolume, BTreeSet<Arc<str>>)> {
    let (spec, name) = (&volume["spec"], meta::name(volume));
    let claim = &spec["claimRef"];
    let (claim_namespace, claim) = (claim["namespace"].as_str()?, claim["name"].as_str()?);
    let term = |secret: &Value, namespace: &Value| {
        // A reference without a namespace means that of the claim.
        let namespace = namespace.as_str().filter(|given| !given.is_empty()).unwrap_or(claim_namespace);
        Some(Arc::from(prefix(namespace, secret.as_str()?) + name))
    };
    let file = &spec["azureFile"];
    let references = REFERENCES.iter().filter_map(|pointer| spec.pointer(pointer));
    let references = references.filter_map(|reference| term(&reference["name"], &reference["namespace"]));
    let terms: BTreeSet<_> =
        term(&file["secretName"], &file["secretNamespace"]).into_iter().chain(references).collect();
    let (claim_namespace, claim) = (claim_namespace.to_owned(), claim.to_owned());
    (!terms.is_empty()).then(|| (BoundVolume { name: name.to_owned(), claim_namespace, claim }, terms))
}

impl Derive for VolumeSecrets {
    fn kinds() -> &'static [&'static Resource] {
        static KINDS: OnceLock<[&'static Resource; 1]> = OnceLock::new();
        KINDS.get_or_init(|| [kstore_registry::lookup::core("persistentvolumes")])
    }

    fn read(lookup: &dyn Lookup, _: Option<&Self>) -> Self {
        let mut volumes = Self::default();
        for kind in Self::kinds() {
            for volume in lookup.list(kind, "") {
                volumes.put(&kind.storage_key("", meta::name(&volume)), Some(&volume));
            }
        }
        volumes
    }

    fn after(&self, changes: &[Arc<Change>]) -> Self {
        let mut volumes = self.clone();
        for change in changes {
            let volume = change.new.as_ref().map(|new| new.parse_without_managed_fields());
            volumes.put(change.any().key(), volume.as_ref());
        }
        volumes
    }
}
