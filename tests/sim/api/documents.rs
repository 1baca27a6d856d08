//! Documents about the API: discovery, OpenAPI, health and metrics, field by field as far as clients read
//! them.

use super::{CONFIG_MAPS, DEPLOYMENTS, ask, send};
use kstore_tests::{Cluster, Reply, Setup, manifests, simulate};
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn get(cluster: &Cluster, path: &str) -> Reply {
    send(cluster, "GET", path, &Value::Null).await
}

fn find_by<'l>(list: &'l Value, key: &str, name: &str) -> &'l Value {
    list.as_array()
        .unwrap()
        .iter()
        .find(|item| item[key] == name)
        .unwrap_or_else(|| panic!("{name} in {list}"))
}

#[test]
fn legacy_discovery_has_the_fields_that_old_clients_read() {
    simulate(Setup::api_alone(), async |cluster| {
        let api = get(cluster, "/api").await.json();
        assert_eq!((&api["kind"], &api["versions"]), (&json!("APIVersions"), &json!(["v1"])));
        assert_eq!(
            api["serverAddressByClientCIDRs"],
            json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "192.0.2.1:6443"}])
        );
        let groups = get(cluster, "/apis").await.json();
        let apps = json!({"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}});
        assert_eq!(
            (&groups["kind"], find_by(&groups["groups"], "name", "apps")),
            (&json!("APIGroupList"), &apps)
        );
        let group = get(cluster, "/apis/apps").await.json();
        assert_eq!(
            (&group["kind"], &group["apiVersion"], &group["versions"]),
            (&json!("APIGroup"), &json!("v1"), &apps["versions"])
        );
        let core = get(cluster, "/api/v1").await.json();
        assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
        let pods = find_by(&core["resources"], "name", "pods");
        for (member, value) in [
            ("singularName", json!("pod")),
            ("namespaced", json!(true)),
            ("kind", json!("Pod")),
            ("shortNames", json!(["po"])),
            ("categories", json!(["all"])),
            (
                "verbs",
                json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
            ),
            // The first eight bytes of a hash: of "v1/Pod" for the group apps, of "/v1/Pod" for core.
            ("storageVersionHash", json!("xPOwRZ+Yhw8=")),
        ] {
            assert_eq!(pods[member], value, "{member}");
        }
        // kubectl drain reads here which eviction version is supported.
        let eviction = find_by(&core["resources"], "name", "pods/eviction");
        assert_eq!(
            (&eviction["kind"], &eviction["group"], &eviction["version"], &eviction["verbs"]),
            (&json!("Eviction"), &json!("policy"), &json!("v1"), &json!(["create"]))
        );
        let apps = get(cluster, "/apis/apps/v1").await.json();
        let scale = find_by(&apps["resources"], "name", "deployments/scale");
        assert_eq!(
            (&scale["kind"], &scale["group"], &scale["version"]),
            (&json!("Scale"), &json!("autoscaling"), &json!("v1"))
        );
        let nodes = find_by(&core["resources"], "name", "nodes");
        assert_eq!((&nodes["namespaced"], &nodes["shortNames"]), (&json!(false), &json!(["no"])));
        for path in ["/apis/none.io", "/apis/none.io/v1", "/apis/apps/v9", "/api/v2"] {
            let missing = get(cluster, path).await;
            assert_eq!((missing.code, &missing.body[..]), (404, &b"404 page not found\n"[..]), "{path}");
        }
    });
}

