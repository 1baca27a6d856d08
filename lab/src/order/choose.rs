//! Which request or watch event has its turn: the serial order of everything that waits, its exceptions, and priorities by a seed. Pure.

use crate::limits;
use kstore_nondet::Rng;
use std::collections::BTreeSet;

/// What kind of thing waits. Deliveries come first: a client then acts on what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitingKind {
    /// A watch event for a client.
    Delivery,
    /// A request of a client.
    Request,
}

/// What waits for its turn. The order of these is the serial order: equal clusters and programs have equal keys, whatever comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderKey {
    /// Delivery or request.
    pub kind: WaitingKind,
    /// Name of the client.
    pub client: String,
    /// Verb; `watch` for a delivery.
    pub verb: &'static str,
    /// Resource, as `plural.group`; the path for requests outside the resource API.
    pub resource: String,
    /// Namespace and name of the object, with the subresource; of a create the name in its body.
    pub object: String,
    /// Digest of a write's body.
    pub digest: u64,
    /// Position of the watch in the request log, or the order of arrival of requests that are equal in everything else.
    pub n: u64,
}

/// What keeps its order in itself whatever happens to others: deliveries of a kind to a client, or requests of a client for a kind.
type Lane = (WaitingKind, String, String);

impl OrderKey {
    fn lane(&self) -> Lane {
        (self.kind, self.client.clone(), self.resource.clone())
    }
}

/// The rule of a serial order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderRule {
    /// Gives deliveries of each kind and requests for each kind, of each client, a priority; `None`: deliveries come before requests, both
    /// in the order of [`OrderKey`].
    pub seed: Option<u64>,
    /// Positions, from 1, at which another item is taken than the one whose turn it is. With a seed, items of its kind come last from
    /// then on.
    pub swaps: BTreeSet<u64>,
}

/// An item among those that wait.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'k> {
    /// What it is.
    pub key: &'k OrderKey,
    /// How many others were taken since it came.
    pub passed_over: u64,
}

/// Chooses by a rule.
#[derive(Clone, Debug, Default)]
pub struct Chooser {
    rule: OrderRule,
    /// Lanes that come last, in the order in which they lost their turns.
    last: Vec<Lane>,
}

impl Chooser {
    /// Chooses by this rule.
    pub fn new(rule: OrderRule) -> Self {
        Self { rule, last: Vec::new() }
    }

    /// The item that is taken at a position; `None` if nothing waits. One that others were preferred to for too long comes first, so that
    /// each has its turn.
    pub fn choose(&mut self, waiting: &[Candidate<'_>], position: u64) -> Option<usize> {
        let first = self.first(waiting, None)?;
        if !self.rule.swaps.contains(&position) || waiting.len() == 1 {
            return Some(first);
        }
        if self.rule.seed.is_some() {
            let lane = waiting[first].key.lane();
            self.last.retain(|last| *last != lane);
            if self.last.len() < limits::ORDER_LANES {
                self.last.push(lane);
            }
        }
        self.first(waiting, Some(first))
    }

    /// The first item but one.
    fn first(&self, waiting: &[Candidate<'_>], without: Option<usize>) -> Option<usize> {
        let places = (0..waiting.len()).filter(|place| Some(*place) != without);
        places.min_by_key(|place| {
            let Candidate { key, passed_over } = waiting[*place];
            let is_in_time = passed_over < limits::ORDER_PASSED_OVER;
            (is_in_time, is_in_time.then(|| self.rank(key)), key)
        })
    }

    /// Rank of a lane: those that lost their turn are last, the others by priority.
    fn rank(&self, key: &OrderKey) -> (usize, u64) {
        let Some(seed) = self.rule.seed else { return (0, 0) };
        let lane = key.lane();
        let lost = self.last.iter().position(|last| *last == lane).map_or(0, |place| place + 1);
        (lost, priority(seed, &lane))
    }
}

/// The priority of a lane: equal seeds give equal ones.
fn priority(seed: u64, (kind, client, resource): &Lane) -> u64 {
    let text = format!("{kind:?}\n{client}\n{resource}");
    Rng::seeded(seed ^ digest(text.as_bytes())).next_u64()
}

/// FNV-1a of bytes: equal bytes have equal digests on every machine.
pub fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: WaitingKind, client: &str, resource: &str, object: &str) -> OrderKey {
        let (verb, client, resource) = ("update", client.to_owned(), resource.to_owned());
        OrderKey { kind, client, verb, resource, object: object.to_owned(), digest: 0, n: 0 }
    }

