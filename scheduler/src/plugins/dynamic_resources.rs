//! The plugin DynamicResources: the pod's resource claims are allocated and the node can use their devices, or
//! the claims can get devices there.

use crate::devices::allocate::{AllocationFailure, ChosenDevice, SearchTerms, allocate};
use crate::devices::binding::{BindingProgress, progress};
use crate::devices::claim::{Allocation, Claim, Request};
use crate::devices::class::Class;
use crate::devices::extended::{ResourcesClaim, base_name};
use crate::devices::outcome::allocation;
use crate::devices::plan::{CreatedClaim, Deallocation, DevicePlan};
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
use crate::resources;
use crate::score::{Candidates, scaled};
use crate::snapshot::Snapshot;
use crate::storage::Record;
use jiff::SignedDuration;
use kstore_informer::Key;
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Indices of the reasons: the claims get no devices on the node; the node cannot use the devices of an allocated claim.
const UNALLOCATABLE: u32 = 0;
const UNAVAILABLE: u32 = 1;
/// The pod has a claim for its extended resources from an attempt that failed; the node does not have an extended resource.
const STALE: u32 = 2;
const UNFIT: u32 = 3;

/// The reason for a pod that must wait for other users of a claim.
const IN_USE: &str = "resourceclaim in use";

/// The number of random characters at the end of the name of a generated claim, as of all generated names.
const NAME_SUFFIX: usize = 5;

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
    /// The gate `DRAExtendedResource`.
    extends_resources: bool,
}

impl Default for DynamicResources {
    fn default() -> Self {
        Self {
            filter_timeout: DEFAULT_FILTER_TIMEOUT,
            binding_timeout: DEFAULT_BINDING_TIMEOUT,
            is_bounded: true,
            prepares_devices: true,
            extends_resources: true,
        }
    }
}

impl DynamicResources {
    /// The claims of `pod`; `None` if it needs none.
    fn claims<'a>(&self, pod: &'a PodInfo, devices: &'a Devices) -> Result<Option<DeviceClaims<'a>>, String> {
        DeviceClaims::of(pod, devices, self.terms(), self.extends_resources)
    }

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
        reasons: &[
            "cannot allocate all claims",
            "resourceclaim not available on the node",
            "cannot schedule extended resource claim",
            "cannot fit resource",
        ],
        events: EventSet::of(&[NodeAdded, NodeChanged, OwnChange, EventKind::Devices]),
    };

    const RESERVES: Option<ReservationKind> = Some(ReservationKind::Devices);

    fn gated(self, gates: Gates) -> Self {
        Self {
            is_bounded: gates.bounds_device_search,
            prepares_devices: gates.prepares_devices,
            extends_resources: gates.extends_resources,
            ..self
        }
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
        match self.claims(pod, &cluster.inventory.devices) {
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
        let claims = self.claims(pod, &inventory.devices);
        let claims = claims.expect("a pod that was admitted may have its claims")?;
        let shares = random().fork("shares");
        let suffix = || random().fork("name").name_suffix(NAME_SUFFIX);
        let plan = claims.plan(pod, node, &mut || shares.uuid(), &suffix);
        let plan = plan.expect("the filters asked for this plan");
        let plan = DevicePlan { binding_timeout: SignedDuration::from_nanos(self.binding_timeout), ..plan };
        inventory.devices.assume(&pod.uid, &plan);
        (!plan.is_empty()).then_some(Reservation::Devices(plan))
    }

    /// Nodes that serve better alternatives of the claims' requests score higher.
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let claims = self.claims(pod, &candidates.inventory.devices).ok()??;
        let is_ranked = claims.open.iter().any(|claim| claim.fields.requests.iter().any(Request::is_ranked));
        is_ranked.then(|| scaled(candidates.map(|node| claims.rank(node.info()))))
    }

    /// The texts speak about pods without claims too.
    fn post_filter(&self, pod: &PodInfo, cluster: ClusterView<'_>, refusals: Refusals<'_>) -> PostFilter {
        // kube-scheduler's plugin looks for what it found before the filters, but another filter had refused the pod before it looked.
        if refusals.is_of_pod && !refusals.is_own {
            return PostFilter { text: Some("not found"), has_failed: true, ..PostFilter::default() };
        }
        let devices = &cluster.inventory.devices;
        let is_of_devices = self.extends_resources && is_of_devices(pod, devices);
        let stale = devices.claim_of_resources(&pod.uid, pod.key.namespace());
        let stale = stale.filter(|_| is_of_devices && !refusals.is_of_pod);
        let deallocation = match stale {
            Some(claim) => Some(deallocated(claim)),
            None => deallocation(pod, cluster.snapshot, devices, refusals.rejections),
        };
        let has_claims = !pod.device_claims.is_empty() || is_of_devices;
        let text = match &deallocation {
            Some(Deallocation { deletes: true, .. }) => "deletion of ResourceClaim completed",
            Some(_) => "deallocation of ResourceClaim completed",
            None if !has_claims || refusals.is_of_pod => "no new claims to deallocate",
            None => "still not schedulable",
        };
        PostFilter { deallocation, text: Some(text), has_failed: false }
    }

    /// A new node helps, and so does a node with changed labels or another number of a requested extended resource. So do free devices,
    /// changed classes and slices, and changes of the pod's own claims, once they exist.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(..) => true,
            ClusterEvent::NodeChanged { old, new, .. } => {
                let offers = |node: &NodeInfo, name: &str| node.allocatable.extended(name);
                old.labels != new.labels || requested(pod).any(|name| offers(old, name) != offers(new, name))
            }
            ClusterEvent::OwnChange(old) => {
                old.device_claims != pod.device_claims || old.device_requests != pod.device_requests
            }
            ClusterEvent::Devices(event, devices) => devices_may_help(pod, event, devices),
            _ => false,
        }
    }
}

