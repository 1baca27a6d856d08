//! [`VolumePlan`]: the writes and conditions that a pod's bind needs before it.

use super::claim::Claim;
use super::volume::Volume;
use super::{Record, Storage, StorageEvent};
use crate::limits::VOLUME_BIND_TIMEOUT;
use crate::node::NodeInfo;
use jiff::SignedDuration;
use kstore_informer::{Key, Revision};
use std::sync::Arc;

/// A volume and the claim that gets it.
pub type ClaimedVolume = (Arc<Record<Volume>>, Arc<Record<Claim>>);

/// The volumes that the claims of a pod get on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlan {
    /// Existing volumes, each with the claim that gets it.
    pub bind: Vec<ClaimedVolume>,
    /// Claims whose volume a provisioner makes for the node.
    pub provision: Vec<Arc<Record<Claim>>>,
    /// The time that the claims have to become bound: the argument `bindTimeoutSeconds` of VolumeBinding.
    pub timeout: SignedDuration,
}

impl Default for VolumePlan {
    fn default() -> Self {
        Self { bind: Vec::new(), provision: Vec::new(), timeout: VOLUME_BIND_TIMEOUT }
    }
}

/// The progress of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Every claim is bound.
    Bound,
    /// The binder or the provisioner has not finished.
    Waiting,
    /// The plan failed; the reason in kube-scheduler's words.
    Failed(String),
}

impl VolumePlan {
    /// Whether the plan is empty: every claim of the pod is bound.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }

    /// The bindings that the volumes do not show yet.
    pub(crate) fn unwritten_bindings(&self) -> impl Iterator<Item = &ClaimedVolume> {
        let shows = |volume: &Record<Volume>, claim: &Record<Claim>| {
            volume.claim.as_ref().is_some_and(|reference| reference.uid == claim.uid)
        };
        self.bind.iter().filter(move |(volume, claim)| !shows(volume, claim))
    }

    /// The claims that do not show the selected node yet.
    pub(crate) fn unwritten_nodes(&self, node: &str) -> impl Iterator<Item = &Arc<Record<Claim>>> {
        self.provision.iter().filter(move |claim| claim.selected_node.as_deref() != Some(node))
    }

    fn claims(&self) -> impl Iterator<Item = &Arc<Record<Claim>>> {
        self.bind.iter().map(|(_, claim)| claim).chain(&self.provision)
    }

    /// Whether the event may change the plan's progress.
    pub(crate) fn concerns(&self, event: &StorageEvent) -> bool {
        match event {
            StorageEvent::Claim(key) => self.claims().any(|claim| claim.key == *key),
            StorageEvent::Volume(volume) => {
                let is_for =
                    |claim: &Key| volume.claim.as_ref().is_some_and(|reference| reference.key == *claim);
                self.bind.iter().any(|(planned, _)| planned.key == volume.key)
                    || self.provision.iter().any(|claim| is_for(&claim.key))
            }
            StorageEvent::Class(_)
            | StorageEvent::CsiNode
            | StorageEvent::CsiDriver(_)
            | StorageEvent::Capacity(_) => false,
        }
    }

    /// The progress of the plan on `node`. An object of `storage` older than `written`, the revision of the
    /// plan's writes, does not make the plan fail.
    pub(crate) fn progress(&self, storage: &Storage, node: Option<&NodeInfo>, written: Revision) -> Progress {
        match self.try_progress(storage, node, written) {
            Ok(true) => Progress::Bound,
            Ok(false) => Progress::Waiting,
            Err(why) => Progress::Failed(why),
        }
    }

    fn try_progress(
        &self,
        storage: &Storage,
        node: Option<&NodeInfo>,
        written: Revision,
    ) -> Result<bool, String> {
        let Some(node) = node else { return Err("the selected node does not exist any more".to_owned()) };
        let mut is_bound = true;
        for (volume, claim) in &self.bind {
            let name = volume.key.name();
            let now = storage.volume(name).filter(|now| now.uid == volume.uid);
            let Some(now) = now else {
                return Err(format!("failed to check pv binding: persistentvolume \"{name}\" not found"));
            };
            if now.claim.as_ref().is_none_or(|reference| reference.uid != claim.uid) {
                if now.revision < written {
                    is_bound = false;
                    continue;
                }
                return Err(format!("ClaimRef got reset for pv \"{name}\""));
            }
            let now = current(storage, claim)?;
            if now.is_bound() && now.volume.as_deref() != Some(name) {
                return Err(format!("ClaimRef got reset for pv \"{name}\""));
            }
            is_bound &= now.is_bound();
        }
        for claim in &self.provision {
            is_bound &= is_provisioned(storage, claim, node, written)?;
        }
        Ok(is_bound)
    }
}

/// The current version of the claim.
fn current<'a>(storage: &'a Storage, claim: &Record<Claim>) -> Result<&'a Arc<Record<Claim>>, String> {
    storage.claim(&claim.key).filter(|now| now.uid == claim.uid).ok_or_else(|| {
        format!("failed to check pvc binding: persistentvolumeclaim \"{}\" not found", claim.key.name())
    })
}

fn is_provisioned(
    storage: &Storage,
    claim: &Record<Claim>,
    node: &NodeInfo,
    written: Revision,
) -> Result<bool, String> {
    let now = current(storage, claim)?;
    // A provisioner that failed removes the annotation: the scheduler shall try another node.
    if now.selected_node.as_deref() != Some(&*node.name) {
        if now.revision < written {
            return Ok(false);
        }
        return Err(format!("provisioning failed for PVC \"{}\"", claim.key.name()));
    }
    let Some(name) = &now.volume else { return Ok(false) };
    let Some(volume) = storage.volume(name) else { return Ok(false) };
    if !volume.is_reachable_from(node) {
        return Err(format!(
            "pv \"{name}\" node affinity doesn't match node \"{}\": no matching NodeSelectorTerms",
            node.name
        ));
    }
    Ok(now.is_bound())
}
