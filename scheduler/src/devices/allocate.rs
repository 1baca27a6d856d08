//! The search for devices that satisfy claims on a node. Pure.
//!
//! # The rule
//!
//! The candidates are the devices of the node's pools ([`Pools::of_node`](super::pools::Pools::of_node)) in order.
//! The search takes the first complete solution in this order: claims in order; the requests of a claim in
//! order; the alternatives of a request in order, until one serves; for an exact count, combinations of
//! candidates in the order of candidates. It goes back to an earlier choice where a later request finds nothing.
//! Each examined candidate counts as work, which the caller bounds.

use super::Devices;
use super::capacity::{Amounts, consumed, fits};
use super::claim::{Alternative, Claim, Count, Request};
use super::class::Class;
use super::constraint::OpenConstraint;
use super::counters::Counters;
use super::pools::{NodePool, PoolFault};
use super::slice::{Device, Slice};
use crate::limits::CLAIM_DEVICES;
use crate::node::NodeInfo;
use crate::storage::Record;
use std::collections::BTreeMap;

/// Why claims cannot be allocated on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationFailure {
    /// No choice of devices satisfies the claims.
    Impossible,
    /// The search took too long.
    TimedOut,
    /// A pool of the node is faulty; the reason. Other nodes may serve the claims.
    FaultyPool(String),
    /// A claim or a class is faulty; the reason. No node can serve the claims before that changes.
    Faulty(String),
}

/// A device for a request of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenDevice<'a> {
    /// The index of the request in the claim.
    pub request: usize,
    /// The index of the alternative in the request.
    pub alternative: usize,
    /// The slice of the device.
    pub slice: &'a Slice,
    /// The device.
    pub device: &'a Device,
    /// What the claim consumes of a device that several claims can share.
    pub consumed: Option<Amounts>,
}

/// What a search may do.
#[derive(Clone, Copy, Debug)]
pub struct SearchTerms {
    /// The largest number of candidates that it examines.
    pub steps: usize,
    /// Whether it takes devices that have binding conditions.
    pub allows_binding_conditions: bool,
}

/// The devices for each of `claims` on the node.
///
/// # Errors
///
/// Why the claims cannot be allocated there.
pub fn allocate<'a>(
    devices: &'a Devices,
    claims: &[&Record<Claim>],
    node: &NodeInfo,
    terms: SearchTerms,
) -> Result<Vec<Vec<ChosenDevice<'a>>>, AllocationFailure> {
    let mut search = Search { terms, ..Search::new(devices, claims, node)? };
    search.run()?;
    Ok(search.into_chosen())
}

/// A device of the node.
struct Candidate<'a> {
    pool: usize,
    slice: &'a Slice,
    device: &'a Device,
    is_for_node: bool,
    /// The number of choices of the device.
    users: usize,
    /// What each choice of a shared device consumes.
    shares: Vec<Amounts>,
}

/// A request of a claim.
struct Slot<'a> {
    /// The index of the claim.
    claim: usize,
    /// The index of the request in the claim.
    index: usize,
    request: &'a Request,
    offers: Vec<Offer<'a>>,
}

/// An alternative of a request.
struct Offer<'a> {
    alternative: &'a Alternative,
    label: String,
    class: &'a Record<Class>,
    /// Whether each candidate satisfies the selectors, as far as the search evaluated them.
    matches: Vec<Option<bool>>,
    /// The candidates of a request for all devices.
    all: Option<Vec<usize>>,
}

impl Offer<'_> {
    /// The number of devices that the alternative needs.
    fn needed(&self) -> usize {
        match (&self.all, self.alternative.count) {
            (Some(all), _) => all.len(),
            (None, Count::Exact(count)) => count,
            (None, Count::All) => 0,
        }
    }

    fn is_admin(&self) -> bool {
        self.alternative.admin_access == Some(true)
    }
}

/// A chosen candidate.
struct Choice {
    slot: usize,
    offer: usize,
    candidate: usize,
    consumed: Option<Amounts>,
}

/// A position of the search: one device of one alternative of a request.
#[derive(Clone, Copy)]
struct Step {
    slot: usize,
    offer: usize,
    /// The number of devices that the alternative has already.
    index: usize,
    /// The first candidate that was not tried yet.
    cursor: usize,
    /// Whether a candidate is taken.
    has_taken: bool,
}

