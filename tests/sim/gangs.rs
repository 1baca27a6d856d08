//! PodGroups and Workloads of Kubernetes 1.36 and 1.37 end to end: gangs wait for their pods and run together, and a group stays while pods
//! name it.

use kstore_api::version::Minor;
use kstore_client::{DeleteParams, DynamicApi, Gvr, Patch};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};

/// Each version of Kubernetes with PodGroups, the version of their API, and the condition of a gang that has its nodes.
const VERSIONS: [(Minor, &str, &str); 2] =
    [(Minor::V36, "v1alpha2", "PodGroupScheduled"), (Minor::V37, "v1beta1", "PodGroupInitiallyScheduled")];

fn groups(cluster: &Cluster, version: &'static str) -> DynamicApi {
    cluster.client().dynamic(Gvr::new("scheduling.k8s.io", version, "podgroups"))
}

fn group(version: &str, min_count: u64, reference: Value) -> Value {
    let mut spec = reference;
    spec["schedulingPolicy"] = json!({"gang": {"minCount": min_count}});
    json!({"apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"}, "spec": spec})
}

fn worker(name: &str) -> Value {
    manifests::pod(name, json!({"schedulingGroup": {"podGroupName": "train"}}))
}

async fn runs(cluster: &Cluster, name: &str) {
    cluster.wait_object("pods", name, "runs", |pod| pod["status"]["phase"] == "Running").await;
}

fn each(test: impl AsyncFn(&Cluster, Minor, &'static str, &'static str)) {
    for (minor, version, condition) in VERSIONS {
        simulate(Setup::seed(52).kubernetes(minor).gangs(), async |cluster| {
            test(cluster, minor, version, condition).await;
        });
    }
}

