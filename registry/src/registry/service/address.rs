//! Allocation of cluster IPs from all ready ServiceCIDRs, each address to one service. The guards of the
//! commit ensure that no other service has the address and that the ServiceCIDR has not changed.

use super::super::Registry;
use super::refused_address;
use crate::cache::Filter;
use crate::request::Target;
use crate::service_ranges::{WIDEST_V6, family};
use crate::stage::View;
use kstore_api::cidr::Cidr;
use kstore_api::object::{list, text};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::{kind, meta};
use kstore_storage::storage::Guard;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// An address block of a ServiceCIDR, with the key and revision of the ServiceCIDR.
struct Network {
    block: Cidr,
    key: String,
    revision: i64,
}

impl Registry {
    /// Allocates an address for each family of a service that lacks one. `claimed` are the keys of the stored
    /// service's addresses. The returned guards hold the ServiceCIDRs of new addresses unchanged.
    pub(super) fn fill_addresses(
        &self,
        view: &View,
        target: &Target,
        claimed: &BTreeSet<String>,
        service: &mut Value,
    ) -> Result<Vec<Guard>, Status> {
        let spec = &mut service["spec"];
        if spec["type"] == "ExternalName" || spec["clusterIP"] == "None" {
            return Ok(Vec::new());
        }
        let families = list(&spec["ipFamilies"]).to_vec();
        let mut ips: Vec<String> = list(&spec["clusterIPs"]).iter().map(|ip| text(ip).to_owned()).collect();
        ips.resize(families.len().max(ips.len()), String::new());
        let (mut guards, mut networks) = (Vec::new(), None);
        for i in 0..ips.len() {
            if claimed.contains(&key_of(&ips[i])) {
                continue;
            }
            let networks = networks.get_or_insert_with(|| networks_in(view));
            let guard = match ips[i].as_str() {
                "" => {
                    let (address, guard) = self.free_address(view, networks, families[i] == family(true))?;
                    ips[i] = address.to_string();
                    guard
                }
                _ => requested_network(view, target, networks, &ips, i)?,
            };
            if guards.iter().all(|other: &Guard| other.key != guard.key) {
                guards.push(guard);
            }
        }
        spec["clusterIP"] = json!(ips.first());
        spec["clusterIPs"] = json!(ips);
        Ok(guards)
    }

    /// A random free address of a family. Each block is searched from its upper band on, which leaves the
    /// lower band to explicit requests.
    fn free_address(&self, view: &View, networks: &[Network], v4: bool) -> Result<(IpAddr, Guard), Status> {
        // The address of the API's own service stays free for it, in case the service is deleted and created
        // again.
        let kept = self.ranges.api_address();
        let is_free = |address: &IpAddr| {
            *address != kept && view.get(addresses(), &key_of(&address.to_string())).is_none()
        };
        for network in networks.iter().filter(|network| network.block.is_ipv4() == v4) {
            for band in network.block.bands().into_iter().filter(|band| !band.is_empty()) {
                let size = u64::try_from(band.end() - band.start()).unwrap_or(u64::MAX).saturating_add(1);
                let from = band.start() + u128::from(self.nondet.rng.below(size));
                let mut walk = (from..=*band.end()).chain(*band.start()..from);
                if let Some(address) = walk.by_ref().map(|at| network.block.at(at)).find(is_free) {
                    return Ok((address, network.guard()));
                }
            }
        }
        Err(super::range_exhausted("serviceIP"))
    }
}

impl Network {
    fn guard(&self) -> Guard {
        Guard { key: self.key.clone(), revision: self.revision }
    }
}

/// The guard of the ServiceCIDR that contains an explicitly requested address.
fn requested_network(
    view: &View,
    target: &Target,
    networks: &[Network],
    all: &[String],
    i: usize,
) -> Result<Guard, Status> {
    let refused = |why: &str| refused_address(target, all, &all[i], why);
    let address = all[i].parse::<IpAddr>().ok();
    let network = address.and_then(|address| networks.iter().find(|network| network.block.gives(address)));
    let network = network.ok_or_else(|| refused("the provided network does not match the current range"))?;
    match view.get(addresses(), &key_of(&all[i])) {
        Some(_) => Err(refused("provided IP is already allocated")),
        None => Ok(network.guard()),
    }
}

/// The blocks to allocate from, in order. IPv6 blocks that are too large are left out, as in Kubernetes.
fn networks_in(view: &View) -> Vec<Network> {
    let cidrs = view.scan(&Filter::all(service_cidrs()));
    let mut networks = Vec::new();
    for entry in cidrs {
        let cidr = entry.parse();
        if !is_ready(&cidr) {
            continue;
        }
        let blocks = list(&cidr["spec"]["cidrs"]).iter().filter_map(|block| text(block).parse::<Cidr>().ok());
        networks.extend(
            blocks.filter(|block| block.is_ipv4() || block.bits() >= WIDEST_V6).map(|block| Network {
                block,
                key: entry.key().to_owned(),
                revision: entry.revision,
            }),
        );
    }
    networks.sort_by_key(|network| network.block);
    networks
}

/// Whether a ServiceCIDR is ready, or has no condition, and is not being deleted.
fn is_ready(cidr: &Value) -> bool {
    let conditions = list(&cidr["status"]["conditions"]);
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    !meta::is_being_deleted(cidr) && ready.is_none_or(|ready| ready["status"] == "True")
}

/// Whether another service owns an IPAddress.
pub(super) fn belongs_to_another(view: &View, target: &Target, key: &str) -> bool {
    let claim = view.get(addresses(), key);
    claim.map(|entry| entry.parse()).is_some_and(|claim| {
        let parent = &claim["spec"]["parentRef"];
        parent["namespace"] != *target.namespace || parent["name"] != *target.name
    })
}

/// The storage keys of a service's addresses.
pub(super) fn keys(service: &Value) -> impl Iterator<Item = String> {
    let spec = &service["spec"];
    let ips = list(&spec["clusterIPs"]).iter().map(text).filter(|ip| !ip.is_empty() && *ip != "None");
    ips.map(key_of)
}

/// The storage key of an address in canonical form: IPv6 addresses have several spellings.
fn key_of(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(address) => addresses().storage_key("", &address.to_string()),
        Err(_) => addresses().storage_key("", address),
    }
}

pub(super) fn addresses() -> &'static Resource {
    kind::lookup("networking.k8s.io", "v1", "ipaddresses").expect("IPAddress is in the table")
}

fn service_cidrs() -> &'static Resource {
    kind::lookup("networking.k8s.io", "v1", "servicecidrs").expect("ServiceCIDR is in the table")
}
