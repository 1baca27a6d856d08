//! A reference implementation of the search for devices: it tries every choice in order and examines each as a
//! whole. Slow, and written from the rules alone. Tests compare [`allocate`](super::allocate::allocate) with it.

use super::Devices;
use super::capacity::{Amounts, consumed};
use super::claim::{Alternative, Claim, Count};
use super::slice::{Device, Slice};
use crate::node::NodeInfo;
use crate::storage::Record;
use kstore_api::quantity::Quantity;
use std::collections::BTreeMap;

/// A chosen device: the indices of claim, request and alternative, and the device.
pub(super) type Choice<'a> = (usize, usize, usize, &'a Device);

/// The first valid choice of devices for the claims on the node, in the order of the rule.
pub(super) fn allocate<'a>(
    devices: &'a Devices,
    claims: &[&'a Record<Claim>],
    node: &NodeInfo,
) -> Option<Vec<Choice<'a>>> {
    let found: Vec<(&Slice, &Device)> =
        devices.pools.of_node(node).iter().flat_map(|pool| pool.devices().collect::<Vec<_>>()).collect();
    let mut choices: Vec<Vec<Choice<'a>>> = vec![Vec::new()];
    for (claim, record) in claims.iter().enumerate() {
        for (index, request) in record.fields.requests.iter().enumerate() {
            let mut longer = Vec::new();
            for begin in &choices {
                for (option, alternative) in request.alternatives.iter().enumerate() {
                    let fitting: Vec<&Device> = found
                        .iter()
                        .filter(|(slice, device)| slice.nodes_of(device).include(node))
                        .map(|(_, device)| *device)
                        .filter(|device| is_wanted(devices, alternative, device))
                        .collect();
                    for group in groups(alternative, &fitting) {
                        let group = group.into_iter().map(|device| (claim, index, option, device));
                        longer.push(begin.iter().copied().chain(group).collect());
                    }
                }
            }
            choices = longer;
        }
    }
    choices.into_iter().find(|choice| is_valid(devices, claims, choice))
}

/// The groups of devices that an alternative may get, in order.
fn groups<'a>(alternative: &Alternative, fitting: &[&'a Device]) -> Vec<Vec<&'a Device>> {
    let count = match alternative.count {
        Count::Exact(count) => count,
        Count::All if fitting.is_empty() => return Vec::new(),
        Count::All => return vec![fitting.to_vec()],
    };
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut groups = Vec::new();
    for (at, first) in fitting.iter().enumerate() {
        let rest = Alternative { count: Count::Exact(count - 1), ..alternative.clone() };
        for mut group in self::groups(&rest, &fitting[at + 1..]) {
            group.insert(0, first);
            groups.push(group);
        }
    }
    groups
}

/// Whether the device alone satisfies class, selectors and requested capacity.
fn is_wanted(devices: &Devices, alternative: &Alternative, device: &Device) -> bool {
    let class = devices.class(&alternative.class).unwrap();
    let selectors = class.fields.selectors.iter().chain(&alternative.selectors);
    let mut matches =
        selectors.map(|text| devices.selectors.get(text).unwrap().matches(&device.value).unwrap());
    let Some(amounts) = consumed(&alternative.capacity, &device.capacity) else { return false };
    let users = devices.in_use.users(&device.id);
    matches.all(|is_match| is_match) && !exceeds(device, &users.iter().chain([&amounts]).collect::<Vec<_>>())
}

fn exceeds(device: &Device, users: &[&Amounts]) -> bool {
    device.capacity.iter().any(|(name, capacity)| {
        let used = users.iter().filter_map(|user| user.get(name));
        used.fold(Quantity::ZERO, |sum, amount| sum.add(*amount)) > capacity.value
    })
}

