//! Hints by the annotation `service.kubernetes.io/topology-mode: Auto`: each zone gets endpoints in proportion to the
//! CPUs of its nodes. Pure. Follows upstream's package `topologycache`, except that zones of equal rank are taken
//! by name, where upstream takes them in random order.

use super::hints::{is_ready, to_zone};
use super::plan::SliceBuilder;
use super::zone;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::Endpoint;
use kstore_api::quantity::Quantity;
use std::collections::BTreeMap;

/// Largest tolerated overload of an endpoint beside an even distribution.
const OVERLOAD: f64 = 0.2;

/// Labels of nodes that run no workloads.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

const NO_NODE_INFORMATION: &str =
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
const TOO_FEW_ENDPOINTS: &str = "Insufficient number of endpoints";
const OVERLOADED: &str =
    "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
const NO_ZONE: &str = "One or more endpoints do not have a zone specified";

/// What a node adds to its zone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Capacity {
    /// Nothing: the node is not ready, or runs no workloads.
    Ignored,
    /// The node says no zone or no CPU, so that no zone's share is known.
    Unknown,
    /// Zone and CPUs.
    Cpu(String, f64),
}

/// What a node adds to its zone.
pub(crate) fn capacity(node: &Node) -> Capacity {
    let is_excluded =
        |labels: &BTreeMap<String, String>| EXCLUDED.iter().any(|name| labels.contains_key(*name));
    let status = node.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let is_ready = conditions.find(|one| one.type_ == "Ready").is_some_and(|one| one.status == "True");
    if !is_ready || node.metadata.labels.as_ref().is_some_and(is_excluded) {
        return Capacity::Ignored;
    }
    let cpu = status.and_then(|status| status.allocatable.as_ref()?.get("cpu"));
    let cpu = cpu.and_then(|cpu| Quantity::parse(&cpu.0).ok()).filter(|cpu| !cpu.is_zero());
    match (zone(node), cpu) {
        (Some(zone), Some(cpu)) => Capacity::Cpu(zone.clone(), cpu.as_f64()),
        _ => Capacity::Unknown,
    }
}

/// Share of each zone in all CPUs, at least two zones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shares(BTreeMap<String, f64>);

impl Shares {
    /// The shares, unless they are unknown or there is only one zone.
    pub(crate) fn of(nodes: impl IntoIterator<Item = Capacity>) -> Option<Self> {
        let mut zones: BTreeMap<String, f64> = BTreeMap::new();
        for capacity in nodes {
            match capacity {
                Capacity::Ignored => {}
                Capacity::Unknown => return None,
                Capacity::Cpu(zone, cpu) => *zones.entry(zone).or_default() += cpu,
            }
        }
        let total: f64 = zones.values().sum();
        zones.values_mut().for_each(|cpu| *cpu /= total);
        (zones.len() >= 2).then_some(Self(zones))
    }
}

/// Numbers of endpoints for a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocation {
    minimum: u32,
    maximum: u32,
    desired: f64,
}

/// Numbers of endpoints by zone.
type Counts<'s> = BTreeMap<&'s str, u32>;

