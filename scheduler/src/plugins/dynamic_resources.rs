//! The plugin DynamicResources: the pod's resource claims are allocated and the node can use their devices, or
//! the claims can get devices there.

use crate::devices::allocate::{AllocationFailure, ChosenDevice, SearchTerms, allocate};
use crate::devices::binding::{BindingProgress, progress};
use crate::devices::claim::{Allocation, Claim, Request};
use crate::devices::outcome::allocation;
use crate::devices::plan::{Deallocation, DevicePlan};
use crate::devices::{DeviceEvent, Devices};
use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::fields::Fields;
use crate::gates::Gates;
use crate::inventory::Inventory;
use crate::limits::{ALLOCATION_STEPS, ALTERNATIVES, CLAIM_CONSUMERS};
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{
    ClusterView, ExtensionPoint, Plugin, PostFilter, PreFilter, Refusals, Refused, Rejection, Reservation,
    ReservationKind, Row,
};
use crate::pod::{ClaimSource, PodInfo};
use crate::score::{Candidates, scaled};
use crate::snapshot::Snapshot;
use crate::storage::Record;
use jiff::SignedDuration;
use kstore_informer::Key;
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::sync::Arc;

/// Indices of the reasons: the claims get no devices on the node; the node cannot use the devices of an allocated claim.
const UNALLOCATABLE: u32 = 0;
const UNAVAILABLE: u32 = 1;

/// The reason for a pod that must wait for other users of a claim.
const IN_USE: &str = "resourceclaim in use";

const FILTER_TIMEOUT: &str = "filterTimeout";
const BINDING_TIMEOUT: &str = "bindingTimeout";
/// The time that kube-scheduler has for a node by default, in nanoseconds. Here a number of steps stands for it, so that decisions do not
/// depend on the speed of the machine.
const DEFAULT_FILTER_TIMEOUT: i64 = 10_000_000_000;
/// The same for devices that have binding conditions.
const DEFAULT_BINDING_TIMEOUT: i64 = 600_000_000_000;

/// The plugin, with the times of its arguments in nanoseconds.
pub(crate) struct DynamicResources {
    filter_timeout: i64,
    binding_timeout: i64,
    /// The gate `DRASchedulerFilterTimeout`.
    is_bounded: bool,
    /// The gate `DRADeviceBindingConditions`.
    prepares_devices: bool,
}

impl Default for DynamicResources {
    fn default() -> Self {
        Self {
            filter_timeout: DEFAULT_FILTER_TIMEOUT,
            binding_timeout: DEFAULT_BINDING_TIMEOUT,
            is_bounded: true,
            prepares_devices: true,
        }
    }
}

impl DynamicResources {
    /// What the search on a node may do.
    fn terms(&self) -> SearchTerms {
        SearchTerms { steps: self.steps(), allows_binding_conditions: self.prepares_devices }
    }

    /// The largest number of devices that the search examines on a node; zero nanoseconds are no limit.
    fn steps(&self) -> usize {
        if self.filter_timeout == 0 || !self.is_bounded {
            return usize::MAX;
        }
        let steps =
            ALLOCATION_STEPS as i128 * i128::from(self.filter_timeout) / i128::from(DEFAULT_FILTER_TIMEOUT);
        usize::try_from(steps).unwrap_or(usize::MAX).max(1)
    }
}

impl Plugin for DynamicResources {
    type State<'a> = DeviceClaims<'a>;

