//! PersistentVolumeClaims as the scheduler caches them. A bound claim keeps no request, because only unbound
//! claims need it.

use super::record::{MetaDoc, Record, controller_uid};
use crate::pod_constraints::LabelSelector;
use crate::quantity::Amount;
use kstore_api::lenient;
use serde::Deserialize;

/// Fields of a PersistentVolumeClaim that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Whether the claim is being deleted.
    pub deleting: bool,
    /// Whether the claim was bound to a volume that no longer exists (phase `Lost`).
    pub lost: bool,
    /// Whether only one pod may use the claim (access mode `ReadWriteOncePod`).
    pub is_exclusive: bool,
    /// Whether the binding of the claim is complete, as an annotation says.
    pub bind_completed: bool,
    /// The name of the volume that the claim is bound to, or requests.
    pub volume: Option<String>,
    /// Name of the claim's class; empty for none.
    pub class: String,
    /// The node for which a provisioner makes the claim's volume.
    pub selected_node: Option<String>,
    /// The uid of the claim's controller: the pod that it was made for.
    pub controller: Option<String>,
    /// The claim's requirements on a volume; `None` once the claim is bound.
    pub request: Option<Box<VolumeRequest>>,
}

/// The requirements of a claim on a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequest {
    /// The minimum size in bytes.
    pub size: i64,
    /// Access modes that the volume must have.
    pub modes: AccessModes,
    /// Whether the volume must be a raw block device.
    pub is_block: bool,
    /// Labels that the volume must have.
    pub selector: Option<LabelSelector>,
    /// Name of the VolumeAttributesClass; empty for none.
    pub attributes_class: String,
}

impl Claim {
    /// Whether claim and volume are bound to each other.
    pub fn is_bound(&self) -> bool {
        self.bind_completed && self.volume.is_some()
    }
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessModes(u8);

const READ_WRITE_ONCE_POD: u8 = 8;

impl AccessModes {
    pub(super) fn new(names: &[String]) -> Self {
        let bit = |name: &String| match name.as_str() {
            "ReadWriteOnce" => 1,
            "ReadOnlyMany" => 2,
            "ReadWriteMany" => 4,
            "ReadWriteOncePod" => READ_WRITE_ONCE_POD,
            _ => 0,
        };
        Self(names.iter().map(bit).fold(0, |all, bit| all | bit))
    }

    /// Whether every mode of `other` is in this set.
    pub fn includes(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Decodes a PersistentVolumeClaim.
///
/// # Errors
///
/// `json` is not a PersistentVolumeClaim, or a quantity in it is invalid. The apiserver stores no such
/// object.
pub fn decode(json: &[u8]) -> Result<Record<Claim>, serde_json::Error> {
    let Doc { mut metadata, spec, status } = lenient::from_slice(json)?;
    let annotations = std::mem::take(&mut metadata.annotations);
    let modes = AccessModes::new(&spec.access_modes.unwrap_or_default());
    let mut claim = Claim {
        deleting: metadata.is_deleting(),
        lost: status.phase.as_deref() == Some("Lost"),
        is_exclusive: modes.includes(AccessModes(READ_WRITE_ONCE_POD)),
        bind_completed: annotations.bind_completed.is_some(),
        volume: spec.volume_name.filter(|name| !name.is_empty()),
        class: annotations.class.or(spec.storage_class_name).unwrap_or_default(),
        selected_node: annotations.selected_node.filter(|name| !name.is_empty()),
        controller: controller_uid(&metadata),
        request: None,
    };
    if !claim.is_bound() {
        let requests = spec.resources.and_then(|resources| resources.requests).unwrap_or_default();
        claim.request = Some(Box::new(VolumeRequest {
            size: requests.storage.map_or(0, |amount| amount.whole),
            modes,
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            selector: spec.selector,
            attributes_class: spec.volume_attributes_class_name.unwrap_or_default(),
        }));
    }
    Ok(Record::of(metadata, claim))
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
    resources: Option<ResourcesDoc>,
    selector: Option<LabelSelector>,
    storage_class_name: Option<String>,
    volume_attributes_class_name: Option<String>,
    volume_mode: Option<String>,
    volume_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourcesDoc {
    requests: Option<StorageDoc>,
}

/// Amounts by resource; the decoder reads only that of storage.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StorageDoc {
    pub(super) storage: Option<Amount>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusDoc {
    phase: Option<String>,
}
