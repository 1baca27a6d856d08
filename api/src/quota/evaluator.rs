//! [`Evaluator`]: the rules of one kind of object: which resources it can use, which writes are charged, and what its fields use.

use super::pod;
use super::usage::{Traits, Usage};
use crate::meta;
use crate::object::{int, list, text};
use crate::quantity::{Format, Quantity};
use jiff::Timestamp;
use serde_json::Value;
use std::borrow::Cow;

const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const OF_SERVICES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
/// Kinds of the core group that quotas may also bound by their plain names.
const PLAIN_NAMES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// The resource that counts the objects of a kind: `count/deployments.apps`.
pub fn count_of(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

/// The kind, by group and plural, whose objects use a resource that a quota bounds; `None`: no kind does. Whether such a kind is served is
/// not looked at.
pub fn kind_of(resource: &str) -> Option<(&str, &str)> {
    if let Some(counted) = resource.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some((group, plural));
    }
    let plain = ["pods", "services", "persistentvolumeclaims"].into_iter().chain(PLAIN_NAMES);
    plain.map(|plural| ("", plural)).find(|(group, plural)| Evaluator::of(group, plural).covers(resource))
}

/// How objects of one kind use resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluator {
    count: String,
    rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Pods,
    Services,
    Claims,
    /// Objects that are only counted, perhaps also under a plain name.
    Counted(Option<&'static str>),
}

impl Evaluator {
    /// The evaluator of a kind, built-in or custom.
    pub fn of(group: &str, plural: &str) -> Self {
        let plain = || PLAIN_NAMES.into_iter().find(|name| group.is_empty() && *name == plural);
        let rules = match (group, plural) {
            ("", "pods") => Rules::Pods,
            ("", "services") => Rules::Services,
            ("", "persistentvolumeclaims") => Rules::Claims,
            _ => Rules::Counted(plain()),
        };
        Self { count: count_of(group, plural), rules }
    }

    /// The resource that counts the objects.
    pub fn count(&self) -> &str {
        &self.count
    }

    /// Whether objects of the kind are counted and use nothing else.
    pub fn only_counts(&self) -> bool {
        matches!(self.rules, Rules::Counted(_))
    }

    /// Whether creating an object through this subresource (empty: the object itself) is charged.
    pub fn charges_create(&self, subresource: &str) -> bool {
        subresource.is_empty()
    }

    /// Whether updating an object through this subresource (empty: the object itself) is charged. All other updates leave what is
    /// used as it is, or are left to the recount.
    pub fn charges_update(&self, subresource: &str) -> bool {
        match self.rules {
            Rules::Pods => subresource == "resize",
            Rules::Services => subresource.is_empty(),
            Rules::Claims => matches!(subresource, "" | "status"),
            Rules::Counted(_) => false,
        }
    }

    /// Whether objects of the kind can use a resource.
    pub fn covers(&self, resource: &str) -> bool {
        if resource == self.count {
            return true;
        }
        match self.rules {
            Rules::Pods => pod::covers(resource),
            Rules::Services => OF_SERVICES.contains(&resource),
            Rules::Claims => {
                let own = resource.split_once(STORAGE_CLASS).map_or(resource, |(_, own)| own);
                OF_CLAIMS.contains(&own)
            }
            Rules::Counted(plain) => plain == Some(resource),
        }
    }

    /// What an object uses.
    pub fn usage(&self, object: &Value) -> Usage {
        let mut usage = Usage::default();
        usage.always.push((Cow::Owned(self.count.clone()), one()));
        match self.rules {
            Rules::Pods => pod(object, &mut usage),
            Rules::Services => service(&object["spec"], &mut usage),
            Rules::Claims => claim(object, &mut usage),
            Rules::Counted(plain) => usage.always.extend(plain.map(|plain| (Cow::Borrowed(plain), one()))),
        }
        usage
    }

    /// Of these bounded resources, what the object does not state although a quota of the resource demands it, as the texts of
    /// refusals say: `limits.cpu for: a,b`.
    pub(super) fn unstated<'r>(
        &self,
        bounded: impl Iterator<Item = &'r str>,
        object: &Value,
    ) -> Option<String> {
        if self.rules == Rules::Pods { pod::unstated(bounded, &object["spec"]) } else { None }
    }

    /// Whether a scope can apply to objects of the kind, which have these traits.
    pub(super) fn has_traits(&self) -> bool {
        matches!(self.rules, Rules::Pods | Rules::Claims)
    }
}

fn one() -> Quantity {
    Quantity::from_units(1, Format::DecimalSi)
}

fn many(count: usize) -> Quantity {
    Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}

fn pod(object: &Value, usage: &mut Usage) {
    usage.traits = pod::traits(object);
    if matches!(text(&object["status"]["phase"]), "Failed" | "Succeeded") {
        return;
    }
    usage.until = ended(object);
    usage.alive = pod::compute(object);
}

/// When a pod that is being deleted ends to use anything but its own place in the store, as upstream: its grace period after the
/// time of its deletion. A node that is lost must not keep a namespace from starting other pods.
fn ended(pod: &Value) -> Option<Timestamp> {
    let grace = meta::deletion_grace_period(pod)?;
    let deleted = meta::deletion_timestamp(pod).and_then(meta::parse_time)?;
    deleted.checked_add(jiff::SignedDuration::from_secs(grace)).ok()
}

fn service(spec: &Value, usage: &mut Usage) {
    let ports = list(&spec["ports"]);
    let node_ports = match text(&spec["type"]) {
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| int(&port["nodePort"]) != 0).count()
        }
        "LoadBalancer" | "NodePort" => ports.len(),
        _ => 0,
    };
    let balancers = usize::from(text(&spec["type"]) == "LoadBalancer");
    let [services, of_node_ports, of_balancers] = OF_SERVICES.map(Cow::Borrowed);
    usage.always.extend([
        (services, one()),
        (of_node_ports, many(node_ports)),
        (of_balancers, many(balancers)),
    ]);
}

fn claim(object: &Value, usage: &mut Usage) {
    let [claims, storage] = OF_CLAIMS;
    let class = match meta::annotation(object, BETA_STORAGE_CLASS) {
        Some(class) => class,
        None => text(&object["spec"]["storageClassName"]),
    };
    let mut add = |resource: &'static str, amount: Quantity| {
        usage.always.push((Cow::Borrowed(resource), amount));
        if !class.is_empty() {
            usage.always.push((Cow::Owned(format!("{class}{STORAGE_CLASS}{resource}")), amount));
        }
    };
    add(claims, one());
    let requested = super::quantity(&object["spec"]["resources"]["requests"]["storage"]);
    let allocated = super::quantity(&object["status"]["allocatedResources"]["storage"]);
    if let Some(requested) = requested {
        // Storage is bounded in whole bytes.
        let bytes = allocated.map_or(requested, |allocated| allocated.max(requested)).in_units();
        add(storage, bytes);
    }
    usage.traits = Traits { volume_classes: volume_classes(object), ..Traits::default() };
}

/// The VolumeAttributesClasses that a claim has, asks for, or is on its way to.
fn volume_classes(claim: &Value) -> Vec<String> {
    let status = &claim["status"];
    let named = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    named.into_iter().map(text).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
