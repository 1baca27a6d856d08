//! Tests of resource use, scopes and charges.

mod limited;
mod model;

use super::{
    Amounts, Change, Charges, DeviceNames, Evaluator, Quota, Refusal, amounts, charge, count_of, kinds_of,
    requests_of_pod, to_value,
};
use crate::version::Minor;
use jiff::Timestamp;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn used(evaluator: &Evaluator, object: &Value) -> Value {
    let usage = evaluator.usage(object);
    to_value(&usage.at(NOW).map(|(name, amount)| (name.to_owned(), amount)).collect::<Amounts>())
}

fn pods() -> Evaluator {
    Evaluator::of("", "pods")
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
}

fn pod(containers: Value, init: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init}})
}

/// Resources of a pod except `pods` and `count/pods`.
fn compute(pod: &Value) -> Value {
    let mut all = used(&pods(), pod);
    let all = all.as_object_mut().unwrap();
    assert_eq!((all.remove("pods"), all.remove("count/pods")), (Some(json!("1")), Some(json!("1"))));
    for name in ["cpu", "memory", "ephemeral-storage"] {
        assert_eq!(all.remove(name), all.get(&format!("requests.{name}")).cloned(), "{name}");
    }
    json!(all)
}

#[test]
fn pods_use_their_highest_need_at_any_moment() {
    let cpu = |name: &str, amount: &str| container(name, json!({"cpu": amount}), json!({"cpu": amount}));
    let sidecar = |name: &str, amount: &str| {
        let mut sidecar = cpu(name, amount);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    };
    for (containers, init, want) in [
        (json!([cpu("a", "1"), cpu("b", "500m")]), json!([]), "1500m"),
        (json!([cpu("a", "1")]), json!([cpu("i", "3"), cpu("j", "2")]), "3"),
        (json!([cpu("a", "1")]), json!([cpu("i", "500m")]), "1"),
        (json!([cpu("a", "1")]), json!([sidecar("s", "1"), cpu("i", "2")]), "3"),
        (json!([cpu("a", "1")]), json!([cpu("i", "2"), sidecar("s", "1500m")]), "2500m"),
        (json!([cpu("a", "1")]), json!([sidecar("s", "1"), sidecar("t", "2")]), "4"),
    ] {
        let pod = pod(containers, init);
        assert_eq!(compute(&pod), json!({"requests.cpu": want, "limits.cpu": want}), "{pod}");
    }
}

#[test]
fn overhead_is_added_and_pod_level_resources_replace_the_sum() {
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let mut one = pod(json!([container("a", both, json!({"cpu": "2"}))]), json!([]));
    one["spec"]["overhead"] = json!({"cpu": "100m", "memory": "24Mi"});
    assert_eq!(
        compute(&one),
        json!({"requests.cpu": "1100m", "requests.memory": "1048Mi", "limits.cpu": "2100m"})
    );
    one["spec"]["resources"] =
        json!({"requests": {"cpu": "3", "example.com/x": "1"}, "limits": {"memory": "2Gi"}});
    let whole = json!({"requests.cpu": "3100m", "requests.memory": "1048Mi", "limits.cpu": "2100m",
        "limits.memory": "2072Mi"});
    assert_eq!(compute(&one), whole);
}

#[test]
fn every_quota_name_of_a_resource_is_charged() {
    let requests = json!({"ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"});
    let one = pod(json!([container("a", requests.clone(), requests)]), json!([]));
    assert_eq!(
        compute(&one),
        json!({"requests.ephemeral-storage": "1Gi", "limits.ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi",
            "requests.hugepages-2Mi": "4Mi", "requests.example.com/gpu": "2"})
    );
    let covers = |name: &str| pods().covers(name);
    for name in ["pods", "count/pods", "cpu", "limits.memory", "hugepages-1Gi", "requests.example.com/gpu"] {
        assert!(covers(name), "{name}");
    }
    for name in
        ["services", "limits.example.com/gpu", "example.com/gpu", "count/services", "requests.storage"]
    {
        assert!(!covers(name), "{name}");
    }
}

