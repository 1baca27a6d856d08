//! Node ports of a service: one for each exposed port, and one for the health checks of load balancers.

use super::super::Registry;
use super::range_exhausted;
use crate::cache::Filter;
use crate::request::Target;
use crate::stage::View;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Node ports, Kubernetes' default range.
const NODE_PORT_RANGE: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Random draws before the search for a free port becomes linear.
const DRAWS: usize = 32;

impl Registry {
    /// Allocates node ports for the service's ports. A port with several protocols has the same node port for
    /// all of them.
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
            let requested = match (given, chosen.get(&port)) {
                (0, Some(same)) => *same,
                // A node port that a later entry for the same port requests is used for this entry too.
                (0, None) => requested_port(&ports[i..], port),
                (given, _) => given,
            };
            let shared = chosen.values().any(|own| *own == requested);
            let node_port = match requested {
                0 => self.free_node_port(taken).ok_or_else(|| range_exhausted("nodePort"))?,
                requested if shared => requested,
                requested => check_requested(requested, taken)
                    .map_err(|detail| bad_node_port(target, i, requested, &detail))?,
            };
            taken.insert(node_port);
            chosen.entry(port).or_insert(node_port);
            ports[i]["nodePort"] = json!(node_port);
        }
        Ok(())
    }

    /// Allocates the port at which load balancers check whether a node has endpoints of the service.
    fn fill_health_port(&self, slot: &mut Value, taken: &BTreeSet<i64>) -> Result<(), Status> {
        let failed =
            |what: &str, detail: &str| Status::internal(format!("failed to allocate {what}: {detail}"));
        let port = match number(slot) {
            0 => self.free_node_port(taken).ok_or_else(|| range_exhausted("HealthCheck NodePort 0"))?,
            given => check_requested(given, taken)
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

/// Node ports of all other services.
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

/// The node port that any entry for this port requests; 0 if none does.
fn requested_port(ports: &[Value], port: i64) -> i64 {
    let entries = ports.iter().filter(|entry| number(&entry["port"]) == port);
    entries.map(|entry| number(&entry["nodePort"])).find(|requested| *requested > 0).unwrap_or(0)
}

/// The requested port, or why it cannot be allocated.
fn check_requested(requested: i64, taken: &BTreeSet<i64>) -> Result<i64, String> {
    let (first, last) = (NODE_PORT_RANGE.start(), NODE_PORT_RANGE.end());
    if !NODE_PORT_RANGE.contains(&requested) {
        return Err(format!(
            "provided port is not in the valid range. The range of valid ports is {first}-{last}"
        ));
    }
    if taken.contains(&requested) {
        Err("provided port is already allocated".to_owned())
    } else {
        Ok(requested)
    }
}

/// Whether a LoadBalancer service is declared to work without node ports.
fn unallocated_balancer(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] == false
}

/// Whether the service needs a health check port.
fn needs_health_port(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn bad_node_port(target: &Target, index: usize, port: i64, detail: &str) -> Status {
    let field = format!("spec.ports[{index}].nodePort");
    crate::error::invalid_field(target, &field, format!("Invalid value: {port}: {detail}"))
}