#[test]
fn a_gang_runs_when_its_last_pod_exists_and_its_group_says_so() {
    each(async |cluster, minor, version, condition| {
        let workload = json!({"apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "Workload",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}]}});
        let reference = match minor {
            Minor::V36 => {
                let of = json!({"workloadName": "w", "podGroupTemplateName": "workers"});
                json!({"podGroupTemplateRef": {"workload": of}})
            }
            _ => json!({"workloadRef": {"workloadName": "w", "templateName": "workers"}}),
        };
        let early = cluster.try_create(group(version, 3, reference.clone())).await;
        match (minor, early) {
            (Minor::V36, Err(refused)) => {
                let text = refused.to_string();
                assert!(text.contains("PodGroup rejected: Workload \"w\" not found"), "{text}");
            }
            (Minor::V37, Ok(_)) => {
                groups(cluster, version).delete("default", "train", &DeleteParams::default()).await.unwrap();
                let gone = async || groups(cluster, version).get("default", "train").await.is_err();
                cluster.wait_until("the group without pods goes", gone).await;
            }
            (_, other) => panic!("{minor}: {other:?}"),
        }
        cluster.create(workload).await;
        let created = cluster.create(group(version, 3, reference)).await;
        assert_eq!(created["metadata"]["finalizers"], json!(["scheduling.k8s.io/podgroup-protection"]));
        let has_mode = created["spec"]["disruptionMode"] == json!({"single": {}});
        assert_eq!(has_mode, minor == Minor::V37);
        for name in ["a", "b"] {
            cluster.create(worker(name)).await;
        }
        // A pod without a group passes those that wait.
        cluster.create(manifests::pod("alone", json!({}))).await;
        runs(cluster, "alone").await;
        for name in ["a", "b"] {
            let pod = cluster.get("pods", "default", name).await.unwrap();
            assert!(pod["spec"]["nodeName"].is_null(), "{minor}: {pod}");
        }
        cluster.create(worker("c")).await;
        for name in ["a", "b", "c"] {
            runs(cluster, name).await;
        }
        let says = async || {
            let group = groups(cluster, version).get("default", "train").await.unwrap();
            group["status"]["conditions"][0]["type"] == condition
                && group["status"]["conditions"][0]["status"] == "True"
                && group["status"]["conditions"][0]["reason"] == "Scheduled"
        };
        cluster.wait_until("the group says that it is scheduled", says).await;
    });
}

#[test]
fn a_group_that_is_being_deleted_stays_until_its_pods_are_gone_and_takes_no_more() {
    each(async |cluster, minor, version, _| {
        cluster.create(group(version, 1, json!({}))).await;
        cluster.create(worker("a")).await;
        runs(cluster, "a").await;
        groups(cluster, version).delete("default", "train", &DeleteParams::default()).await.unwrap();
        let refused = cluster.try_create(worker("b")).await.unwrap_err().to_string();
        let why = "cannot create Pod referencing PodGroup \"train\" because it is being deleted";
        assert!(refused.contains(why), "{minor}: {refused}");
        let left = groups(cluster, version).get("default", "train").await.unwrap();
        assert!(left["metadata"]["deletionTimestamp"].is_string());
        cluster.delete("pods", "a", DeleteParams::default()).await;
        let gone = async || groups(cluster, version).get("default", "train").await.is_err();
        cluster.wait_until("the group goes with its last pod", gone).await;
    });
}

#[test]
fn groups_and_workloads_go_with_their_owner_and_their_namespace() {
    each(async |cluster, minor, version, _| {
        let workloads = cluster.client().dynamic(Gvr::new("scheduling.k8s.io", version, "workloads"));
        let owner = cluster.create(manifests::config_map("owner", "x")).await;
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
        let mut owned = group(version, 1, json!({}));
        owned["metadata"]["ownerReferences"] = json!([reference]);
        cluster.create(owned).await;
        cluster.delete("configmaps", "owner", DeleteParams::default()).await;
        let gone = async || groups(cluster, version).get("default", "train").await.is_err();
        cluster.wait_until("the group goes with its owner", gone).await;
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})).await;
        let mut inside = group(version, 1, json!({}));
        inside["metadata"]["namespace"] = "lab".into();
        cluster.create(inside).await;
        let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
        cluster
            .create(json!({"apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "Workload",
            "metadata": {"name": "w", "namespace": "lab"}, "spec": {"podGroupTemplates": templates}}))
            .await;
        let namespaces = cluster.client().dynamic(Gvr::new("", "v1", "namespaces"));
        namespaces.delete("", "lab", &DeleteParams::default()).await.unwrap();
        let gone = async || cluster.get("namespaces", "", "lab").await.is_none();
        cluster.wait_until("the namespace is gone", gone).await;
        assert!(groups(cluster, version).get("lab", "train").await.is_err(), "{minor}");
        assert!(workloads.get("lab", "w").await.is_err(), "{minor}");
    });
}

#[test]
fn a_smaller_count_lets_a_waiting_gang_run_in_1_37() {
    each(async |cluster, minor, version, _| {
        cluster.create(group(version, 3, json!({}))).await;
        for name in ["a", "b"] {
            cluster.create(worker(name)).await;
        }
        let fewer = Patch::Merge(json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}));
        let patched = groups(cluster, version).patch("default", "train", "", &fewer).await;
        if minor == Minor::V36 {
            let refused = patched.unwrap_err().to_string();
            assert!(
                refused.contains("spec.schedulingPolicy: Invalid value: null: field is immutable"),
                "{refused}"
            );
            return;
        }
        patched.unwrap();
        for name in ["a", "b"] {
            runs(cluster, name).await;
        }
    });
}

#[test]
fn the_kinds_are_absent_without_the_gate() {
    for minor in Minor::SERVED {
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| {
            for version in ["v1alpha2", "v1beta1"] {
                let path = format!("/apis/scheduling.k8s.io/{version}/podgroups");
                assert_eq!(cluster.rest().call("GET", &path, "").await.code, 404, "{minor} {version}");
            }
        });
    }
}
