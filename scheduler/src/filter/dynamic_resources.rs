//! The DynamicResources filter: the pod's resource claims are allocated and the node can use their devices, or
//! the claims can get devices there.

use std::collections::BTreeSet;
use std::sync::Arc;

use kstore_informer::{Key, Revision};

use super::Rejection;
use crate::decide::Refusal;
use crate::devices::allocate::{AllocationFailure, ChosenDevice, allocate};
use crate::devices::claim::{Allocation, Claim};
use crate::devices::outcome::allocation;
use crate::devices::plan::DevicePlan;
use crate::devices::{DeviceEvent, Devices};
use crate::event::ClusterEvent;
use crate::limits::CLAIM_CONSUMERS;
use crate::node::NodeInfo;
use crate::pod::{ClaimSource, PodInfo};
use crate::storage::Record;

/// The reason for a node on which the claims get no devices.
pub const UNALLOCATABLE: &str = "cannot allocate all claims";

/// The reason for a node that cannot use the devices of an allocated claim.
pub const UNAVAILABLE: &str = "resourceclaim not available on the node";

/// The reason for a node on which the search for devices was too long.
pub const TIMED_OUT: &str = "timed out trying to allocate devices";

/// The reason for a pod that must wait for other users of a claim.
pub const IN_USE: &str = "resourceclaim in use";

/// The reason for refusing a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceConflict {
    /// The node cannot use the devices of these claims, by index among the pod's claims.
    Unavailable(Vec<usize>),
    /// The claims get no devices there.
    Allocation(AllocationFailure),
}

impl DeviceConflict {
    /// Calls `emit` with the reason, in kube-scheduler's words.
    pub fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        match self {
            Self::Unavailable(_) => emit(UNAVAILABLE),
            Self::Allocation(AllocationFailure::Impossible) => emit(UNALLOCATABLE),
            Self::Allocation(AllocationFailure::TimedOut) => emit(TIMED_OUT),
            Self::Allocation(AllocationFailure::Faulty(why)) => emit(why),
        }
    }
}

/// The claims of a pod, looked up once before the filter checks nodes.
pub struct DeviceClaims<'a> {
    devices: &'a Devices,
    claims: Vec<&'a Arc<Record<Claim>>>,
    /// The claims without an allocation.
    open: Vec<&'a Record<Claim>>,
}

/// Looks up the claims of `pod`; `None` if it uses none.
///
/// # Errors
///
/// Why no node can have the pod, in kube-scheduler's words.
pub fn prefilter<'a>(pod: &PodInfo, devices: &'a Devices) -> Result<Option<DeviceClaims<'a>>, String> {
    if pod.device_claims.is_empty() {
        return Ok(None);
    }
    let claims = claims_of(pod, devices)?;
    let mut open = Vec::new();
    for claim in &claims {
        match &claim.allocation {
            Some(_) if claim.reserved_for.len() >= CLAIM_CONSUMERS && !is_reserved(claim, pod) => {
                return Err(IN_USE.to_owned());
            }
            Some(_) => {}
            None if devices.is_being_allocated(&claim.key) => {
                return Err(format!("resource claim {} is in the process of being allocated", claim.key));
            }
            None => {
                check_classes(claim, devices)?;
                open.push(&***claim);
            }
        }
    }
    Ok((!claims.is_empty()).then_some(DeviceClaims { devices, claims, open }))
}

/// The claims of a pod, each once.
///
/// # Errors
///
/// A claim does not exist yet, is being deleted, or belongs to another pod.
fn claims_of<'a>(pod: &PodInfo, devices: &'a Devices) -> Result<Vec<&'a Arc<Record<Claim>>>, String> {
    let mut claims: Vec<&'a Arc<Record<Claim>>> = Vec::new();
    for source in &pod.device_claims {
        let (name, is_generated) = match source {
            ClaimSource::Named(name) => (name, false),
            ClaimSource::Generated(name) => (name, true),
            ClaimSource::Unneeded => continue,
            ClaimSource::Missing => {
                return Err(format!("pod \"{}\": ResourceClaim not created yet", pod.key));
            }
        };
        let claim = devices
            .claim(&Key::new(pod.key.namespace(), name))
            .ok_or_else(|| format!("resourceclaim.resource.k8s.io \"{name}\" not found"))?;
        if claim.is_deleting {
            return Err(format!("resourceclaim \"{name}\" is being deleted"));
        }
        if is_generated && claim.controller.as_deref() != Some(&*pod.uid) {
            return Err(format!(
                "ResourceClaim {} was not created for Pod {} (Pod is not owner)",
                claim.key, pod.key
            ));
        }
        if !claims.iter().any(|known| known.key == claim.key) {
            claims.push(claim);
        }
    }
    Ok(claims)
}