    fn delivery(client: &str, resource: &str) -> OrderKey {
        key(WaitingKind::Delivery, client, resource, "")
    }

    fn request(client: &str, object: &str) -> OrderKey {
        key(WaitingKind::Request, client, "pods", object)
    }

    /// Takes everything that waits, one by one.
    fn drained(rule: &OrderRule, mut waiting: Vec<OrderKey>) -> Vec<OrderKey> {
        let (mut chooser, mut taken) = (Chooser::new(rule.clone()), Vec::new());
        for position in 1.. {
            let candidates: Vec<_> = waiting.iter().map(|key| Candidate { key, passed_over: 0 }).collect();
            let Some(place) = chooser.choose(&candidates, position) else { break };
            taken.push(waiting.remove(place));
        }
        taken
    }

    #[test]
    fn deliveries_come_before_requests_and_both_by_client_and_object() {
        let rule = OrderRule::default();
        let (a, b, late) = (request("a", "1"), request("a", "2"), delivery("z", "pods"));
        let taken = drained(&rule, vec![b.clone(), a.clone(), late.clone()]);
        assert_eq!(taken, [late.clone(), a.clone(), b.clone()]);
        let swapped = OrderRule { swaps: BTreeSet::from([2]), ..rule };
        assert_eq!(drained(&swapped, vec![b.clone(), a.clone(), late.clone()]), [late, b, a]);
    }

    #[test]
    fn a_swap_without_another_item_changes_nothing() {
        let rule = OrderRule { seed: None, swaps: BTreeSet::from([1]) };
        assert_eq!(drained(&rule, vec![request("a", "1")]), [request("a", "1")]);
    }

    #[test]
    fn with_a_seed_what_loses_its_turn_comes_last_from_then_on() {
        let lanes = |names: [&str; 3]| names.map(|name| delivery("op", name));
        let waiting: Vec<OrderKey> = [lanes(["a", "b", "c"]), lanes(["a", "b", "c"])].concat();
        let order = |rule: &OrderRule| drained(rule, waiting.clone());
        let rule = OrderRule { seed: Some(7), swaps: BTreeSet::new() };
        let first = order(&rule)[0].clone();
        assert_eq!(order(&rule)[..2], [first.clone(), first.clone()], "a lane has one priority");
        let swapped = order(&OrderRule { swaps: BTreeSet::from([1]), ..rule });
        assert_eq!(swapped[4..], [first.clone(), first]);
        let orders: BTreeSet<Vec<OrderKey>> =
            (0..20).map(|seed| order(&OrderRule { seed: Some(seed), swaps: BTreeSet::new() })).collect();
        assert!(orders.len() > 3, "seeds differ");
    }

    #[test]
    fn an_item_that_others_were_preferred_to_for_too_long_comes_first() {
        let (busy, starving) = (delivery("a", "pods"), request("z", "9"));
        let at = |passed_over| {
            let waiting =
                [Candidate { key: &busy, passed_over: 0 }, Candidate { key: &starving, passed_over }];
            Chooser::default().choose(&waiting, 1)
        };
        assert_eq!((at(0), at(limits::ORDER_PASSED_OVER)), (Some(0), Some(1)));
    }

    #[test]
    fn the_order_does_not_depend_on_the_order_of_arrival() {
        let rng = Rng::seeded(1);
        for round in 0..300 {
            let item = || {
                let kind = if rng.below(2) == 0 { WaitingKind::Delivery } else { WaitingKind::Request };
                key(kind, &rng.below(3).to_string(), &rng.below(2).to_string(), &rng.below(4).to_string())
            };
            let waiting: Vec<OrderKey> = (0..=rng.below(11)).map(|_| item()).collect();
            let mut arrived = waiting.clone();
            arrived.rotate_left(round % waiting.len());
            arrived.reverse();
            let seed = (rng.below(2) == 0).then(|| rng.below(5));
            let rule = OrderRule { seed, swaps: (0..rng.below(4)).map(|_| 1 + rng.below(7)).collect() };
            assert_eq!(drained(&rule, waiting), drained(&rule, arrived), "{rule:?}");
        }
    }
}
