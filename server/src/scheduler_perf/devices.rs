//! Devices of scheduler_perf's drivers, and allocations of claims without pods. Pure.

use super::objects::NewObject;
use kstore_client::Gvr;
use kstore_informer::Key;
use kstore_nondet::Rng;
use kstore_scheduler::change::Change;
use kstore_scheduler::devices::allocate::{AllocationFailure, SearchTerms, allocate};
use kstore_scheduler::devices::{DeviceChange, Devices, claim, class, outcome, slice};
use kstore_scheduler::node::NodeInfo;
use serde_json::{Value, json};
use std::sync::Arc;

/// Candidates that the search for a claim's devices on a node examines at most: far more than a slice has.
const STEPS: usize = 1 << 20;

/// The resource of claims.
pub(super) fn claims() -> Gvr {
    Gvr::new("resource.k8s.io", "v1", "resourceclaims")
}

/// The ResourceSlice of scheduler_perf's driver for a node, with so many devices.
pub(super) fn slice(driver: &str, node: &str, count: usize) -> Result<NewObject, String> {
    let device = |index: usize| {
        json!({
            "name": format!("instance-{index}"),
            "attributes": {
                "model": { "string": "A100" }, "family": { "string": "GPU" },
                "driverVersion": { "version": "1.2.3" }, "dra.example.com/numa": { "int": index },
            },
            "capacity": { "memory": { "value": "1Gi" } },
        })
    };
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": node },
        "spec": {
            "driver": driver, "nodeName": node,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": (0..count).map(device).collect::<Vec<_>>(),
        },
    });
    NewObject::of(slice, "")
}

/// Whether a name matches a pattern with `*` for any text and `?` for any character.
///
/// # Errors
/// The pattern has another construct of shells.
pub(super) fn matches(pattern: &str, name: &str) -> Result<bool, String> {
    if let Some(other) = pattern.chars().find(|c| matches!(c, '[' | ']' | '\\')) {
        return Err(format!("\"nodes\" has {other:?}: this program knows \"*\" and \"?\" in it"));
    }
    let pattern: Vec<char> = pattern.chars().collect();
    // Which ends of the pattern's beginnings match the text so far.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    let pass = |reached: &mut Vec<bool>| {
        for (at, c) in pattern.iter().enumerate() {
            if *c == '*' && reached[at] {
                reached[at + 1] = true;
            }
        }
    };
    pass(&mut reached);
    for c in name.chars() {
        let mut next = vec![false; pattern.len() + 1];
        for (at, wanted) in pattern.iter().enumerate().filter(|(at, _)| reached[*at]) {
            match wanted {
                '*' => next[at] = true,
                '?' => next[at + 1] = true,
                wanted => next[at + 1] |= *wanted == c,
            }
        }
        pass(&mut next);
        reached = next;
    }
    Ok(reached[pattern.len()])
}

/// Allocates claims on nodes that are chosen by chance, one after the other.
pub(super) struct Allocator {
    devices: Devices,
    nodes: Vec<NodeInfo>,
}

impl Allocator {
    /// An allocator for these classes, slices and claims, of which some may be allocated, on these nodes.
    pub(super) fn new(
        classes: &[Value],
        slices: &[Value],
        claims: &[Value],
        nodes: Vec<NodeInfo>,
    ) -> Result<Self, serde_json::Error> {
        let mut devices = Devices::default();
        for value in classes {
            devices.apply(DeviceChange::Class(Change::Set(Arc::new(class::decode(&bytes(value))?))));
        }
        for value in slices {
            devices.apply(DeviceChange::Slice(Change::Set(Arc::new(slice::decode(&bytes(value))?))));
        }
        for value in claims {
            devices.apply(DeviceChange::Claim(Change::Set(Arc::new(claim::decode(&bytes(value))?))));
        }
        Ok(Self { devices, nodes })
    }

    /// The claim with an allocation in its status, which the next allocations respect. `None` if no node has the devices.
    ///
    /// # Errors
    /// The claim, its class or a pool is faulty.
    pub(super) fn allocate(&mut self, claim: &Value, rng: &Rng) -> Result<Option<Value>, String> {
        let text = |member: &str| claim["metadata"][member].as_str().unwrap_or_default();
        let key = Key::new(text("namespace"), text("name"));
        let record = self.devices.claim(&key).cloned().ok_or_else(|| format!("claim {key} is missing"))?;
        let first = usize::try_from(rng.below(self.nodes.len().max(1) as u64)).unwrap_or_default();
        let terms = SearchTerms { steps: STEPS, allows_binding_conditions: true };
        let mut shares = 0_u64;
        for index in 0..self.nodes.len() {
            let node = &self.nodes[(first + index) % self.nodes.len()];
            let chosen = match allocate(&self.devices, &[&*record], node, terms) {
                Ok(chosen) => chosen,
                Err(AllocationFailure::Faulty(why)) => return Err(format!("claim {key}: {why}")),
                Err(_) => continue,
            };
            let Some(chosen) = chosen.first() else { continue };
            let mut share_id = || {
                shares += 1;
                format!("00000000-0000-0000-0000-{:012x}", rng.below(1 << 40) + shares)
            };
            let allocation = outcome::allocation(&self.devices, &record, chosen, &node.name, &mut share_id);
            let mut allocated = claim.clone();
            allocated["status"]["allocation"] = allocation;
            let decoded = claim::decode(&bytes(&allocated)).map_err(|error| error.to_string())?;
            self.devices.apply(DeviceChange::Claim(Change::Set(Arc::new(decoded))));
            return Ok(Some(allocated));
        }
        Ok(None)
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_scheduler::node;

    #[test]
    fn patterns_have_stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("scheduler-perf-dra-*", "scheduler-perf-dra-7", true),
            ("scheduler-perf-dra-*", "scheduler-perf-7", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*-1*", "n-12", true),
            ("**x", "yx", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), Ok(expected), "{pattern} {name}");
        }
        assert!(matches("a[0-9]", "a1").unwrap_err().contains("'['"));
    }

    #[test]
    fn claims_get_devices_until_all_are_taken() {
        let parsed = |object: NewObject| serde_json::from_str::<Value>(&object.json).unwrap();
        let slices: Vec<Value> = ["n1", "n2"].map(|node| parsed(slice("d.x", node, 2).unwrap())).into();
        let class = json!({ "metadata": { "name": "gpu", "uid": "c" }, "spec": {} });
        let claims: Vec<Value> = (0..5)
            .map(|index| {
                json!({
                    "metadata": { "namespace": "ns", "name": format!("c{index}"), "uid": format!("u{index}") },
                    "spec": { "devices": { "requests": [{ "name": "r", "exactly": {
                        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 } }] } },
                })
            })
            .collect();
        let nodes = ["n1", "n2"].map(|name| {
            let node = json!({ "metadata": { "name": name, "uid": name }, "status": {} });
            node::decode(node.to_string().as_bytes()).unwrap()
        });
        let mut allocator = Allocator::new(&[class], &slices, &claims, nodes.into()).unwrap();
        let rng = Rng::seeded(1);
        let mut taken: Vec<String> = Vec::new();
        for claim in &claims[..4] {
            let allocated = allocator.allocate(claim, &rng).unwrap().unwrap();
            let result = &allocated["status"]["allocation"]["devices"]["results"][0];
            taken.push(format!("{}/{}", result["pool"], result["device"]));
        }
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 4, "each device once: {taken:?}");
        assert_eq!(allocator.allocate(&claims[4], &rng), Ok(None));
    }
}
