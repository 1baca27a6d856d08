//! The devices that each driver publishes for a node, with names, attributes and capacities as the driver has them.

use super::model::{GpuModel, TpuModel};
use super::spec::{DeviceSpec, Profile};
use crate::image::hash;
use k8s_openapi::api::resource::v1::{
    Counter, CounterSet, Device, DeviceAttribute, DeviceCapacity, DeviceCounterConsumption,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The versions of the NVIDIA driver and of CUDA that GPUs report.
const NVIDIA_VERSIONS: (&str, &str) = ("580.95.5", "13.0.0");
/// Processors of a socket and NUMA node.
const SOCKET: u32 = 32;
/// Memory and compute units of a device of the example driver.
const EXAMPLE: (u64, u64) = (80 << 10, 100);

/// Devices, and the counters from which they take.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Inventory {
    pub(super) devices: Vec<Device>,
    pub(super) counters: Vec<CounterSet>,
}

/// What the driver of `spec` finds on a node.
pub(super) fn inventory(spec: &DeviceSpec, node: &str) -> Inventory {
    let mut found = Inventory::default();
    for index in 0..spec.count {
        match spec.profile {
            Profile::Example { partitions } => example(&mut found, node, index, partitions),
            Profile::Nvidia { model, is_divided } => gpu(&mut found, node, index, (model, is_divided)),
            Profile::Tpu { model } => found.devices.push(tpu(node, index, spec.count, model)),
            Profile::Cpu => found.devices.push(cpu(index)),
        }
    }
    found
}

/// A device by its name, attributes and capacities.
fn device(name: String, attributes: &[(&str, DeviceAttribute)], capacity: &[(&str, Quantity)]) -> Device {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let capacity = capacity.iter().map(|(name, value)| {
        ((*name).to_owned(), DeviceCapacity { request_policy: None, value: value.clone() })
    });
    Device {
        name,
        attributes: Some(attributes.collect()),
        capacity: Some(capacity.collect::<BTreeMap<_, _>>()).filter(|all| !all.is_empty()),
        ..Device::default()
    }
}

fn string(value: impl Into<String>) -> DeviceAttribute {
    DeviceAttribute { string: Some(value.into()), ..DeviceAttribute::default() }
}

fn number(value: u32) -> DeviceAttribute {
    DeviceAttribute { int: Some(i64::from(value)), ..DeviceAttribute::default() }
}

fn version(value: &str) -> DeviceAttribute {
    DeviceAttribute { version: Some(value.to_owned()), ..DeviceAttribute::default() }
}

fn amount(value: u64) -> Quantity {
    Quantity(value.to_string())
}

/// An amount of memory in MiB, in the notation in which the API server keeps it.
fn mebibytes(value: u64) -> Quantity {
    match (value % 1024, value / 1024) {
        (0, gibibytes) if gibibytes > 0 => Quantity(format!("{gibibytes}Gi")),
        _ => Quantity(format!("{value}Mi")),
    }
}

/// A UUID of a device, made from the node and the device's place.
fn uuid(prefix: &str, node: &str, place: &str) -> String {
    let [a, b] = [0, 1].map(|lane| hash(lane, &[prefix, node, place]));
    format!(
        "{prefix}{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xFFFF,
        a & 0xFFFF,
        b >> 48,
        b & 0xFFFF_FFFF_FFFF
    )
}

/// What a device takes of a counter set.
fn consumes(set: &str, counters: BTreeMap<String, Quantity>) -> Option<Vec<DeviceCounterConsumption>> {
    let counters = counters.into_iter().map(|(name, value)| (name, Counter { value })).collect();
    Some(vec![DeviceCounterConsumption { counter_set: set.to_owned(), counters }])
}

fn counter_set(name: String, counters: BTreeMap<String, Quantity>) -> CounterSet {
    CounterSet {
        name,
        counters: counters.into_iter().map(|(name, value)| (name, Counter { value })).collect(),
    }
}