/// Whether the claims of the pod exist, so that an attempt makes sense.
pub fn is_ready(pod: &PodInfo, devices: &Devices) -> bool {
    pod.device_claims.is_empty() || claims_of(pod, devices).is_ok()
}

fn is_reserved(claim: &Claim, pod: &PodInfo) -> bool {
    claim.reserved_for.iter().any(|uid| **uid == *pod.uid)
}

fn check_classes(claim: &Claim, devices: &Devices) -> Result<(), String> {
    for request in &claim.requests {
        for alternative in &request.alternatives {
            if devices.class(&alternative.class).is_none() {
                let (label, class) = (request.label(alternative), &alternative.class);
                return Err(format!("request {label}: device class {class} does not exist"));
            }
        }
    }
    Ok(())
}

impl<'a> DeviceClaims<'a> {
    /// Whether the pod can have its claims on the node.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check(&self, node: &NodeInfo) -> Result<(), DeviceConflict> {
        self.choose(node).map(|_| ())
    }

    /// The devices for the open claims on the node.
    fn choose(&self, node: &NodeInfo) -> Result<Vec<Vec<ChosenDevice<'a>>>, DeviceConflict> {
        let chosen = match self.open.is_empty() {
            true => Vec::new(),
            false => allocate(self.devices, &self.open, node).map_err(DeviceConflict::Allocation)?,
        };
        let is_available = |allocation: &Arc<Allocation>| allocation.is_available_on(node);
        let unavailable = self.claims.iter().enumerate();
        let unavailable =
            unavailable.filter(|(_, claim)| !claim.allocation.as_ref().is_none_or(is_available));
        let unavailable: Vec<usize> = unavailable.map(|(index, _)| index).collect();
        if unavailable.is_empty() { Ok(chosen) } else { Err(DeviceConflict::Unavailable(unavailable)) }
    }

    /// The writes to the pod's claims if the pod is bound to `node`. `share_id` makes identities of shares.
    ///
    /// # Errors
    ///
    /// Why the node cannot serve the claims.
    pub fn plan(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        share_id: &mut dyn FnMut() -> String,
    ) -> Result<DevicePlan, DeviceConflict> {
        let mut plan = DevicePlan::default();
        let mut chosen = self.choose(node)?.into_iter();
        for claim in &self.claims {
            if claim.allocation.is_none() {
                let devices = chosen.next().expect("every open claim has its devices");
                let json = allocation(self.devices, claim, &devices, &node.name, share_id);
                let allocation = Allocation::of(json).expect("the scheduler makes valid allocations");
                plan.allocate.push((Arc::clone(claim), Arc::new(allocation)));
            } else if !is_reserved(claim, pod) {
                plan.reserve.push(Arc::clone(claim));
            }
        }
        Ok(plan)
    }
}

/// An allocated claim without users that keeps a pod away from all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deallocation {
    /// Namespace and name of the claim.
    pub claim: Key,
    /// The uid of the claim.
    pub uid: String,
    /// The revision at which the claim has no users.
    pub revision: Revision,
}

/// The first claim of a refused pod that some node cannot use and that only this pod may use: without its
/// devices the pod may fit. `None` if there is no such claim.
pub fn deallocation(pod: &PodInfo, devices: &Devices, refusal: &Refusal) -> Option<Deallocation> {
    let mut unavailable = BTreeSet::new();
    for (_, rejection) in &refusal.rejections {
        if let Rejection::DynamicResources(DeviceConflict::Unavailable(indices)) = rejection {
            unavailable.extend(indices.iter().copied());
        }
    }
    let claims = claims_of(pod, devices).ok()?;
    let is_own = |claim: &Record<Claim>| claim.reserved_for.iter().all(|uid| **uid == *pod.uid);
    let claim = unavailable.into_iter().filter_map(|at| claims.get(at)).find(|claim| is_own(claim))?;
    Some(Deallocation { claim: claim.key.clone(), uid: claim.uid.clone(), revision: claim.revision })
}

/// A new node helps, and so does a node with changed labels.
pub fn may_help(event: ClusterEvent<'_>) -> bool {
    super::volume_zone::may_help(event)
}

/// Free devices, changed classes and slices, and changes of the pod's own claims help a pod whose claims exist.
pub fn device_may_help(pod: &PodInfo, event: &DeviceEvent, devices: &Devices) -> bool {
    let concerns = match event {
        DeviceEvent::Freed | DeviceEvent::Supply => true,
        DeviceEvent::Claim(key) => {
            key.namespace() == pod.key.namespace()
                && pod.device_claims.iter().any(|source| source.name() == Some(key.name()))
        }
    };
    concerns && is_ready(pod, devices)
}
