//! Consistency of an address and its IPAddress object, and the repair. Pure.

use crate::action::{Action, Plan, Propagation, Target};
use crate::limits::ADDRESS_GRACE;
use crate::object::Object;
use crate::resource::IPADDRESSES;
use crate::service_ips::{MANAGED_BY, MANAGER};
use crate::view::{Address, elapsed, subject};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, IPAddressSpec, ParentReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_informer::Reference;
use std::collections::BTreeMap;
use std::net::IpAddr;

const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// Input of a plan, at one revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The address.
    pub address: IpAddr,
    /// The IPAddress object of the address.
    pub record: Option<&'a Address>,
    /// The Services with the address; at most one, unless there is a conflict.
    pub holders: &'a [&'a Service],
    /// Whether the Service that the IPAddress references exists.
    pub owner_is_there: bool,
    /// Whether a ServiceCIDR contains the address.
    pub in_range: bool,
}

/// The repair, if needed, and the delay until the next check.
///
/// An address of a Service needs an IPAddress for that Service. If several Services have it, the one that the
/// IPAddress references keeps it, else the oldest; the others get an event. An IPAddress of the servers
/// without a matching Service is deleted: at once if its Service lacks the address or it references none;
/// after a minute if its Service does not exist. Addresses outside all ServiceCIDRs only cause an event.
/// IPAddress objects of other managers stay, unless a Service has their address.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> Plan {
    let mut holders = seen.holders.to_vec();
    holders.sort_by_key(|service| {
        let meta = &service.metadata;
        (meta.creation_timestamp.as_ref().map(|t| t.0), meta.namespace.clone(), meta.name.clone())
    });
    let Some(first) = holders.first() else {
        return seen.record.map_or_else(Plan::nothing, |record| forgotten(seen, record, now));
    };
    if !seen.in_range {
        return Plan::of(holders.iter().map(|service| out_of_range(seen, service)).collect());
    }
    let Some(record) = seen.record else {
        let event = warning_event(seen, first, "ClusterIPNotAllocated", "is not allocated; repairing");
        return Plan::of(vec![create(seen, first), event]);
    };
    let Some(owner) = holders.iter().find(|service| names(record, service)) else {
        let mut actions = recreate(seen, record, first);
        actions.push(wrong_reference(seen, first));
        return Plan::of(actions);
    };
    let mut actions = if is_labelled(seen.address, record) { vec![] } else { recreate(seen, record, owner) };
    let others = holders.iter().filter(|service| !names(record, service));
    actions.extend(others.map(|service| duplicate(seen, service)));
    Plan::of(actions)
}

/// An IPAddress whose address no Service has.
fn forgotten(seen: Observed<'_>, record: &Address, now: Timestamp) -> Plan {
    if record.metadata.labels.get(MANAGED_BY).is_none_or(|by| by != MANAGER) {
        return Plan::nothing();
    }
    let (parent, name) = (&record.spec.parent_ref, &record.metadata.name);
    let of_service = format!("IPAddress: {name} for Service {}/{}", parent.namespace, parent.name);
    let (reason, message) = if !of_a_service(record) {
        let what = format!("IPAddress {name} appears to have been modified, not referencing a Service");
        let named = format!("{}/{} {}/{}", parent.group, parent.resource, parent.namespace, parent.name);
        ("IPAddressNotAllocated", format!("{what} {named}: cleaning up"))
    } else if seen.owner_is_there {
        ("IPAddressWrongReference", format!("{of_service} has a wrong reference; cleaning up"))
    } else {
        let since = record.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
        let left = ADDRESS_GRACE.saturating_sub(elapsed(since, now));
        if !left.is_zero() {
            return Plan { wake: Some(left), ..Plan::nothing() };
        }
        ("IPAddressNotAllocated", format!("{of_service} appears to have leaked: cleaning up"))
    };
    let about = Reference {
        api_version: "networking.k8s.io/v1".into(),
        kind: "IPAddress".into(),
        name: name.clone(),
        uid: record.metadata.uid.clone(),
        ..Reference::default()
    };
    Plan::of(vec![delete(record), Action::warning(about, reason, message)])
}

fn of_a_service(record: &Address) -> bool {
    let parent = &record.spec.parent_ref;
    parent.group.is_empty() && parent.resource == "services"
}

fn names(record: &Address, service: &Service) -> bool {
    let (parent, meta) = (&record.spec.parent_ref, &service.metadata);
    of_a_service(record)
        && meta.name.as_deref() == Some(&parent.name)
        && meta.namespace.as_deref() == Some(&parent.namespace)
}

fn labels(address: IpAddr) -> BTreeMap<String, String> {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    [(FAMILY, family), (MANAGED_BY, MANAGER)].map(|(name, value)| (name.into(), value.into())).into()
}

fn is_labelled(address: IpAddr, record: &Address) -> bool {
    labels(address).iter().all(|(name, value)| record.metadata.labels.get(name) == Some(value))
}

/// The references of an IPAddress are immutable: it is deleted and created again.
fn recreate(seen: Observed<'_>, record: &Address, service: &Service) -> Vec<Action> {
    vec![delete(record), create(seen, service)]
}

fn create(seen: Observed<'_>, service: &Service) -> Action {
    let metadata = ObjectMeta {
        name: Some(seen.address.to_string()),
        labels: Some(labels(seen.address)),
        ..ObjectMeta::default()
    };
    let parent_ref = ParentReference {
        group: Some(String::new()),
        resource: "services".into(),
        namespace: service.metadata.namespace.clone(),
        name: service.metadata.name.clone().unwrap_or_default(),
    };
    let spec = IPAddressSpec { parent_ref };
    Action::Create(Object::of(&IPAddress { metadata, spec }))
}

fn delete(record: &Address) -> Action {
    let target = Target {
        resource: IPADDRESSES,
        namespace: String::new(),
        name: record.metadata.name.clone(),
        uid: record.metadata.uid.clone(),
        resource_version: Some(record.metadata.resource_version.clone()),
    };
    Action::Delete { target, propagation: Propagation::Default, force: false }
}

fn family(seen: Observed<'_>) -> &'static str {
    if seen.address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn warning_event(seen: Observed<'_>, service: &Service, reason: &str, what: &str) -> Action {
    let message = format!("Cluster IP [{}]: {} {what}", family(seen), seen.address);
    Action::warning(subject("v1", "Service", &service.metadata), reason, message)
}

fn out_of_range(seen: Observed<'_>, service: &Service) -> Action {
    let what = "is not within any configured Service CIDR; please recreate service";
    warning_event(seen, service, "ClusterIPOutOfRange", what)
}

fn wrong_reference(seen: Observed<'_>, service: &Service) -> Action {
    let (meta, text) = (&service.metadata, |name: &Option<String>| name.clone().unwrap_or_default());
    let message = format!(
        "the ClusterIP [{}]: {} for Service {}/{} has a wrong reference; repairing",
        family(seen),
        seen.address,
        text(&meta.namespace),
        text(&meta.name)
    );
    Action::warning(subject("v1", "Service", meta), "ClusterIPNotAllocated", message)
}

fn duplicate(seen: Observed<'_>, service: &Service) -> Action {
    let message = format!(
        "Cluster IP [{}]:{} was assigned to multiple services; please recreate service",
        family(seen),
        seen.address
    );
    Action::warning(subject("v1", "Service", &service.metadata), "ClusterIPAlreadyAllocated", message)
}
