//! End-to-end tests of derived custom kinds: a cluster serves the definition, and its objects work with typed clients, an informer,
//! kube-rs, the subresources `status` and `scale`, selectors and columns.

use k8s_openapi::NamespaceResourceScope;
use kstore_client::crd::CustomResource;
use kstore_client::{Gvr, ListParams, Patch, WatchParams};
use kstore_derive::CustomResource;
use kstore_informer::{Builder, Key};
use kstore_testing::Cluster;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time limit of each wait, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a command at the times of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[kstore(group = "stable.example.com", version = "v1", kind = "CronTab", namespaced)]
#[kstore(shortname = "ct", category = "all", derive = "PartialEq", status = "CronTabStatus")]
#[kstore(scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"))]
#[kstore(printcolumn(
    name = "Schedule",
    type = "string",
    json_path = ".spec.schedule",
    description = "When it runs"
))]
#[kstore(printcolumn(name = "Replicas", type = "integer", json_path = ".spec.replicas", priority = 1))]
#[kstore(selectable = ".spec.schedule")]
#[kstore(validation(
    rule = "self.spec.replicas <= self.spec.limit",
    message = "more replicas than the limit",
    field_path = ".spec.replicas"
))]
struct CronTabSpec {
    /// Cron schedule.
    schedule: String,
    #[serde(default)]
    replicas: i32,
    #[serde(default = "ten")]
    limit: i32,
    overlap: Option<Overlap>,
    action: Action,
}

fn ten() -> i32 {
    10
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Overlap {
    Allow,
    Forbid,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Action {
    Command { args: Vec<String> },
    Url(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct CronTabStatus {
    replicas: i32,
    selector: Option<String>,
}

/// Settings of a whole cluster.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kstore(
    group = "stable.example.com",
    version = "v1beta1",
    kind = "Settings",
    plural = "settings",
    deprecated
)]
struct SettingsSpec {
    is_on: bool,
}

fn nightly() -> CronTab {
    let action = Action::Command { args: vec!["backup".into()] };
    CronTab::new(
        "nightly",
        CronTabSpec { schedule: "0 3 * * *".into(), replicas: 1, limit: 10, overlap: None, action },
    )
}

async fn define<K: CustomResource>(cluster: &Cluster) -> Value {
    let definition = serde_json::to_string(&K::crd()).expect("a definition is JSON");
    cluster.apply(&definition).await.expect("the definition is valid").remove(0)
}

fn is_object_type<K: k8s_openapi::Resource<Scope = NamespaceResourceScope>>() {}

#[tokio::test]
async fn a_derived_kind_is_defined_created_watched_updated_and_scaled() {
    is_object_type::<CronTab>();
    let cluster = Cluster::start().await;
    let stop = CancellationToken::new();
    let api = cluster.client().api::<CronTab>();
    define::<CronTab>(&cluster).await;
    let tabs = Builder::new(api.source(WatchParams::default())).spawn(&stop);
    tokio::time::timeout(PATIENCE, tabs.synced()).await.unwrap().unwrap();

    let created = api.create("default", &nightly()).await.unwrap();
    assert_eq!((&created.spec, created.metadata.generation), (&nightly().spec, Some(1)));
    let key = Key::new("default", "nightly");
    let seen = tokio::time::timeout(PATIENCE, tabs.until(&key, |tab| tab.is_some())).await.unwrap();
    assert_eq!(seen.unwrap().unwrap().spec, nightly().spec);

    let mut with_status = created;
    with_status.spec.replicas = 5;
    with_status.status = Some(CronTabStatus { replicas: 1, selector: Some("app=nightly".into()) });
    let updated = api.update_status(&with_status).await.unwrap();
    assert_eq!(
        (updated.spec.replicas, &updated.status),
        (1, &with_status.status),
        "only the status was written"
    );
    let reported = tabs.until(&key, |tab| tab.is_some_and(|tab| tab.status.is_some()));
    tokio::time::timeout(PATIENCE, reported).await.unwrap().unwrap();

    let scale =
        cluster.client().get_path("/apis/stable.example.com/v1/namespaces/default/crontabs/nightly/scale");
    let scale: Value = serde_json::from_slice(&scale.await.unwrap()).unwrap();
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "app=nightly"}));
    let dynamic = cluster.client().dynamic(Gvr::of::<CronTab>());
    let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
    dynamic.patch("default", "nightly", "scale", &three).await.unwrap();
    let scaled = api.get("default", "nightly").await.unwrap();
    assert_eq!((scaled.spec.replicas, scaled.metadata.generation), (3, Some(2)));
    stop.cancel();
    cluster.stop().await;
}