fn devices_may_help(pod: &PodInfo, event: &DeviceEvent, devices: &Devices) -> bool {
    let concerns = match event {
        DeviceEvent::Freed | DeviceEvent::Class(_) | DeviceEvent::Supply => true,
        DeviceEvent::Claim(key) => {
            let is_named = || pod.device_claims.iter().any(|source| source.name() == Some(key.name()));
            // The claim may be gone, so that only its name tells for which pod it was made.
            let is_of_resources = || pod.device_requests.is_some() && key.name().starts_with(&base_name(pod));
            key.namespace() == pod.key.namespace() && (is_named() || is_of_resources())
        }
    };
    let needs_devices = !pod.device_claims.is_empty() || pod.device_requests.is_some();
    concerns && needs_devices && claims_of(pod, devices).is_ok()
}

/// Whether devices of a class satisfy requests for an extended resource of the pod.
fn is_of_devices(pod: &PodInfo, devices: &Devices) -> bool {
    requested(pod).any(|name| devices.class_of_resource(name).is_some())
}

/// The resources that the pod requests and devices may satisfy, by name.
fn requested(pod: &PodInfo) -> impl Iterator<Item = &Arc<str>> {
    // A pod without such requests in a container has none.
    let all = pod.device_requests.is_some().then(|| pod.requests.iter_extended()).into_iter().flatten();
    all.filter(|(name, amount)| *amount > 0 && resources::is_of_devices(name)).map(|(name, _)| name)
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
    /// The extended resources of the pod, if devices satisfy requests for one of them.
    resources: Option<Box<ExtendedResources<'a>>>,
    terms: SearchTerms,
}

/// The name of a resource, and the class whose devices satisfy requests for it.
type RequestedResource<'a> = (&'a Arc<str>, Option<&'a Arc<Record<Class>>>);

/// The extended resources of a pod.
struct ExtendedResources<'a> {
    pod: &'a PodInfo,
    /// Whether an earlier attempt, which failed, has left a claim for them.
    is_stale: bool,
    /// The resources by name.
    all: Vec<RequestedResource<'a>>,
    /// The claim for a node that offers none of the resources with a class itself, as most nodes do.
    common: ResourcesClaim,
}

/// The devices of a pod on a node.
#[derive(Default)]
struct ChosenDevices<'a> {
    /// Those of each open claim.
    open: Vec<Vec<ChosenDevice<'a>>>,
    /// The claim for extended resources, and its devices.
    resources: Option<(Cow<'a, ResourcesClaim>, Vec<ChosenDevice<'a>>)>,
}

impl<'a> ExtendedResources<'a> {
    /// The extended resources of `pod`; `None` if devices satisfy requests for none of them.
    fn of(pod: &'a PodInfo, devices: &'a Devices) -> Option<Self> {
        let all: Vec<_> = requested(pod).map(|name| (name, devices.class_of_resource(name))).collect();
        all.iter().find(|(_, class)| class.is_some())?;
        let is_stale = devices.claim_of_resources(&pod.uid, pod.key.namespace()).is_some();
        let with_class = all.iter().filter_map(|(name, class)| Some((*name, &***(class.as_ref()?))));
        let common = ResourcesClaim::of(pod, with_class);
        Some(Self { pod, is_stale, all, common })
    }

