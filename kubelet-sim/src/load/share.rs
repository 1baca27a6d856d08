//! How the requests of a load are shared by the pods of its Service. Pure.

use super::record::LoadRecord;
use crate::usage::PodLoad;
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_informer::Object as _;
use std::collections::{BTreeMap, BTreeSet};

/// The uids of the pods that take requests of a Service with these EndpointSlices: those that serve and do not end.
pub(crate) fn serving(slices: &[EndpointSlice]) -> BTreeSet<String> {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let serving = endpoints.filter(|endpoint| {
        let is = |state: fn(&k8s_openapi::api::discovery::v1::EndpointConditions) -> Option<bool>| {
            endpoint.conditions.as_ref().and_then(state)
        };
        is(|conditions| conditions.serving.or(conditions.ready)).unwrap_or(true)
            && !is(|conditions| conditions.terminating).unwrap_or(false)
    });
    serving.filter_map(|endpoint| endpoint.target_ref.as_ref()?.uid.clone()).collect()
}

/// Adds to `loads` what each pod in `serving` uses because of a load at `now`. Requests without a pod are lost.
pub(crate) fn add(
    loads: &mut BTreeMap<String, PodLoad>,
    record: &LoadRecord,
    serving: &BTreeSet<String>,
    now: Timestamp,
) {
    let Ok(spec) = &record.spec else { return };
    if serving.is_empty() {
        return;
    }
    let share = spec.requests(record.created, now, record.uid()) / serving.len() as f64;
    let (cpu, memory) = spec.per_request;
    for pod in serving {
        let load = loads.entry(pod.clone()).or_default();
        load.nano_cores = load.nano_cores.saturating_add((share * cpu).round() as u64);
        load.memory = load.memory.saturating_add((share * memory).round() as u64);
        load.idle_cpu = load.idle_cpu.max(spec.idle.0);
        load.idle_memory = load.idle_memory.max(spec.idle.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn slices(endpoints: Value) -> Vec<EndpointSlice> {
        vec![
            serde_json::from_value(json!({"metadata": {}, "addressType": "IPv4", "endpoints": endpoints}))
                .unwrap(),
        ]
    }

    #[test]
    fn pods_that_serve_and_do_not_end_share_the_requests() {
        let endpoint = |uid: &str, conditions: Value| json!({"addresses": ["10.0.0.1"], "conditions": conditions, "targetRef": {"kind": "Pod", "uid": uid}});
        let serving = serving(&slices(json!([
            endpoint("a", json!({"ready": true, "serving": true})),
            endpoint("b", json!({"ready": true})),
            endpoint("c", json!({"serving": true, "terminating": true})),
            endpoint("d", json!({"ready": false, "serving": false})),
        ])));
        assert_eq!(serving.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        let record = |spec: Value| {
            let object = json!({"metadata": {"name": "l", "namespace": "n", "uid": "u", "creationTimestamp": "1970-01-01T00:00:00Z"}, "spec": spec});
            LoadRecord::decode(object.to_string().as_bytes()).unwrap()
        };
        let spec = json!({"service": "web", "curve": {"constant": 500}, "perRequest": {"cpu": "2m", "memory": "100Ki"}, "idle": {"cpu": "10m"}});
        let (mut loads, now) = (BTreeMap::new(), Timestamp::UNIX_EPOCH);
        add(&mut loads, &record(spec.clone()), &serving, now);
        add(&mut loads, &record(spec), &serving, now);
        let each = &loads["a"];
        assert_eq!(
            (each.nano_cores, each.idle_cpu),
            (1_000_000_000, Some(10_000_000)),
            "two loads of 500m each"
        );
        assert_eq!((each.memory, each.idle_memory), (2 * 250 * 100 * 1024, None));
        assert_eq!(loads.len(), 2);
        let noisy = json!({"service": "web", "curve": {"constant": 100}, "noise": {"percent": 10, "every": "60s"}, "perRequest": {"cpu": 1}});
        let noisy = record(noisy);
        let spec = noisy.spec.as_ref().unwrap();
        let at = |second| spec.requests(now, Timestamp::from_second(second).unwrap(), "u");
        assert_eq!(at(0), at(59), "noise is a step");
        assert!((0..50).all(|step| (90.0..=110.0).contains(&at(step * 60))) && at(0) != at(60));
        let bad = record(json!({"service": "web", "curve": {"constant": 1}, "start": "noon"}));
        assert!(
            bad.spec
                .as_ref()
                .unwrap_err()
                .starts_with("spec.start \"noon\": must be creation, midnight or a time")
        );
    }
}
