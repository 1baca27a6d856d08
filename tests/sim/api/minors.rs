//! Servers of older versions of Kubernetes: what they serve, accept, drop and document, against the rows of the tables.

use http_body_util::Full;
use kstore_api::version::Minor;
use kstore_tests::{Reply, Rest, Setup, manifests, simulate};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Runs a test against the API of each served version.
fn each(test: impl AsyncFn(Minor, &Rest)) {
    for minor in Minor::SERVED {
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| test(minor, &cluster.rest()).await);
    }
}

async fn get(rest: &Rest, path: &str) -> Reply {
    rest.call("GET", path, "").await
}

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "d"}]}});
    for (member, value) in spec.as_object().unwrap() {
        pod["spec"][member] = value.clone();
    }
    pod
}

#[test]
fn version_and_documents_state_the_version() {
    each(async |minor, rest| {
        let version = get(rest, "/version").await.json();
        let text = |member: &str| version[member].as_str().unwrap().to_owned();
        assert_eq!(
            (text("minor"), text("emulationMinor")),
            (minor.number().to_string(), minor.number().to_string())
        );
        assert_eq!(text("minCompatibilityMinor"), (minor.number() - 1).to_string());
        assert!(text("gitVersion").starts_with(&format!("{}+kstore-", minor.programs())), "{version}");
        let swagger = get(rest, "/openapi/v2").await.json();
        assert_eq!(swagger["info"]["version"], minor.to_string());
        let index = get(rest, "/openapi/v3").await.json();
        for name in ["version", "apis/apps", "api/v1"] {
            let path = index["paths"][name]["serverRelativeURL"].as_str().unwrap();
            assert_eq!(get(rest, path).await.json()["info"]["version"], minor.to_string(), "{minor} {name}");
        }
    });
}

#[test]
fn discovery_has_the_kinds_of_the_version_and_no_others() {
    each(async |minor, rest| {
        let groups = get(rest, "/apis").await.json();
        let groups: Vec<&str> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["name"].as_str().unwrap())
            .collect();
        assert_eq!(groups.contains(&"resource.k8s.io"), minor >= Minor::V34, "{minor}");
        let storage = get(rest, "/apis/storage.k8s.io/v1").await.json();
        assert_eq!(storage.to_string().contains("volumeattributesclasses"), minor >= Minor::V34, "{minor}");
        let admission = get(rest, "/apis/admissionregistration.k8s.io/v1").await.json();
        assert_eq!(
            admission.to_string().contains("mutatingadmissionpolicies"),
            minor >= Minor::V36,
            "{minor}"
        );
        for (path, first) in [
            ("/apis/resource.k8s.io/v1/resourceclaims", Minor::V34),
            ("/apis/storage.k8s.io/v1/volumeattributesclasses", Minor::V34),
            ("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", Minor::V36),
        ] {
            let expected = if minor >= first { 200 } else { 404 };
            assert_eq!(get(rest, path).await.code, expected, "{minor} {path}");
        }
    });
}

#[test]
fn a_member_that_the_version_lacks_is_an_unknown_field() {
    each(async |minor, rest| {
        let has = minor >= Minor::V34;
        let body = pod(&json!({"hostnameOverride": "b"})).to_string();
        let strict =
            rest.call("POST", &format!("{PODS}?fieldValidation=Strict&dryRun=All"), body.clone()).await;
        assert_eq!(strict.code, if has { 201 } else { 400 }, "{minor}");
        if !has {
            let text = strict.text("/message");
            assert!(
                text.contains(r#"strict decoding error: unknown field "spec.hostnameOverride""#),
                "{text}"
            );
        }
        let warned = rest.call("POST", PODS, body).await;
        let warning = warned.headers.get("warning").map(|text| text.to_str().unwrap().to_owned());
        let unknown = warning.is_some_and(|text| text.contains("unknown field"));
        assert_eq!(unknown, !has, "{minor}");
        // Its gate is on from 1.35.
        let kept = warned.json()["spec"]["hostnameOverride"] == "b";
        assert_eq!(kept, minor >= Minor::V35, "{minor}");
    });
}

#[test]
fn apply_refuses_members_that_the_version_lacks() {
    each(async |minor, rest| {
        let body = pod(&json!({"schedulingGroup": {"podGroupName": "g"}})).to_string();
        let path = format!("{PODS}/a?fieldManager=m&dryRun=All");
        let reply = rest.call_as("PATCH", &path, "application/apply-patch+yaml", body).await;
        assert_eq!(reply.code, if minor >= Minor::V36 { 201 } else { 500 }, "{minor}");
        if minor < Minor::V36 {
            let text = reply.text("/message");
            assert!(text.contains(".spec.schedulingGroup: field not declared in schema"), "{text}");
        }
    });
}

#[test]
fn openapi_documents_have_the_members_of_the_version() {
    each(async |minor, rest| {
        let document = get(rest, "/openapi/v3/api/v1").await.json();
        let schemas = &document["components"]["schemas"];
        let spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
        for (member, versions) in [
            ("hostnameOverride", Minor::V34..=Minor::V37),
            ("workloadRef", Minor::V35..=Minor::V35),
            ("schedulingGroup", Minor::V36..=Minor::V37),
            ("hostname", Minor::V33..=Minor::V37),
        ] {
            assert_eq!(spec.get(member).is_some(), versions.contains(&minor), "{minor} {member}");
        }
        let operators = &schemas["io.k8s.api.core.v1.Toleration"]["properties"]["operator"]["enum"];
        assert_eq!(operators.as_array().unwrap().len(), if minor >= Minor::V35 { 4 } else { 2 }, "{minor}");
        let role = get(rest, "/openapi/v3/apis/rbac.authorization.k8s.io/v1").await.json();
        let required = &role["components"]["schemas"]["io.k8s.api.rbac.v1.RoleRef"]["required"];
        let group = required.as_array().unwrap().contains(&json!("apiGroup"));
        assert_eq!(group, minor < Minor::V36, "{minor}");
    });
}

#[test]
fn workloads_run_on_every_version_and_nodes_have_its_release() {
    for minor in Minor::SERVED {
        simulate(Setup::seed(1).kubernetes(minor), async |cluster| {
            cluster.create(manifests::deployment("web", 2)).await;
            cluster.wait_rolled_out("web").await;
            let node = cluster.rest().call("GET", "/api/v1/nodes/node-0", "").await.json();
            assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], minor.programs());
        });
    }
}

