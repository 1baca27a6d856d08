//! Tests of the search for devices: the documented rules as a table, and the comparison with the reference.

use super::allocate::{AllocationFailure, SearchTerms, allocate};
use super::outcome::allocation;
use super::*;
use crate::limits::ALLOCATION_STEPS;
use crate::node::NodeInfo;
use crate::testing::{device_claim, device_class, device_slice, gpus, node};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

const TERMS: SearchTerms = SearchTerms { steps: ALLOCATION_STEPS, allows_binding_conditions: false };

fn devices(changes: Vec<DeviceChange>) -> Devices {
    let mut devices = Devices::default();
    for change in changes {
        devices.apply(change);
    }
    devices
}

/// The names of the devices that the claims get on a node, claim by claim.
fn names(devices: &Devices, claims: &[&str], node: &NodeInfo) -> Result<Vec<Vec<String>>, AllocationFailure> {
    let claims: Vec<&Record<Claim>> =
        claims.iter().map(|name| &**devices.claim(&Key::new("ns", name)).unwrap()).collect();
    let chosen = allocate(devices, &claims, node, TERMS)?;
    let name = |device: &allocate::ChosenDevice<'_>| device.device.id.device.to_string();
    Ok(chosen.iter().map(|devices| devices.iter().map(name).collect()).collect())
}

fn gpu_class() -> DeviceChange {
    device_class("gpu", &["device.driver == 'gpu.x'"], json!({}))
}

/// A device with a model and a number.
fn gpu(name: &str, model: &str, index: i64) -> Value {
    json!({ "name": name, "attributes": { "model": { "string": model }, "index": { "int": index } } })
}

fn claim_of(spec: Value) -> DeviceChange {
    let mut devices = spec;
    let requests = devices.as_object_mut().unwrap().remove("requests").unwrap();
    device_claim("c", requests, json!({ "spec": { "devices": devices } }))
}

