//! [`Pool`]: the devices of one driver on one node, cut into slices as the API limits them.

use super::health::{DeviceFault, afflict};
use super::profile::inventory;
use super::spec::DeviceSpec;
use crate::limits::{SLICE_DEVICES, SLICE_PLAIN_DEVICES};
use k8s_openapi::api::resource::v1::{CounterSet, Device};

/// The devices of a driver on a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    pub(crate) driver: &'static str,
    /// The contents of the slices, in order: counters first, as drivers publish them. Empty if the driver is away.
    pub(crate) slices: Vec<SliceContent>,
}

/// The devices, or the counters, of a slice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SliceContent {
    Counters(Vec<CounterSet>),
    Devices(Vec<Device>),
}

/// The pools of a node with these devices and faults. Drivers in `away` publish nothing.
pub(crate) fn pools(specs: &[DeviceSpec], node: &str, faults: &[DeviceFault], away: &[String]) -> Vec<Pool> {
    let published = specs.iter().filter(|spec| spec.has_slices());
    published.map(|spec| pool(spec, node, faults, away)).collect()
}

fn pool(spec: &DeviceSpec, node: &str, faults: &[DeviceFault], away: &[String]) -> Pool {
    let driver = spec.profile.driver();
    if away.iter().any(|name| name.is_empty() || name == driver) {
        return Pool { driver, slices: Vec::new() };
    }
    let mut found = inventory(spec, node);
    afflict(&mut found.devices, spec.profile, node, faults);
    let is_plain = |device: &Device| device.taints.is_none() && device.consumes_counters.is_none();
    let most = if found.devices.iter().all(is_plain) { SLICE_PLAIN_DEVICES } else { SLICE_DEVICES };
    let counters = Some(found.counters).filter(|all| !all.is_empty()).map(SliceContent::Counters);
    let devices = found.devices.chunks(most).map(|some| SliceContent::Devices(some.to_vec()));
    Pool { driver, slices: counters.into_iter().chain(devices).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::health::DeviceProblem;
    use super::super::spec::{DeviceDoc, DeviceSpec};
    use super::*;
    use kstore_api::lenient;
    use serde_json::{Value, json};

    fn specs(docs: Value) -> Vec<DeviceSpec> {
        let docs: Vec<DeviceDoc> = lenient::from_value(&docs).unwrap();
        DeviceSpec::check_all(&docs).unwrap()
    }

    /// The devices of the only pool, as JSON.
    fn devices(docs: Value, faults: &[DeviceFault]) -> Vec<Vec<Value>> {
        let pools = pools(&specs(docs), "n-0", faults, &[]);
        let slices = pools[0].slices.iter().map(|slice| match slice {
            SliceContent::Devices(all) => all.iter().map(|one| serde_json::to_value(one).unwrap()).collect(),
            SliceContent::Counters(all) => all.iter().map(|one| serde_json::to_value(one).unwrap()).collect(),
        });
        slices.collect()
    }

    #[test]
    fn each_profile_publishes_devices_with_the_names_and_attributes_of_its_driver() {
        for (docs, name, attribute, value) in [
            (json!([{"profile": "example"}]), "gpu-0", "model", json!({"string": "LATEST-GPU-MODEL"})),
            (
                json!([{"profile": "nvidia", "model": "T4"}]),
                "gpu-0",
                "productName",
                json!({"string": "Tesla T4"}),
            ),
            (json!([{"profile": "tpu", "count": 4}]), "accel0", "topology", json!({"string": "2x2"})),
            (json!([{"profile": "cpu", "count": 64}]), "cpudev000", "numaNodeID", json!({"int": 0})),
        ] {
            let found = devices(docs, &[]);
            assert_eq!(found[0][0]["name"], name);
            assert_eq!(found[0][0]["attributes"][attribute], value, "{name}");
        }
        let two = devices(json!([{"profile": "nvidia", "count": 2}]), &[]);
        assert_ne!(two[0][0]["attributes"]["uuid"], two[0][1]["attributes"]["uuid"]);
        assert_eq!(two[0][0]["capacity"]["memory"]["value"], "81559Mi");
    }

    #[test]
    fn divided_devices_have_counters_in_a_slice_of_their_own() {
        let found =
            devices(json!([{"profile": "nvidia", "model": "A100-40GB", "count": 8, "mig": "dynamic"}]), &[]);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [8, 64, 64, 24], "8 times 19 devices");
        assert_eq!(found[0][0]["counters"]["multiprocessors"]["value"], "98");
        assert_eq!(found[1][1]["name"], "gpu-0-mig-1g5gb-19-0");
        assert_eq!(found[1][1]["consumesCounters"][0]["counters"]["memory-slice-0"]["value"], "1");
        assert_eq!(found[1][1]["capacity"]["memory"]["value"], "5Gi");
        let parts = devices(json!([{"profile": "example", "partitions": 4}]), &[]);
        assert_eq!(parts[1][4]["name"], "gpu-0-partition-3");
        assert_eq!(parts[1][4]["consumesCounters"][0]["counters"]["memory"]["value"], "20Gi");
    }

    #[test]
    fn a_fault_taints_its_device_or_removes_it_as_the_driver_does() {
        let fault = |device: &str, problem| DeviceFault { device: Some(device.to_owned()), problem };
        let xid =
            devices(json!([{"profile": "nvidia", "count": 2}]), &[fault("gpu-1", DeviceProblem::Xid(79))]);
        assert!(xid[0][0]["taints"].is_null());
        assert_eq!(
            xid[0][1]["taints"],
            json!([{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}])
        );
        let mild = devices(json!([{"profile": "nvidia"}]), &[fault("gpu-0", DeviceProblem::Xid(13))]);
        assert_eq!(mild[0][0]["taints"][0]["effect"], "None");
        let tpus =
            devices(json!([{"profile": "tpu", "count": 4}]), &[fault("accel2", DeviceProblem::Unhealthy)]);
        let names: Vec<_> = tpus[0].iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["accel0", "accel1", "accel3"]);
        // Without a name one device is drawn, always the same.
        let drawn = DeviceFault { device: None, problem: DeviceProblem::Lost };
        let lost = devices(json!([{"profile": "nvidia", "count": 8}]), &[drawn]);
        assert_eq!(lost[0].iter().filter(|one| !one["taints"].is_null()).count(), 1);
    }

    #[test]
    fn a_driver_that_is_away_publishes_nothing() {
        let specs = specs(
            json!([{"profile": "tpu"}, {"profile": "cpu", "count": 130}, {"profile": "nvidia", "publish": "plugin"}]),
        );
        let sizes = |away: &[String]| -> Vec<(&str, usize)> {
            pools(&specs, "n", &[], away).iter().map(|pool| (pool.driver, pool.slices.len())).collect()
        };
        assert_eq!(sizes(&[]), [("tpu.google.com", 1), ("dra.cpu", 2)]);
        assert_eq!(sizes(&["dra.cpu".to_owned()]), [("tpu.google.com", 1), ("dra.cpu", 0)]);
        assert_eq!(sizes(&[String::new()]), [("tpu.google.com", 0), ("dra.cpu", 0)]);
    }
}
