//! The shape of a group's node, from the template of the group. Pure.

use super::names::{Placeholders, fill};
use super::spec::{GroupDoc, ImageDoc};
use super::{CAPACITY_TYPE_LABEL, GROUP_LABEL, INDEX_ANNOTATION};
use crate::config::Config;
use crate::device::spec::DeviceSpec;
use crate::image::{full_name, size};
use crate::shape::{NodeShape, declared_by};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::quantity::Quantity as Amount;
use std::collections::BTreeMap;

/// Capacity of nodes whose template does not name the resource.
const CAPACITY: [(&str, &str); 4] =
    [("cpu", "8"), ("memory", "32Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];

/// The zone of the node with this number.
pub(crate) fn zone(doc: &GroupDoc, index: u32) -> &str {
    match doc.zones.len() {
        0 => "",
        count => &doc.zones[index as usize % count],
    }
}

/// The shape of a node. `name` is that of the node.
pub(crate) fn shape(config: &Config, doc: &GroupDoc, of: &Placeholders<'_>, name: &str) -> NodeShape {
    let template = &doc.template;
    let filled = |map: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        map.iter().map(|(key, value)| (key.clone(), fill(value, of))).collect()
    };
    let base = NodeShape::of(config);
    let mut labels: BTreeMap<_, _> = base.labels.into_iter().chain(filled(&template.labels)).collect();
    let capacity_type = if doc.capacity_type.is_empty() { "on-demand" } else { &doc.capacity_type };
    let known = [
        ("topology.kubernetes.io/zone", of.zone),
        ("topology.kubernetes.io/region", &doc.region),
        ("node.kubernetes.io/instance-type", &doc.instance_type),
        (CAPACITY_TYPE_LABEL, capacity_type),
        (GROUP_LABEL, of.group),
    ];
    let known = known.into_iter().filter(|(_, value)| !value.is_empty());
    labels.extend(known.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let mut annotations = filled(&template.annotations);
    annotations.insert(INDEX_ANNOTATION.to_owned(), of.index.to_string());
    let defaults = CAPACITY.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    let mut capacity: BTreeMap<_, _> = defaults.into_iter().chain(template.capacity.clone()).collect();
    let mut plugin_resources = Vec::new();
    for spec in DeviceSpec::check_all(&template.devices).iter().flatten() {
        if let Some(resource) = spec.plugin_resource() {
            capacity.insert(resource.to_owned(), Quantity(spec.count.to_string()));
            plugin_resources.push(resource.to_owned());
        }
    }
    let mut allocatable = capacity.clone();
    for (name, reserved) in &template.reserved {
        if let Some(amount) = allocatable.get_mut(name) {
            *amount = less(amount, reserved);
        }
    }
    allocatable.extend(template.allocatable.clone());
    let info = &template.node_info;
    let or = |given: &str, usual: String| if given.is_empty() { usual } else { given.to_owned() };
    let provider = or(&template.provider_id, "kstore://{group}/{name}".to_owned());
    let declared_features = match info.kubelet_version.as_str() {
        "" => base.declared_features,
        version => declared_by(version),
    };
    let shape = NodeShape {
        labels,
        annotations,
        taints: template.taints.clone(),
        startup_taints: template.startup_taints.clone(),
        images: images(&template.images),
        lease: template.kubelet.lease().unwrap_or_default(),
        is_unschedulable: template.unschedulable,
        capacity,
        allocatable,
        architecture: or(&info.architecture, base.architecture),
        os_image: or(&info.os_image, base.os_image),
        kernel_version: or(&info.kernel_version, base.kernel_version),
        kubelet_version: or(&info.kubelet_version, base.kubelet_version),
        runtime_version: or(&info.container_runtime_version, base.runtime_version),
        declared_features,
        plugin_resources,
        provider_id: Some(fill(&provider.replace("{name}", name), of)),
    };
    shape.for_cluster(config)
}

/// Full names and sizes of images; one without a size has that of other images of its name.
fn images(docs: &[ImageDoc]) -> Vec<(String, u64)> {
    let each = |doc: &ImageDoc| -> Vec<(String, u64)> {
        let named = |name: &String| (full_name(name), doc.size_bytes.unwrap_or_else(|| size(name)));
        doc.names.iter().map(named).collect()
    };
    docs.iter().flat_map(each).collect()
}

/// An amount without what is reserved of it, at least zero. What is no amount, which the schema refuses, stays.
fn less(amount: &Quantity, reserved: &Quantity) -> Quantity {
    let (Ok(all), Ok(less)) = (Amount::parse(&amount.0), Amount::parse(&reserved.0)) else {
        return amount.clone();
    };
    let rest = all.sub(less);
    Quantity(if rest.is_negative() { "0".to_owned() } else { rest.to_string() })
}
