//! Owner references from and to custom objects in a whole cluster: the garbage collector discovers kinds
//! while it runs.

use kstore_client::{DeleteParams, DynamicApi, Gvr, Patch, Propagation};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const GROUP: &str = "shop.example.com";

/// A definition with a permissive schema and these versions; the last one is stored.
fn definition(plural: &str, kind: &str, scope: &str, versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": Some(name) == versions.last(),
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "scope": scope, "names": {"plural": plural, "kind": kind},
            "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

async fn define(cluster: &Cluster, plural: &str, kind: &str, versions: &[&str]) {
    cluster.create(definition(plural, kind, "Namespaced", versions)).await;
}

fn api(cluster: &Cluster, version: &'static str, plural: &'static str) -> DynamicApi {
    cluster.client().dynamic(Gvr::new(GROUP, version, plural))
}

fn owned_by(owner: &Value) -> Value {
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}])
}

async fn make(
    cluster: &Cluster,
    version: &'static str,
    plural: &'static str,
    kind: &str,
    name: &str,
    owner: Option<&Value>,
) -> Value {
    let mut object =
        json!({"apiVersion": format!("{GROUP}/{version}"), "kind": kind, "metadata": {"name": name}});
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = owned_by(owner);
    }
    api(cluster, version, plural).create("default", &object).await.unwrap()
}

async fn config_map(cluster: &Cluster, name: &str, owner: Option<&Value>) -> Value {
    let mut object = manifests::config_map(name, "1");
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = owned_by(owner);
    }
    cluster.create(object).await
}

async fn is_there(api: &DynamicApi, name: &str) -> bool {
    match api.get("default", name).await {
        Ok(_) => true,
        Err(error) if error.is_not_found() => false,
        Err(error) => panic!("get {name}: {error}"),
    }
}

async fn wait_gone(cluster: &Cluster, api: &DynamicApi, name: &str) {
    cluster.wait_until(&format!("{name} is deleted"), async || !is_there(api, name).await).await;
}

async fn rest() {
    tokio::time::sleep(Duration::from_secs(90)).await;
}

#[test]
fn background_deletions_follow_owners_between_custom_and_built_in_kinds() {
    simulate(Setup::seed(3).nodes(1), async |cluster| {
        define(cluster, "lamps", "Lamp", &["v1"]).await;
        let (lamps, maps) = (api(cluster, "v1", "lamps"), cluster.resource("configmaps"));
        // lamp → config map → lamp, and one without an owner.
        let first = make(cluster, "v1", "lamps", "Lamp", "first", None).await;
        let map = config_map(cluster, "map", Some(&first)).await;
        make(cluster, "v1", "lamps", "Lamp", "last", Some(&map)).await;
        let other = make(cluster, "v1", "lamps", "Lamp", "other", None).await;
        config_map(cluster, "stays", Some(&other)).await;
        rest().await;
        assert!(is_there(&lamps, "last").await && is_there(&maps, "map").await, "owners exist");
        lamps.delete("default", "first", &DeleteParams::default()).await.unwrap();
        wait_gone(cluster, &maps, "map").await;
        wait_gone(cluster, &lamps, "last").await;
        assert!(is_there(&maps, "stays").await);
    });
}

#[test]
fn foreground_deletion_of_a_custom_owner_waits_for_blocking_dependents() {
    simulate(Setup::seed(4).nodes(1), async |cluster| {
        define(cluster, "lamps", "Lamp", &["v1"]).await;
        let (lamps, maps) = (api(cluster, "v1", "lamps"), cluster.resource("configmaps"));
        let lamp = make(cluster, "v1", "lamps", "Lamp", "lamp", None).await;
        let mut held = manifests::config_map("held", "1");
        held["metadata"]["ownerReferences"] = owned_by(&lamp);
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        cluster.create(held).await;
        let foreground = DeleteParams::default().propagation(Propagation::Foreground);
        lamps.delete("default", "lamp", &foreground).await.unwrap();
        rest().await;
        let waiting = lamps.get("default", "lamp").await.unwrap();
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        assert!(maps.get("default", "held").await.unwrap()["metadata"]["deletionTimestamp"].is_string());
        cluster.merge("configmaps", "held", json!({"metadata": {"finalizers": null}})).await;
        wait_gone(cluster, &lamps, "lamp").await;
    });
}