#[test]
fn terminated_pods_use_only_object_counts() {
    let cpu = json!({"cpu": "1"});
    let mut one = pod(json!([container("a", cpu, json!({}))]), json!([]));
    for (phase, is_alive) in [("Pending", true), ("Running", true), ("Succeeded", false), ("Failed", false)] {
        one["status"] = json!({"phase": phase});
        assert_eq!(used(&pods(), &one)["pods"], if is_alive { json!("1") } else { Value::Null }, "{phase}");
        assert_eq!(used(&pods(), &one)["count/pods"], "1", "{phase}");
    }
    // A pod on a lost node stays, and is not charged forever.
    one["status"] = json!({"phase": "Running"});
    one["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
    one["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    let usage = pods().usage(&one);
    let at = |seconds: i64| NOW.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    assert_eq!((usage.at(at(40)).count(), usage.at(at(41)).count()), (4, 1));
    assert_eq!((usage.changes_after(at(40)), usage.changes_after(at(41))), (Some(at(40)), None));
}

#[test]
fn pending_resizes_are_charged() {
    let mut one = pod(json!([container("a", json!({"cpu": "1"}), json!({"cpu": "1"}))]), json!([]));
    let actual = json!({"name": "a", "allocatedResources": {"cpu": "2"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}});
    one["status"] = json!({"containerStatuses": [actual]});
    assert_eq!(compute(&one), json!({"requests.cpu": "2", "limits.cpu": "3"}));
    one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("5");
    assert_eq!(compute(&one)["requests.cpu"], "5");
    one["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    assert_eq!(compute(&one)["requests.cpu"], "2", "the node will never do it");
}

#[test]
fn services_use_node_ports_and_load_balancers() {
    let services = Evaluator::of("", "services");
    let of = |spec: Value| {
        let used = used(&services, &json!({"spec": spec}));
        assert_eq!((&used["services"], &used["count/services"]), (&json!("1"), &json!("1")));
        [&used["services.nodeports"], &used["services.loadbalancers"]].map(|n| n.as_str().unwrap().to_owned())
    };
    let ports = json!([{"port": 80}, {"port": 81, "nodePort": 30_000}]);
    assert_eq!(of(json!({"type": "ClusterIP", "ports": ports})), ["0", "0"]);
    assert_eq!(of(json!({"type": "NodePort", "ports": ports})), ["2", "0"]);
    assert_eq!(of(json!({"type": "LoadBalancer", "ports": ports})), ["2", "1"]);
    let few = json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false});
    assert_eq!(of(few), ["1", "1"]);
}

#[test]
fn claims_use_storage_in_total_and_by_class() {
    let claims = Evaluator::of("", "persistentvolumeclaims");
    let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5"}}}});
    assert_eq!(
        used(&claims, &claim),
        json!({"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "2",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "2"})
    );
    let mut old = json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(used(&claims, &old)["old.storageclass.storage.k8s.io/requests.storage"], "1Gi");
    old["status"]["allocatedResources"] = json!({"storage": "2Gi"});
    assert_eq!(used(&claims, &old)["requests.storage"], "2Gi");
    assert!(
        claims.covers("any.storageclass.storage.k8s.io/requests.storage")
            && claims.covers("requests.storage")
    );
    assert!(!claims.covers("any.storageclass.storage.k8s.io/pods") && !claims.covers("pods"));
}

#[test]
fn device_claims_use_the_most_devices_of_each_class() {
    let claims = Evaluator::of("resource.k8s.io", "resourceclaims");
    let exactly = |class: &str, mode: &str, count: i64| json!({"deviceClassName": class, "allocationMode": mode, "count": count});
    let one = |request: Value| json!({"name": "r", "exactly": request});
    let any = |requests: &[Value]| json!({"name": "r", "firstAvailable": requests});
    let table = [
        (json!([]), json!({})),
        (
            json!([one(exactly("gpu", "ExactCount", 2)), one(exactly("gpu", "ExactCount", 1))]),
            json!({"gpu": "3"}),
        ),
        (
            json!([one(exactly("gpu", "All", 0)), one(exactly("nic", "ExactCount", 1))]),
            json!({"gpu": "32", "nic": "1"}),
        ),
        (json!([one(exactly("gpu", "Some", 5))]), json!({"gpu": "0"})),
        (
            json!([any(&[
                exactly("gpu", "ExactCount", 2),
                exactly("mig", "ExactCount", 7),
                exactly("gpu", "ExactCount", 4)
            ])]),
            json!({"gpu": "4", "mig": "7"}),
        ),
    ];
    for (requests, expected) in table {
        let mut used = used(&claims, &json!({"spec": {"devices": {"requests": requests}}}));
        let used = used.as_object_mut().unwrap();
        assert_eq!(used.remove("count/resourceclaims.resource.k8s.io"), Some(json!("1")));
        let expected = expected.as_object().unwrap().iter();
        let expected: Value = expected
            .map(|(class, n)| (format!("{class}.deviceclass.resource.k8s.io/devices"), n.clone()))
            .collect();
        assert_eq!(json!(used), expected, "{requests}");
    }
    let name = "gpu.deviceclass.resource.k8s.io/devices";
    assert_eq!(kinds_of(Minor::V35, name), [("resource.k8s.io", "resourceclaims")]);
    assert!(claims.covers(name) && !claims.covers("pods") && !pods().covers(name));
    assert!(claims.charges_create("") && !claims.only_counts());
}

#[test]
fn devices_are_charged_under_each_name_that_the_pod_did_not_ask_for() {
    const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/gpu";
    let pod = pod(
        json!([
            container("c", json!({"cpu": "1", "example.com/gpu": "2"}), json!({})),
            container("d", json!({IMPLICIT: "1"}), json!({}))
        ]),
        json!([container("i", json!({"example.com/gpu": "3"}), json!({}))]),
    );
    let asked = requests_of_pod(&pod);
    let expected = json!({"container-0-request-0": "example.com/gpu", "container-1-request-1": "example.com/gpu",
        "container-2-request-0": IMPLICIT});
    assert_eq!(json!(asked), expected);
    let request = |name: &str, count: i64| {
        json!({"name": name,
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}})
    };
    let requests = json!([request("container-1-request-1", 2), request("container-2-request-0", 1)]);
    let claims = Evaluator::of("resource.k8s.io", "resourceclaims");
    let charged = |annotation: &str, names: &DeviceNames| {
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]);
        let metadata = json!({"ownerReferences": owner,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": annotation}});
        let claim = json!({"metadata": metadata, "spec": {"devices": {"requests": requests}}});
        let usage = claims.usage(&claim);
        assert_eq!(usage.devices().unwrap().pod(), (annotation == "true").then_some(("p", "u")));
        let usage = usage.with_names(names);
        let of_names = usage.at(NOW).filter(|(name, _)| name.starts_with("requests."));
        to_value(&of_names.map(|(name, amount)| (name.to_owned(), amount)).collect::<Amounts>())
    };
    let implicit = format!("requests.{IMPLICIT}");
    let stated = DeviceNames {
        of_classes: [("gpu".to_owned(), "example.com/gpu".to_owned())].into(),
        of_requests: asked,
    };
    let unstated = DeviceNames { of_classes: [].into(), ..stated.clone() };
    assert_eq!(charged("true", &stated), json!({implicit.as_str(): "2", "requests.example.com/gpu": "1"}));
    assert_eq!(charged("true", &unstated), json!({implicit.as_str(): "2"}));
    assert_eq!(charged("false", &stated), json!({implicit.as_str(): "3", "requests.example.com/gpu": "3"}));
    assert_eq!(charged("false", &unstated), json!({implicit.as_str(): "3"}));
    // The pod itself is charged under the names for which it asks.
    assert_eq!(compute(&pod)[&implicit], "1");
    assert_eq!(compute(&pod)["requests.example.com/gpu"], "3");
    for (minor, charges) in [(Minor::V35, false), (Minor::V36, true), (Minor::V37, true)] {
        let claims = claims.clone().in_version(minor);
        assert_eq!((claims.charges_resources(), claims.covers(&implicit)), (charges, charges), "{minor}");
    }
}

#[test]
fn every_kind_is_counted_and_some_also_under_the_plain_plural() {
    for (group, plural, plain) in [
        ("", "configmaps", true),
        ("", "secrets", true),
        ("", "serviceaccounts", false),
        ("apps", "secrets", false),
    ] {
        let evaluator = Evaluator::of(group, plural);
        let mut want = json!({count_of(group, plural): "1"});
        if plain {
            want[plural] = json!("1");
        }
        assert_eq!(used(&evaluator, &json!({})), want);
        assert_eq!(evaluator.covers(plural), plain);
        assert!(evaluator.only_counts() && evaluator.charges_create(""));
        assert!(!evaluator.charges_update("", &json!({"spec": {"a": 1}}), &json!({})));
    }
    assert_eq!(count_of("apps", "deployments"), "count/deployments.apps");
}

fn quota(spec: Value, used: Value) -> Quota {
    let status = json!({"hard": spec["hard"], "used": used});
    Quota::of(&json!({"metadata": {"name": "q"}, "spec": spec, "status": status}))
}

#[test]
fn old_and_new_object_decide_which_updates_are_charged() {
    let deadline = |seconds: Value| json!({"spec": {"activeDeadlineSeconds": seconds}});
    let (endless, ends) = (deadline(Value::Null), deadline(json!(500)));
    let table = [
        ("pods", "", &endless, &ends, true),
        ("pods", "", &ends, &endless, true),
        ("pods", "", &ends, &deadline(json!(400)), false),
        ("pods", "", &json!({"spec": {}}), &endless, false),
        ("pods", "status", &endless, &ends, false),
        ("pods", "ephemeralcontainers", &endless, &ends, false),
        ("pods", "resize", &ends, &ends, true),
        ("services", "", &ends, &ends, true),
        ("persistentvolumeclaims", "", &ends, &ends, true),
        ("persistentvolumeclaims", "status", &ends, &ends, true),
        ("secrets", "", &endless, &ends, false),
    ];
    for (plural, subresource, old, new, is_charged) in table {
        let evaluator = Evaluator::of("", plural);
        assert_eq!(
            evaluator.charges_update(subresource, old, new),
            is_charged,
            "{plural}/{subresource} {new}"
        );
    }
}

#[test]
fn a_pod_that_an_update_moves_into_a_full_scope_is_refused() {
    let scoped = |scope: &str, used: &str| {
        quota(
            json!({"hard": {"count/pods": "1", "pods": "1"}, "scopes": [scope]}),
            json!({"count/pods": used, "pods": used}),
        )
    };
    let (old, new) = (json!({"spec": {}}), json!({"spec": {"activeDeadlineSeconds": 500}}));
    let evaluator = pods();
    let change = Change {
        evaluator: &evaluator,
        old: Some(&old),
        new: &new,
        names: &DeviceNames::default(),
        is_report: false,
        limited: &[],
    };
    let refusal =
        charge(&[scoped("NotTerminating", "1"), scoped("Terminating", "1")], &change, NOW).unwrap_err();
    let text = "exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=1,pods=1, \
         limited: count/pods=1,pods=1";
    assert_eq!(refusal.to_string(), text);
    let charges = charge(&[scoped("NotTerminating", "1"), scoped("Terminating", "0")], &change, NOW).unwrap();
    let moved: Vec<usize> = charges.used.iter().map(|(at, _)| *at).collect();
    assert_eq!(moved, [1], "the recount credits the scope that the pod leaves");
}

#[test]
fn scopes_match_properties_of_objects() {
    let selector = |scope: &str, operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": values}]}});
    let term = json!([{"topologyKey": "k", "namespaceSelector": {}}]);
    let required = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
    let preferred = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": {"topologyKey": "k", "namespaces": ["other"]}}]}});
    let own =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}});
    let requests = json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}]);
    let cases = [
        (json!({"scopes": ["Terminating"]}), json!({"activeDeadlineSeconds": 0}), true),
        (json!({"scopes": ["Terminating"]}), json!({}), false),
        (json!({"scopes": ["NotTerminating"]}), json!({}), true),
        (json!({"scopes": ["BestEffort"]}), json!({}), true),
        (json!({"scopes": ["BestEffort"]}), json!({"containers": requests}), false),
        (json!({"scopes": ["NotBestEffort"]}), json!({"containers": requests}), true),
        (json!({"scopes": ["BestEffort", "Terminating"]}), json!({}), false),
        (json!({"scopes": ["PriorityClass"]}), json!({"priorityClassName": "high"}), true),
        (json!({"scopes": ["PriorityClass"]}), json!({}), false),
        (selector("PriorityClass", "In", json!(["high"])), json!({"priorityClassName": "high"}), true),
        (selector("PriorityClass", "In", json!(["high"])), json!({"priorityClassName": "low"}), false),
        (selector("PriorityClass", "In", json!(["high"])), json!({}), false),
        (selector("PriorityClass", "NotIn", json!(["high"])), json!({"priorityClassName": "low"}), true),
        (selector("PriorityClass", "NotIn", json!(["high"])), json!({}), true),
        (selector("PriorityClass", "DoesNotExist", Value::Null), json!({}), true),
        (selector("PriorityClass", "DoesNotExist", Value::Null), json!({"priorityClassName": "low"}), false),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), json!({"affinity": required}), true),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), json!({"affinity": preferred}), true),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), json!({"affinity": own}), false),
        (json!({"scopes": ["VolumeAttributesClass"]}), json!({}), false),
        (json!({}), json!({}), true),
    ];
    for (spec, pod, want) in cases {
        let usage = pods().usage(&json!({"spec": pod}));
        assert_eq!(quota(spec.clone(), json!({})).selects(&pods(), &usage), want, "{spec} {pod}");
    }
    let claims = Evaluator::of("", "persistentvolumeclaims");
    let claim = claims.usage(&json!({"spec": {"volumeAttributesClassName": "fast"}}));
    for (spec, want) in [
        (json!({"scopes": ["VolumeAttributesClass"]}), true),
        (selector("VolumeAttributesClass", "In", json!(["slow"])), false),
        (selector("VolumeAttributesClass", "NotIn", json!(["slow"])), true),
        (json!({"scopes": ["NotBestEffort"]}), false),
        (selector("PriorityClass", "DoesNotExist", Value::Null), false),
    ] {
        assert_eq!(quota(spec.clone(), json!({})).selects(&claims, &claim), want, "{spec}");
    }
    let maps = Evaluator::of("", "configmaps");
    assert!(!quota(json!({"scopes": ["NotTerminating"]}), json!({})).selects(&maps, &maps.usage(&json!({}))));
}

