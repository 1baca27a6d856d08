//! Node ports: one for each port of a service that is reached from outside, and one at which balancers ask about it.

use super::super::{Registry, View};
use super::full;
use crate::cache::Filter;
use crate::request::Target;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Node ports, Kubernetes' default range.
const NODE_PORT_RANGE: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Random draws before the search for a free port becomes a walk.
const DRAWS: usize = 32;

impl Registry {
    /// Node ports for every port that wants one. A port that is served over several protocols has one node port for all of them.
    pub(super) fn fill_node_ports(
        &self,
        view: &View,
        target: &Target,
        service: &mut Value,
    ) -> Result<(), Status> {
        let exposed = matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
        let health = needs_health_port(service);
        if !exposed && !health {
            return Ok(());
        }
        let mut taken = taken_node_ports(view, target);
        if exposed {
            let wanted = !unallocated_balancer(service);
            let ports = service["spec"]["ports"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
            self.fill_exposed(target, ports, wanted, &mut taken)?;
        }
        if health {
            self.fill_health_port(&mut service["spec"]["healthCheckNodePort"], &taken)?;
        }
        Ok(())
    }

    fn fill_exposed(
        &self,
        target: &Target,
        ports: &mut [Value],
        wanted: bool,
        taken: &mut BTreeSet<i64>,
    ) -> Result<(), Status> {
        let mut chosen: BTreeMap<i64, i64> = BTreeMap::new();
        for i in 0..ports.len() {
            let (port, given) = (number(&ports[i]["port"]), number(&ports[i]["nodePort"]));
            if given == 0 && !wanted {
                continue;
            }
            let asked = match (given, chosen.get(&port)) {
                (0, Some(same)) => *same,
                // What a later entry for the same port asks for counts for this one, too.
                (0, None) => asked_for(&ports[i..], port),
                (given, _) => given,
            };
            let shared = chosen.values().any(|own| *own == asked);
            let node_port = match asked {
                0 => self.free_node_port(taken).ok_or_else(|| full("nodePort"))?,
                asked if shared => asked,
                asked => granted(asked, taken).map_err(|detail| bad_node_port(target, i, asked, &detail))?,
            };
            taken.insert(node_port);
            chosen.entry(port).or_insert(node_port);
            ports[i]["nodePort"] = json!(node_port);
        }
        Ok(())
    }

    /// The port at which a balancer asks whether a node has endpoints of its own.
    fn fill_health_port(&self, slot: &mut Value, taken: &BTreeSet<i64>) -> Result<(), Status> {
        let failed =
            |what: &str, detail: &str| Status::internal(format!("failed to allocate {what}: {detail}"));
        let port = match number(slot) {
            0 => self.free_node_port(taken).ok_or_else(|| full("HealthCheck NodePort 0"))?,
            given => granted(given, taken)
                .map_err(|detail| failed(&format!("requested HealthCheck NodePort {given}"), &detail))?,
        };
        *slot = json!(port);
        Ok(())
    }

    fn free_node_port(&self, taken: &BTreeSet<i64>) -> Option<i64> {
        let (first, last) = (*NODE_PORT_RANGE.start(), *NODE_PORT_RANGE.end());
        let draw = |_| first + self.nondet.rng.below((last - first + 1).unsigned_abs()) as i64;
        (0..DRAWS).map(draw).chain(NODE_PORT_RANGE).find(|port| !taken.contains(port))
    }
}

/// Ports of all other services.
fn taken_node_ports(view: &View, target: &Target) -> BTreeSet<i64> {
    let own = target.key();
    let services = view.scan(&Filter::all(target.resource));
    let others = services.iter().filter(|entry| entry.key() != own);
    others.flat_map(|entry| node_ports(&entry.parse())).collect()
}

pub(super) fn node_ports(service: &Value) -> impl Iterator<Item = i64> + use<> {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten().map(|port| number(&port["nodePort"]));
    let all: Vec<i64> =
        ports.chain([number(&spec["healthCheckNodePort"])]).filter(|port| *port > 0).collect();
    all.into_iter()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The node port that an entry for this port asks for; 0 if none does.
fn asked_for(ports: &[Value], port: i64) -> i64 {
    let entries = ports.iter().filter(|entry| number(&entry["port"]) == port);
    entries.map(|entry| number(&entry["nodePort"])).find(|asked| *asked > 0).unwrap_or(0)
}

/// The port asked for, or why not.
fn granted(asked: i64, taken: &BTreeSet<i64>) -> Result<i64, String> {
    let (first, last) = (NODE_PORT_RANGE.start(), NODE_PORT_RANGE.end());
    if !NODE_PORT_RANGE.contains(&asked) {
        return Err(format!(
            "provided port is not in the valid range. The range of valid ports is {first}-{last}"
        ));
    }
    if taken.contains(&asked) { Err("provided port is already allocated".to_owned()) } else { Ok(asked) }
}

/// Whether a balancer finds the pods without node ports.
fn unallocated_balancer(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] == false
}

/// Whether nodes must tell a balancer if they have endpoints.
fn needs_health_port(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn bad_node_port(target: &Target, index: usize, port: i64, detail: &str) -> Status {
    let field = format!("spec.ports[{index}].nodePort");
    crate::error::invalid_field(target, &field, format!("Invalid value: {port}: {detail}"))
}