    const ROW: &'static Row = &Row {
        name: "DynamicResources",
        points: &[
            ExtensionPoint::PreEnqueue,
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PostFilter,
            ExtensionPoint::Score,
            ExtensionPoint::Reserve,
            ExtensionPoint::PreBind,
        ],
        weight: 2,
        reasons: &["cannot allocate all claims", "resourceclaim not available on the node"],
        events: EventSet::of(&[NodeAdded, NodeChanged, OwnChange, EventKind::Devices]),
    };

    const RESERVES: Option<ReservationKind> = Some(ReservationKind::Devices);

    fn gated(self, gates: Gates) -> Self {
        Self { is_bounded: gates.bounds_device_search, prepares_devices: gates.prepares_devices, ..self }
    }

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let filter_timeout = args.duration(FILTER_TIMEOUT).unwrap_or(self.filter_timeout);
        if filter_timeout < 0 {
            args.invalid(
                FILTER_TIMEOUT,
                &kstore_go_duration::format(filter_timeout),
                "must be zero or positive",
            );
        }
        let binding_timeout = args.duration(BINDING_TIMEOUT).unwrap_or(self.binding_timeout);
        if binding_timeout < 1_000_000_000 {
            let printed = kstore_go_duration::format(binding_timeout);
            args.invalid(BINDING_TIMEOUT, &printed, "must be at least 1 second");
        }
        Some(Self { filter_timeout, binding_timeout, ..*self })
    }

    fn arguments(&self) -> Option<Value> {
        let [filter, binding] = [self.filter_timeout, self.binding_timeout].map(kstore_go_duration::format);
        Some(json!({ FILTER_TIMEOUT: filter, BINDING_TIMEOUT: binding }))
    }

    /// A pod whose resource claims do not exist waits for them.
    fn admits_to_queue(&self, pod: &PodInfo, inventory: &Inventory) -> bool {
        pod.device_claims.is_empty() || claims_of(pod, &inventory.devices).is_ok()
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, DeviceClaims<'a>> {
        match DeviceClaims::of(pod, &cluster.inventory.devices, self.terms()) {
            Err(why) => PreFilter::Refuse(why.into()),
            Ok(None) => PreFilter::Skip,
            Ok(Some(claims)) => PreFilter::Check(claims),
        }
    }

    fn check(&self, _pod: &PodInfo, claims: &DeviceClaims<'_>, node: &NodeState) -> Result<(), Refused> {
        claims.choose(node.info()).map(drop)
    }

    fn reserve(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        inventory: &mut Inventory,
        random: &dyn Fn() -> Rng,
    ) -> Option<Reservation> {
        let claims = DeviceClaims::of(pod, &inventory.devices, self.terms());
        let claims = claims.expect("a pod that was admitted may have its claims")?;
        let shares = random().fork("shares");
        let plan = claims.plan(pod, node, &mut || shares.uuid()).expect("the filters asked for this plan");
        let plan = DevicePlan { binding_timeout: SignedDuration::from_nanos(self.binding_timeout), ..plan };
        inventory.devices.assume(&pod.uid, &plan);
        (!plan.is_empty()).then_some(Reservation::Devices(plan))
    }

    /// Nodes that serve better alternatives of the claims' requests score higher.
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let claims = DeviceClaims::of(pod, &candidates.inventory.devices, self.terms()).ok()??;
        let is_ranked = claims.open.iter().any(|claim| claim.fields.requests.iter().any(Request::is_ranked));
        is_ranked.then(|| scaled(candidates.map(|node| claims.rank(node.info()))))
    }

    /// The texts speak about pods without claims too.
    fn post_filter(&self, pod: &PodInfo, cluster: ClusterView<'_>, refusals: Refusals<'_>) -> PostFilter {
        let deallocation =
            deallocation(pod, cluster.snapshot, &cluster.inventory.devices, refusals.rejections);
        let text = match &deallocation {
            Some(_) => "deallocation of ResourceClaim completed",
            None if pod.device_claims.is_empty() || refusals.is_of_pod => "no new claims to deallocate",
            None => "still not schedulable",
        };
        PostFilter { deallocation, text: Some(text) }
    }

    /// A new node helps, and so does a node with changed labels. So do free devices, changed classes and slices, and changes of the pod's
    /// own claims, once they exist.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeChanged { old, new } => old.labels != new.labels,
            ClusterEvent::OwnChange(old) => old.device_claims != pod.device_claims,
            ClusterEvent::Devices(event, devices) => devices_may_help(pod, event, devices),
            _ => false,
        }
    }
}

fn devices_may_help(pod: &PodInfo, event: &DeviceEvent, devices: &Devices) -> bool {
    let concerns = match event {
        DeviceEvent::Freed | DeviceEvent::Supply => true,
        DeviceEvent::Claim(key) => {
            key.namespace() == pod.key.namespace()
                && pod.device_claims.iter().any(|source| source.name() == Some(key.name()))
        }
    };
    concerns && !pod.device_claims.is_empty() && claims_of(pod, devices).is_ok()
}

/// The refusal of a node on which the claims get no devices, or the failure to find that out.
fn unallocatable(failure: AllocationFailure, node: &NodeInfo) -> Refused {
    match failure {
        AllocationFailure::Impossible => Refused::unresolvable(UNALLOCATABLE),
        AllocationFailure::TimedOut => {
            Refused::error(format!("node {}: timed out trying to allocate devices", node.name))
        }
        AllocationFailure::FaultyPool(why) => Refused::by(false, 0).with_texts(vec![why.into()]),
        AllocationFailure::Faulty(why) => Refused::error(why),
    }
}

