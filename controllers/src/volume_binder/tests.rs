//! Tests of the binding of claims and volumes.

use super::bind::bind;
use super::claim::{Observed, default_class, plan};
use super::volume;
use crate::action::Action;
use crate::object::Object;
use crate::view::Pod;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::sync::Arc;

/// A claim of one gibibyte with additional fields.
fn claim(more: Value) -> PersistentVolumeClaim {
    let mut value = json!({
        "metadata": {"namespace": "n", "name": "c", "uid": "c-uid", "resourceVersion": "5"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    merge(&mut value, more);
    from_value(value).unwrap()
}

fn volume(name: &str, size: &str, more: Value) -> PersistentVolume {
    let mut value = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
        "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": size}},
        "status": {"phase": "Available"},
    });
    merge(&mut value, more);
    from_value(value).unwrap()
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn class(mode: &str, provisioner: &str) -> StorageClass {
    from_value(json!({"metadata": {"name": "s"}, "provisioner": provisioner, "volumeBindingMode": mode}))
        .unwrap()
}

/// Planned actions, a word or two for each.
fn words(actions: &[Action]) -> Vec<String> {
    let phase = |object: &Value| object["status"]["phase"].as_str().unwrap().to_owned();
    let word = |action: &Action| match action {
        Action::Transaction(writes) => {
            let written = writes.iter().map(|write| match write {
                Action::Update(object) => object.name.clone(),
                Action::UpdateStatus(object) => format!("{} {}", object.name, phase(&parsed(object))),
                other => panic!("{other:?}"),
            });
            format!("bind {}", written.collect::<Vec<_>>().join(", "))
        }
        Action::UpdateStatus(object) => format!("{} is {}", object.name, phase(&parsed(object))),
        Action::Update(object) if object.resource.plural == "persistentvolumes" => {
            assert_eq!(parsed(object)["spec"].get("claimRef"), None);
            format!("free {}", object.name)
        }
        Action::Update(object) => {
            let value = parsed(object);
            let annotations = value["metadata"]["annotations"].as_object().unwrap();
            format!("mark {} {}", object.name, annotations.values().next_back().unwrap().as_str().unwrap())
        }
        Action::Event(event) => event.reason.clone(),
        other => panic!("{other:?}"),
    };
    actions.iter().map(word).collect()
}

fn parsed(object: &Object) -> Value {
    serde_json::from_str(object.json()).unwrap()
}

fn of_claim(
    claim: &PersistentVolumeClaim,
    volumes: &[PersistentVolume],
    class: Option<&StorageClass>,
    consumer: Option<Value>,
) -> Vec<String> {
    let consumer = consumer.map(|pod| Arc::new(from_value::<Pod>(pod).unwrap()));
    let volumes: Vec<&PersistentVolume> = volumes.iter().collect();
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let named =
        name.and_then(|name| volumes.iter().copied().find(|v| v.metadata.name.as_deref() == Some(name)));
    words(&plan(&Observed {
        claim,
        named,
        volumes: &volumes,
        class,
        default: None,
        consumer: &|| consumer.clone(),
    }))
}

