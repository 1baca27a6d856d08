//! [`Evaluator`]: quota rules of one kind: its resources, the writes that are charged, and the use of an
//! object.

use super::devices::{ClaimDevices, DEVICES_OF_CLASS};
use super::pod;
use super::usage::{Traits, Usage};
use crate::meta;
use crate::object::{int, list, text};
use crate::quantity::{Format, Quantity};
use crate::validate::is_extended_of_quotas;
use crate::version::Minor;
use jiff::Timestamp;
use serde_json::Value;
use std::borrow::Cow;

const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const OF_SERVICES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
/// Kinds of the core group whose objects quotas can also count under the plain plural.
const PLAIN_NAMES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Name of the object count resource of a kind, e.g. `count/deployments.apps`.
pub fn count_of(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

/// Group and plural of the kinds that use a bounded resource, in a version of Kubernetes. The kinds need not be served.
pub fn kinds_of(minor: Minor, resource: &str) -> Vec<(&str, &str)> {
    if let Some(counted) = resource.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return vec![(group, plural)];
    }
    let plain = ["pods", "services", "persistentvolumeclaims"].into_iter().chain(PLAIN_NAMES);
    let kinds = plain.map(|plural| ("", plural)).chain([("resource.k8s.io", "resourceclaims")]);
    kinds.filter(|(group, plural)| Evaluator::of(group, plural).in_version(minor).covers(resource)).collect()
}

/// Quota rules for the objects of one kind.
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
    /// Claims to devices, which are charged also under the names of resources, or not.
    Devices {
        by_resource: bool,
    },
    /// Objects that are only counted, optionally also under a plain name.
    Counted(Option<&'static str>),
}

impl Evaluator {
    /// The evaluator of a built-in or custom kind.
    pub fn of(group: &str, plural: &str) -> Self {
        let plain = || PLAIN_NAMES.into_iter().find(|name| group.is_empty() && *name == plural);
        let rules = match (group, plural) {
            ("", "pods") => Rules::Pods,
            ("", "services") => Rules::Services,
            ("", "persistentvolumeclaims") => Rules::Claims,
            ("resource.k8s.io", "resourceclaims") => Rules::Devices { by_resource: false },
            _ => Rules::Counted(plain()),
        };
        Self { count: count_of(group, plural), rules }
    }

    /// The rules of a version of Kubernetes: since 1.36 devices are charged also under the names of resources (`DRAExtendedResource`).
    #[must_use]
    pub fn in_version(self, minor: Minor) -> Self {
        match self.rules {
            Rules::Devices { .. } => {
                Self { rules: Rules::Devices { by_resource: minor >= Minor::V36 }, ..self }
            }
            _ => self,
        }
    }

    /// Whether the objects are claims whose devices are charged under the names of resources, too.
    pub fn charges_resources(&self) -> bool {
        self.rules == Rules::Devices { by_resource: true }
    }

    /// Name of the object count resource.
    pub fn count(&self) -> &str {
        &self.count
    }

    /// Whether objects of the kind use nothing but object counts.
    pub fn only_counts(&self) -> bool {
        matches!(self.rules, Rules::Counted(_))
    }

    /// Whether a create through this subresource (empty: the object itself) is charged.
    pub fn charges_create(&self, subresource: &str) -> bool {
        subresource.is_empty()
    }

    /// Whether an update through this subresource (empty: the object itself) is charged. Follows `Handles` of
    /// upstream's evaluators: updates of pods that change neither resources nor the scopes Terminating and
    /// NotTerminating are left to the recount.
    pub fn charges_update(&self, subresource: &str, old: &Value, new: &Value) -> bool {
        self.charges_every_update(subresource)
            || self.rules == Rules::Pods
                && subresource.is_empty()
                && pod::is_terminating(&old["spec"]) != pod::is_terminating(&new["spec"])
    }

    /// Whether each update through this subresource is charged, whatever it changes.
    pub fn charges_every_update(&self, subresource: &str) -> bool {
        match self.rules {
            Rules::Pods => subresource == "resize",
            Rules::Services | Rules::Devices { .. } => subresource.is_empty(),
            Rules::Claims => matches!(subresource, "" | "status"),
            Rules::Counted(_) => false,
        }
    }

    /// Whether objects of the kind can use the resource.
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
            Rules::Devices { by_resource } => {
                resource.ends_with(DEVICES_OF_CLASS) || by_resource && is_extended_of_quotas(resource)
            }
            Rules::Counted(plain) => plain == Some(resource),
        }
    }

    /// Resources used by an object.
    pub fn usage(&self, object: &Value) -> Usage {
        let mut usage = Usage::default();
        usage.always.push((Cow::Owned(self.count.clone()), one()));
        match self.rules {
            Rules::Pods => pod(object, &mut usage),
            Rules::Services => service(&object["spec"], &mut usage),
            Rules::Claims => claim(object, &mut usage),
            Rules::Devices { .. } => {
                let devices = ClaimDevices::of(object);
                usage.always.extend(devices.by_class());
                usage.devices = Some(Box::new(devices));
            }
            Rules::Counted(plain) => usage.always.extend(plain.map(|plain| (Cow::Borrowed(plain), one()))),
        }
        usage
    }

    /// Bounded resources that the object must state and does not, as text of a refusal: `limits.cpu for:
    /// a,b`.
    pub(super) fn unstated<'r>(
        &self,
        bounded: impl Iterator<Item = &'r str>,
        object: &Value,
    ) -> Option<String> {
        if self.rules == Rules::Pods { pod::unstated(bounded, &object["spec"]) } else { None }
    }

    /// Whether quota scopes can match objects of the kind.
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

/// Time when a pod that is being deleted stops using compute resources: the end of its grace period, as in
/// Kubernetes. A lost node thus cannot block the namespace from starting other pods.
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
        // Storage is counted in whole bytes, rounded up.
        let bytes = allocated.map_or(requested, |allocated| allocated.max(requested)).in_units();
        add(storage, bytes);
    }
    usage.traits = Traits { volume_classes: volume_classes(object), ..Traits::default() };
}

/// VolumeAttributesClasses of a claim: requested, current, and target of a running modification.
fn volume_classes(claim: &Value) -> Vec<String> {
    let status = &claim["status"];
    let named = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    named.into_iter().map(text).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