/// The claims of a pod, looked up once before the filter checks nodes.
pub(crate) struct DeviceClaims<'a> {
    devices: &'a Devices,
    claims: Vec<&'a Arc<Record<Claim>>>,
    /// The claims without an allocation.
    open: Vec<&'a Record<Claim>>,
    terms: SearchTerms,
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
    /// Looks up the claims of `pod`; `None` if it uses none.
    ///
    /// # Errors
    ///
    /// Why no node can have the pod, in kube-scheduler's words.
    pub(crate) fn of(
        pod: &PodInfo,
        devices: &'a Devices,
        terms: SearchTerms,
    ) -> Result<Option<Self>, String> {
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
        Ok((!claims.is_empty()).then_some(Self { devices, claims, open, terms }))
    }

    /// The devices for the open claims on the node.
    fn choose(&self, node: &NodeInfo) -> Result<Vec<Vec<ChosenDevice<'a>>>, Refused> {
        let chosen = match self.open.is_empty() {
            true => Vec::new(),
            false => allocate(self.devices, &self.open, node, self.terms)
                .map_err(|failure| unallocatable(failure, node))?,
        };
        let is_available = |allocation: &Arc<Allocation>| allocation.is_available_on(node);
        match self.claims.iter().all(|claim| claim.allocation.as_ref().is_none_or(is_available)) {
            true => Ok(chosen),
            false => Err(Refused::unresolvable(UNAVAILABLE)),
        }
    }

    /// The sum over the requests with alternatives of how early in its list the chosen one is.
    fn rank(&self, node: &NodeInfo) -> i64 {
        let chosen = self.choose(node).unwrap_or_default();
        let of_claim = |(claim, devices): (&&Record<Claim>, &Vec<ChosenDevice<'_>>)| {
            let requests =
                claim.fields.requests.iter().enumerate().filter(|(_, request)| request.is_ranked());
            let chosen = requests.filter_map(|(at, _)| devices.iter().find(|device| device.request == at));
            chosen.map(|device| ALTERNATIVES.saturating_sub(device.alternative)).sum::<usize>()
        };
        let sum: usize = self.open.iter().zip(&chosen).map(of_claim).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    }

    /// The writes to the pod's claims if the pod is bound to `node`. `share_id` makes identities of shares.
    ///
    /// # Errors
    ///
    /// Why the node cannot serve the claims.
    pub(crate) fn plan(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        share_id: &mut dyn FnMut() -> String,
    ) -> Result<DevicePlan, Refused> {
        let mut plan = DevicePlan::default();
        let mut chosen = self.choose(node)?.into_iter();
        for claim in &self.claims {
            if claim.allocation.is_none() {
                let devices = chosen.next().expect("every open claim has its devices");
                let json = allocation(self.devices, claim, &devices, &node.name, share_id);
                let allocation = Allocation::of(json).expect("the scheduler makes valid allocations");
                if allocation.has_binding_conditions() {
                    plan.unprepared.push(claim.key.clone());
                }
                plan.allocate.push((Arc::clone(claim), Arc::new(allocation)));
                continue;
            }
            if self.terms.allows_binding_conditions && progress(claim) != BindingProgress::Ready {
                plan.unprepared.push(claim.key.clone());
            }
            if !is_reserved(claim, pod) {
                plan.reserve.push(Arc::clone(claim));
            }
        }
        Ok(plan)
    }
}

/// The first claim of a refused pod that some node of `snapshot` cannot use and that only this pod may use: without its
/// devices the pod may fit. `None` if there is no such claim.
fn deallocation(
    pod: &PodInfo,
    snapshot: &Snapshot,
    devices: &Devices,
    rejections: &[(usize, Rejection)],
) -> Option<Deallocation> {
    let is_unavailable = |rejection: &Rejection| {
        rejection.name() == DynamicResources::ROW.name && rejection.refused().has(UNAVAILABLE)
    };
    let unavailable = rejections.iter().filter(|(_, rejection)| is_unavailable(rejection));
    let nodes: Vec<&NodeInfo> = unavailable.map(|(slot, _)| snapshot.nodes()[*slot].info()).collect();
    if nodes.is_empty() {
        return None;
    }
    let is_own = |claim: &Record<Claim>| claim.reserved_for.iter().all(|uid| **uid == *pod.uid);
    let keeps_away = |claim: &Record<Claim>| {
        claim.allocation.as_ref().is_some_and(|all| nodes.iter().any(|node| !all.is_available_on(node)))
    };
    let claims = claims_of(pod, devices).ok()?;
    let claim = claims.into_iter().find(|claim| is_own(claim) && keeps_away(claim))?;
    Some(Deallocation { claim: claim.key.clone(), uid: claim.uid.clone(), revision: claim.revision })
}
