//! APIs that are off by default, in the program: trust bundles and migrations of stored objects.

use crate::SERVER;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_client::{Client, DynamicApi, Gvr, Kubeconfig, ListParams, WatchParams};
use kstore_tests::wait::{watch_first, watch_until};
use kstore_tests::{Https, Launch, Server, manifests};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

const BUNDLES: &[&str] = &[
    "--kubernetes-version=1.36",
    "--runtime-config=certificates.k8s.io/v1beta1=true",
    "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
];
const MIGRATIONS: &[&str] =
    &["--runtime-config=storagemigration.k8s.io/v1beta1=true", "--feature-gates=StorageVersionMigrator=true"];
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

fn https(server: &Server) -> Https {
    Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap())
}

const fn gvr(group: &'static str, version: &'static str, plural: &'static str) -> Gvr {
    Gvr { group: Cow::Borrowed(group), version: Cow::Borrowed(version), resource: Cow::Borrowed(plural) }
}

const BUNDLE: Gvr = gvr("certificates.k8s.io", "v1beta1", "clustertrustbundles");
const MIGRATION: Gvr = gvr("storagemigration.k8s.io", "v1beta1", "storageversionmigrations");
const DEFINITION: Gvr = gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions");
const POD: Gvr = gvr("", "v1", "pods");
const SECRET: Gvr = gvr("", "v1", "secrets");

fn bundles(client: &Client) -> DynamicApi {
    client.dynamic(BUNDLE)
}

fn migrations(client: &Client) -> DynamicApi {
    client.dynamic(MIGRATION)
}

fn definitions(client: &Client) -> DynamicApi {
    client.dynamic(DEFINITION)
}

/// Creates a migration of a resource and waits for its end.
async fn migrate(client: &Client, name: &str, group: &str, plural: &str) -> Value {
    migrate_by(client, MIGRATION, name, group, plural).await
}

/// The same, by a migration of this version.
async fn migrate_by(client: &Client, api: Gvr, name: &str, group: &str, plural: &str) -> Value {
    let version = format!("{}/{}", api.group, api.version);
    let migration = json!({"apiVersion": version, "kind": "StorageVersionMigration",
        "metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": plural}}});
    client.dynamic(api.clone()).create("", &migration).await.unwrap();
    watch_until(client, api, "", name, |migration| {
        ["Succeeded", "Failed"].iter().any(|kind| condition(migration, kind) == "True")
    })
    .await
}

