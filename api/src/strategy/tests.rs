//! Tests of first statuses, generations, and the members that each endpoint may write.

use super::*;
use crate::kind::lookup;
use crate::meta;
use serde_json::{Value, json};

fn row(group: &str, plural: &str) -> &'static Resource {
    lookup(group, "v1", plural).unwrap()
}

#[test]
fn new_objects_get_their_first_status_and_generation() {
    let created = |group: &str, plural: &str, mut object: Value| {
        prepare_create(row(group, plural), &mut object);
        object
    };
    assert_eq!(
        created("apps", "deployments", json!({"metadata": {}, "status": {"replicas": 3}})),
        json!({"metadata": {"generation": 1}})
    );
    let pod = created(
        "",
        "pods",
        json!({"spec": {"schedulingGates": [{"name": "x"}]}, "status": {"phase": "Running"}}),
    );
    assert_eq!(
        (&pod["status"]["phase"], &pod["status"]["qosClass"]),
        (&json!("Pending"), &json!("BestEffort"))
    );
    assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
    let namespace = created("", "namespaces", json!({"metadata": {"name": "x"}}));
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!((&namespace["status"]["phase"], meta::generation(&namespace)), (&json!("Active"), 0));
    let node = created("", "nodes", json!({"status": {"capacity": {}}}));
    assert!(node["status"].is_object(), "nodes register with their status");
    let job =
        created("batch", "jobs", json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}}));
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(meta::label(&job["spec"]["template"], "job-name"), Some("j"));
}

#[test]
fn updates_keep_the_status_and_status_updates_keep_the_rest() {
    let old = json!({"metadata": {"name": "d", "generation": 4, "labels": {"a": "1"}}, "spec": {"replicas": 1},
        "status": {"replicas": 1}});
    let new = json!({"metadata": {"name": "d", "labels": {"a": "2"}}, "spec": {"replicas": 2}, "status": {"replicas": 2}});
    let updated = |subresource: &str| {
        let mut new = new.clone();
        prepare_update(row("apps", "deployments"), subresource, &mut new, &old);
        new
    };
    let main = updated("");
    assert_eq!(
        (&main["spec"]["replicas"], &main["status"]["replicas"], meta::generation(&main)),
        (&json!(2), &json!(1), 5)
    );
    let status = updated("status");
    assert_eq!(
        (&status["spec"]["replicas"], &status["status"]["replicas"], meta::generation(&status)),
        (&json!(1), &json!(2), 4)
    );
    assert_eq!(meta::label(&status, "a"), Some("1"), "a deployment's labels are not status");
}

#[test]
fn generation_increments_by_the_kinds_rule() {
    let moved = |group: &str, plural: &str, old: Value, mut new: Value| {
        let mut old = old;
        meta::set_generation(&mut old, 1);
        prepare_update(row(group, plural), "", &mut new, &old);
        meta::generation(&new) - 1
    };
    let cases = [
        ("apps", "replicasets", json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": {}, "c": null}}), 0),
        ("apps", "replicasets", json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), 1),
        ("apps", "deployments", json!({"metadata": {}}), json!({"metadata": {"annotations": {"a": "b"}}}), 1),
        ("apps", "replicasets", json!({"metadata": {}}), json!({"metadata": {"annotations": {"a": "b"}}}), 0),
        (
            "discovery.k8s.io",
            "endpointslices",
            json!({"metadata": {}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            1,
        ),
        ("discovery.k8s.io", "endpointslices", json!({"endpoints": [1]}), json!({"endpoints": [2]}), 1),
        ("scheduling.k8s.io", "priorityclasses", json!({"value": 1}), json!({"value": 2}), 0),
        ("", "podtemplates", json!({"template": {"a": 1}}), json!({"template": {"a": 2}}), 1),
    ];
    for (group, plural, old, new, want) in cases {
        assert_eq!(moved(group, plural, old.clone(), new.clone()), want, "{plural}: {old} -> {new}");
    }
}

#[test]
fn services_keep_allocated_addresses_and_ports() {
    let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}});
    let mut new = json!({"spec": {"type": "NodePort",
        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]}});
    prepare_update(row("", "services"), "", &mut new, &old);
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
    assert!(new["spec"]["ports"][1]["nodePort"].is_null());
    let mut plain = old.clone();
    plain["spec"]["type"] = "ClusterIP".into();
    plain["spec"]["externalTrafficPolicy"] = Value::Null;
    prepare_update(row("", "services"), "", &mut plain, &old);
    assert_eq!(plain["spec"]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
    assert_eq!(plain["spec"]["clusterIP"], "10.0.0.1");
    let mut external = json!({"spec": {"type": "ExternalName"}});
    prepare_update(row("", "services"), "", &mut external, &old);
    assert!(external["spec"]["clusterIP"].is_null());
}

