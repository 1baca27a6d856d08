//! Tables of kube-scheduler's documented behaviour, and a property test against a plain search.

use super::*;
use crate::storage::StorageChange;
use crate::testing::{bound_claim, claim, claiming_pod, class, decode_pod, near, node, volume};
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

const HOST: &str = "kubernetes.io/hostname";

fn storage(changes: Vec<StorageChange>) -> Storage {
    let mut storage = Storage::default();
    changes.into_iter().for_each(|change| drop(storage.apply(change)));
    storage
}

fn refused(pod: &PodInfo, changes: Vec<StorageChange>) -> String {
    ClaimVolumes::of(pod, &storage(changes)).err().expect("the pod can be nowhere")
}

#[test]
fn a_pod_with_invalid_claims_is_refused_before_any_node_is_checked() {
    let pod = claiming_pod("p", &["c"]);
    let waits = || class("s", "x", "WaitForFirstConsumer", json!({}));
    let of_class = |more: Value| {
        let mut spec = json!({ "spec": { "storageClassName": "s" } });
        crate::testing::merge(&mut spec, more);
        claim("c", spec)
    };
    let lost = json!({ "spec": { "volumeName": "v" }, "status": { "phase": "Lost" } });
    let table = [
        (vec![], "persistentvolumeclaim \"c\" not found"),
        (
            vec![claim("c", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))],
            "persistentvolumeclaim \"c\" is being deleted",
        ),
        (vec![claim("c", lost)], "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
        (vec![claim("c", json!({}))], UNBOUND_IMMEDIATE),
        (vec![of_class(json!({}))], UNBOUND_IMMEDIATE),
        (vec![of_class(json!({})), class("s", "x", "Immediate", json!({}))], UNBOUND_IMMEDIATE),
        (vec![of_class(json!({ "spec": { "volumeName": "v" } })), waits()], UNBOUND_IMMEDIATE),
    ];
    for (changes, expected) in table {
        assert_eq!(refused(&pod, changes.clone()), expected, "{changes:?}");
    }
    assert!(ClaimVolumes::of(&pod, &storage(vec![of_class(json!({})), waits()])).is_ok());
    assert!(ClaimVolumes::of(&pod, &storage(vec![bound_claim("c", "v", json!({}))])).is_ok());
}

#[test]
fn the_claim_of_an_ephemeral_volume_must_be_owned_by_the_pod() {
    let pod = decode_pod(&json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
        "spec": { "volumes": [{ "name": "data", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } }] },
    }));
    let owned = |uid: &str| {
        bound_claim(
            "p-data",
            "v",
            json!({ "metadata": { "ownerReferences": [{ "uid": uid, "controller": true }] } }),
        )
    };
    let table = [
        (vec![], "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-data\""),
        (vec![owned("other")], "PVC ns/p-data was not created for pod ns/p (pod is not owner)"),
        (
            vec![bound_claim("p-data", "v", json!({}))],
            "PVC ns/p-data was not created for pod ns/p (pod is not owner)",
        ),
    ];
    for (changes, expected) in table {
        assert_eq!(refused(&pod, changes.clone()), expected, "{changes:?}");
    }
    assert!(ClaimVolumes::of(&pod, &storage(vec![owned("u")])).is_ok());
}

/// The plan for the pod on node `n1`: volumes by claim and claims to provision for, or the conflict.
fn planned(pod: &PodInfo, changes: Vec<StorageChange>) -> String {
    let storage = storage(changes);
    let claims = ClaimVolumes::of(pod, &storage).unwrap();
    match claims.plan(&node("n1", json!({}))) {
        Ok(plan) => {
            let bind = plan.bind.iter().map(|(v, c)| format!("{}={}", c.key.name(), v.key.name()));
            let provision = plan.provision.iter().map(|claim| format!("{}=new", claim.key.name()));
            bind.chain(provision).collect::<Vec<_>>().join(" ")
        }
        Err(refused) => {
            let mut reasons = Vec::new();
            refused.reasons(VolumeBinding::ROW, &mut |reason| reasons.push(reason.to_owned()));
            reasons.join(", ")
        }
    }
}

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const UNREACHABLE: &str = "node(s) didn't match PersistentVolume's node affinity";
const MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const NO_SPACE: &str = "node(s) did not have enough free storage";