/// Status of a condition; empty if there is none of this type.
fn condition<'o>(object: &'o Value, kind: &str) -> &'o str {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feature_gates_decide_about_members_subresources_names_and_permissions() {
    const FLAG: &str = "--feature-gates=HostnameOverride=true,RelaxedServiceNameValidation=true,PodLevelResources=false,\
        InPlacePodVerticalScaling=false,KubeletServiceAccountTokenForCredentialProviders=false,WatchList=false";
    let dir = tempfile::tempdir().unwrap();
    let args = ["--components", "apiserver", "--kubernetes-version", "1.34"];
    let launch = Launch::in_memory(SERVER, dir.path()).args(&args);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "resources": {"limits": {"cpu": "1"}}, "hostnameOverride": "b",
        "containers": [{"name": "c", "image": "d"}],
    }});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "1st"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}}});
    for (launch, has_changed) in [(launch.clone(), false), (launch.args(&[FLAG]), true)] {
        let server = launch.start().unwrap();
        let https = https(&server);
        let send =
            async |method: &str, path: &str, body: &Value| https.call(method, path, &body.to_string()).await;
        let created = send("POST", "/api/v1/namespaces/default/pods", &pod).await.json();
        assert_eq!(created["spec"]["hostnameOverride"] == "b", has_changed, "{created}");
        assert_eq!(created["spec"]["resources"].is_object(), !has_changed, "{created}");
        let named = send("POST", "/api/v1/namespaces/default/services", &service).await;
        assert_eq!(named.code, if has_changed { 201 } else { 422 });
        let core = https.call("GET", "/api/v1", "").await.json().to_string();
        assert_eq!(core.contains("pods/resize"), !has_changed);
        let resize = https.call("GET", "/api/v1/namespaces/default/pods/a/resize", "").await;
        assert_eq!(resize.code, if has_changed { 404 } else { 200 });
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node";
        let rules = https.call("GET", role, "").await.json()["rules"].to_string();
        assert_eq!(rules.contains("\"serviceaccounts\""), !has_changed, "{rules}");
        if has_changed {
            // An accepted watch is a stream.
            let watch = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
            assert_eq!(https.call("GET", watch, "").await.code, 422);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optional_apis_are_served_only_if_asked_for() {
    let paths = ["certificates.k8s.io/v1beta1", "storagemigration.k8s.io/v1beta1"];
    let dir = tempfile::tempdir().unwrap();
    let args = ["--components", "apiserver", "--kubernetes-version", "1.36"];
    let launch = Launch::in_memory(SERVER, dir.path()).args(&args);
    let server = launch.start().unwrap();
    for path in paths {
        assert_eq!(https(&server).call("GET", &format!("/apis/{path}"), "").await.code, 404, "{path}");
    }
    let text = https(&server).call("GET", "/openapi/v2", "").await.json().to_string();
    assert!(!text.contains("storageversionmigrations") && !text.contains("clustertrustbundles"));
    drop(server);

    let gates = "--feature-gates=ClusterTrustBundle=true,StorageVersionMigrator=true";
    let server = launch.args(&["--runtime-config=api/beta=true", gates]).start().unwrap();
    for path in paths {
        let list = https(&server).call("GET", &format!("/apis/{path}"), "").await;
        assert_eq!((list.code, list.text("/kind")), (200, "APIResourceList".to_owned()), "{path}");
        let document = https(&server).call("GET", &format!("/openapi/v3/apis/{path}"), "").await;
        assert_eq!(document.code, 200, "{path}");
        let (group, version) = path.split_once('/').unwrap();
        let service = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}");
        assert_eq!(https(&server).call("GET", &service, "").await.code, 200, "{path}");
    }
    let groups = https(&server).call("GET", "/apis", "").await.json();
    let certificates =
        groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == "certificates.k8s.io");
    assert_eq!(certificates.unwrap()["preferredVersion"]["version"], "v1");
    let text = https(&server).call("GET", "/openapi/v2", "").await.json().to_string();
    assert!(text.contains("storageversionmigrations") && text.contains("clustertrustbundles"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_of_the_api_server_is_published_and_projected_into_pods() {
    projects(BUNDLES, BUNDLE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundles_are_published_and_projected_without_flags() {
    projects(&[], gvr("certificates.k8s.io", "v1", "clustertrustbundles")).await;
}

async fn projects(flags: &[&str], api: Gvr) {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(flags).start().unwrap();
    let client = server.client("test").await;
    let published =
        watch_first(&client, api, WatchParams::default(), |bundle| bundle["spec"]["signerName"] == SIGNER)
            .await;
    let name = published["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("kubernetes.io:kube-apiserver-serving:"), "{name}");
    let anchors = published["spec"]["trustBundle"].as_str().unwrap();

    let sources = json!([
        {"clusterTrustBundle": {"signerName": SIGNER, "labelSelector": {}, "path": "signer.pem"}},
        {"clusterTrustBundle": {"name": name, "path": "named.pem"}},
        {"clusterTrustBundle": {"name": "absent", "optional": true, "path": "absent.pem"}},
    ]);
    let mut pod = manifests::pod("reader", json!({}));
    pod["metadata"]["namespace"] = json!("default");
    pod["spec"]["volumes"] = json!([{"name": "trust", "projected": {"sources": sources}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "trust", "mountPath": "/trust"}]);
    client.dynamic(POD).create("default", &pod).await.unwrap();
    watch_until(&client, POD, "default", "reader", |pod| pod["status"]["phase"] == "Running").await;
    for file in ["signer.pem", "named.pem"] {
        let Some(mut kubectl) = server.kubectl(&["exec", "reader", "--", "cat", &format!("/trust/{file}")])
        else {
            return;
        };
        let output = kubectl.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), anchors, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_trust_bundles_are_refused_and_bundles_are_selected_by_signer() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver"]);
    let server = launch.args(BUNDLES).start().unwrap();
    let client = server.client("test").await;
    let ca = fs::read_to_string(server.kubeconfig()).unwrap();
    let ca = ca.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: ")).unwrap();
    let ca = String::from_utf8(STANDARD.decode(ca.trim_matches('"')).unwrap()).unwrap();
    let bundle = |name: &str, signer: Option<&str>, pem: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": name},
            "spec": {"signerName": signer, "trustBundle": pem}})
    };
    let no_certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    for (bundle, reason) in [
        (bundle("a", None, ""), "at least one trust anchor must be provided"),
        (bundle("a", None, no_certificate), "entry 0 does not parse as X.509"),
        (bundle("a", None, &format!("{ca}{ca}")), "duplicate trust anchor (indices [0 1])"),
        (bundle("a:b", None, &ca), "without signer name must not have"),
        (bundle("a", Some("example.com/x"), &ca), "must be named with prefix example.com:x:"),
    ] {
        let refused = bundles(&client).create("", &bundle).await.unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    bundles(&client).create("", &bundle("a", None, &ca)).await.unwrap();
    bundles(&client).create("", &bundle("example.com:x:1", Some("example.com/x"), &ca)).await.unwrap();
    let selected = ListParams::default().fields("spec.signerName=example.com/x");
    let (found, _) = bundles(&client).list("", &selected).await.unwrap();
    assert_eq!(found.len(), 1);
    let mut moved = found[0].clone();
    (moved["apiVersion"], moved["kind"]) =
        ("certificates.k8s.io/v1beta1".into(), "ClusterTrustBundle".into());
    moved["spec"]["signerName"] = json!("example.com/y");
    assert!(bundles(&client).update(&moved).await.unwrap_err().to_string().contains("field is immutable"));
    let Some(mut kubectl) = server.kubectl(&["get", "clustertrustbundles"]) else { return };
    let table = String::from_utf8(kubectl.output().unwrap().stdout).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [vec!["NAME", "SIGNERNAME"], vec!["a", "<none>"], vec!["example.com:x:1", "example.com/x"]]
    );
}

/// Starts a server whose Secrets are encrypted with these keys of secretbox, the first for new values.
fn encrypted(dir: &Path, keys: &str) -> Server {
    let key = |name: u8| json!({"name": char::from(name).to_string(), "secret": STANDARD.encode([name; 32])});
    let keys: Vec<Value> = keys.bytes().map(key).collect();
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"secretbox": {"keys": keys}}, {"identity": {}}]}]});
    let file = dir.join("encryption.json");
    fs::write(&file, config.to_string()).unwrap();
    let flag = format!("--encryption-provider-config={}", file.display());
    let components = ["--components", "apiserver,controllers", &flag];
    Launch::on_disk(SERVER, dir).args(&components).args(MIGRATIONS).start().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_encrypts_all_secrets_with_the_new_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = encrypted(dir.path(), "a");
    let secrets = |client: &Client| client.dynamic(SECRET);
    let client = server.client("test").await;
    for name in ["one", "two"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"a": "b"}});
        secrets(&client).create("default", &secret).await.unwrap();
    }
    assert!(server.terminate().success());

    let server = encrypted(dir.path(), "ba");
    let client = server.client("test").await;
    let before = secrets(&client).get("default", "one").await.unwrap();
    let migrated = migrate(&client, "secrets", "", "secrets").await;
    assert_eq!(
        [condition(&migrated, "Succeeded"), condition(&migrated, "Running")],
        ["True", "False"],
        "{migrated}"
    );
    let after = secrets(&client).get("default", "one").await.unwrap();
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"], "it was written");
    assert_eq!(before["metadata"]["managedFields"], after["metadata"]["managedFields"]);
    assert_eq!(before["data"], after["data"]);
    let again = migrate(&client, "again", "", "secrets").await;
    assert_eq!(condition(&again, "Succeeded"), "True");
    assert_eq!(secrets(&client).get("default", "one").await.unwrap(), after, "nothing was outdated");
    assert!(server.terminate().success());

    // Without the old key.
    let server = encrypted(dir.path(), "b");
    for name in ["one", "two"] {
        secrets(&server.client("test").await).get("default", name).await.unwrap();
    }
}