#[test]
fn qos_class_follows_requests_and_limits() {
    let class = |resources: Value| qos_class(&json!({"spec": {"containers": [{"resources": resources}]}}));
    assert_eq!(class(json!({})), "BestEffort");
    assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
    assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(class(json!({"limits": {"cpu": "1"}})), "Burstable");
    assert_eq!(
        class(
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}})
        ),
        "Guaranteed"
    );
    assert_eq!(
        class(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})),
        "Burstable"
    );
}

#[test]
fn approval_and_status_write_different_parts_of_a_certificate_request() {
    let csr = row("certificates.k8s.io", "certificatesigningrequests");
    let old = json!({"spec": {"request": "r"}, "status": {"certificate": "c", "conditions": [{"type": "Approved"}]}});
    let mut approval =
        json!({"spec": {"request": "x"}, "status": {"certificate": "y", "conditions": [{"type": "Denied"}]}});
    prepare_update(csr, "approval", &mut approval, &old);
    assert_eq!(
        (&approval["spec"]["request"], &approval["status"]["certificate"]),
        (&json!("r"), &json!("c"))
    );
    assert_eq!(approval["status"]["conditions"], json!([{"type": "Denied"}]));
    let mut signed = json!({"status": {"certificate": "y", "conditions": [{"type": "Failed"}, {"type": "Approved", "reason": "x"}]}});
    prepare_update(csr, "status", &mut signed, &old);
    assert_eq!(signed["status"]["conditions"], json!([{"type": "Failed"}, {"type": "Approved"}]));
}

#[test]
fn conditions_of_certificate_requests_get_times_and_keep_them() {
    let csr = row("certificates.k8s.io", "certificatesigningrequests");
    let (then, now) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
    let old = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "lastTransitionTime": then}]}});
    let written = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"},
        {"type": "Denied", "status": "True", "lastUpdateTime": then, "lastTransitionTime": then}]}});
    let times = |conditions: &Value| -> Vec<[Value; 2]> {
        let times = |of: &Value| ["lastUpdateTime", "lastTransitionTime"].map(|member| of[member].clone());
        conditions.as_array().unwrap().iter().map(times).collect()
    };
    for subresource in ["approval", "status"] {
        let mut new = written.clone();
        date_update(csr, subresource, &mut new, &old, || now.to_owned());
        assert_eq!(times(&new["status"]["conditions"]), [[now, then], [now, now], [then, then]]);
    }
    let mut stored = json!({"status": {"conditions": [{"type": "Approved"}]}});
    let undated = stored.clone();
    date_update(csr, "status", &mut stored, &undated, || now.to_owned());
    assert_eq!(stored, undated, "what is stored stays as it is");
    let mut whole = written.clone();
    date_update(csr, "", &mut whole, &old, || now.to_owned());
    assert_eq!(whole, written, "who writes no status dates nothing");
}

