//! What a Service claims in the transaction that creates it: a cluster address (as an IPAddress object) and node ports (as
//! marker keys). Two creates that choose the same are told apart by the guards of their commits, so that no bitmap and no repair
//! loop is needed.

use super::{Registry, View};
use crate::cache::Filter;
use crate::request::Target;
use crate::storage::{Guard, Write};
use bytes::Bytes;
use kstore_api::kind::{self, Resource};
use kstore_api::object;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Where claimed node ports are remembered. Not a kind of the API.
const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";
/// The service network, Kubernetes' default.
pub(crate) const SERVICE_NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 12);
/// The address of the Service `default/kubernetes`: the first of the network.
pub(crate) const KUBERNETES_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Node ports, Kubernetes' default range.
const NODE_PORT_RANGE: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Random draws before the search for a free address or port becomes a walk.
const DRAWS: usize = 32;

/// Guards and writes that go into the same commit as the object.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Claimed keys must be free.
    pub guards: Vec<Guard>,
    /// Claims made and claims released.
    pub writes: Vec<Write>,
}

/// Whether objects of this kind claim anything at all.
pub(super) fn claims_anything(target: &Target) -> bool {
    target.resource.plural == "services" && target.resource.group.is_empty()
}

impl Registry {
    /// What the step from `before` to `after` (`None`: removed) claims and releases; fills addresses and ports in.
    pub(super) fn claims(
        &self,
        view: &View,
        target: &Target,
        before: Option<&Value>,
        after: Option<&mut Value>,
    ) -> Result<Claims, Status> {
        if !claims_anything(target) {
            return Ok(Claims::default());
        }
        let held = before.map(claimed_keys).unwrap_or_default();
        let wanted = match after {
            Some(service) => {
                self.fill_address(view, target, service)?;
                self.fill_node_ports(view, target, service)?;
                claimed_keys(service)
            }
            None => BTreeSet::new(),
        };
        let mut claims = Claims::default();
        for key in wanted.difference(&held) {
            claims.guards.push(Guard { key: key.clone(), revision: 0 });
            claims.writes.push(Write::Put {
                key: key.clone(),
                value: self.claim(target, key),
                ttl_seconds: 0,
            });
        }
        claims.writes.extend(held.difference(&wanted).map(|key| Write::Delete { key: key.clone() }));
        Ok(claims)
    }