struct Search<'a, 'c> {
    devices: &'a Devices,
    claims: Vec<&'c Record<Claim>>,
    pools: Vec<NodePool<'a>>,
    candidates: Vec<Candidate<'a>>,
    slots: Vec<Slot<'c>>,
    /// The constraints of each claim.
    constraints: Vec<Vec<OpenConstraint<'c>>>,
    /// The rest of the counters of each pool whose devices consume some.
    counters: BTreeMap<usize, Counters>,
    /// The chosen candidates of each claim.
    chosen: Vec<Vec<Choice>>,
    steps: usize,
    terms: SearchTerms,
}

impl<'a: 'c, 'c> Search<'a, 'c> {
    fn new(
        devices: &'a Devices,
        claims: &[&'c Record<Claim>],
        node: &NodeInfo,
    ) -> Result<Self, AllocationFailure> {
        let pools = devices.pools.of_node(node);
        let mut candidates = Vec::new();
        for (pool, found) in pools.iter().enumerate() {
            candidates.extend(found.devices().map(|(slice, device)| Candidate {
                pool,
                slice,
                device,
                is_for_node: slice.nodes_of(device).include(node),
                users: 0,
                shares: Vec::new(),
            }));
        }
        let constraints = claims.iter().map(|claim| claim.fields.constraints.iter());
        let mut search = Self {
            devices,
            claims: claims.to_vec(),
            pools,
            candidates,
            slots: Vec::new(),
            constraints: constraints.map(|all| all.map(OpenConstraint::of).collect()).collect(),
            counters: BTreeMap::new(),
            chosen: claims.iter().map(|_| Vec::new()).collect(),
            steps: 0,
            terms: SearchTerms { steps: 0, allows_binding_conditions: false },
        };
        for (index, claim) in claims.iter().enumerate() {
            search.add_claim(index, claim)?;
        }
        Ok(search)
    }

    /// Adds the requests of a claim.
    fn add_claim(&mut self, claim: usize, record: &'c Record<Claim>) -> Result<(), AllocationFailure> {
        let mut least: usize = 0;
        for (index, request) in record.fields.requests.iter().enumerate() {
            let mut slot = Slot { claim, index, request, offers: Vec::new() };
            for alternative in &request.alternatives {
                let name = &alternative.class;
                let class = self.devices.class(name).ok_or_else(|| {
                    AllocationFailure::Faulty(format!(
                        "claim {}, request {}: could not retrieve device class {name}",
                        record.key, request.name
                    ))
                })?;
                let matches = vec![None; self.candidates.len()];
                let label = request.label(alternative);
                slot.offers.push(Offer { alternative, label, class, matches, all: None });
            }
            self.slots.push(slot);
            let at = self.slots.len() - 1;
            for offer in 0..self.slots[at].offers.len() {
                if self.slots[at].offers[offer].alternative.count == Count::All {
                    self.slots[at].offers[offer].all = Some(self.all_devices(at, offer)?);
                }
            }
            let needed = self.slots[at].offers.iter().map(Offer::needed).min().unwrap_or(0);
            least = least.saturating_add(needed);
        }
        if least > CLAIM_DEVICES {
            return Err(AllocationFailure::Faulty(format!(
                "claim {}: number of requested devices {least} exceeds the claim limit of {CLAIM_DEVICES}",
                record.key
            )));
        }
        Ok(())
    }

    /// The candidates of a request for all devices.
    fn all_devices(&mut self, slot: usize, offer: usize) -> Result<Vec<usize>, AllocationFailure> {
        let faulty = self.pools.iter().find_map(|pool| Some((pool.id, *pool.slices.as_ref().err()?)));
        if let Some(((driver, pool), fault)) = faulty {
            let why = match fault {
                PoolFault::Incomplete => "being updated",
                PoolFault::Invalid => "invalid",
            };
            let slot = &self.slots[slot];
            return Err(AllocationFailure::FaultyPool(format!(
                "claim {}, request {}: asks for all devices, but resource pool {driver}/{pool} is currently {why}",
                self.claims[slot.claim].key, slot.request.name
            )));
        }
        let mut all = Vec::new();
        for candidate in 0..self.candidates.len() {
            let is_selectable =
                self.is_selectable(slot, offer, candidate).map_err(AllocationFailure::Faulty)?;
            if is_selectable && self.has_capacity(slot, offer, candidate) {
                all.push(candidate);
            }
        }
        Ok(all)
    }

    fn run(&mut self) -> Result<(), AllocationFailure> {
        let first = |slot| Step { slot, offer: 0, index: 0, cursor: 0, has_taken: false };
        if self.slots.is_empty() {
            return Ok(());
        }
        let mut path = vec![first(0)];
        while let Some(step) = path.last_mut() {
            if step.has_taken {
                self.release(*step);
                step.has_taken = false;
            }
            if !self.advance(step)? {
                path.pop();
                continue;
            }
            step.has_taken = true;
            let offer = &self.slots[step.slot].offers[step.offer];
            let next = if step.index + 1 < offer.needed() {
                Step { index: step.index + 1, has_taken: false, ..*step }
            } else if step.slot + 1 < self.slots.len() {
                first(step.slot + 1)
            } else {
                return Ok(());
            };
            path.push(next);
        }
        Err(AllocationFailure::Impossible)
    }

    /// Takes the next possible candidate of a step, or of its later alternatives. False if none is left.
    fn advance(&mut self, step: &mut Step) -> Result<bool, AllocationFailure> {
        loop {
            let slot = &self.slots[step.slot];
            let Some(offer) = slot.offers.get(step.offer) else { return Ok(false) };
            let (needed, all) = (offer.needed(), offer.all.is_some());
            // A request for all devices has one combination: its devices in order.
            let end = if all { step.index + 1 } else { self.candidates.len() };
            let is_small = self.chosen[slot.claim].len() + needed - step.index <= CLAIM_DEVICES;
            let is_possible = needed > 0 && is_small && (all || end >= step.cursor + needed - step.index);
            if is_possible {
                while step.cursor < end {
                    let at = step.cursor;
                    step.cursor += 1;
                    self.steps += 1;
                    if self.steps > self.terms.steps {
                        return Err(AllocationFailure::TimedOut);
                    }
                    if self.take(step.slot, step.offer, at).map_err(AllocationFailure::Faulty)? {
                        return Ok(true);
                    }
                }
            }
            // An alternative is left with its first device.
            if step.index > 0 {
                return Ok(false);
            }
            (step.offer, step.cursor) = (step.offer + 1, 0);
        }
    }

    /// Chooses the candidate at a position of an alternative, if that is possible.
    fn take(&mut self, slot: usize, offer: usize, at: usize) -> Result<bool, String> {
        let request_slot = &self.slots[slot];
        let (claim, chosen_offer) = (request_slot.claim, &request_slot.offers[offer]);
        let candidate = chosen_offer.all.as_ref().map_or(at, |all| all[at]);
        let is_all = chosen_offer.all.is_some();
        if self.is_in_use(claim, chosen_offer.is_admin(), candidate)
            || !self.is_selectable(slot, offer, candidate)?
            || !self.has_capacity(slot, offer, candidate)
            || !self.has_counters(candidate)
        {
            return Ok(false);
        }
        let (request_slot, device) = (&self.slots[slot], self.candidates[candidate].device);
        let tolerations = &request_slot.offers[offer].alternative.tolerations;
        if !self.devices.taints_of(device).all(|taint| tolerations.iter().any(|one| one.covers(taint))) {
            return Ok(false);
        }
        let label = &request_slot.offers[offer].label;
        let mut constraints = self.constraints[claim].iter();
        if !constraints.all(|one| !one.concerns(request_slot.request, label) || one.admits(device)) {
            return match is_all {
                // A claim that wants all devices and does not allow them together is a mistake.
                true => Err(format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    self.claims[claim].key, label, device.id
                )),
                false => Ok(false),
            };
        }
        self.choose(slot, offer, candidate);
        Ok(true)
    }

    fn is_in_use(&self, claim: usize, is_admin: bool, candidate: usize) -> bool {
        let found = &self.candidates[candidate];
        if is_admin {
            return self.chosen[claim].iter().any(|choice| choice.candidate == candidate);
        }
        let in_use = &self.devices.in_use;
        match found.device.is_shareable {
            true => in_use.is_taken(&found.device.id),
            false => found.users > 0 || in_use.is_used(&found.device.id),
        }
    }

    /// Whether the device has the capacity that an alternative requests, beside its other users.
    fn has_capacity(&self, slot: usize, offer: usize, candidate: usize) -> bool {
        let requested = &self.slots[slot].offers[offer].alternative.capacity;
        let found = &self.candidates[candidate];
        let Some(own) = consumed(requested, &found.device.capacity) else { return false };
        let users = self.devices.in_use.users(&found.device.id);
        let others: Vec<&Amounts> = users.iter().chain(&found.shares).collect();
        fits(&own, &others, &found.device.capacity)
    }

    /// Whether the pool has the counters that the device consumes. A shared device consumes them once.
    fn has_counters(&mut self, candidate: usize) -> bool {
        let found = &self.candidates[candidate];
        if found.device.consumes.is_empty() || self.counts_already(candidate) {
            return true;
        }
        let (pool, in_use) = (&self.pools[found.pool], &self.devices.in_use);
        let counters = self.counters.entry(found.pool).or_insert_with(|| Counters::of(pool, in_use));
        counters.have(found.device)
    }

    /// Whether a shared device has users, whose counters are consumed already.
    fn counts_already(&self, candidate: usize) -> bool {
        let found = &self.candidates[candidate];
        let has_users = || found.users > 0 || self.devices.in_use.is_used(&found.device.id);
        found.device.is_shareable && has_users()
    }

    fn choose(&mut self, slot: usize, offer: usize, candidate: usize) {
        let counts = !self.counts_already(candidate);
        let (request_slot, found) = (&self.slots[slot], &mut self.candidates[candidate]);
        let (claim, label) = (request_slot.claim, &request_slot.offers[offer].label);
        let constraints = self.constraints[claim].iter_mut();
        constraints
            .filter(|one| one.concerns(request_slot.request, label))
            .for_each(|one| one.push(found.device));
        if let Some(counters) = self.counters.get_mut(&found.pool).filter(|_| counts) {
            counters.consume(found.device);
        }
        found.users += 1;
        let requested = &request_slot.offers[offer].alternative.capacity;
        let amounts =
            found.device.is_shareable.then(|| consumed(requested, &found.device.capacity)).flatten();
        found.shares.extend(amounts.clone());
        self.chosen[claim].push(Choice { slot, offer, candidate, consumed: amounts });
    }

    /// Reverts the choice of a step, which was the last one of its claim.
    fn release(&mut self, step: Step) {
        let request_slot = &self.slots[step.slot];
        let (claim, label) = (request_slot.claim, &request_slot.offers[step.offer].label);
        let choice = self.chosen[claim].pop().expect("a step that has taken a device chose it");
        let constraints = self.constraints[claim].iter_mut();
        constraints.filter(|one| one.concerns(request_slot.request, label)).for_each(OpenConstraint::pop);
        let found = &mut self.candidates[choice.candidate];
        found.users -= 1;
        if choice.consumed.is_some() {
            found.shares.pop();
        }
        let (pool, device) = (found.pool, found.device);
        if !self.counts_already(choice.candidate)
            && let Some(counters) = self.counters.get_mut(&pool)
        {
            counters.restore(device);
        }
    }

    /// Whether the node and the selectors of class and request admit the device.
    fn is_selectable(&mut self, slot: usize, offer: usize, candidate: usize) -> Result<bool, String> {
        let (request_slot, found) = (&self.slots[slot], &self.candidates[candidate]);
        let chosen_offer = &request_slot.offers[offer];
        if let Some(known) = chosen_offer.matches[candidate] {
            return Ok(known);
        }
        let class = (&chosen_offer.class.selectors, format_args!("class {}", chosen_offer.class.key.name()));
        let claim = &self.claims[request_slot.claim].key;
        let matches = (self.terms.allows_binding_conditions || found.device.binding_conditions.is_empty())
            && self.satisfies(found.device, class.0, class.1)?
            && self.satisfies(
                found.device,
                &chosen_offer.alternative.selectors,
                format_args!("claim {claim}"),
            )?
            && found.is_for_node;
        self.slots[slot].offers[offer].matches[candidate] = Some(matches);
        Ok(matches)
    }

    /// Whether the device satisfies the selectors of `owner`.
    fn satisfies(
        &self,
        device: &Device,
        selectors: &[String],
        owner: std::fmt::Arguments<'_>,
    ) -> Result<bool, String> {
        for (index, text) in selectors.iter().enumerate() {
            let selector = self.devices.selectors.get(text);
            let selector = selector
                .map_err(|error| format!("{owner}: selector #{index}: CEL compile error: {error}"))?;
            let is_match = selector.matches(&device.value).map_err(|error| {
                format!("{owner}: selector #{index} on device {}: CEL runtime error: {error}", device.id)
            })?;
            if !is_match {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn into_chosen(self) -> Vec<Vec<ChosenDevice<'a>>> {
        let chosen = |choice: Choice| {
            let found = &self.candidates[choice.candidate];
            ChosenDevice {
                request: self.slots[choice.slot].index,
                alternative: choice.offer,
                slice: found.slice,
                device: found.device,
                consumed: choice.consumed,
            }
        };
        self.chosen.into_iter().map(|choices| choices.into_iter().map(chosen).collect()).collect()
    }
}