#[test]
fn orphaned_dependents_of_a_custom_owner_lose_the_reference_and_stay() {
    simulate(Setup::seed(5).nodes(1), async |cluster| {
        define(cluster, "lamps", "Lamp", &["v1"]).await;
        define(cluster, "shades", "Shade", &["v1"]).await;
        let lamp = make(cluster, "v1", "lamps", "Lamp", "lamp", None).await;
        make(cluster, "v1", "shades", "Shade", "shade", Some(&lamp)).await;
        config_map(cluster, "map", Some(&lamp)).await;
        let orphan = DeleteParams::default().propagation(Propagation::Orphan);
        let lamps = api(cluster, "v1", "lamps");
        lamps.delete("default", "lamp", &orphan).await.unwrap();
        wait_gone(cluster, &lamps, "lamp").await;
        rest().await;
        let shade = api(cluster, "v1", "shades").get("default", "shade").await.unwrap();
        let map = cluster.get("configmaps", "default", "map").await.unwrap();
        assert_eq!(
            (&shade["metadata"]["ownerReferences"], &map["metadata"]["ownerReferences"]),
            (&Value::Null, &Value::Null)
        );
    });
}

#[test]
fn references_in_all_versions_of_a_kind_name_one_owner() {
    simulate(Setup::seed(6).nodes(1), async |cluster| {
        define(cluster, "lamps", "Lamp", &["v1beta1", "v1"]).await;
        let mut lamp = make(cluster, "v1", "lamps", "Lamp", "lamp", None).await;
        config_map(cluster, "by-v1", Some(&lamp)).await;
        lamp["apiVersion"] = json!(format!("{GROUP}/v1beta1"));
        config_map(cluster, "by-beta", Some(&lamp)).await;
        lamp["apiVersion"] = json!(format!("{GROUP}/v9"));
        config_map(cluster, "by-unserved", Some(&lamp)).await;
        rest().await;
        let maps = cluster.resource("configmaps");
        let names = ["by-v1", "by-beta", "by-unserved"];
        for name in names {
            assert!(is_there(&maps, name).await, "{name}");
        }
        // The stored version is no longer served: the collector continues with the other one.
        let versions = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
        let definitions = cluster.resource("customresourcedefinitions");
        definitions.patch("", &format!("lamps.{GROUP}"), "", &Patch::Json(versions)).await.unwrap();
        rest().await;
        for name in names {
            assert!(is_there(&maps, name).await, "{name} after the change of versions");
        }
        let lamps = api(cluster, "v1beta1", "lamps");
        let foreground = DeleteParams::default().propagation(Propagation::Foreground);
        lamps.delete("default", "lamp", &foreground).await.unwrap();
        wait_gone(cluster, &lamps, "lamp").await;
        for name in names {
            wait_gone(cluster, &maps, name).await;
        }
    });
}

#[test]
fn dependents_are_collected_when_their_owners_kind_is_deleted_or_defined() {
    simulate(Setup::seed(7).nodes(1), async |cluster| {
        let maps = cluster.resource("configmaps");
        // The kind is unknown, so the owner's existence cannot be determined.
        let ghost = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Lamp", "metadata": {"name": "ghost", "uid": "0-0"}});
        config_map(cluster, "of-ghost", Some(&ghost)).await;
        rest().await;
        assert!(is_there(&maps, "of-ghost").await);
        define(cluster, "lamps", "Lamp", &["v1"]).await;
        wait_gone(cluster, &maps, "of-ghost").await;

        for name in ["a", "b"] {
            let lamp = make(cluster, "v1", "lamps", "Lamp", name, None).await;
            config_map(cluster, &format!("of-{name}"), Some(&lamp)).await;
        }
        rest().await;
        let definitions = cluster.resource("customresourcedefinitions");
        definitions.delete("", &format!("lamps.{GROUP}"), &DeleteParams::default()).await.unwrap();
        for name in ["of-a", "of-b"] {
            wait_gone(cluster, &maps, name).await;
        }
        let gone = async || definitions.get("", &format!("lamps.{GROUP}")).await.is_err();
        cluster.wait_until("the definition is deleted", gone).await;
        // A reference to an owner of a deleted kind, created after the deletion.
        config_map(cluster, "late", Some(&ghost)).await;
        wait_gone(cluster, &maps, "late").await;
    });
}

#[test]
fn the_collector_watches_more_kinds_than_one_stream_can_carry() {
    simulate(Setup::seed(8).nodes(1), async |cluster| {
        let kinds = 40;
        for index in 0..kinds {
            define(cluster, &format!("things{index}"), &format!("Thing{index}"), &["v1"]).await;
        }
        let client = cluster.client();
        let api = |index: usize| client.dynamic(Gvr::new(GROUP, "v1", format!("things{index}")));
        let object = |index: usize, owners: Value| {
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": format!("Thing{index}"),
                "metadata": {"name": "x", "ownerReferences": owners}})
        };
        let mut owner = api(0).create("default", &object(0, json!([]))).await.unwrap();
        for index in 1..kinds {
            owner = api(index).create("default", &object(index, owned_by(&owner))).await.unwrap();
        }
        rest().await;
        api(0).delete("default", "x", &DeleteParams::default()).await.unwrap();
        for index in 1..kinds {
            wait_gone(cluster, &api(index), "x").await;
        }
    });
}