/// A GPU of the example driver, and its partitions if it has any: then the whole one is `gpu-N-full`.
fn example(found: &mut Inventory, node: &str, index: u32, partitions: u32) {
    let (memory, compute) = EXAMPLE;
    let of = |name: String, share: u64| {
        let attributes = [
            ("index", number(index)),
            ("uuid", string(uuid("gpu-", node, &name))),
            ("model", string("LATEST-GPU-MODEL")),
            ("driverVersion", version("1.0.0")),
        ];
        device(
            name,
            &attributes,
            &[("memory", mebibytes(memory / share)), ("compute", amount(compute / share))],
        )
    };
    let Some(share) = Some(u64::from(partitions)).filter(|share| *share > 0) else {
        return found.devices.push(of(format!("gpu-{index}"), 1));
    };
    let set = format!("gpu-{index}-counters");
    let counters = |share: u64| {
        let all = [("memory", mebibytes(memory / share)), ("compute", amount(compute / share))];
        all.map(|(name, value)| (name.to_owned(), value)).into()
    };
    let mut add = |name: String, share: u64| {
        let consumes_counters = consumes(&set, counters(share));
        found.devices.push(Device { consumes_counters, ..of(name, share) });
    };
    add(format!("gpu-{index}-full"), 1);
    (0..partitions).for_each(|part| add(format!("gpu-{index}-partition-{part}"), share));
    found.counters.push(counter_set(set, counters(1)));
}

/// A GPU of NVIDIA, and if it is divided the MIG devices that it can be divided into.
fn gpu(found: &mut Inventory, node: &str, index: u32, (model, is_divided): (&'static GpuModel, bool)) {
    let own = uuid("GPU-", node, &index.to_string());
    let bus = format!("0000:{:02x}:00.0", 0x10 + index);
    let common = |kind: &str, uuid: String| {
        vec![
            ("type", string(kind)),
            ("uuid", string(uuid)),
            ("productName", string(model.product)),
            ("brand", string("Nvidia")),
            ("architecture", string(model.architecture)),
            ("cudaComputeCapability", version(model.capability)),
            ("driverVersion", version(NVIDIA_VERSIONS.0)),
            ("cudaDriverVersion", version(NVIDIA_VERSIONS.1)),
            ("resource.kubernetes.io/pciBusID", string(&*bus)),
            ("resource.kubernetes.io/pcieRoot", string(format!("pci0000:{:02x}", 0x10 + index / 4 * 4))),
        ]
    };
    let whole =
        device(format!("gpu-{index}"), &common("gpu", own.clone()), &[("memory", mebibytes(model.memory))]);
    let Some((family, gigabytes)) = model.mig.filter(|_| is_divided) else {
        return found.devices.push(whole);
    };
    let set = format!("gpu-{index}-counter-set");
    let amounts =
        |all: BTreeMap<String, u64>| all.into_iter().map(|(name, value)| (name, amount(value))).collect();
    let all: BTreeMap<String, Quantity> = amounts(family.counters());
    found.devices.push(Device { consumes_counters: consumes(&set, all.clone()), ..whole });
    for part in family.devices(&gigabytes, model.memory) {
        let (id, start) = part.place;
        let name = format!("gpu-{index}-mig-{}-{id}-{start}", part.profile.replace('.', ""));
        let mut attributes = common("mig", uuid("MIG-", node, &name));
        attributes.extend([("parentUUID", string(&*own)), ("profile", string(part.profile))]);
        let mut capacity: Vec<_> =
            part.capacity.into_iter().map(|(name, value)| (name, amount(value))).collect();
        capacity.push(("memory", mebibytes(part.memory)));
        let consumes_counters = consumes(&set, amounts(part.counters));
        found.devices.push(Device { consumes_counters, ..device(name, &attributes, &capacity) });
    }
    found.counters.push(counter_set(set, all));
}

fn tpu(node: &str, index: u32, count: u32, model: &'static TpuModel) -> Device {
    let topology = match count {
        0..=1 => "1x1",
        2..=4 => "2x2",
        _ => "2x4",
    };
    let attributes = [
        ("index", number(index)),
        ("uuid", string(uuid("tpu-", node, &index.to_string()))),
        ("tpuGen", string(model.name)),
        ("brand", string("Google")),
        ("accelerator", string(model.accelerator)),
        ("chipCount", number(count)),
        ("topology", string(topology)),
    ];
    device(format!("accel{index}"), &attributes, &[])
}

fn cpu(index: u32) -> Device {
    let socket = index / SOCKET;
    let attributes = [
        ("cpuID", number(index)),
        ("coreID", number(index)),
        ("coreType", string("standard")),
        ("socketID", number(socket)),
        ("numaNodeID", number(socket)),
        ("resource.kubernetes.io/numaNode", number(socket)),
        ("smtEnabled", DeviceAttribute { bool: Some(false), ..DeviceAttribute::default() }),
    ];
    device(format!("cpudev{index:03}"), &attributes, &[])
}
