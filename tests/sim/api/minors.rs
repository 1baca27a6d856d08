//! Servers of older versions of Kubernetes: what they serve, accept, drop and document, against the rows of the tables.

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
        assert_eq!(swagger["info"]["version"], minor.programs());
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