#[test]
fn bound_volumes_must_be_reachable() {
    let pod = claiming_pod("p", &["c"]);
    let bound = || bound_claim("c", "v", json!({}));
    let field = json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] },
    ] } } } });
    let table = [
        (vec![bound(), volume("v", "1Gi", json!({}))], ""),
        (vec![bound(), volume("v", "1Gi", near(HOST, "n1"))], ""),
        (vec![bound(), volume("v", "1Gi", near(HOST, "n2"))], UNREACHABLE),
        (vec![bound(), volume("v", "1Gi", field)], UNREACHABLE),
        (vec![bound()], MISSING),
    ];
    for (changes, expected) in table {
        assert_eq!(planned(&pod, changes.clone()), expected, "{changes:?}");
    }
}

fn in_class(more: Value) -> Value {
    let mut spec = json!({ "spec": { "storageClassName": "s" } });
    crate::testing::merge(&mut spec, more);
    spec
}

#[test]
fn an_unbound_claim_gets_the_smallest_available_volume_that_fits() {
    let pod = claiming_pod("p", &["c"]);
    let local = || class("s", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", json!({}));
    let of = |name: &str, uid: &str| json!({ "spec": { "claimRef": { "namespace": "ns", "name": name, "uid": uid } } });
    let ask = |more: Value| claim("c", in_class(more));
    let have = |name: &str, size: &str, more: Value| volume(name, size, in_class(more));
    let three =
        || vec![have("b", "2Gi", json!({})), have("a", "2Gi", json!({})), have("z", "1Gi", near(HOST, "n2"))];
    let with = |mut changes: Vec<StorageChange>, more: StorageChange| {
        changes.push(more);
        changes
    };
    let leaving = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let table = [
        (with(three(), ask(json!({}))), "c=a"),
        (
            with(three(), ask(json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } }))),
            NO_VOLUME,
        ),
        (with(three(), ask(json!({ "spec": { "accessModes": ["ReadWriteMany"] } }))), NO_VOLUME),
        (with(three(), ask(json!({ "spec": { "volumeMode": "Block" } }))), NO_VOLUME),
        (with(three(), ask(json!({ "spec": { "volumeAttributesClassName": "gold" } }))), NO_VOLUME),
        (with(three(), ask(json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } }))), NO_VOLUME),
        (
            vec![
                ask(json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } })),
                have("v", "1Gi", json!({ "metadata": { "labels": { "a": "b" } } })),
            ],
            "c=v",
        ),
        (vec![ask(json!({})), have("v", "1Gi", json!({ "status": { "phase": "Pending" } }))], NO_VOLUME),
        (vec![ask(json!({})), have("v", "1Gi", leaving)], NO_VOLUME),
        (vec![ask(json!({})), volume("v", "1Gi", json!({}))], NO_VOLUME),
        (vec![ask(json!({})), have("v", "1Gi", of("other", "o"))], NO_VOLUME),
        (
            with(
                three(),
                ask(json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n2" } } })),
            ),
            NO_VOLUME,
        ),
        (vec![ask(json!({})), have("v", "9Gi", of("c", "")), have("a", "1Gi", json!({}))], "c=v"),
        (vec![ask(json!({})), have("v", "9Gi", of("c", "c"))], "c=v"),
        (vec![ask(json!({})), have("v", "9Gi", of("c", "old"))], NO_VOLUME),
        (
            vec![
                ask(json!({})),
                have("v", "9Gi", {
                    let mut more = of("c", "c");
                    crate::testing::merge(&mut more, near(HOST, "n2"));
                    more
                }),
                have("a", "1Gi", json!({})),
            ],
            NO_VOLUME,
        ),
    ];
    for (changes, expected) in table {
        assert_eq!(planned(&pod, with(changes.clone(), local())), expected, "{changes:?}");
    }
}