    /// The claim that the pod needs on the node for the resources that the node does not offer itself.
    fn on_node(&self, node: &NodeInfo) -> Result<Option<Cow<'_, ResourcesClaim>>, Refused> {
        if self.is_stale {
            return Err(Refused::unresolvable(STALE));
        }
        let is_offered = |name: &str| node.allocatable.extended(name) > 0;
        let is_missing =
            |(name, class): &(&Arc<str>, Option<_>)| class.is_none() && !node.allocatable.has_extended(name);
        if self.all.iter().any(is_missing) {
            return Err(Refused::unresolvable(UNFIT));
        }
        let with_class = || self.all.iter().filter_map(|(name, class)| Some((*name, &***(class.as_ref()?))));
        if !with_class().any(|(name, _)| is_offered(name)) {
            return Ok(Some(Cow::Borrowed(&self.common)));
        }
        let own = ResourcesClaim::of(self.pod, with_class().filter(|(name, _)| !is_offered(name)));
        Ok((!own.mappings.is_empty()).then_some(Cow::Owned(own)))
    }
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
    fn of(
        pod: &'a PodInfo,
        devices: &'a Devices,
        terms: SearchTerms,
        extends_resources: bool,
    ) -> Result<Option<Self>, String> {
        let resources =
            extends_resources.then(|| ExtendedResources::of(pod, devices)).flatten().map(Box::new);
        if pod.device_claims.is_empty() && resources.is_none() {
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
        let needs_devices = !claims.is_empty() || resources.is_some();
        Ok(needs_devices.then_some(Self { devices, claims, open, resources, terms }))
    }

    /// The devices for the open claims and the extended resources on the node.
    fn choose(&self, node: &NodeInfo) -> Result<ChosenDevices<'_>, Refused> {
        let resources = match &self.resources {
            Some(resources) => resources.on_node(node)?,
            None => None,
        };
        let of_resources = resources.as_ref().map(|own| &own.claim);
        let open: Vec<&Record<Claim>> = self.open.iter().copied().chain(of_resources).collect();
        let mut chosen = match open.is_empty() {
            true => Vec::new(),
            false => {
                let found = allocate(self.devices, &open, node, self.terms);
                found.map_err(|failure| unallocatable(failure, node))?
            }
        };
        let devices = resources.is_some().then(|| chosen.pop()).flatten();
        let chosen = ChosenDevices { open: chosen, resources: resources.zip(devices) };
        let is_available = |allocation: &Arc<Allocation>| allocation.is_available_on(node);
        match self.claims.iter().all(|claim| claim.allocation.as_ref().is_none_or(is_available)) {
            true => Ok(chosen),
            false => Err(Refused::unresolvable(UNAVAILABLE)),
        }
    }

    /// The sum over the requests with alternatives of how early in its list the chosen one is.
    fn rank(&self, node: &NodeInfo) -> i64 {
        let chosen = self.choose(node).unwrap_or_default().open;
        let of_claim = |(claim, devices): (&&Record<Claim>, &Vec<ChosenDevice<'_>>)| {
            let requests =
                claim.fields.requests.iter().enumerate().filter(|(_, request)| request.is_ranked());
            let chosen = requests.filter_map(|(at, _)| devices.iter().find(|device| device.request == at));
            chosen.map(|device| ALTERNATIVES.saturating_sub(device.alternative)).sum::<usize>()
        };
        let sum: usize = self.open.iter().zip(&chosen).map(of_claim).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    }

    /// The writes to the pod's claims if the pod is bound to `node`. `share_id` makes identities of shares, and `suffix` the end of the
    /// name of a claim for extended resources.
    ///
    /// # Errors
    ///
    /// Why the node cannot serve the claims.
    fn plan(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        share_id: &mut dyn FnMut() -> String,
        suffix: &dyn Fn() -> String,
    ) -> Result<DevicePlan, Refused> {
        let mut plan = DevicePlan::default();
        let chosen = self.choose(node)?;
        if let Some((claim, devices)) = chosen.resources {
            let ResourcesClaim { claim, mappings } = claim.into_owned().named(pod, &suffix());
            let json = allocation(self.devices, &claim, &devices, &node.name, share_id);
            let allocation = Allocation::of(json).expect("the scheduler makes valid allocations");
            if allocation.has_binding_conditions() {
                plan.unprepared.push(claim.key.clone());
            }
            let (claim, allocation) = (Arc::new(claim), Arc::new(allocation));
            plan.create = Some(Arc::new(CreatedClaim { claim, allocation, mappings }));
        }
        let mut chosen = chosen.open.into_iter();
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
    Some(deallocated(claim))
}

/// Takes the devices of a claim away. A claim that was made for extended resources is deleted.
fn deallocated(claim: &Record<Claim>) -> Deallocation {
    let (key, uid) = (claim.key.clone(), claim.uid.clone());
    Deallocation { claim: key, uid, revision: claim.revision, deletes: claim.is_of_resources }
}