fn is_valid(devices: &Devices, claims: &[&Record<Claim>], choice: &[Choice<'_>]) -> bool {
    let alternative = |(claim, request, option, _): &Choice<'_>| {
        &claims[*claim].fields.requests[*request].alternatives[*option]
    };
    let is_admin = |one: &Choice<'_>| alternative(one).admin_access == Some(true);
    for (at, one) in choice.iter().enumerate() {
        let (claim, device) = (one.0, one.3);
        let earlier = choice[..at].iter().filter(|other| other.3.id == device.id);
        let is_free = match is_admin(one) {
            true => !earlier.clone().any(|other| other.0 == claim),
            false if device.is_shareable => !devices.in_use.is_taken(&device.id),
            false => !devices.in_use.is_used(&device.id) && earlier.count() == 0,
        };
        let tolerated = devices
            .taints_of(device)
            .all(|taint| alternative(one).tolerations.iter().any(|t| t.covers(taint)));
        if !is_free || !tolerated {
            return false;
        }
        if device.is_shareable {
            let all = choice.iter().filter(|other| other.3.id == device.id);
            let own: Vec<Amounts> =
                all.filter_map(|other| consumed(&alternative(other).capacity, &device.capacity)).collect();
            let users = devices.in_use.users(&device.id).iter().chain(&own).collect::<Vec<_>>();
            if exceeds(device, &users) {
                return false;
            }
        }
    }
    let count = |claim: usize| choice.iter().filter(|one| one.0 == claim).count();
    (0..claims.len()).all(|claim| count(claim) <= 32 && keeps_constraints(claim, claims[claim], choice))
        && has_counters(devices, choice)
}

fn keeps_constraints(index: usize, claim: &Record<Claim>, choice: &[Choice<'_>]) -> bool {
    claim.fields.constraints.iter().all(|constraint| {
        let mut values = Vec::new();
        for (_, request, option, device) in choice.iter().filter(|one| one.0 == index) {
            let request = &claim.fields.requests[*request];
            let names = [request.name.clone(), request.label(&request.alternatives[*option])];
            if constraint.requests.is_empty() || names.iter().any(|name| constraint.requests.contains(name)) {
                values.push(device.attribute(&constraint.attribute));
            }
        }
        let mut pairs = values.iter().enumerate();
        pairs.all(|(at, value)| {
            value.is_some() && values[..at].iter().all(|earlier| (earlier == value) != constraint.is_distinct)
        })
    })
}

/// Whether the devices in use and the chosen ones together exceed no counter from which a chosen one consumes.
fn has_counters(devices: &Devices, choice: &[Choice<'_>]) -> bool {
    let mut pools: BTreeMap<_, Vec<&Device>> = BTreeMap::new();
    for (at, (_, _, _, device)) in choice.iter().enumerate() {
        let chosen = pools.entry((&device.id.driver, &device.id.pool)).or_default();
        // A shared device consumes counters once, for all its users.
        let is_first = !choice[..at].iter().any(|other| other.3.id == device.id);
        if !device.is_shareable || (is_first && !devices.in_use.is_used(&device.id)) {
            chosen.push(device);
        }
    }
    pools.into_iter().all(|((driver, pool), chosen)| {
        let slices = devices.pools.all_of(&(driver.to_string(), pool.to_string()));
        let used = slices.iter().flat_map(|slice| &slice.devices);
        let used = used.filter(|device| devices.in_use.is_used(&device.id));
        let consumers: Vec<&Device> = used.chain(chosen.iter().copied()).collect();
        let consumed = |set: &String, name: &String| {
            let amounts = consumers.iter().filter_map(|device| device.consumes.get(set)?.get(name));
            amounts.fold(Quantity::ZERO, |sum, amount| sum.add(*amount))
        };
        slices.iter().flat_map(|slice| &slice.counters).all(|(set, counters)| {
            counters.iter().all(|(name, available)| {
                let matters = chosen
                    .iter()
                    .any(|device| device.consumes.get(set).is_some_and(|set| set.contains_key(name)));
                !matters || consumed(set, name) <= *available
            })
        })
    })
}