#[test]
fn a_claim_is_bound_to_the_smallest_matching_volume() {
    let table = [
        (json!({}), "v2 is large enough, v5 larger", Some("v2")),
        (json!({"spec": {"resources": {"requests": {"storage": "4Gi"}}}}), "", Some("v5")),
        (json!({"spec": {"resources": {"requests": {"storage": "60Gi"}}}}), "none is large enough", None),
        (json!({"spec": {"accessModes": ["ReadWriteMany"]}}), "", Some("many")),
        (json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}), "none offers both", None),
        (json!({"spec": {"volumeMode": "Block"}}), "", Some("block")),
        (json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}), "", Some("labelled")),
        (json!({"spec": {"storageClassName": "fast"}}), "", Some("fast")),
    ];
    let volumes = [
        volume("v5", "5Gi", json!({})),
        volume("v2", "2Gi", json!({})),
        volume("tiny", "512Mi", json!({})),
        volume(
            "taken",
            "1Gi",
            json!({"spec": {"claimRef": {"namespace": "n", "name": "other", "uid": "o"}}}),
        ),
        volume("released", "1Gi", json!({"status": {"phase": "Released"}})),
        volume("leaving", "1Gi", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        volume("many", "9Gi", json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
        volume("block", "9Gi", json!({"spec": {"volumeMode": "Block"}})),
        volume("labelled", "9Gi", json!({"metadata": {"labels": {"a": "b"}}})),
        volume("fast", "9Gi", json!({"spec": {"storageClassName": "fast"}})),
    ];
    for (more, why, expected) in table {
        let done = of_claim(&claim(more.clone()), &volumes, None, None);
        let expected = match expected {
            Some(name) => vec![format!("bind {name}, {name} Bound, c, c Bound")],
            None => vec!["FailedBinding".to_owned()],
        };
        assert_eq!(done, expected, "{more} {why}");
    }
}

#[test]
fn a_reserved_volume_is_preferred_over_a_smaller_one() {
    let meant = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}}});
    let volumes = [volume("small", "1Gi", json!({})), volume("meant", "9Gi", meant.clone())];
    assert_eq!(of_claim(&claim(json!({})), &volumes, None, None), ["bind meant, meant Bound, c, c Bound"]);
    // Also if the class waits for a consumer, which decides only where new volumes are created.
    let waits = class("WaitForFirstConsumer", "x");
    let of_class = claim(json!({"spec": {"storageClassName": "s"}}));
    assert_eq!(of_claim(&of_class, &volumes, Some(&waits), None), ["bind meant, meant Bound, c, c Bound"]);
    let too_small = [volume("meant", "1Mi", meant)];
    assert_eq!(of_claim(&claim(json!({})), &too_small, None, None), ["FailedBinding"]);
}

#[test]
fn the_provisioner_is_annotated_at_once_or_for_the_first_consumer() {
    let of_class = |annotations: Value| {
        claim(json!({"spec": {"storageClassName": "s"}, "metadata": {"annotations": annotations}}))
    };
    let with_provisioner = json!({"volume.beta.kubernetes.io/storage-provisioner": "x", "volume.kubernetes.io/storage-provisioner": "x"});
    let (now, later) = (class("Immediate", "x"), class("WaitForFirstConsumer", "x"));
    let pod = Some(json!({"metadata": {"name": "p"}}));
    let table = [
        (of_class(json!({})), Some(&now), None, vec!["mark c x"]),
        (of_class(with_provisioner), Some(&now), None, vec!["ExternalProvisioning"]),
        (of_class(json!({})), Some(&later), None, vec!["WaitForFirstConsumer"]),
        (of_class(json!({})), Some(&later), pod, vec!["WaitForPodScheduled"]),
        (of_class(json!({"volume.kubernetes.io/selected-node": "n1"})), Some(&later), None, vec!["mark c x"]),
        (of_class(json!({})), None, None, vec!["ProvisioningFailed"]),
        (claim(json!({})), None, None, vec!["FailedBinding"]),
    ];
    for (claim, class, consumer, expected) in table {
        assert_eq!(of_claim(&claim, &[], class, consumer), expected, "{:?}", claim.metadata.annotations);
    }
    let by_hand = class("Immediate", "kubernetes.io/no-provisioner");
    assert_eq!(of_claim(&of_class(json!({})), &[], Some(&by_hand), None), ["FailedBinding"]);
}

