//! PodGroupProtection, PodGroupWorkloadExists, and the priority of PodGroups.

use super::{Operation, TestRequest, UserInfo, chain_of, class, refused};
use crate::plugin::Row;
use crate::plugins::{pod_group_protection, pod_group_workload_exists, priority};
use crate::subject::Subject;
use kstore_api::kind::{self, OptIn};
use kstore_api::object::api_version;
use kstore_api::version::Minor;
use kstore_registry::testing::MapLookup;
use kstore_registry::user::MASTERS;
use serde_json::{Value, json};
use std::sync::Arc;

fn group(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "a" }, "spec": spec,
    })
}

/// A new object after one plugin, on a server that serves the optional kinds of a version.
fn admit(row: &'static Row, minor: Minor, cluster: &Arc<MapLookup>, new: Value) -> Result<Value, String> {
    cluster.serve(OptIn::of(minor, &[("api/all", true)].into(), |_| true));
    let resource = kind::known(api_version(&new), new["kind"].as_str().unwrap()).unwrap();
    let user = UserInfo::new("ann", [MASTERS]);
    let operation = Operation::Create;
    let name = new["metadata"]["name"].as_str().unwrap().to_owned();
    let subject =
        Subject { user: &user, operation, resource, subresource: "", namespace: "a", name: &name, seed: 0 };
    let admission = chain_of(row, (row.plugin)(), cluster.clone());
    let (request, mut object) = (TestRequest::new(&admission, subject), new);
    let mutated = request.mutate(&mut object, None);
    let judged = mutated.and_then(|()| request.validate(Some(&object), None));
    judged.map(|()| object).map_err(|undecided| refused(undecided).message)
}

#[test]
fn a_new_group_gets_its_finalizer_and_a_leaving_one_no_more_pods() {
    let row = &pod_group_protection::ROW;
    for (minor, version) in [(Minor::V36, "v1alpha2"), (Minor::V37, "v1beta1")] {
        let mut leaving = group(version, json!({}));
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let cluster = MapLookup::of([]);
        let made = admit(row, minor, &cluster, group(version, json!({}))).unwrap();
        assert_eq!(made["metadata"]["finalizers"], json!(["scheduling.k8s.io/podgroup-protection"]));
        let twice = admit(row, minor, &cluster, made.clone()).unwrap();
        assert_eq!(twice, made);
        let pod = super::pod(json!({ "schedulingGroup": { "podGroupName": "g" } }));
        assert!(admit(row, minor, &cluster, pod.clone()).is_ok(), "the group may come later");
        cluster.put(group(version, json!({})));
        assert!(admit(row, minor, &cluster, pod.clone()).is_ok());
        cluster.put(leaving);
        let why = "pods \"p\" is forbidden: cannot create Pod referencing PodGroup \"g\" because it is being deleted";
        assert_eq!(admit(row, minor, &cluster, pod).unwrap_err(), why);
        assert!(admit(row, minor, &cluster, super::pod(json!({}))).is_ok());
    }
}

#[test]
fn a_group_of_1_36_names_a_template_that_exists() {
    let row = &pod_group_workload_exists::ROW;
    let cluster = MapLookup::of([]);
    let of = |template: &str| {
        let reference = json!({ "workload": { "workloadName": "w", "podGroupTemplateName": template } });
        admit(row, Minor::V36, &cluster, group("v1alpha2", json!({ "podGroupTemplateRef": reference })))
    };
    let forbidden =
        |why: &str| format!("podgroups.scheduling.k8s.io \"g\" is forbidden: PodGroup rejected: {why}");
    assert_eq!(of("t").unwrap_err(), forbidden("Workload \"w\" not found"));
    cluster.put(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": { "name": "w", "namespace": "a" }, "spec": { "podGroupTemplates": [{ "name": "t" }] },
    }));
    assert!(of("t").is_ok());
    assert_eq!(of("u").unwrap_err(), forbidden("PodGroupTemplate \"u\" not found in Workload \"w\""));
    let plain = group("v1alpha2", json!({}));
    assert!(admit(row, Minor::V36, &cluster, plain).is_ok());
    let free = json!({ "workloadRef": { "workloadName": "gone", "templateName": "t" } });
    assert!(admit(row, Minor::V37, &cluster, group("v1beta1", free)).is_ok(), "1.37 does not check it");
}

#[test]
fn the_priority_of_a_group_is_that_of_its_class_since_1_37() {
    let row = &priority::ROW;
    let cluster = MapLookup::of([class("high", 10, false), class("usual", 3, true)]);
    let of = |minor, version: &str, spec: Value| admit(row, minor, &cluster, group(version, spec));
    let beta = |spec: Value| of(Minor::V37, "v1beta1", spec).map(|group| group["spec"].clone());
    assert_eq!(
        beta(json!({ "priorityClassName": "high" })),
        Ok(json!({ "priorityClassName": "high", "priority": 10 }))
    );
    assert_eq!(beta(json!({})), Ok(json!({ "priorityClassName": "usual", "priority": 3 })));
    assert!(
        beta(json!({ "priorityClassName": "none" }))
            .unwrap_err()
            .ends_with("no PriorityClass with name none was found")
    );
    assert!(beta(json!({ "priority": 4 })).unwrap_err().contains("must not be provided in pod group spec"));
    let former = of(Minor::V36, "v1alpha2", json!({})).unwrap();
    assert_eq!(former["spec"], json!({}));
}