#[test]
fn stable_kinds_of_1_37_are_served_by_default_and_stored_in_their_beta_version() {
    each(async |minor, rest| {
        let expected = if minor >= Minor::V37 { 200 } else { 404 };
        for (group, plural) in [
            ("certificates.k8s.io", "clustertrustbundles"),
            ("storagemigration.k8s.io", "storageversionmigrations"),
        ] {
            assert_eq!(
                get(rest, &format!("/apis/{group}/v1/{plural}")).await.code,
                expected,
                "{minor} {plural}"
            );
            assert_eq!(
                get(rest, &format!("/apis/{group}/v1beta1/{plural}")).await.code,
                404,
                "{minor} {plural}"
            );
        }
        let document = get(rest, "/openapi/v3/apis/certificates.k8s.io/v1").await.json();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let has = schemas.contains_key("io.k8s.api.certificates.v1.ClusterTrustBundle");
        assert_eq!(has, minor >= Minor::V37, "{minor}");
        if minor < Minor::V37 {
            return;
        }
        let path = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
        let migration = json!({"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration",
            "metadata": {"name": "m"}, "spec": {"resource": {"group": "apps", "resource": "deployments"}}});
        assert_eq!(rest.call("POST", path, migration.to_string()).await.code, 201);
        let read = get(rest, &format!("{path}/m")).await.json();
        assert_eq!((&read["apiVersion"], &read["spec"]), (&migration["apiVersion"], &migration["spec"]));
        let discovery = get(rest, "/apis/storagemigration.k8s.io/v1").await.json();
        // The hash of `storagemigration.k8s.io/v1beta1/StorageVersionMigration`.
        let hash = &discovery["resources"][0]["storageVersionHash"];
        assert!(hash.as_str().is_some_and(|hash| !hash.is_empty()), "{discovery}");
        let list = get(rest, path).await.json();
        assert_eq!(
            (&list["apiVersion"], list["items"].as_array().unwrap().len()),
            (&migration["apiVersion"], 1)
        );
    });
}

#[test]
fn since_1_37_a_pod_is_bound_to_a_node_whose_name_a_node_may_have() {
    each(async |minor, rest| {
        assert_eq!(rest.call("POST", PODS, pod(&json!({})).to_string()).await.code, 201);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
            "target": {"kind": "Node", "name": "_bad/name"}});
        let bound = rest.call("POST", &format!("{PODS}/a/binding"), binding.to_string()).await;
        if minor >= Minor::V37 {
            let text = bound.text("/message");
            assert!(
                bound.code >= 400 && text.contains("target.name: Invalid value: \"_bad/name\""),
                "{text}"
            );
            let good = binding.to_string().replace("_bad/name", "good.name");
            assert_eq!(rest.call("POST", &format!("{PODS}/a/binding"), good).await.code, 201);
        } else {
            assert_eq!(bound.code, 201, "{minor}: {}", bound.json());
        }
    });
}