/// Migrates the objects of a definition whose storage version changed, on a server with these flags; returns the definition after that,
/// with the client that may change it.
async fn migrate_lamps(dir: &Path, flags: &[&str], api: Gvr) -> (Server, Client, Value) {
    let launch = Launch::in_memory(SERVER, dir).args(&["--components", "apiserver,controllers"]);
    let server = launch.args(flags).start().unwrap();
    let client = server.client("test").await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [lamp_version("v1", true), lamp_version("v2", false)]}});
    definitions(&client).create("", &definition).await.unwrap();
    let is_established = |definition: &Value| condition(definition, "Established") == "True";
    let mut definition = watch_until(&client, DEFINITION, "", "lamps.example.com", is_established).await;
    let lamps = client.dynamic(Gvr::new("example.com", "v1", "lamps"));
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"on": true}});
    let before = lamps.create("default", &lamp).await.unwrap();
    definition["spec"]["versions"] = json!([lamp_version("v1", false), lamp_version("v2", true)]);
    definitions(&client).update(&definition).await.unwrap();

    let migrated = migrate_by(&client, api, "lamps", "example.com", "lamps").await;
    assert_eq!(condition(&migrated, "Succeeded"), "True", "{migrated}");
    let after = lamps.get("default", "a").await.unwrap();
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"], "it was written");
    assert_eq!(after["spec"], before["spec"]);
    let definition = definitions(&client).get("", "lamps.example.com").await.unwrap();
    (server, client, definition)
}