#[test]
fn a_wait_for_first_consumer_claim_gets_only_the_volume_reserved_by_the_scheduler() {
    let waits = class("WaitForFirstConsumer", "kubernetes.io/no-provisioner");
    let selected = json!({"volume.kubernetes.io/selected-node": "n1"});
    let of_class = claim(json!({"spec": {"storageClassName": "s"}, "metadata": {"annotations": selected}}));
    let free = volume("free", "1Gi", json!({"spec": {"storageClassName": "s"}}));
    assert_eq!(of_claim(&of_class, std::slice::from_ref(&free), Some(&waits), None), ["FailedBinding"]);
    let kept = json!({"spec": {"storageClassName": "s", "claimRef": {"namespace": "n", "name": "c", "uid": "c-uid"}}});
    let volumes = [free, volume("kept", "9Gi", kept)];
    assert_eq!(of_claim(&of_class, &volumes, Some(&waits), None), ["bind kept Bound, c, c Bound"]);
}

#[test]
fn older_claims_get_a_new_default_class() {
    let class = |name: &str, born: &str, default: &str| -> StorageClass {
        from_value(json!({
            "metadata": {"name": name, "creationTimestamp": born, "annotations": {"storageclass.kubernetes.io/is-default-class": default}},
            "provisioner": "x",
        }))
        .unwrap()
    };
    let classes = [
        class("b", "2026-01-01T00:00:00Z", "true"),
        class("z", "2026-01-02T00:00:00Z", "true"),
        class("y", "2026-01-02T00:00:00Z", "true"),
        class("new", "2026-01-03T00:00:00Z", "false"),
    ];
    let default = default_class(classes.iter());
    assert_eq!(
        default.and_then(|class| class.metadata.name.as_deref()),
        Some("y"),
        "the newest, then by name"
    );
    assert!(default_class(classes[3..].iter()).is_none());
    let given = |claim: &PersistentVolumeClaim, volumes: &[&PersistentVolume]| {
        let seen = Observed { claim, named: None, volumes, class: None, default, consumer: &|| None };
        let actions = plan(&seen);
        let claim = actions.first().and_then(Action::updated::<PersistentVolumeClaim>);
        claim.and_then(|claim| claim.spec?.storage_class_name)
    };
    assert_eq!(given(&claim(json!({})), &[]).as_deref(), Some("y"));
    assert_eq!(given(&claim(json!({"spec": {"storageClassName": ""}})), &[]), None, "it asks for no class");
    let fits = volume("v", "1Gi", json!({}));
    assert_eq!(given(&claim(json!({})), &[&fits]), None, "it gets the volume that fits");
}

