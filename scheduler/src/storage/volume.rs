//! PersistentVolumes as the scheduler caches them.

use super::claim::{AccessModes, Claim, StorageDoc};
use super::record::{MetaDoc, Record};
use crate::affinity::Term;
use crate::node::NodeInfo;
use crate::pod_constraints::Labels;
use kstore_api::lenient;
use kstore_informer::Key;
use serde::Deserialize;

/// Fields of a PersistentVolume that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Whether the volume is being deleted.
    pub deleting: bool,
    /// Phase of the volume.
    pub phase: VolumePhase,
    /// The claim that the volume is bound to or reserved for.
    pub claim: Option<ClaimRef>,
    /// Name of the volume's class; empty for none.
    pub class: String,
    /// Size in bytes.
    pub size: i64,
    /// The access modes of the volume.
    pub modes: AccessModes,
    /// Whether the volume is a raw block device.
    pub is_block: bool,
    /// Name of the VolumeAttributesClass; empty for none.
    pub attributes_class: String,
    /// The labels of the volume. Claims select a volume by them, and they name its zone.
    pub labels: Labels,
    /// Terms of the required node affinity: one must hold. `None` if every node can use the volume.
    pub affinity: Option<Vec<Term>>,
    /// CSI driver and handle of the volume.
    pub csi: Option<CsiHandle>,
}

/// Phase of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePhase {
    /// The binder has not processed the volume yet.
    #[default]
    Pending,
    /// The volume waits for a claim.
    Available,
    /// The volume is bound, released or failed.
    Unavailable,
}

/// A volume's reference to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// Namespace and name of the claim.
    pub key: Key,
    /// The uid of the claim; empty if a user wrote the reference before the claim existed.
    pub uid: String,
}

impl ClaimRef {
    /// Whether the reference is to this claim.
    pub fn refers_to(&self, claim: &Record<Claim>) -> bool {
        self.key == claim.key && (self.uid.is_empty() || self.uid == claim.uid)
    }
}

/// A CSI driver and its name of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiHandle {
    /// Name of the driver.
    #[serde(default)]
    pub driver: String,
    /// Name of the volume.
    #[serde(default, rename = "volumeHandle")]
    pub handle: String,
}

impl Volume {
    /// Whether pods on the node can use the volume. As in Kubernetes, a volume's node affinity applies only
    /// to labels, not to fields of the node.
    pub fn is_reachable_from(&self, node: &NodeInfo) -> bool {
        self.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches("", &node.labels)))
    }
}

/// Decodes a PersistentVolume.
///
/// # Errors
///
/// `json` is not a PersistentVolume, or a quantity in it is invalid. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<Record<Volume>, serde_json::Error> {
    let Doc { mut metadata, spec, status } = lenient::from_slice(json)?;
    let class = std::mem::take(&mut metadata.annotations).class.or(spec.storage_class_name);
    let capacity = spec.capacity.unwrap_or_default();
    let required = spec.node_affinity.and_then(|affinity| affinity.required);
    let volume = Volume {
        deleting: metadata.is_deleting(),
        phase: match status.phase.as_deref() {
            None | Some("" | "Pending") => VolumePhase::Pending,
            Some("Available") => VolumePhase::Available,
            Some(_) => VolumePhase::Unavailable,
        },
        claim: spec
            .claim_ref
            .map(|claim| ClaimRef { key: Key::new(&claim.namespace, &claim.name), uid: claim.uid }),
        class: class.unwrap_or_default(),
        size: capacity.storage.map_or(0, |amount| amount.whole),
        modes: AccessModes::new(&spec.access_modes.unwrap_or_default()),
        is_block: spec.volume_mode.as_deref() == Some("Block"),
        attributes_class: spec.volume_attributes_class_name.unwrap_or_default(),
        labels: std::mem::take(&mut metadata.labels),
        affinity: required.map(|required| required.node_selector_terms),
        csi: spec.csi,
    };
    Ok(Record::of(metadata, volume))
}

#[derive(Deserialize)]
struct Doc {
    #[serde(default)]
    metadata: MetaDoc,
    #[serde(default)]
    spec: SpecDoc,
    #[serde(default)]
    status: StatusDoc,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecDoc {
    access_modes: Option<Vec<String>>,
    capacity: Option<StorageDoc>,
    claim_ref: Option<ClaimRefDoc>,
    csi: Option<CsiHandle>,
    node_affinity: Option<AffinityDoc>,
    storage_class_name: Option<String>,
    volume_attributes_class_name: Option<String>,
    volume_mode: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimRefDoc {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AffinityDoc {
    required: Option<TermsDoc>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermsDoc {
    node_selector_terms: Vec<Term>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusDoc {
    phase: Option<String>,
}
