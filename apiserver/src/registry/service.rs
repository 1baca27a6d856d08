//! What a Service claims in the transaction that creates it: cluster addresses (as IPAddress objects) and node ports (as marker
//! keys). Two creates that choose the same are told apart by the guards of their commits, so that no bitmap is needed. `families`
//! says of which kinds the addresses are, `address` which ones, `ports` which ports.

mod address;
mod families;
mod ports;

use super::{Registry, View};
use crate::request::Target;
use crate::service_ranges::family;
use crate::storage::{Guard, Write};
use bytes::Bytes;
use kstore_api::object;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Where claimed node ports are remembered. Not a kind of the API.
const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";

/// Guards and writes that go into the same commit as the object.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Claimed keys must be free, and networks what they were.
    pub guards: Vec<Guard>,
    /// Claims made and claims released.
    pub writes: Vec<Write>,
}

/// Whether objects of this kind claim anything at all.
pub(super) fn claims_anything(target: &Target) -> bool {
    target.resource.plural == "services" && target.resource.group.is_empty()
}

impl Registry {
    /// Settles of which families the addresses of a service are, before it is validated; `stored` is what it succeeds. Other objects
    /// stay as they are.
    ///
    /// # Errors
    /// 422 for families that the cluster has no network for, or that do not go together.
    pub(crate) fn settle_families(
        &self,
        target: &Target,
        service: &mut Value,
        stored: Option<&Value>,
    ) -> Result<(), Status> {
        if !claims_anything(target) || !target.subresource.is_empty() {
            return Ok(());
        }
        let stored = stored.map(|stored| &stored["spec"]);
        let errors = families::settle(&self.ranges, &mut service["spec"], stored);
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(target.resource.group, target.resource.kind, &target.name, &errors))
    }

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
        let mut claims = Claims::default();
        let wanted = match after {
            Some(service) => {
                claims.guards = self.fill_addresses(view, target, &held, service)?;
                self.fill_node_ports(view, target, service)?;
                claimed_keys(service)
            }
            None => BTreeSet::new(),
        };
        for key in wanted.difference(&held) {
            claims.guards.push(Guard { key: key.clone(), revision: 0 });
            claims.writes.push(Write::Put {
                key: key.clone(),
                value: self.claim(target, key),
                ttl_seconds: 0,
            });
        }
        // Somebody may have given the address to somebody else behind our back.
        let released = held.difference(&wanted).filter(|key| !address::belongs_to_another(view, target, key));
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
            "spec": {"parentRef": {"group": "", "resource": "services", "namespace": target.namespace, "name": target.name}}
        });
        object::encode_stored(&address).into()
    }
}

fn claimed_keys(service: &Value) -> BTreeSet<String> {
    address::keys(service)
        .chain(ports::node_ports(service).map(|port| format!("{NODE_PORTS}{port}")))
        .collect()
}

/// 422: this address of a service's addresses cannot be had.
fn refused_address(target: &Target, all: &[String], address: &str, why: &str) -> Status {
    let body = format!("Invalid value: {}: failed to allocate IP {address}: {why}", json!(all));
    crate::error::invalid_field(target, "spec.clusterIPs", body)
}

/// 500, as in Kubernetes: there is nothing left to give.
fn full(what: &str) -> Status {
    Status::internal(format!("failed to allocate a {what}: range is full"))
}