#[test]
fn a_bound_claim_stays_bound_or_reports_its_loss_once() {
    let bound = |volume: &str, phase: &str| {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim(json!({
            "metadata": {"annotations": annotations}, "spec": {"volumeName": volume},
            "status": {"phase": phase, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
        }))
    };
    let of = |uid: &str| json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": uid}}, "status": {"phase": "Bound"}});
    let table = [
        (bound("v", "Bound"), vec![volume("v", "1Gi", of("c-uid"))], vec![]),
        (bound("v", "Bound"), vec![], vec!["c is Lost", "ClaimLost"]),
        (bound("v", "Lost"), vec![], vec![]),
        (bound("", "Bound"), vec![], vec!["c is Lost", "ClaimLost"]),
        (bound("v", "Bound"), vec![volume("v", "1Gi", of("other"))], vec!["c is Lost", "ClaimMisbound"]),
        (bound("v", "Bound"), vec![volume("v", "1Gi", json!({}))], vec!["bind v, v Bound"]),
    ];
    for (claim, volumes, expected) in table {
        assert_eq!(of_claim(&claim, &volumes, None, None), expected, "{claim:?}");
    }
}

#[test]
fn a_claim_with_a_volume_name_is_bound_to_that_volume_only() {
    let wants = claim(json!({"spec": {"volumeName": "v"}}));
    let other = json!({"spec": {"claimRef": {"namespace": "n", "name": "x", "uid": "x"}}});
    let table = [
        (vec![], vec![]),
        (vec![volume("v", "1Gi", json!({}))], vec!["bind v, v Bound, c, c Bound"]),
        (vec![volume("v", "1Mi", json!({}))], vec!["VolumeMismatch"]),
        (vec![volume("v", "1Gi", other)], vec!["FailedBinding"]),
    ];
    for (volumes, expected) in table {
        assert_eq!(of_claim(&wants, &volumes, None, None), expected, "{volumes:?}");
    }
    let leaving = claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(of_claim(&leaving, &[volume("v", "1Gi", json!({}))], None, None), [] as [&str; 0]);
}

#[test]
fn volumes_of_deleted_claims_are_released_and_unused_reservations_freed() {
    let of = |uid: &str, mark: bool| {
        let mut more = json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": uid}}, "status": {"phase": "Bound"}});
        if mark {
            more["metadata"]["annotations"] = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
        }
        volume("v", "1Gi", more)
    };
    let leaving = |mut volume: PersistentVolume| {
        volume.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        volume
    };
    let elsewhere = claim(json!({"spec": {"volumeName": "w"}}));
    let here = claim(json!({"spec": {"volumeName": "v"}}));
    let fresh = volume("v", "1Gi", json!({"status": {"phase": "Pending"}}));
    let table = [
        (fresh, None, vec!["v is Available"]),
        (of("c-uid", true), None, vec!["v is Released"]),
        (leaving(of("c-uid", true)), None, vec!["v is Released"]),
        (leaving(of("c-uid", true)), Some(&here), vec![]),
        (of("old", true), Some(&here), vec!["v is Released"]),
        (of("c-uid", true), Some(&elsewhere), vec!["free v"]),
        (of("c-uid", false), Some(&elsewhere), vec![]),
        (of("c-uid", true), Some(&here), vec!["bind c, c Bound"]),
    ];
    for (volume, claim, expected) in table {
        assert_eq!(words(&volume::plan(&volume, claim)), expected, "{volume:?} {claim:?}");
    }
}

/// The objects after a binding, as the server stores them.
fn after(action: &Action, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> (Value, Value) {
    let (mut claim, mut volume) = (json!(claim), json!(volume));
    let Action::Transaction(writes) = action else { panic!("{action:?}") };
    for write in writes {
        let (Action::Update(object) | Action::UpdateStatus(object)) = write else { panic!("{write:?}") };
        let of_volume = object.resource.plural == "persistentvolumes";
        *(if of_volume { &mut volume } else { &mut claim }) = parsed(object);
    }
    (claim, volume)
}

proptest! {
    #[test]
    fn a_binding_is_complete_and_exclusive(
        sizes in prop::collection::vec(1u32..20, 1..8),
        wanted in 1u32..20,
        waiting in any::<bool>(),
    ) {
        let volumes: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(i, size)| {
                let phase = if waiting { json!({"status": {"phase": "Pending"}}) } else { json!({}) };
                volume(&format!("v{i}"), &format!("{size}Gi"), phase)
            })
            .collect();
        let request = json!({"spec": {"resources": {"requests": {"storage": format!("{wanted}Gi")}}}});
        let first = claim(request.clone());
        let all: Vec<&PersistentVolume> = volumes.iter().collect();
        let best = super::fit::best(&first, &all, |_| true);
        prop_assert_eq!(best.is_some(), sizes.iter().any(|size| *size >= wanted));
        let Some(best) = best else { return Ok(()) };
        let (bound, taken) = after(&bind(&first, best).unwrap(), &first, best);
        let bound: PersistentVolumeClaim = from_value(bound).unwrap();
        let taken: PersistentVolume = from_value(taken).unwrap();
        prop_assert_eq!(bind(&bound, &taken), None);
        prop_assert_eq!(volume::plan(&taken, Some(&bound)), vec![]);
        let mut other = claim(request);
        other.metadata.uid = Some("other".to_owned());
        other.metadata.name = Some("d".to_owned());
        let left = [&taken];
        prop_assert!(super::fit::best(&other, &left.map(|v| v), |_| true).is_none());
    }
}