fn lamp_version(name: &str, storage: bool) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

/// Drops the old version of a definition, whose objects are then read in the new one.
async fn drop_old_version(client: &Client, mut definition: Value) {
    definition["spec"]["versions"] = json!([lamp_version("v2", true)]);
    definitions(client).update(&definition).await.unwrap();
    let lamps = client.dynamic(Gvr::new("example.com", "v2", "lamps"));
    assert_eq!(lamps.get("default", "a").await.unwrap()["spec"], json!({"on": true}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_stores_custom_objects_in_the_new_version_and_the_old_one_can_be_dropped() {
    let old = [MIGRATIONS, &["--kubernetes-version=1.35"]].concat();
    let new = ["--kubernetes-version=1.37"];
    let cases: [(&[&str], Gvr, bool); 3] = [
        (&old, MIGRATION, false),
        (MIGRATIONS, MIGRATION, true),
        (&new, gvr("storagemigration.k8s.io", "v1", "storageversionmigrations"), true),
    ];
    for (flags, api, updates_definition) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (_server, client, mut definition) = migrate_lamps(dir.path(), flags, api).await;
        if updates_definition {
            assert_eq!(definition["status"]["storedVersions"], json!(["v2"]), "{flags:?}");
            assert_eq!(condition(&definition, "StorageMigrating"), "False", "{flags:?}");
        } else {
            // As the administrator, who then removes the version.
            assert_eq!(definition["status"]["storedVersions"], json!(["v1", "v2"]));
            assert_eq!(condition(&definition, "StorageMigrating"), "");
            definition["status"]["storedVersions"] = json!(["v2"]);
            definition = definitions(&client).update_status(&definition).await.unwrap();
        }
        drop_old_version(&client, definition).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_of_a_resource_without_objects_in_storage_fails() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver,controllers"]);
    let server = launch.args(MIGRATIONS).start().unwrap();
    let client = server.client("test").await;
    let failed = migrate(&client, "bindings", "", "bindings").await;
    assert_eq!(condition(&failed, "Failed"), "True", "{failed}");
    let mut changed = failed.clone();
    changed["spec"]["resource"]["resource"] = json!("pods");
    let refused = migrations(&client).update(&changed).await.unwrap_err().to_string();
    assert!(refused.contains("field is immutable"), "{refused}");
    changed = failed;
    changed["status"]["conditions"][0]["status"] = json!("False");
    let refused = migrations(&client).update_status(&changed).await.unwrap_err().to_string();
    assert!(refused.contains("Failed condition cannot be set to false once it is true"), "{refused}");
}