#[test]
fn aggregated_discovery_has_the_fields_that_kubectl_reads() {
    simulate(Setup::api_alone(), async |cluster| {
        let list = ask(cluster, "GET", "/apis", &[("accept", AGGREGATED)]).await;
        for (header, value) in [("content-type", AGGREGATED), ("vary", "Accept"), ("cache-control", "public")]
        {
            assert_eq!(list.headers[header], value);
        }
        let tag = list.headers["etag"].to_str().unwrap();
        let hash = tag.trim_matches('"');
        assert!(
            tag.len() == hash.len() + 2
                && hash.len() == 128
                && hash.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)),
            "{tag}"
        );
        let list = list.json();
        assert_eq!(
            (&list["kind"], &list["apiVersion"], &list["metadata"]),
            (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"), &json!({}))
        );
        let apps =
            list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "apps").unwrap();
        assert_eq!(apps["metadata"], json!({ "name": "apps" }), "a time that is none is not written");
        let deployments = find_by(&apps["versions"][0]["resources"], "resource", "deployments");
        assert_eq!(
            (&deployments["scope"], &deployments["singularResource"], &deployments["responseKind"]),
            (
                &json!("Namespaced"),
                &json!("deployment"),
                &json!({"group": "", "version": "", "kind": "Deployment"})
            )
        );
        let scale = find_by(&deployments["subresources"], "subresource", "scale");
        assert_eq!(
            (&scale["responseKind"], &scale["verbs"]),
            (
                &json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
                &json!(["get", "patch", "update"])
            )
        );
        let core = ask(cluster, "GET", "/api", &[("accept", AGGREGATED)]).await.json();
        assert_eq!(
            (&core["items"][0]["metadata"]["name"], &core["items"][0]["versions"][0]["version"]),
            (&Value::Null, &json!("v1"))
        );
        // kubectl's Accept header: the server picks the first form that it serves.
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(
            ask(cluster, "GET", "/apis", &[("accept", accept)]).await.headers["content-type"],
            AGGREGATED
        );
        let old =
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(
            ask(cluster, "GET", "/apis", &[("accept", old)]).await.text("/kind"),
            "APIGroupList",
            "a removed version falls back"
        );
        let profiled = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer";
        assert_eq!(
            ask(cluster, "GET", "/apis", &[("accept", profiled)]).await.text("/kind"),
            "APIGroupDiscoveryList"
        );
    });
}

#[test]
fn openapi_documents_have_what_kubectl_and_client_generators_read() {
    simulate(Setup::api_alone(), async |cluster| {
        let index = get(cluster, "/openapi/v3").await;
        let url = index.text("/paths/apis~1apps~1v1/serverRelativeURL");
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
        // Clients add their own timeout to any of these URLs.
        let document = get(cluster, &format!("{url}&timeout=32s")).await.json();
        let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
        let schemas = &document["components"]["schemas"];
        let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
        assert!(deployment["description"].is_string() && deployment["properties"]["spec"].is_object());
        assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([gvk]));
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        for (member, value) in [
            ("x-kubernetes-patch-merge-key", json!("name")),
            ("x-kubernetes-patch-strategy", json!("merge")),
            ("x-kubernetes-list-type", json!("map")),
            ("x-kubernetes-list-map-keys", json!(["name"])),
        ] {
            assert_eq!(containers[member], value, "{member}");
        }
        assert_eq!(schemas["io.k8s.api.apps.v1.DeploymentSpec"]["required"], json!(["selector", "template"]));
        let port = &schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
        assert_eq!(
            (&port["format"], port["oneOf"].as_array().map(Vec::len)),
            (&json!("int-or-string"), Some(2))
        );
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(
            (&patch["x-kubernetes-action"], &patch["x-kubernetes-group-version-kind"]),
            (&json!("patch"), &gvk)
        );
        let parameters: Vec<&str> =
            patch["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
        for wanted in ["dryRun", "fieldManager", "fieldValidation", "force"] {
            assert!(parameters.contains(&wanted), "{wanted} in {parameters:?}");
        }
        let contents = patch["requestBody"]["content"].as_object().unwrap();
        for wanted in [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ] {
            assert!(contents.contains_key(wanted), "{wanted}");
        }
        for verb in ["get", "put", "patch", "delete"] {
            assert!(
                document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][verb]
                    .is_object(),
                "{verb}"
            );
        }
    });
}

#[test]
fn the_hash_in_a_documents_url_matches_its_content() {
    let urls = |seed: u64| {
        simulate(Setup { seed, ..Setup::api_alone() }, async |cluster| {
            get(cluster, "/openapi/v3").await.json()
        })
    };
    assert_eq!(urls(1), urls(2), "the same program has the same documents");
}