fn judged(
    quotas: &[Quota],
    evaluator: &Evaluator,
    old: Option<&Value>,
    new: &Value,
) -> Result<Charges, Refusal> {
    charge(
        quotas,
        &Change { evaluator, old, new, names: &DeviceNames::default(), is_report: false, limited: &[] },
        NOW,
    )
}

#[test]
fn refusals_name_missing_unknown_and_exceeded_resources() {
    let hard = json!({"pods": "3", "limits.cpu": "2", "requests.cpu": "1"});
    let none = json!({"pods": "0", "limits.cpu": "0", "requests.cpu": "0"});
    let refused = |used: Value, pod: &Value| {
        let quota = quota(json!({"hard": hard}), used);
        judged(&[quota], &pods(), None, pod).unwrap_err().to_string()
    };
    let cpu = json!({"cpu": "1500m"});
    let mut bare = pod(
        json!([container("b", cpu.clone(), json!({})), container("a", json!({}), json!({}))]),
        json!([container("i", json!({}), json!({}))]),
    );
    assert_eq!(
        refused(none.clone(), &bare),
        "failed quota: q: must specify limits.cpu for: a,b,i; requests.cpu for: a,i"
    );
    bare["spec"]["resources"] = json!({"requests": {"cpu": "2"}});
    assert_eq!(
        refused(none, &bare),
        "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1"
    );
    let stated = pod(json!([container("a", cpu.clone(), cpu)]), json!([]));
    assert_eq!(
        refused(json!({"pods": "0", "limits.cpu": "1"}), &stated),
        "status unknown for quota: q, resources: limits.cpu,pods,requests.cpu"
    );
    assert_eq!(
        refused(json!({"pods": "3", "limits.cpu": "1", "requests.cpu": "0"}), &stated),
        "exceeded quota: q, requested: limits.cpu=1500m,pods=1,requests.cpu=1500m, used: \
         limits.cpu=1,pods=3,requests.cpu=0, limited: limits.cpu=2,pods=3,requests.cpu=1"
    );
}