    fn claim(&self, target: &Target, key: &str) -> Bytes {
        let Some(address) = key.strip_prefix(&addresses().storage_prefix("")) else {
            return Bytes::from(format!("{}/{}", target.namespace, target.name));
        };
        let address = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": address, "uid": self.nondet.rng.uuid(),
                "creationTimestamp": self.nondet.clock.now_seconds().to_string(),
                "labels": {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
            "spec": {"parentRef": {"group": "", "resource": "services", "namespace": target.namespace, "name": target.name}}
        });
        object::encode_stored(&address).into()
    }

    fn fill_address(&self, view: &View, target: &Target, service: &mut Value) -> Result<(), Status> {
        let spec = &mut service["spec"];
        let address = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
        if spec["type"] == "ExternalName" || address == "None" {
            return Ok(());
        }
        if !address.is_empty() {
            let usable = address.parse().is_ok_and(in_network);
            return match usable {
                false => Err(bad_address(target, &address)),
                true if belongs_to_another(view, target, &address) => Err(taken_address(target, &address)),
                true => Ok(()),
            };
        }
        let address = self.free_address(view).ok_or_else(|| full(target, "serviceIP"))?;
        spec["clusterIP"] = json!(address.to_string());
        spec["clusterIPs"] = json!([address.to_string()]);
        Ok(())
    }

    fn free_address(&self, view: &View) -> Option<Ipv4Addr> {
        let (base, bits) = SERVICE_NETWORK;
        let size = 1u64 << (32 - bits);
        let at = |offset: u64| Ipv4Addr::from(u32::from(base) + u32::try_from(offset).unwrap_or(0));
        let is_free = |address: &Ipv4Addr| {
            let key = addresses().storage_key("", &address.to_string());
            *address != KUBERNETES_ADDRESS && view.get(addresses(), &key).is_none()
        };
        // The first 256 are left to addresses that users choose, as Kubernetes does.
        let drawn = (0..DRAWS).map(|_| at(256 + self.nondet.rng.below(size - 257)));
        drawn.chain((256..size - 1).map(at)).find(is_free)
    }

    /// Node ports for every port that wants one. A port that is served over several protocols has one node port for all of them.
    fn fill_node_ports(&self, view: &View, target: &Target, service: &mut Value) -> Result<(), Status> {
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
            self.fill_health_port(target, &mut service["spec"]["healthCheckNodePort"], &taken)?;
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
                0 => self.free_node_port(taken).ok_or_else(|| full(target, "nodePort"))?,
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
    fn fill_health_port(
        &self,
        target: &Target,
        slot: &mut Value,
        taken: &BTreeSet<i64>,
    ) -> Result<(), Status> {
        let failed =
            |what: &str, detail: &str| Status::internal(format!("failed to allocate {what}: {detail}"));
        let port = match number(slot) {
            0 => self.free_node_port(taken).ok_or_else(|| full(target, "HealthCheck NodePort"))?,
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

fn belongs_to_another(view: &View, target: &Target, address: &str) -> bool {
    let claim = view.get(addresses(), &addresses().storage_key("", address));
    claim.map(|entry| entry.parse()).is_some_and(|claim| {
        let parent = &claim["spec"]["parentRef"];
        parent["namespace"] != *target.namespace || parent["name"] != *target.name
    })
}

/// Ports of all other services.
fn taken_node_ports(view: &View, target: &Target) -> BTreeSet<i64> {
    let own = target.key();
    let services = view.scan(&Filter::all(target.resource));
    let others = services.iter().filter(|entry| entry.key() != own);
    others.flat_map(|entry| node_ports(&entry.parse())).collect()
}

fn addresses() -> &'static Resource {
    kind::lookup("networking.k8s.io", "v1", "ipaddresses").expect("IPAddress is in the table")
}

fn in_network(address: Ipv4Addr) -> bool {
    let (base, bits) = SERVICE_NETWORK;
    (u32::from(address) ^ u32::from(base)) >> (32 - bits) == 0
}

fn claimed_keys(service: &Value) -> BTreeSet<String> {
    let address = service["spec"]["clusterIP"].as_str().filter(|ip| !ip.is_empty() && *ip != "None");
    let address = address.map(|ip| addresses().storage_key("", ip));
    address.into_iter().chain(node_ports(service).map(|port| format!("{NODE_PORTS}{port}"))).collect()
}

fn node_ports(service: &Value) -> impl Iterator<Item = i64> + use<> {
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

fn bad_address(target: &Target, address: &str) -> Status {
    refused_address(target, address, "the provided network does not match the current range")
}

fn taken_address(target: &Target, address: &str) -> Status {
    refused_address(target, address, "provided IP is already allocated")
}

fn refused_address(target: &Target, address: &str, why: &str) -> Status {
    let body = format!("Invalid value: [\"{address}\"]: failed to allocate IP {address}: {why}");
    crate::error::invalid_field(target, "spec.clusterIPs", body)
}

fn bad_node_port(target: &Target, index: usize, port: i64, detail: &str) -> Status {
    let field = format!("spec.ports[{index}].nodePort");
    crate::error::invalid_field(target, &field, format!("Invalid value: {port}: {detail}"))
}

fn full(target: &Target, what: &str) -> Status {
    let text = match what {
        "serviceIP" => format!("failed to allocate a serviceIP for Service {:?}: range is full", target.name),
        what => format!("failed to allocate a {what}: range is full"),
    };
    Status::internal(text)
}