#[test]
fn claims_of_one_pod_get_different_volumes_smallest_claim_first() {
    let pod = claiming_pod("p", &["large", "small"]);
    let local = || class("s", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", json!({}));
    let ask = |name: &str, size: &str| {
        claim(name, in_class(json!({ "spec": { "resources": { "requests": { "storage": size } } } })))
    };
    let have = |name: &str, size: &str| volume(name, size, in_class(json!({})));
    let claims = || vec![local(), ask("large", "5Gi"), ask("small", "1Gi")];
    let of = |volumes: Vec<StorageChange>| planned(&pod, claims().into_iter().chain(volumes).collect());
    assert_eq!(of(vec![have("v", "9Gi"), have("w", "6Gi")]), "small=w large=v");
    assert_eq!(of(vec![have("v", "9Gi"), have("w", "2Gi")]), "small=w large=v");
    assert_eq!(of(vec![have("v", "9Gi")]), NO_VOLUME);
}

#[test]
fn volumes_are_provisioned_where_class_and_capacity_allow() {
    let pod = claiming_pod("p", &["c"]);
    let ask = || claim("c", in_class(json!({})));
    let makes = |more: Value| class("s", "x", "WaitForFirstConsumer", more);
    let zones = |values: Value| json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": HOST, "values": values }] }] });
    let driver = || {
        let value = json!({ "metadata": { "name": "x" }, "spec": { "storageCapacity": true } });
        StorageChange::CsiDriver(crate::testing::set(&value, crate::storage::csi::decode_driver))
    };
    let room = |size: &str| {
        let value = json!({ "metadata": { "namespace": "a", "name": "b" }, "storageClassName": "s", "capacity": size, "nodeTopology": {} });
        StorageChange::Capacity(crate::testing::set(&value, crate::storage::csi::decode_capacity))
    };
    let here = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
    let table = [
        (vec![ask(), makes(json!({}))], "c=new"),
        (vec![claim("c", in_class(here)), makes(json!({}))], "c=new"),
        (vec![ask(), makes(json!({})), volume("v", "1Gi", in_class(json!({})))], "c=v"),
        (vec![ask(), makes(zones(json!(["n1", "n3"])))], "c=new"),
        (vec![ask(), makes(zones(json!(["n2"])))], NO_VOLUME),
        (vec![ask(), makes(json!({ "allowedTopologies": [{}] }))], NO_VOLUME),
        (vec![ask(), makes(json!({})), driver()], NO_SPACE),
        (vec![ask(), makes(json!({})), driver(), room("1Gi")], "c=new"),
        (vec![ask(), makes(json!({})), driver(), room("1Mi")], NO_SPACE),
        (vec![ask(), makes(json!({})), room("1Mi")], "c=new"),
    ];
    for (changes, expected) in table {
        assert_eq!(planned(&pod, changes.clone()), expected, "{changes:?}");
    }
}

/// Claims by size and class.
type Claims = Vec<(u32, u32)>;

/// Volumes by size, class and node (0 for all).
type Volumes = Vec<(u32, u32, u32)>;

fn any_storage() -> impl Strategy<Value = (Claims, Volumes)> {
    let claims = proptest::collection::vec((1u32..6, 0u32..2), 1..4);
    let volumes = proptest::collection::vec((1u32..8, 0u32..3, 0u32..3), 0..6);
    (claims, volumes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_claim_gets_the_same_volume_as_in_a_plain_search((claims, volumes) in any_storage()) {
        let mut changes = Vec::new();
        for name in ["s0", "s1", "s2"] {
            changes.push(class(name, "kubernetes.io/no-provisioner", "WaitForFirstConsumer", json!({})));
        }
        for (i, (size, of)) in claims.iter().enumerate() {
            let spec = json!({ "storageClassName": format!("s{of}"), "resources": { "requests": { "storage": format!("{size}Gi") } } });
            changes.push(claim(&format!("c{i}"), json!({ "spec": spec })));
        }
        for (i, (size, of, on)) in volumes.iter().enumerate() {
            let mut more = if *on == 0 { json!({}) } else { near(HOST, &format!("n{on}")) };
            crate::testing::merge(&mut more, json!({ "spec": { "storageClassName": format!("s{of}") } }));
            changes.push(volume(&format!("v{i}"), &format!("{size}Gi"), more));
        }
        let names: Vec<String> = (0..claims.len()).map(|i| format!("c{i}")).collect();
        let pod = claiming_pod("p", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let storage = storage(changes);
        let prepared = ClaimVolumes::of(&pod, &storage).unwrap();
        for n in 1..3u32 {
            // Smallest claim first; each takes the smallest volume that is left.
            let mut order: Vec<usize> = (0..claims.len()).collect();
            order.sort_by_key(|i| claims[*i].0);
            let mut left: Vec<usize> = (0..volumes.len()).collect();
            left.sort_by_key(|i| volumes[*i].0);
            let mut expected = Some(Vec::new());
            for c in order {
                let fits = |v: &usize| volumes[*v].0 >= claims[c].0 && volumes[*v].1 == claims[c].1 && [0, n].contains(&volumes[*v].2);
                match left.iter().position(fits) {
                    Some(at) => expected.iter_mut().for_each(|all| all.push((format!("c{c}"), format!("v{}", left[at])))),
                    None => expected = None,
                }
                if let Some(at) = left.iter().position(fits) {
                    left.remove(at);
                }
            }
            let plan = prepared.plan(&node(&format!("n{n}"), json!({}))).ok();
            let got = plan.map(|plan| {
                plan.bind.iter().map(|(v, c)| (c.key.name().to_owned(), v.key.name().to_owned())).collect::<Vec<_>>()
            });
            if let Some(got) = &got {
                let mut volumes: Vec<_> = got.iter().map(|(_, volume)| volume).collect();
                volumes.sort();
                volumes.dedup();
                prop_assert_eq!(volumes.len(), claims.len());
            }
            prop_assert!(got == expected, "{:?} is not {:?}", got, expected);
        }
    }
}

#[test]
fn nodes_are_scored_by_the_share_of_storage_that_the_claims_would_use() {
    let pod = claiming_pod("p", &["c", "d"]);
    let sized = |name: &str, size: &str| {
        let resources = json!({ "requests": { "storage": size } });
        claim(name, json!({ "spec": { "storageClassName": "s", "resources": resources } }))
    };
    let driver = json!({ "metadata": { "name": "x" }, "spec": { "storageCapacity": true } });
    let capacity = |node: &str, size: &str| {
        let value = json!({
            "metadata": { "namespace": "a", "name": node }, "storageClassName": "s", "capacity": size,
            "nodeTopology": { "matchLabels": { HOST: node } },
        });
        StorageChange::Capacity(crate::testing::set(&value, crate::storage::csi::decode_capacity))
    };
    let host = |name: &str| {
        let mut node = NodeInfo::clone(&node(name, json!({})));
        node.labels.insert(HOST.to_owned(), name.to_owned());
        node
    };
    let score = |changes: Vec<StorageChange>, node: &str| {
        let storage = storage(changes);
        let claims = ClaimVolumes::of(&pod, &storage).unwrap();
        capacity_score(&Shape::falling(), &claims.storage_use(&host(node)))
    };
    let class = || class("s", "x", "WaitForFirstConsumer", json!({}));
    let dynamic = || {
        let driver =
            StorageChange::CsiDriver(crate::testing::set(&driver, crate::storage::csi::decode_driver));
        let capacities = [capacity("n1", "100Gi"), capacity("n2", "200Gi"), capacity("n3", "45Gi")];
        [class(), driver, sized("c", "40Gi"), sized("d", "30Gi")].into_iter().chain(capacities).collect()
    };
    let scores = ["n1", "n2", "n3", "n4"].map(|node| score(dynamic(), node));
    assert_eq!(scores, [30, 65, 0, 0], "70 % of n1, 35 % of n2, more than n3 has, and n4 has none");
    let unpublished = vec![class(), sized("c", "40Gi"), sized("d", "30Gi")];
    assert_eq!(score(unpublished, "n1"), 0, "nothing is known");
    let local = |name: &str, size: &str, node: &str| {
        let mut more = near(HOST, node);
        crate::testing::merge(&mut more, json!({ "spec": { "storageClassName": "s" } }));
        volume(name, size, more)
    };
    let volumes = [
        local("v1", "50Gi", "n1"),
        local("v2", "90Gi", "n1"),
        local("v3", "40Gi", "n2"),
        local("v4", "30Gi", "n2"),
    ];
    let existing =
        || [class(), sized("c", "40Gi"), sized("d", "30Gi")].into_iter().chain(volumes.clone()).collect();
    assert_eq!(["n1", "n2"].map(|node| score(existing(), node)), [50, 0], "70 of 140 GiB, and all of 70");
}