#[test]
fn updates_are_charged_with_their_increase_and_never_credited() {
    let claims = Evaluator::of("", "persistentvolumeclaims");
    let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let bounds = json!({"hard": {"requests.storage": "10Gi", "persistentvolumeclaims": "1"}});
    let one = [quota(bounds, json!({"requests.storage": "4Gi", "persistentvolumeclaims": "1"}))];
    let grown = judged(&one, &claims, Some(&claim("1Gi")), &claim("3Gi")).unwrap();
    assert_eq!(grown.used, [(0, amounts(&json!({"requests.storage": "6Gi"})))]);
    assert_eq!(judged(&one, &claims, Some(&claim("3Gi")), &claim("1Gi")).unwrap(), Charges::default());
    let over = judged(&one, &claims, Some(&claim("1Gi")), &claim("8Gi")).unwrap_err().to_string();
    assert_eq!(
        over,
        "exceeded quota: q, requested: requests.storage=7Gi, used: requests.storage=4Gi, limited: requests.storage=10Gi"
    );
    let (evaluator, old, new) = (&claims, claim("1Gi"), claim("8Gi"));
    let report = Change {
        evaluator,
        old: Some(&old),
        new: &new,
        names: &DeviceNames::default(),
        is_report: true,
        limited: &[],
    };
    assert_eq!(
        charge(&one, &report, NOW).unwrap().used,
        [(0, amounts(&json!({"requests.storage": "11Gi"})))]
    );
}

