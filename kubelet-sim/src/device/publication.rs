//! What is written to bring the slices of a node in the API to what its drivers publish: plan only.

use super::pool::{Pool, SliceContent};
use k8s_openapi::api::resource::v1::{Device, ResourcePool, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// A write of a slice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SliceWrite {
    /// A slice that is not there.
    Create(Box<ResourceSlice>),
    /// A slice that is there, with its revision.
    Replace(Box<ResourceSlice>),
    /// A slice that is no longer published.
    Delete(String),
}

/// The writes that publish `pools` of a node with this uid; `existing` are the slices of the node. A pool that differs is written whole,
/// with the next generation: the scheduler uses a pool only if all of its slices have the newest one. Slices of other drivers stay.
pub(crate) fn plan(node: &str, uid: &str, pools: &[Pool], existing: &[ResourceSlice]) -> Vec<SliceWrite> {
    let mut writes = Vec::new();
    for pool in pools {
        let of_pool =
            |slice: &&ResourceSlice| slice.spec.driver == pool.driver && slice.spec.pool.name == node;
        let found: Vec<&ResourceSlice> = existing.iter().filter(of_pool).collect();
        let newest = found.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
        let at = |generation| -> Vec<ResourceSlice> {
            (0..)
                .zip(&pool.slices)
                .map(|(index, content)| slice((node, uid), pool, (index, content), generation))
                .collect()
        };
        let is_same = found.len() == pool.slices.len()
            && at(newest).iter().all(|wanted| found.iter().any(|one| is_shown(wanted, one)));
        if is_same {
            continue;
        }
        let wanted = at(newest + 1);
        let name_of = |slice: &ResourceSlice| slice.metadata.name.clone().unwrap_or_default();
        let surplus = found
            .iter()
            .map(|one| name_of(one))
            .filter(|name| !wanted.iter().any(|slice| name_of(slice) == *name));
        writes.extend(surplus.map(SliceWrite::Delete));
        for mut slice in wanted {
            match found.iter().find(|one| one.metadata.name == slice.metadata.name) {
                Some(known) => {
                    slice.metadata.resource_version.clone_from(&known.metadata.resource_version);
                    writes.push(SliceWrite::Replace(Box::new(slice)));
                }
                None => writes.push(SliceWrite::Create(Box::new(slice))),
            }
        }
    }
    writes
}

/// A slice of a pool, by its number and its content.
fn slice(
    (node, uid): (&str, &str),
    pool: &Pool,
    (index, content): (usize, &SliceContent),
    generation: i64,
) -> ResourceSlice {
    let (devices, shared_counters) = match content {
        SliceContent::Devices(devices) => (Some(devices.clone()), None),
        SliceContent::Counters(counters) => (None, Some(counters.clone())),
    };
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    ResourceSlice {
        metadata: ObjectMeta {
            name: Some(format!("{node}-{}-{index}", pool.driver)),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: ResourceSliceSpec {
            driver: pool.driver.to_owned(),
            node_name: Some(node.to_owned()),
            pool: ResourcePool {
                generation,
                name: node.to_owned(),
                resource_slice_count: i64::try_from(pool.slices.len()).unwrap_or(i64::MAX),
            },
            devices,
            shared_counters,
            ..ResourceSliceSpec::default()
        },
    }
}

/// Whether a stored slice is the wanted one. The API server adds the times of taints.
fn is_shown(wanted: &ResourceSlice, stored: &ResourceSlice) -> bool {
    let devices = |slice: &ResourceSlice| -> Option<Vec<Device>> {
        let mut devices = slice.spec.devices.clone()?;
        for taint in devices.iter_mut().flat_map(|device| device.taints.iter_mut().flatten()) {
            taint.time_added = None;
        }
        Some(devices)
    };
    wanted.metadata.name == stored.metadata.name
        && wanted.spec.pool == stored.spec.pool
        && wanted.spec.shared_counters == stored.spec.shared_counters
        && devices(wanted) == devices(stored)
}

#[cfg(test)]
mod tests {
    use super::super::health::{DeviceFault, DeviceProblem};
    use super::super::pool::pools;
    use super::super::spec::{DeviceDoc, DeviceSpec};
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kstore_api::lenient;
    use serde_json::json;

    /// Carries out writes as an API server does, which adds the times of taints.
    fn apply(writes: &[SliceWrite], stored: &mut Vec<ResourceSlice>) {
        for write in writes {
            match write {
                SliceWrite::Create(slice) => stored.push((**slice).clone()),
                SliceWrite::Replace(slice) => {
                    let known =
                        stored.iter_mut().find(|one| one.metadata.name == slice.metadata.name).unwrap();
                    *known = (**slice).clone();
                }
                SliceWrite::Delete(name) => stored.retain(|one| one.metadata.name.as_deref() != Some(name)),
            }
        }
        for device in stored.iter_mut().flat_map(|slice| slice.spec.devices.iter_mut().flatten()) {
            for taint in device.taints.iter_mut().flatten() {
                taint.time_added.get_or_insert(Time(jiff::Timestamp::UNIX_EPOCH));
            }
        }
    }

    #[test]
    fn a_pool_is_written_once_and_whole_with_the_next_generation_when_it_changes() {
        let docs: Vec<DeviceDoc> = lenient::from_value(&json!([{"profile": "cpu", "count": 70}])).unwrap();
        let specs = DeviceSpec::check_all(&docs).unwrap();
        let of = |faults: &[DeviceFault], away: &[String]| pools(&specs, "n", faults, away);
        let shape = |stored: &[ResourceSlice]| -> Vec<(i64, i64, usize)> {
            let of = |slice: &ResourceSlice| {
                let pool = &slice.spec.pool;
                (pool.generation, pool.resource_slice_count, slice.spec.devices.as_ref().unwrap().len())
            };
            stored.iter().map(of).collect()
        };
        let mut stored = Vec::new();
        apply(&plan("n", "u", &of(&[], &[]), &stored), &mut stored);
        assert_eq!(shape(&stored), [(1, 1, 70)]);
        assert_eq!(stored[0].metadata.owner_references.as_ref().unwrap()[0].uid, "u");
        assert_eq!(plan("n", "u", &of(&[], &[]), &stored), [], "another process finds nothing to do");
        // With a taint a slice has fewer devices: there are two slices, both of the new generation.
        let sick = [DeviceFault { device: Some("cpudev003".to_owned()), problem: DeviceProblem::Unhealthy }];
        apply(&plan("n", "u", &of(&sick, &[]), &stored), &mut stored);
        assert_eq!(shape(&stored), [(2, 2, 64), (2, 2, 6)]);
        assert_eq!(plan("n", "u", &of(&sick, &[]), &stored), []);
        apply(&plan("n", "u", &of(&[], &[]), &stored), &mut stored);
        assert_eq!(shape(&stored), [(3, 1, 70)]);
        let mut foreign = stored[0].clone();
        (foreign.metadata.name, foreign.spec.driver) = (Some("other".to_owned()), "other.example".to_owned());
        stored.push(foreign);
        apply(&plan("n", "u", &of(&[], &["dra.cpu".to_owned()]), &stored), &mut stored);
        assert_eq!(stored.len(), 1, "the driver is away: only a slice of another driver stays");
    }
}