/// Gives each ready endpoint of the changing slices a hint, and marks slices whose hints no longer fit.
///
/// # Errors
/// Why the endpoints cannot be shared among the zones. The slices are in disorder then.
pub(crate) fn assign(drafts: &mut [SliceBuilder<'_>], shares: Option<&Shares>) -> Result<(), String> {
    let total: usize =
        drafts.iter().map(|draft| draft.endpoints.iter().filter(|one| is_ready(one)).count()).sum();
    let allocations = allocations(shares, u32::try_from(total).unwrap_or(u32::MAX))?;
    let mut allocated = Counts::new();
    for draft in drafts.iter_mut().filter(|draft| !draft.changed) {
        match hints_by_zone(&draft.endpoints, &allocated, &allocations) {
            Some(hints) => {
                for (zone, count) in hints {
                    *allocated.entry(zone).or_default() += count;
                }
            }
            None => draft.changed = true,
        }
    }
    for endpoint in changing(drafts) {
        let zone = endpoint.zone.as_deref().filter(|zone| !zone.is_empty()).ok_or(NO_ZONE)?;
        endpoint.hints = Some(to_zone(zone));
        // Endpoints of a zone without a share are there for the others.
        if let Some((zone, _)) = allocations.get_key_value(zone) {
            *allocated.entry(zone).or_default() += 1;
        }
    }
    let (giving, receiving) = transfers(&allocations, &allocated);
    redistribute(changing(drafts), giving, receiving);
    Ok(())
}

/// The ready endpoints of the changing slices.
fn changing<'d>(drafts: &'d mut [SliceBuilder<'_>]) -> impl Iterator<Item = &'d mut Endpoint> {
    let changed = drafts.iter_mut().filter(|draft| draft.changed);
    changed.flat_map(|draft| &mut draft.endpoints).filter(|endpoint| is_ready(endpoint))
}

/// The numbers of endpoints for each zone.
fn allocations(shares: Option<&Shares>, endpoints: u32) -> Result<BTreeMap<&str, Allocation>, String> {
    let Shares(shares) = shares.ok_or(NO_NODE_INFORMATION)?;
    let counts = || format!("({endpoints} endpoints, {} zones)", shares.len());
    if shares.len() > usize::try_from(endpoints).unwrap_or(usize::MAX) {
        return Err(format!("{TOO_FEW_ENDPOINTS} {}", counts()));
    }
    let mut allocations = BTreeMap::new();
    let mut left = endpoints;
    for (zone, share) in shares {
        let desired = share * f64::from(endpoints);
        let least = desired * (1.0 / (1.0 + OVERLOAD));
        let minimum = (0..endpoints).find(|count| f64::from(*count) >= least).unwrap_or(endpoints);
        left = left.checked_sub(minimum).ok_or_else(|| format!("{OVERLOADED} {}", counts()))?;
        let desired = desired.max(f64::from(minimum));
        allocations.insert(zone.as_str(), Allocation { minimum, maximum: minimum, desired });
    }
    allocations.values_mut().for_each(|one| one.maximum = one.minimum + left);
    Ok(allocations)
}

/// The hints of an unchanged slice by zone; `None` if one is missing, is for a node or for a zone without a share, or
/// is one too many for its zone.
fn hints_by_zone<'s>(
    endpoints: &[Endpoint],
    allocated: &Counts<'s>,
    allocations: &BTreeMap<&'s str, Allocation>,
) -> Option<Counts<'s>> {
    let mut hints = Counts::new();
    for endpoint in endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        let hints_of_zones = endpoint.hints.as_ref().filter(|hints| hints.for_nodes.is_none())?;
        let zones = hints_of_zones.for_zones.as_ref().filter(|zones| !zones.is_empty())?;
        for zone in zones {
            let (zone, _) = allocations.get_key_value(zone.name.as_str())?;
            *hints.entry(zone).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&&str, &u32)| {
        let already = allocated.get(zone).copied().unwrap_or_default();
        count + already <= allocations[zone].maximum
    };
    hints.iter().all(fits).then_some(hints)
}

/// How many endpoints each zone gives to others and receives from others.
fn transfers<'s>(
    allocations: &BTreeMap<&'s str, Allocation>,
    allocated: &Counts<'s>,
) -> (Counts<'s>, Counts<'s>) {
    let (mut surplus, mut lack): (BTreeMap<&str, f64>, BTreeMap<&str, f64>) = Default::default();
    for (zone, Allocation { desired, .. }) in allocations {
        let difference = f64::from(allocated.get(zone).copied().unwrap_or_default()) - desired;
        if difference > 0.0 {
            surplus.insert(zone, difference);
        } else if difference < 0.0 {
            lack.insert(zone, -difference);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((giver, more)), Some((receiver, less))) = (most(&mut surplus), most(&mut lack)) {
        if *more < 1.0 && *less < 1.0 || *more < 0.5 || *less < 0.5 {
            break;
        }
        *more -= 1.0;
        *less -= 1.0;
        *giving.entry(giver).or_default() += 1;
        *receiving.entry(receiver).or_default() += 1;
    }
    (giving, receiving)
}

/// The zone with the greatest positive number, of several the first by name.
fn most<'m, 's>(zones: &'m mut BTreeMap<&'s str, f64>) -> Option<(&'s str, &'m mut f64)> {
    let positive = zones.iter_mut().filter(|(_, number)| **number > 0.0);
    let greatest = positive.reduce(|best, next| if *next.1 > *best.1 { next } else { best });
    greatest.map(|(zone, number)| (*zone, number))
}

/// Moves hints of endpoints from giving to receiving zones.
fn redistribute<'d>(
    endpoints: impl Iterator<Item = &'d mut Endpoint>,
    mut giving: Counts<'_>,
    mut receiving: Counts<'_>,
) {
    for endpoint in endpoints {
        let Some(left) = endpoint.zone.as_deref().and_then(|zone| giving.get_mut(zone)) else { continue };
        let Some(mut receiver) = receiving.first_entry() else { return };
        if *left == 0 {
            continue;
        }
        *left -= 1;
        endpoint.hints = Some(to_zone(receiver.key()));
        *receiver.get_mut() -= 1;
        if *receiver.get() == 0 {
            receiver.remove();
        }
    }
}