#[test]
fn objects_that_enter_a_scope_are_charged_in_full() {
    let claims = Evaluator::of("", "persistentvolumeclaims");
    let claim = |class: &str| json!({"spec": {"volumeAttributesClassName": class}});
    let spec = json!({"hard": {"persistentvolumeclaims": "1"}, "scopes": ["VolumeAttributesClass"]});
    let one = [quota(spec, json!({"persistentvolumeclaims": "0"}))];
    let charges = judged(&one, &claims, Some(&claim("")), &claim("fast")).unwrap();
    assert_eq!(charges.used, [(0, amounts(&json!({"persistentvolumeclaims": "1"})))]);
    assert_eq!(judged(&one, &claims, Some(&claim("slow")), &claim("fast")).unwrap(), Charges::default());
}

#[test]
fn bounds_missing_from_the_status_are_pending() {
    let new = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0", "count/configmaps": "0"}}});
    let mut known = new.clone();
    known["status"] = json!({"hard": {"pods": "5"}, "used": {"pods": "1"}});
    let quotas = [Quota::of(&new), Quota::of(&known)];
    let charges = judged(&quotas, &pods(), None, &pod(json!([]), json!([]))).unwrap();
    assert_eq!(charges, Charges { used: vec![(1, amounts(&json!({"pods": "2"})))], pending: vec![0] });
    let charges = judged(&quotas, &Evaluator::of("", "configmaps"), None, &json!({})).unwrap();
    assert_eq!(charges, Charges { used: vec![], pending: vec![0, 1] });
    assert_eq!(judged(&quotas, &Evaluator::of("", "secrets"), None, &json!({})).unwrap(), Charges::default());
}

#[test]
fn resources_map_to_the_kinds_that_use_them() {
    for (resource, kind) in [
        ("count/deployments.apps", Some(("apps", "deployments"))),
        ("count/lamps.example.com", Some(("example.com", "lamps"))),
        ("count/pods", Some(("", "pods"))),
        ("limits.cpu", Some(("", "pods"))),
        ("requests.example.com/gpu", Some(("", "pods"))),
        ("services.nodeports", Some(("", "services"))),
        ("requests.storage", Some(("", "persistentvolumeclaims"))),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", Some(("", "persistentvolumeclaims"))),
        ("resourcequotas", Some(("", "resourcequotas"))),
        ("example.com/gpu", None),
    ] {
        assert_eq!(kinds_of(Minor::V35, resource), Vec::from_iter(kind), "{resource}");
    }
    for resource in ["requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"] {
        let both = [("", "pods"), ("resource.k8s.io", "resourceclaims")];
        assert_eq!(kinds_of(Minor::V35, resource), both[..1], "{resource}");
        assert_eq!(kinds_of(Minor::V36, resource), both, "{resource}");
    }
}