fn asks(more: Value) -> Value {
    let mut exactly = json!({ "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 });
    crate::testing::merge(&mut exactly, more);
    exactly
}

fn selects(text: &str) -> Value {
    json!({ "selectors": [{ "cel": { "expression": text } }] })
}

/// A name, the spec of a claim, and the names of the devices that it gets.
type AllocationCase = (&'static str, Value, Option<Vec<&'static str>>);

fn allocation_cases() -> Vec<AllocationCase> {
    let model = |name: &str| selects(&format!("device.attributes['gpu.x'].model == '{name}'"));
    let all = json!({ "allocationMode": "All", "count": null });
    let same = json!([{ "requests": ["a", "b"], "matchAttribute": "gpu.x/model" }]);
    let differ = json!([{ "distinctAttribute": "gpu.x/model" }]);
    let two = |a: Value, b: Value| json!([{ "name": "a", "exactly": a }, { "name": "b", "exactly": b }]);
    let first = |name: &str, options: Value| json!([{ "name": name, "firstAvailable": options }]);
    let option = |name: &str, more: Value| {
        let mut option = asks(more);
        option["name"] = name.into();
        option
    };
    vec![
        ("one", json!({ "requests": gpus(1) }), Some(vec!["g0"])),
        ("two", json!({ "requests": gpus(2) }), Some(vec!["g0", "g1"])),
        ("more than there are", json!({ "requests": gpus(5) }), None),
        (
            "a selector",
            json!({ "requests": [{ "name": "a", "exactly": asks(model("y")) }] }),
            Some(vec!["g1"]),
        ),
        (
            "all of a model",
            json!({ "requests": [{ "name": "a", "exactly": asks({ let mut m = model("x"); crate::testing::merge(&mut m, all.clone()); m }) }] }),
            Some(vec!["g0", "g2"]),
        ),
        (
            "all of none",
            json!({ "requests": [{ "name": "a", "exactly": asks({ let mut m = model("z"); crate::testing::merge(&mut m, all); m }) }] }),
            None,
        ),
        (
            "backtracking",
            json!({ "requests": two(asks(json!({})), asks(selects("device.attributes['gpu.x'].index == 0"))) }),
            Some(vec!["g1", "g0"]),
        ),
        (
            "equal attributes",
            json!({ "requests": two(asks(json!({})), asks(selects("device.attributes['gpu.x'].index > 0"))), "constraints": same }),
            Some(vec!["g0", "g2"]),
        ),
        (
            "different attributes",
            json!({ "requests": gpus(2), "constraints": differ }),
            Some(vec!["g0", "g1"]),
        ),
        (
            "more different attributes than there are",
            json!({ "requests": gpus(3), "constraints": differ }),
            None,
        ),
        (
            "an attribute that is missing",
            json!({ "requests": gpus(1), "constraints": [{ "matchAttribute": "gpu.x/none" }] }),
            None,
        ),
        (
            "the first alternative",
            json!({ "requests": first("a", json!([option("p", model("x")), option("q", model("y"))])) }),
            Some(vec!["g0"]),
        ),
        (
            "the next alternative",
            json!({ "requests": first("a", json!([option("p", model("z")), option("q", model("y"))])) }),
            Some(vec!["g1"]),
        ),
    ]
}

#[test]
fn claims_get_the_first_devices_that_satisfy_them() {
    let slice = json!({ "nodeName": "n1", "devices": [gpu("g0", "x", 0), gpu("g1", "y", 1), gpu("g2", "x", 2), gpu("g3", "y", 3)] });
    for (name, spec, expected) in allocation_cases() {
        let devices = devices(vec![gpu_class(), device_slice("n1", slice.clone()), claim_of(spec)]);
        let found = names(&devices, &["c"], &node("n1", json!({})));
        let expected = expected.map(|names| vec![names.into_iter().map(str::to_owned).collect::<Vec<_>>()]);
        assert_eq!(found, expected.ok_or(AllocationFailure::Impossible), "{name}");
    }
}

#[test]
fn devices_are_for_the_nodes_that_their_slice_or_they_themselves_name() {
    let labelled = |mut info: Arc<NodeInfo>| {
        Arc::make_mut(&mut info).labels.insert("rack".into(), "r1".into());
        info
    };
    let rack = json!({ "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "rack", "operator": "In", "values": ["r1"] }] }] });
    let each = json!({ "perDeviceNodeSelection": true, "devices": [
        { "name": "g0", "nodeName": "n2" }, { "name": "g1", "nodeSelector": rack }, { "name": "g2", "allNodes": true },
    ] });
    let one = |nodes: Value| {
        let mut spec = json!({ "devices": [{ "name": "g0" }] });
        crate::testing::merge(&mut spec, nodes);
        spec
    };
    let cases = [
        (one(json!({ "nodeName": "n1" })), Some("g0"), None),
        (one(json!({ "nodeSelector": rack })), None, Some("g0")),
        (one(json!({ "allNodes": true })), Some("g0"), Some("g0")),
        (each, Some("g2"), Some("g0")),
    ];
    for (spec, on_first, on_second) in cases {
        let devices = devices(vec![
            gpu_class(),
            device_slice("pool", spec.clone()),
            device_claim("c", gpus(1), json!({})),
        ]);
        for (info, expected) in
            [(node("n1", json!({})), on_first), (labelled(node("n2", json!({}))), on_second)]
        {
            let found = names(&devices, &["c"], &info).ok().map(|all| all[0][0].clone());
            assert_eq!(found.as_deref(), expected, "{spec} {}", info.name);
        }
    }
}

#[test]
fn only_complete_pools_of_the_newest_generation_have_devices() {
    let slice = |name: &str, generation: i64, count: i64, device: &str| {
        let pool = json!({ "name": "p", "generation": generation, "resourceSliceCount": count });
        device_slice(name, json!({ "pool": pool, "nodeName": "n1", "devices": [{ "name": device }] }))
    };
    let found = |slices: Vec<DeviceChange>, mode: &str| {
        let mut request = gpus(1);
        if mode == "All" {
            request[0]["exactly"] = json!({ "deviceClassName": "gpu", "allocationMode": "All" });
        }
        let mut changes = vec![gpu_class(), device_claim("c", request, json!({}))];
        changes.extend(slices);
        names(&devices(changes), &["c"], &node("n1", json!({})))
    };
    let one = |name: &str| Ok(vec![vec![name.to_owned()]]);
    assert_eq!(found(vec![slice("a", 1, 1, "g0")], "ExactCount"), one("g0"));
    assert_eq!(found(vec![slice("a", 1, 1, "g0"), slice("b", 2, 1, "g1")], "ExactCount"), one("g1"));
    let incomplete = || vec![slice("a", 1, 1, "g0"), slice("b", 2, 2, "g1")];
    assert_eq!(found(incomplete(), "ExactCount"), Err(AllocationFailure::Impossible));
    let why =
        "claim ns/c, request gpu: asks for all devices, but resource pool gpu.x/p is currently being updated";
    assert_eq!(found(incomplete(), "All"), Err(AllocationFailure::FaultyPool(why.to_owned())));
    let twice = vec![slice("a", 1, 2, "g0"), slice("b", 1, 2, "g0")];
    assert_eq!(found(twice, "ExactCount"), Err(AllocationFailure::Impossible), "a device has one name");
}

#[test]
fn devices_in_use_are_left_to_their_claims_except_for_administrators() {
    let slice = json!({ "nodeName": "n1", "devices": [{ "name": "g0" }, { "name": "g1" }] });
    let taken = json!({ "status": { "allocation": { "devices": { "results": [
        { "request": "gpu", "driver": "gpu.x", "pool": "n1", "device": "g0" },
    ] } } } });
    let admin = json!([{ "name": "a", "exactly": { "deviceClassName": "gpu", "allocationMode": "All", "adminAccess": true } }]);
    let mut devices = devices(vec![
        gpu_class(),
        device_slice("n1", slice),
        device_claim("other", gpus(1), taken),
        device_claim("c", gpus(1), json!({})),
        device_claim("d", gpus(1), json!({})),
        device_claim("admin", admin, json!({})),
    ]);
    let here = node("n1", json!({}));
    assert_eq!(names(&devices, &["c"], &here).unwrap(), [["g1"]]);
    assert_eq!(names(&devices, &["c", "d"], &here), Err(AllocationFailure::Impossible));
    assert_eq!(names(&devices, &["admin"], &here).unwrap(), [["g0", "g1"]]);
    assert_eq!(devices.apply(device_claim("other", gpus(1), json!({}))), Some(DeviceEvent::Freed));
    assert_eq!(names(&devices, &["c", "d"], &here).unwrap(), [["g0"], ["g1"]]);
}

#[test]
fn tainted_devices_are_for_requests_that_tolerate_the_taints() {
    let taint = |effect: &str| json!([{ "key": "sick", "effect": effect }]);
    let slice = json!({ "nodeName": "n1", "devices": [
        { "name": "g0", "taints": taint("NoExecute") }, { "name": "g1", "taints": taint("None") },
    ] });
    let tolerates = json!([{ "name": "a", "exactly": asks(json!({ "tolerations": [{ "key": "sick", "operator": "Exists" }] })) }]);
    let devices = devices(vec![
        gpu_class(),
        device_slice("n1", slice),
        device_claim("c", gpus(1), json!({})),
        device_claim("d", tolerates, json!({})),
    ]);
    let here = node("n1", json!({}));
    assert_eq!(names(&devices, &["c"], &here).unwrap(), [["g1"]]);
    assert_eq!(names(&devices, &["d"], &here).unwrap(), [["g0"]]);
}

fn taint_rule(selector: Value, effect: &str) -> Arc<Record<TaintRule>> {
    let rule = json!({ "metadata": { "name": "r", "uid": "r", "resourceVersion": "9" },
        "spec": { "deviceSelector": selector, "taint": { "key": "sick", "effect": effect } } });
    Arc::new(taint_rule::decode(rule.to_string().as_bytes()).unwrap())
}

#[test]
fn rules_taint_the_devices_that_they_select() {
    let slice = json!({ "nodeName": "n1", "devices": [{ "name": "g0" }, { "name": "g1" }] });
    let tolerates = json!([{ "name": "a", "exactly": asks(json!({ "tolerations": [{ "key": "sick", "operator": "Exists" }] })) }]);
    let changes = || {
        vec![
            gpu_class(),
            device_slice("n1", slice.clone()),
            device_claim("c", gpus(1), json!({})),
            device_claim("d", tolerates.clone(), json!({})),
        ]
    };
    let here = node("n1", json!({}));
    for (selector, effect, expected) in [
        (json!({ "device": "g0" }), "NoSchedule", Some("g1")),
        (json!({ "driver": "gpu.x", "device": "g0" }), "NoExecute", Some("g1")),
        (json!({ "driver": "gpu.x" }), "NoExecute", None),
        (json!({}), "NoSchedule", None),
        (json!({}), "None", Some("g0")),
        (Value::Null, "NoExecute", Some("g0")),
        (json!({ "driver": "gpu.y", "device": "g0" }), "NoExecute", Some("g0")),
        (json!({ "pool": "other" }), "NoExecute", Some("g0")),
    ] {
        let mut devices = devices(changes());
        let rule = taint_rule(selector.clone(), effect);
        let event = devices.apply(DeviceChange::TaintRule(Change::Set(Arc::clone(&rule))));
        assert_eq!(event, Some(DeviceEvent::Supply));
        let found = names(&devices, &["c"], &here).ok();
        assert_eq!(found, expected.map(|name| vec![vec![name.to_owned()]]), "{selector} {effect}");
        assert_eq!(names(&devices, &["d"], &here).unwrap(), [["g0"]], "{selector} {effect}");
        devices.apply(DeviceChange::TaintRule(Change::Gone(rule)));
        assert_eq!(names(&devices, &["c"], &here).unwrap(), [["g0"]], "without the rule");
    }
}

#[test]
fn devices_share_the_counters_of_their_pool() {
    let part = |name: &str, memory: &str| json!({ "name": name, "consumesCounters": [{ "counterSet": "card", "counters": { "memory": { "value": memory } } }] });
    let pool = json!({ "name": "p", "generation": 1, "resourceSliceCount": 2 });
    let counters = json!({ "pool": pool, "nodeName": "n1", "sharedCounters": [{ "name": "card", "counters": { "memory": { "value": "40Gi" } } }] });
    let parts = json!({ "pool": pool, "nodeName": "n1", "devices": [part("half-0", "20Gi"), part("whole", "40Gi"), part("half-1", "20Gi")] });
    let mut devices = devices(vec![
        gpu_class(),
        device_slice("counters", counters),
        device_slice("parts", parts),
        device_claim("c", gpus(1), json!({})),
        device_claim("d", gpus(2), json!({})),
    ]);
    let here = node("n1", json!({}));
    assert_eq!(names(&devices, &["d"], &here).unwrap(), [["half-0", "half-1"]]);
    assert_eq!(names(&devices, &["c", "d"], &here), Err(AllocationFailure::Impossible));
    let whole = json!({ "status": { "allocation": { "devices": { "results": [
        { "request": "gpu", "driver": "gpu.x", "pool": "p", "device": "whole" },
    ] } } } });
    devices.apply(device_claim("e", gpus(1), whole));
    assert_eq!(names(&devices, &["c"], &here), Err(AllocationFailure::Impossible));
}

#[test]
fn claims_share_a_device_until_its_capacity_is_consumed() {
    let slice = json!({ "nodeName": "n1", "devices": [{
        "name": "g0", "allowMultipleAllocations": true, "capacity": { "memory": { "value": "10Gi" } },
    }] });
    let wants = |memory: &str| json!([{ "name": "gpu", "exactly": asks(json!({ "capacity": { "requests": { "memory": memory } } })) }]);
    let devices = devices(vec![
        gpu_class(),
        device_slice("n1", slice),
        device_claim("c", wants("6Gi"), json!({})),
        device_claim("d", wants("4Gi"), json!({})),
        device_claim("e", wants("5Gi"), json!({})),
    ]);
    let here = node("n1", json!({}));
    assert_eq!(names(&devices, &["c", "d"], &here).unwrap(), [["g0"], ["g0"]]);
    assert_eq!(names(&devices, &["c", "e"], &here), Err(AllocationFailure::Impossible));
}

#[test]
fn a_search_with_too_many_combinations_ends_without_a_result() {
    let device = |n: usize| json!({ "name": format!("g{n}"), "attributes": { "group": { "int": n / 2 } } });
    let slice = json!({ "nodeName": "n1", "devices": (0..60).map(device).collect::<Vec<_>>() });
    let mut request = gpus(3);
    request.as_array_mut().unwrap().push(json!({ "name": "b", "exactly": asks(json!({ "count": 20 })) }));
    let constraints = json!([{ "requests": ["b"], "matchAttribute": "gpu.x/group" }]);
    let more = json!({ "spec": { "devices": { "constraints": constraints } } });
    let devices = devices(vec![gpu_class(), device_slice("n1", slice), device_claim("c", request, more)]);
    assert_eq!(names(&devices, &["c"], &node("n1", json!({}))), Err(AllocationFailure::TimedOut));
}

#[test]
fn an_allocation_has_the_configuration_of_classes_and_claim_and_the_nodes_of_its_devices() {
    let opaque = |value: &str| json!({ "opaque": { "driver": "gpu.x", "parameters": { "mode": value } } });
    let class = device_class("gpu", &["device.driver == 'gpu.x'"], json!({ "config": [opaque("class")] }));
    let mut for_b = opaque("b");
    for_b["requests"] = json!(["b"]);
    let mut for_q = opaque("q");
    for_q["requests"] = json!(["a/q"]);
    let option = |name: &str, model: &str| {
        let mut option = asks(selects(&format!("device.attributes['gpu.x'].model == '{model}'")));
        option["name"] = name.into();
        option
    };
    let requests = json!([
        { "name": "a", "firstAvailable": [option("p", "none"), option("q", "x")] }, { "name": "b", "exactly": asks(json!({})) },
    ]);
    let config = json!([opaque("all"), for_b, for_q]);
    let claim = device_claim("c", requests, json!({ "spec": { "devices": { "config": config } } }));
    let slice =
        device_slice("n1", json!({ "nodeName": "n1", "devices": [gpu("g0", "x", 0), gpu("g1", "x", 1)] }));
    let devices = devices(vec![class, claim, slice]);
    let claim = devices.claim(&Key::new("ns", "c")).unwrap();
    let chosen = allocate(&devices, &[claim], &node("n1", json!({})), TERMS).unwrap();
    let found = allocation(&devices, claim, &chosen[0], "n1", &mut String::new);
    let entry = |source: &str, mode: &str, requests: Option<&str>| {
        let mut entry = opaque(mode);
        entry["source"] = source.into();
        if let Some(request) = requests {
            entry["requests"] = json!([request]);
        }
        entry
    };
    let config = json!([
        entry("FromClass", "class", None),
        entry("FromClaim", "all", None),
        entry("FromClaim", "b", Some("b")),
        entry("FromClaim", "q", Some("a/q")),
    ]);
    let result = |request: &str, device: &str| json!({ "request": request, "driver": "gpu.x", "pool": "n1", "device": device });
    let expected = json!({
        "devices": { "results": [result("a/q", "g0"), result("b", "g1")], "config": config },
        "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }] },
    });
    assert_eq!(found, expected);
}

#[test]
fn programs_of_selectors_live_as_long_as_objects_with_them() {
    let mut devices =
        devices(vec![gpu_class(), device_class("same", &["device.driver == 'gpu.x'"], json!({}))]);
    assert_eq!(devices.selectors.len(), 1, "objects with one expression share its program");
    let gone = |change: DeviceChange| match change {
        DeviceChange::Class(Change::Set(record)) => DeviceChange::Class(Change::Gone(record)),
        other => other,
    };
    devices.apply(device_class("same", &["true"], json!({})));
    assert_eq!(devices.selectors.len(), 2);
    devices.apply(gone(gpu_class()));
    devices.apply(gone(device_class("same", &[], json!({}))));
    assert_eq!(devices.selectors.len(), 0);
}

/// A random device; `with_counters` devices consume from the counters of the pool.
fn any_device(name: String) -> impl Strategy<Value = Value> {
    let (model, index) = (proptest::sample::select(vec!["x", "y"]), 0i64..3);
    let weights = |weight| proptest::bool::weighted(weight);
    (model, index, weights(0.2), weights(0.3), weights(0.2), weights(0.1)).prop_map(
        move |(model, index, is_tainted, is_part, is_shared, is_elsewhere)| {
            let mut device = gpu(&name, model, index);
            device["capacity"] = json!({ "memory": { "value": "4" } });
            if is_tainted {
                device["taints"] = json!([{ "key": "sick", "effect": "NoSchedule" }]);
            }
            if is_part {
                let counters = json!({ "memory": { "value": (index + 1).to_string() } });
                device["consumesCounters"] = json!([{ "counterSet": "card", "counters": counters }]);
            }
            if is_shared {
                device["allowMultipleAllocations"] = true.into();
            }
            device["nodeName"] = if is_elsewhere { "n2" } else { "n1" }.into();
            device
        },
    )
}

fn any_alternative() -> impl Strategy<Value = Value> {
    let selector = proptest::sample::select(vec![
        "true",
        "device.attributes['gpu.x'].model == 'x'",
        "device.attributes['gpu.x'].index > 0",
    ]);
    let weights = |weight| proptest::bool::weighted(weight);
    (selector, 1usize..3, weights(0.1), weights(0.3), proptest::sample::select(vec!["", "1", "3"])).prop_map(
        |(selector, count, all, tolerates, memory)| {
            let mut request = asks(selects(selector));
            request["count"] = count.into();
            if all {
                (request["allocationMode"], request["count"]) = ("All".into(), Value::Null);
            }
            if tolerates {
                request["tolerations"] = json!([{ "operator": "Exists" }]);
            }
            if !memory.is_empty() {
                request["capacity"] = json!({ "requests": { "memory": memory } });
            }
            request
        },
    )
}

fn any_claim(name: String) -> impl Strategy<Value = DeviceChange> {
    let exactly = (any_alternative(), proptest::bool::weighted(0.1)).prop_map(|(mut request, is_admin)| {
        if is_admin {
            request["adminAccess"] = true.into();
        }
        json!({ "exactly": request })
    });
    let first = vec(any_alternative(), 1..3).prop_map(|mut options| {
        let named = options.iter_mut().enumerate();
        named.for_each(|(at, option)| option["name"] = format!("o{at}").into());
        json!({ "firstAvailable": options })
    });
    let requests = vec(prop_oneof![3 => exactly.boxed(), 1 => first.boxed()], 1..3);
    let attribute = proptest::sample::select(vec!["gpu.x/model", "gpu.x/index"]);
    let kind = proptest::sample::select(vec!["matchAttribute", "distinctAttribute"]);
    let scope = proptest::sample::select(vec![json!([]), json!(["r0"]), json!(["r1", "r0/o1"])]);
    let constraint = (kind, attribute, scope)
        .prop_map(|(kind, attribute, scope)| json!({ "requests": scope, kind: attribute }));
    (requests, vec(constraint, 0..2)).prop_map(move |(mut requests, constraints)| {
        let named = requests.iter_mut().enumerate();
        named.for_each(|(at, request)| request["name"] = format!("r{at}").into());
        device_claim(&name, requests.into(), json!({ "spec": { "devices": { "constraints": constraints } } }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_what_trying_every_choice_finds(
        found in vec(any_device("g".to_owned()), 1..6), first in any_claim("c0".to_owned()), second in any_claim("c1".to_owned()),
        used in 0usize..6, available in 2i64..6,
    ) {
        let mut found = found;
        found.iter_mut().enumerate().for_each(|(at, device)| device["name"] = format!("g{at}").into());
        let pool = json!({ "name": "p", "generation": 1, "resourceSliceCount": 2 });
        let spec = json!({ "pool": pool, "perDeviceNodeSelection": true, "devices": found });
        let counters = json!({ "pool": pool, "allNodes": true, "sharedCounters": [{ "name": "card", "counters": { "memory": { "value": available.to_string() } } }] });
        let mut result = json!({ "request": "gpu", "driver": "gpu.x", "pool": "p", "device": format!("g{used}") });
        if found.get(used).is_some_and(|device| device["allowMultipleAllocations"] == true) {
            (result["shareID"], result["consumedCapacity"]) = ("s".into(), json!({ "memory": "2" }));
        }
        let other = device_claim("other", gpus(1), json!({ "status": { "allocation": { "devices": { "results": [result] } } } }));
        let devices = devices(vec![gpu_class(), device_slice("a", spec), device_slice("b", counters), other, first, second]);
        let claims = ["c0", "c1"].map(|name| &**devices.claim(&Key::new("ns", name)).unwrap());
        let here = node("n1", json!({}));
        let expected = reference::allocate(&devices, &claims, &here);
        match allocate(&devices, &claims, &here, TERMS) {
            Ok(chosen) => {
                let chosen = chosen.iter().enumerate().flat_map(|(claim, all)| {
                    all.iter().map(move |one| (claim, one.request, one.alternative, &one.device.id))
                });
                let expected = expected.expect("every choice was tried");
                prop_assert_eq!(chosen.collect::<Vec<_>>(), expected.iter().map(|(c, r, o, device)| (*c, *r, *o, &device.id)).collect::<Vec<_>>());
            }
            Err(AllocationFailure::Impossible) => prop_assert!(expected.is_none(), "{:?}", expected),
            // A claim for all devices whose constraint forbids them fails as a whole.
            Err(AllocationFailure::Faulty(why)) => prop_assert!(why.contains("a claim constraint would not be satisfied"), "{}", why),
            Err(AllocationFailure::TimedOut) => prop_assert!(false, "few devices take few steps"),
            Err(AllocationFailure::FaultyPool(why)) => prop_assert!(false, "{}", why),
        }
    }
}