#[test]
fn pod_subresources_change_only_their_own_fields() {
    let pods = row("", "pods");
    let old =
        json!({"spec": {"containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}});
    let mut new =
        json!({"spec": {"containers": [{"name": "a", "image": "j", "resources": {"limits": {"cpu": "2"}}}]}});
    prepare_update(pods, "resize", &mut new, &old);
    let container = &new["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["resources"]["limits"]["cpu"]), (&json!("i"), &json!("2")));
}

#[test]
fn device_taints_get_a_time_and_keep_it() {
    let slices = row("resource.k8s.io", "resourceslices");
    let slice = |effect: &str| {
        json!({"metadata": {"name": "s", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"devices": [{"name": "a", "taints": [{"key": "k", "effect": effect}]}]}})
    };
    let added = |slice: &Value| slice["spec"]["devices"][0]["taints"][0]["timeAdded"].clone();
    let mut old = slice("NoSchedule");
    prepare_create(slices, &mut old);
    assert_eq!(added(&old), "2024-01-01T00:00:00Z");
    old["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2024-01-02T00:00:00Z".into();
    let mut same = slice("NoSchedule");
    prepare_update(slices, "", &mut same, &old);
    assert_eq!((added(&same), meta::generation(&same)), ("2024-01-02T00:00:00Z".into(), 1));
    let mut other_device = slice("NoSchedule");
    other_device["spec"]["devices"][0]["name"] = "b".into();
    for mut changed in [slice("NoExecute"), other_device] {
        prepare_update(slices, "", &mut changed, &old);
        date_update(slices, "", &mut changed, &old, || "2024-01-03T00:00:00Z".to_owned());
        assert_eq!(added(&changed), "2024-01-03T00:00:00Z");
    }
}

#[test]
fn device_statuses_are_removed_with_the_allocation() {
    let claims = row("resource.k8s.io", "resourceclaims");
    let device = |name: &str| json!({"driver": "d", "pool": "p", "device": name});
    let old = json!({"metadata": {"name": "c"}, "status": {"devices": [device("a"), device("b")],
        "allocation": {"devices": {"results": [device("a"), device("b")]}}}});
    let mut part = old.clone();
    part["status"]["allocation"]["devices"]["results"] = json!([device("b")]);
    prepare_update(claims, "status", &mut part, &old);
    assert_eq!(part["status"]["devices"], json!([device("b")]));
    let mut none = old.clone();
    none["status"].as_object_mut().unwrap().remove("allocation");
    prepare_update(claims, "status", &mut none, &old);
    assert!(none["status"]["devices"].is_null());
}

#[test]
fn local_api_services_are_available_at_creation() {
    let services = row("apiregistration.k8s.io", "apiservices");
    let mut own =
        json!({"metadata": {"name": "v1.", "creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": {}});
    prepare_create(services, &mut own);
    let condition = &own["status"]["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("Local")));
    let mut moved = own.clone();
    moved["spec"]["service"] = json!({"namespace": "n", "name": "s"});
    prepare_update(services, "", &mut moved, &own);
    assert_eq!(moved["status"], json!({}), "nothing is known of another server yet");
    let mut back = moved.clone();
    back["spec"] = json!({});
    prepare_update(services, "", &mut back, &moved);
    assert_eq!(back["status"]["conditions"][0]["reason"], "Local");
}

#[test]
fn fields_of_disabled_features_are_dropped_silently() {
    let lifecycle = json!({"stopSignal": "SIGINT"});
    let spec = json!({
        "schedulingGroup": {"podGroupName": "g"},
        "containers": [{"name": "a", "lifecycle": lifecycle}, {"name": "b", "lifecycle": {"stopSignal": "SIGINT", "preStop": {}}}],
        "volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}, "secret": {}}, {"podCertificate": {}}]}}]});
    let kept = json!({
        "containers": [{"name": "a"}, {"name": "b", "lifecycle": {"preStop": {}}}],
        "volumes": [{"name": "v", "projected": {"sources": [{"secret": {}}, {"podCertificate": {}}]}}]});
    let template = json!({"spec": {"template": {"spec": spec}, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}});
    for (plural, rolling) in
        [("statefulsets", json!({"maxUnavailable": 2})), ("daemonsets", json!({"maxUnavailable": 2}))]
    {
        let mut object = template.clone();
        drop_optional(row("apps", plural), &mut object, None, Features::default());
        prepare_create(row("apps", plural), &mut object);
        assert_eq!(object["spec"]["template"]["spec"], kept, "{plural}");
        assert_eq!(object["spec"]["updateStrategy"]["rollingUpdate"], rolling, "{plural}");
        let mut new = template.clone();
        drop_optional(row("apps", plural), &mut new, Some(&object), Features::default());
        prepare_update(row("apps", plural), "", &mut new, &object);
        assert_eq!(new["spec"], object["spec"], "{plural}");
    }
}

#[test]
fn projected_trust_bundles_stay_with_the_feature_or_if_the_stored_object_has_one() {
    let pod = json!({"spec": {"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "b"}}]}}]}});
    let after = |old: Option<&Value>, features: Features| {
        let mut object = pod.clone();
        drop_optional(row("", "pods"), &mut object, old, features);
        object
    };
    let with = Features { trust_bundle_projection: true, ..Features::default() };
    let without = json!({"spec": {"volumes": [{"name": "v", "projected": {"sources": [{}]}}]}});
    assert_eq!(after(None, with), pod);
    assert_eq!(after(None, Features::default()), without);
    assert_eq!(after(Some(&without), Features::default()), without);
    assert_eq!(after(Some(&pod), Features::default()), pod);
}

#[test]
fn pods_keep_their_scheduling_group_with_the_feature_or_if_the_stored_object_has_one() {
    let pod = json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}});
    let after = |old: Option<&Value>, features: Features| {
        let mut object = pod.clone();
        drop_optional(row("", "pods"), &mut object, old, features);
        object
    };
    let (with, without) = (Features { scheduling_groups: true, ..Features::default() }, json!({"spec": {}}));
    assert_eq!(after(None, with), pod);
    assert_eq!(after(None, Features::default()), without);
    assert_eq!(after(Some(&without), Features::default()), without);
    assert_eq!(after(Some(&pod), Features::default()), pod);
}

#[test]
fn claims_keep_data_source_and_data_source_ref_equal() {
    let created = |spec: Value| {
        let mut object = json!({"metadata": {"name": "c"}, "spec": spec});
        prepare_create(row("", "persistentvolumeclaims"), &mut object);
        object["spec"].take()
    };
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    let both = json!({"dataSource": claim, "dataSourceRef": claim});
    assert_eq!(created(json!({"dataSource": claim})), both);
    assert_eq!(created(json!({"dataSourceRef": claim})), both);
    let populator = json!({"apiGroup": "x.io", "kind": "X", "name": "a"});
    assert_eq!(
        created(json!({"dataSource": populator})),
        json!({}),
        "the old name only takes what it always took"
    );
    assert_eq!(
        created(json!({"dataSourceRef": populator})),
        json!({"dataSource": populator, "dataSourceRef": populator})
    );
    let elsewhere = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "n"});
    assert_eq!(created(json!({"dataSourceRef": elsewhere})), json!({}), "other namespaces are not served");
}

#[test]
fn match_label_keys_are_merged_into_selectors() {
    let term = json!({"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["v", "w"], "mismatchLabelKeys": ["t"]});
    let mut pod = json!({"metadata": {"labels": {"v": "1", "t": "2"}}, "spec": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [{"labelSelector": {}, "matchLabelKeys": ["v"]}, {"matchLabelKeys": ["v"]}]}});
    prepare_create(row("", "pods"), &mut pod);
    let merged = json!([{"key": "v", "operator": "In", "values": ["1"]}, {"key": "t", "operator": "NotIn", "values": ["2"]}]);
    let terms = &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["labelSelector"]["matchExpressions"], merged);
    let spread = &pod["spec"]["topologySpreadConstraints"];
    assert_eq!(spread[0]["labelSelector"]["matchExpressions"], json!([merged[0]]));
    assert!(spread[1]["labelSelector"].is_null(), "no selector, nothing to add to");
}

#[test]
fn pod_status_updates_keep_qos_class_and_observed_generations() {
    let old = json!({"metadata": {}, "status": {"qosClass": "BestEffort", "observedGeneration": 2,
        "conditions": [{"type": "Ready", "observedGeneration": 2}]}});
    let mut new = json!({"metadata": {}, "status": {"phase": "Running", "conditions": [{"type": "Ready"}, {"type": "Other"}]}});
    prepare_update(row("", "pods"), "status", &mut new, &old);
    assert_eq!(
        new["status"],
        json!({"phase": "Running", "qosClass": "BestEffort", "observedGeneration": 2,
            "conditions": [{"type": "Ready", "observedGeneration": 2}, {"type": "Other"}]})
    );
}

/// In Kubernetes the labels of a Job without labels and those of its template are one map, to which both names and uids are added.
#[test]
fn jobs_share_generated_labels_with_their_template() {
    let jobs = lookup("batch", "v1", "jobs").unwrap();
    let labels_of = |own: Value, added: Option<&str>| {
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u", "labels": own},
            "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {}}}});
        let labels = super::SharedLabels::before_defaults(jobs, &job);
        crate::defaults::apply(jobs, &mut job);
        if let Some(added) = added {
            job["metadata"]["labels"][added] = "y".into();
        }
        super::prepare_create(jobs, &mut job);
        labels.after_preparation(&mut job);
        let keys: Vec<String> = job["metadata"]["labels"].as_object().unwrap().keys().cloned().collect();
        keys
    };
    let all = [
        "app",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
    ];
    assert_eq!(labels_of(json!({}), None), all);
    assert_eq!(labels_of(json!({"app": "x"}), None), ["app"], "stated labels are its own");
    assert_eq!(labels_of(json!({}), Some("webhook")), ["app", "webhook"], "and so are those of a webhook");
}

#[test]
fn daemon_sets_keep_the_generation_of_their_template() {
    let sets = lookup("apps", "v1", "daemonsets").unwrap();
    let created = |stated: Option<&str>| {
        let mut set = json!({"metadata": {"name": "d"}, "spec": {"template": {}}});
        if let Some(stated) = stated {
            set["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": stated});
        }
        super::prepare_create(sets, &mut set);
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (created(None), created(Some("7")), created(Some("-3"))),
        ("1".into(), "7".into(), "1".into())
    );
    let mut wrong = json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "x"}}});
    let ty = crate::schema::of("apps", "v1", "DaemonSet").unwrap();
    let error =
        crate::schema::decode::normalize(&mut wrong, ty, crate::schema::decode::Mode::Whole).unwrap_err();
    assert_eq!(error.to_string(), "strconv.ParseInt: parsing \"x\": invalid syntax");
}

#[test]
fn limit_ranges_without_a_name_are_named_by_a_uuid() {
    let ranges = lookup("", "v1", "limitranges").unwrap();
    let mut range = json!({"metadata": {"uid": "u"}});
    super::prepare_create(ranges, &mut range);
    assert_eq!(range["metadata"]["name"], "u");
}

/// A status without its phase has the default of the version at every decoding, not only at create.
#[test]
fn a_status_that_is_written_without_its_phase_keeps_the_default() {
    let kinds =
        [("namespaces", "Active"), ("persistentvolumes", "Pending"), ("persistentvolumeclaims", "Pending")];
    for (plural, phase) in kinds {
        let row = lookup("", "v1", plural).unwrap();
        for status in [json!({}), Value::Null] {
            let mut object = json!({"metadata": {"name": "x"}, "status": status});
            crate::defaults::apply(row, &mut object);
            assert_eq!(object["status"]["phase"], phase, "{plural}");
        }
    }
    let volumes = lookup("", "v1", "persistentvolumes").unwrap();
    let dated = |from: &str, to: &str, stated: Option<&str>| {
        let old = json!({"status": {"phase": from, "lastPhaseTransitionTime": "2024-01-01T00:00:00Z"}});
        let mut new = json!({"status": {"phase": to, "lastPhaseTransitionTime": stated}});
        super::date_update(volumes, "status", &mut new, &old, || "2025-01-01T00:00:00Z".to_owned());
        new["status"]["lastPhaseTransitionTime"].as_str().unwrap().to_owned()
    };
    assert_eq!(dated("Pending", "Pending", None), "2024-01-01T00:00:00Z");
    assert_eq!(dated("Pending", "Bound", None), "2025-01-01T00:00:00Z");
    assert_eq!(dated("Pending", "Bound", Some("2024-01-01T00:00:00Z")), "2025-01-01T00:00:00Z");
    assert_eq!(dated("Pending", "Bound", Some("2023-01-01T00:00:00Z")), "2023-01-01T00:00:00Z");
}