#[test]
fn since_1_37_a_status_that_lacks_the_claims_of_a_pod_keeps_them() {
    each(async |minor, rest| {
        let claims = json!({"resourceClaims": [{"name": "r", "resourceClaimTemplateName": "t"}]});
        assert_eq!(rest.call("POST", PODS, pod(&claims).to_string()).await.code, 201);
        let statuses = json!([{"name": "r", "resourceClaimName": "a-r"}]);
        let mut object = get(rest, &format!("{PODS}/a")).await.json();
        object["status"]["resourceClaimStatuses"] = statuses.clone();
        let path = format!("{PODS}/a/status");
        let mut written = rest.call("PUT", &path, object.to_string()).await.json();
        if minor < Minor::V34 {
            return;
        }
        assert_eq!(written["status"]["resourceClaimStatuses"], statuses, "{minor}: {written}");
        written["status"].as_object_mut().unwrap().remove("resourceClaimStatuses");
        written["status"]["message"] = json!("m");
        let kept = rest.call("PUT", &path, written.to_string()).await.json();
        assert_eq!(kept["status"]["message"], "m", "{minor}");
        assert_eq!(
            kept["status"]["resourceClaimStatuses"] == statuses,
            minor >= Minor::V37,
            "{minor}: {kept}"
        );
    });
}

#[test]
fn slices_are_listed_by_their_pool_since_1_37() {
    each(async |minor, rest| {
        if minor < Minor::V34 {
            return;
        }
        let path = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.pool.name%3Da";
        let listed = get(rest, path).await;
        assert_eq!(listed.code, if minor >= Minor::V37 { 200 } else { 400 }, "{minor}");
    });
}

#[test]
fn flow_schemas_are_those_of_the_version() {
    for minor in [Minor::V33, Minor::V34, Minor::V37] {
        simulate(Setup::seed(1).kubernetes(minor), async |cluster| {
            for (name, level) in
                [("endpoint-controller", "workload-high"), ("workload-leader-election", "leader-election")]
            {
                let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{name}");
                let read = cluster.rest().call("GET", &path, "").await;
                assert_eq!(read.code, if minor == Minor::V33 { 200 } else { 404 }, "{minor} {name}");
                let named = &read.json()["spec"]["priorityLevelConfiguration"]["name"];
                assert!(read.code == 404 || *named == level, "{minor}: {named}");
            }
        });
    }
}

#[test]
fn autoscalers_of_1_37_have_a_generation_and_may_scale_to_zero() {
    each(async |minor, rest| {
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let external = json!({"type": "External",
            "external": {"metric": {"name": "queued"}, "target": {"type": "Value", "value": "1"}}});
        let scaler = |name: &str, min: i32| {
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
                "spec": {"minReplicas": min, "maxReplicas": 3, "metrics": [external],
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
        };
        let is_new = minor >= Minor::V37;
        let zero = rest.call("POST", path, scaler("zero", 0).to_string()).await;
        assert_eq!(zero.code, if is_new { 201 } else { 422 }, "{minor}");
        let created = rest.call("POST", path, scaler("one", 1).to_string()).await.json();
        let generation = if is_new { json!(1) } else { Value::Null };
        assert_eq!(created["metadata"]["generation"], generation, "{minor}");
        let changed = scaler("one", 2);
        let changed = rest.call("PUT", &format!("{path}/one"), changed.to_string()).await.json();
        let generation = if is_new { json!(2) } else { Value::Null };
        assert_eq!(changed["metadata"]["generation"], generation, "{minor}");
    });
}

#[test]
fn stateful_sets_of_1_37_have_the_most_unavailable_pods_of_an_update() {
    each(async |minor, rest| {
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "a",
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "d"}]}}}});
        let path = "/apis/apps/v1/namespaces/default/statefulsets";
        let created = rest.call("POST", path, set.to_string()).await.json();
        let most = &created["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        assert_eq!(*most, if minor >= Minor::V37 { json!(1) } else { Value::Null }, "{minor}");
    });
}

#[test]
fn tables_of_definitions_have_the_columns_of_the_version() {
    each(async |minor, rest| {
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "lamps", "kind": "Lamp", "shortNames": ["lp"]},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v0", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
            ]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(rest.call("POST", path, definition.to_string()).await.code, 201, "{minor}");
        let request =
            http::Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table = rest.send(request.body(Full::default()).unwrap()).await.json();
        let names: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        if minor < Minor::V37 {
            assert_eq!(names, ["Name", "Created At"], "{minor}");
            return;
        }
        let wide = ["Group", "Kind", "ShortNames", "Established"];
        assert_eq!(names[..4], ["Name", "Scope", "Versions", "Created At"]);
        assert_eq!(names[4..], wide);
        assert_eq!(cells[1..3], [json!("Namespaced"), json!("v1(storage),v1beta1")]);
        assert_eq!(cells[4..7], [json!("example.com"), json!("Lamp"), json!("lp")]);
    });
}