#[tokio::test]
async fn the_schema_and_the_rules_of_a_derived_kind_are_enforced() {
    let cluster = Cluster::start().await;
    define::<CronTab>(&cluster).await;
    let api = cluster.client().api::<CronTab>();
    let mut tab = nightly();
    tab.spec.replicas = 11;
    let refused = api.create("default", &tab).await.unwrap_err();
    assert!(refused.to_string().contains("more replicas than the limit"), "{refused}");
    assert_eq!(refused.causes()[0].field, "spec.replicas");
    let dynamic = cluster.client().dynamic(Gvr::of::<CronTab>());
    for (field, value) in [
        ("schedule", json!(1)),
        ("overlap", json!("Maybe")),
        ("action", json!({"url": "u", "command": {"args": []}})),
        ("action", json!({})),
    ] {
        let mut object = serde_json::to_value(nightly()).unwrap();
        object["spec"][field] = value;
        let refused = dynamic.create("default", &object).await.unwrap_err();
        assert!(refused.is_invalid(), "{field}: {refused}");
    }
    let object = json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "least"},
        "spec": {"schedule": "* * * * *", "action": {"url": "u"}}});
    dynamic.create("default", &object).await.unwrap();
    let least = api.get("default", "least").await.unwrap();
    assert_eq!((least.spec.replicas, least.spec.limit), (0, 10), "defaults of serde are those of the schema");
    cluster.stop().await;
}

#[tokio::test]
async fn names_columns_and_selectors_of_a_derived_kind_are_served() {
    let cluster = Cluster::start().await;
    define::<CronTab>(&cluster).await;
    let settings = define::<Settings>(&cluster).await;
    assert_eq!(settings["spec"]["scope"], "Cluster");
    assert_eq!(settings["spec"]["versions"][0]["deprecated"], true);
    let api = cluster.client().api::<CronTab>();
    api.create("default", &nightly()).await.unwrap();
    let mut other = nightly();
    other.metadata.name = Some("other".into());
    other.spec.schedule = "0 4 * * *".into();
    api.create("default", &other).await.unwrap();
    let (found, _) = api.list("", &ListParams::default().fields("spec.schedule=0 4 * * *")).await.unwrap();
    assert_eq!(found.iter().map(|tab| tab.metadata.name.as_deref()).collect::<Vec<_>>(), [Some("other")]);

    let document = cluster.client().get_path("/apis/stable.example.com/v1").await.unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let names: Vec<_> =
        document["resources"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["crontabs", "crontabs/status", "crontabs/scale"]);
    assert_eq!(document["resources"][0]["shortNames"], json!(["ct"]));
    assert_eq!(document["resources"][0]["categories"], json!(["all"]));

    let table = kube_client::Api::<CronTab>::default_namespaced(cluster.kube());
    let tab = table.get("nightly").await.unwrap();
    assert_eq!(tab.spec, nightly().spec, "kube-rs reads the same type");
    let settings = cluster.client().api::<Settings>();
    settings.create("", &Settings::new("main", SettingsSpec { is_on: true })).await.unwrap();
    assert!(settings.get("", "main").await.unwrap().spec.is_on);
    cluster.stop().await;
}
