//! Claims of a Service in the transaction that creates it: cluster IPs (as IPAddress objects) and node ports
//! (as marker keys). If two creates choose the same one, the guards of their commits decide, so that no
//! bitmap is needed. `families` decides on IP families, `address` on addresses, `ports` on node ports.

mod address;
mod families;
mod ports;

use super::Registry;
use crate::request::Target;
use crate::service_ranges::family;
use crate::stage::View;
use bytes::Bytes;
use kstore_api::object;
use kstore_api::status::Status;
use kstore_storage::storage::{Guard, Write};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Key prefix of claimed node ports. Not a kind of the API.
const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";

/// Guards and writes of claims, which are part of the object's commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Claimed keys must be absent, and ServiceCIDRs unchanged.
    pub guards: Vec<Guard>,
    /// New claims to store and released claims to delete.
    pub writes: Vec<Write>,
}

/// Whether objects of this kind have claims.
pub(super) fn claims_anything(target: &Target) -> bool {
    target.resource.is("", "services")
}

impl Registry {
    /// Fills in the IP families of a service before it is validated. `stored` is the service that it
    /// replaces. Other kinds are left unchanged.
    ///
    /// # Errors
    /// 422 for families that the cluster has no network for, or that contradict each other.
    pub fn fill_families(
        &self,
        target: &Target,
        service: &mut Value,
        stored: Option<&Value>,
    ) -> Result<(), Status> {
        if !claims_anything(target) || !target.subresource.is_empty() {
            return Ok(());
        }
        let stored = stored.map(|stored| &stored["spec"]);
        let errors = families::fill_families(&self.ranges, &mut service["spec"], stored);
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(target.resource.group, target.resource.kind, &target.name, &errors))
    }

    /// The claims and releases of a change from `before` to `after` (`None`: removed). Fills in addresses and
    /// ports.
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
        let claimed = before.map(claimed_keys).unwrap_or_default();
        let mut claims = Claims::default();
        let wanted = match after {
            Some(service) => {
                claims.guards = self.fill_addresses(view, target, &claimed, service)?;
                self.fill_node_ports(view, target, service)?;
                claimed_keys(service)
            }
            None => BTreeSet::new(),
        };
        for key in wanted.difference(&claimed) {
            claims.guards.push(Guard { key: key.clone(), revision: 0 });
            claims.writes.push(Write::Put {
                key: key.clone(),
                value: self.claim(target, key),
                ttl_seconds: 0,
            });
        }
        // Another writer may have given the IPAddress to another service.
        let released =
            claimed.difference(&wanted).filter(|key| !address::belongs_to_another(view, target, key));
        claims.writes.extend(released.map(|key| Write::Delete { key: key.clone() }));
        Ok(claims)
    }

    fn claim(&self, target: &Target, key: &str) -> Bytes {
        let Some(address) = key.strip_prefix(&address::addresses().storage_prefix("")) else {
            return Bytes::from(format!("{}/{}", target.namespace, target.name));
        };
        let family = family(!address.contains(':'));
        let address = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": address, "uid": self.nondet.rng.uuid(),
                "creationTimestamp": self.nondet.clock.now_seconds().to_string(),
                "labels": {"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
            "spec": {"parentRef": {"resource": "services", "namespace": target.namespace, "name": target.name}}
        });
        object::encode_stored(&address).into()
    }
}

fn claimed_keys(service: &Value) -> BTreeSet<String> {
    address::keys(service)
        .chain(ports::node_ports(service).map(|port| format!("{NODE_PORTS}{port}")))
        .collect()
}

/// 422: one of the service's addresses cannot be allocated.
fn refused_address(target: &Target, all: &[String], address: &str, why: &str) -> Status {
    let body = format!("Invalid value: {}: failed to allocate IP {address}: {why}", json!(all));
    crate::error::invalid_field(target, "spec.clusterIPs", body)
}

/// 500, as in Kubernetes: the range is exhausted.
fn range_exhausted(what: &str) -> Status {
    Status::internal(format!("failed to allocate a {what}: range is full"))
}