#[test]
fn health_checks_have_the_names_that_monitors_read() {
    simulate(Setup::api_alone(), async |cluster| {
        let everywhere = [
            "ping",
            "log",
            "etcd",
            "poststarthook/start-apiserver-admission-initializer",
            "poststarthook/generic-apiserver-start-informers",
            "poststarthook/start-system-namespaces-controller",
            "poststarthook/rbac/bootstrap-roles",
            "poststarthook/scheduling/bootstrap-system-priority-classes",
        ];
        for (endpoint, names) in [
            ("livez", &everywhere[..]),
            ("readyz", &[&everywhere[..], &["etcd-readiness", "informer-sync", "shutdown"]].concat()),
        ] {
            let page = get(cluster, &format!("/{endpoint}?verbose")).await;
            let page = String::from_utf8(page.body.to_vec()).unwrap();
            for name in names {
                assert!(page.contains(&format!("[+]{name} ok\n")), "{name} in {page}");
                assert_eq!(get(cluster, &format!("/{endpoint}/{name}")).await.code, 200, "{endpoint}/{name}");
            }
            let without = get(cluster, &format!("/{endpoint}?verbose&exclude=ping")).await;
            assert!(
                String::from_utf8_lossy(&without.body).contains("[+]ping excluded: ok\n"),
                "{:?}",
                without.body
            );
        }
    });
}

#[test]
fn every_path_listed_at_the_root_answers() {
    simulate(Setup::api_alone(), async |cluster| {
        let paths = get(cluster, "/").await.json();
        let paths: Vec<&str> = paths["paths"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(paths.is_sorted(), "{paths:?}");
        for path in &paths {
            // A trace, a text and writes are asked for with parameters, and this cluster signs no tokens.
            if ["/kstore/v1/history", "/kstore/v1/resolve", "/kstore/v1/trace", "/kstore/v1/writes"]
                .contains(path)
                || path.starts_with("/openid")
                || path.starts_with("/.well-known")
            {
                continue;
            }
            assert_eq!(get(cluster, path).await.code, 200, "{path}");
        }
        for wanted in [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/livez",
            "/readyz",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/version",
        ] {
            assert!(paths.contains(&wanted), "{wanted} in {paths:?}");
        }
    });
}

#[test]
fn controllers_report_observed_generations_in_the_status() {
    simulate(Setup::seed(2), async |cluster| {
        assert_eq!(send(cluster, "POST", DEPLOYMENTS, &manifests::deployment("web", 2)).await.code, 201);
        let state = async |plural: &str, name: &str| {
            let object =
                get(cluster, &format!("/apis/apps/v1/namespaces/default/{plural}/{name}")).await.json();
            let [seen, now] = ["/status/observedGeneration", "/metadata/generation"]
                .map(|at| object.pointer(at).and_then(Value::as_i64).unwrap_or(0));
            assert!(seen <= now, "the observed generation is not from the future: {object}");
            (seen == now && object["status"]["replicas"] == object["spec"]["replicas"], now)
        };
        let observed = async |plural: &str, name: &str, generation: i64| {
            let what = format!("{plural}/{name} is observed");
            cluster
                .wait_until(&what, async || {
                    let (settled, now) = state(plural, name).await;
                    settled && now >= generation
                })
                .await;
            state(plural, name).await.1
        };
        let first = observed("deployments", "web", 1).await;
        let sets = get(cluster, "/apis/apps/v1/namespaces/default/replicasets").await.json();
        let set = sets["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
        let before = observed("replicasets", &set, 1).await;
        let scaled =
            send(cluster, "PATCH", &format!("{DEPLOYMENTS}/web/scale"), &json!({"spec": {"replicas": 3}}))
                .await;
        assert_eq!(scaled.code, 200);
        assert!(observed("deployments", "web", first + 1).await > first);
        assert!(
            observed("replicasets", &set, before + 1).await > before,
            "its own spec was changed by the deployment's controller"
        );
        let labelled = send(
            cluster,
            "PATCH",
            &format!("{DEPLOYMENTS}/web"),
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await;
        assert_eq!(
            labelled.json()["metadata"]["generation"],
            labelled.json()["status"]["observedGeneration"],
            "a label is no new generation"
        );
        assert_eq!(get(cluster, CONFIG_MAPS).await.code, 200);
    });
}
