//! A custom kind defined as a Rust type of kstore's client, used with kube-rs's runtime: a controller
//! maintains its status and its owned objects. Definitions from kube-rs's derive macro need no test here,
//! since they are like any others.

use super::{KubeRsFixture, from};
use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kstore_client::{Custom, CustomSpec};
use kstore_tests::wait::PATIENCE;
use kube_client::Client;
use kube_client::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Resource as _, ResourceExt as _,
};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::wait::{await_condition, conditions};
use kube_runtime::watcher;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A string of lamps.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct GarlandSpec {
    lamps: i32,
    /// Optional here; the definition has a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    color: Option<Color>,
    /// Names of the broken lamps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    broken_lamps: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
enum Color {
    Warm,
    Cold,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct GarlandStatus {
    /// Number of lit lamps.
    lit: i32,
}

impl CustomSpec for GarlandSpec {
    const API_VERSION: &'static str = "tests.kstore.io/v1";
    const KIND: &'static str = "Garland";
    const PLURAL: &'static str = "garlands";
    type Scope = NamespaceResourceScope;
    type Status = GarlandStatus;
}

type Garland = Custom<GarlandSpec>;

fn definition() -> CustomResourceDefinition {
    let spec = json!({"type": "object", "required": ["lamps"], "properties": {
        "lamps": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 1000},
        "color": {"type": "string", "enum": ["Warm", "Cold"], "default": "Warm"},
        "brokenLamps": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}});
    let status = json!({"type": "object", "properties": {"lit": {"type": "integer", "format": "int32"}}});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status},
        "x-kubernetes-validations": [{"rule": "self.metadata.name != 'dark'"}]});
    let scale = json!({"specReplicasPath": ".spec.lamps", "statusReplicasPath": ".status.lit"});
    from(json!({"metadata": {"name": "garlands.tests.kstore.io"}, "spec": {
        "group": "tests.kstore.io", "scope": "Namespaced",
        "names": {"plural": "garlands", "kind": "Garland", "shortNames": ["gl"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "subresources": {"status": {}, "scale": scale}}]}}))
}

fn in_time<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    // kube-rs's futures are large.
    let what = Box::pin(what);
    async { tokio::time::timeout(PATIENCE, what).await.unwrap() }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failure(#[from] kube_client::Error);

/// Reconciles a garland: a ConfigMap with its color, and a status with the number of lit lamps.
async fn reconcile(garland: Arc<Garland>, client: Arc<Client>) -> Result<Action, Failure> {
    let name = garland.name_any();
    let owner = garland.controller_owner_ref(&()).unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {"color": garland.spec.color}});
    let apply = PatchParams::apply("garlands").force();
    let maps = Api::<ConfigMap>::default_namespaced((*client).clone());
    maps.patch(&name, &apply, &Patch::Apply(map)).await?;
    let lit = garland.spec.lamps - i32::try_from(garland.spec.broken_lamps.len()).unwrap();
    if garland.status.as_ref().is_none_or(|status| status.lit != lit) {
        let garlands = Api::<Garland>::default_namespaced((*client).clone());
        let status = json!({"status": GarlandStatus { lit }});
        garlands.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(Action::await_change())
}

#[tokio::test]
async fn a_typed_custom_kind_is_validated_scaled_and_reconciled() {
    let world = KubeRsFixture::new().await;
    let definitions = Api::<CustomResourceDefinition>::all(world.client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let established =
        await_condition(definitions, "garlands.tests.kstore.io", conditions::is_crd_established());
    in_time(established).await.unwrap();

    let garlands = Api::<Garland>::default_namespaced(world.client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let controller = Controller::new(garlands.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(world.client.clone()),
        );
    let running = tokio::spawn(controller.for_each(|_| async {}));

    let spec =
        |lamps, color| GarlandSpec { lamps, color: Some(color), broken_lamps: vec!["third".to_owned()] };
    for (name, lamps) in [("none", 0), ("dark", 5)] {
        let garland = Garland::new(name, spec(lamps, Color::Warm));
        let refused = garlands.create(&PostParams::default(), &garland).await.unwrap_err();
        let kube_client::Error::Api(status) = refused else { panic!("{name}: {refused}") };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{name}: {}", status.message);
    }
    // A field with a default may be omitted.
    let tree: Garland = from(json!({"apiVersion": "tests.kstore.io/v1", "kind": "Garland",
        "metadata": {"name": "tree"}, "spec": {"lamps": 5, "brokenLamps": ["third"]}}));
    let made = garlands.create(&PostParams::default(), &tree).await.unwrap();
    assert_eq!(made.spec.color, Some(Color::Warm));
    garlands.create(&PostParams::default(), &Garland::new("porch", spec(9, Color::Cold))).await.unwrap();

    let lit = |wanted: i32| {
        move |garland: Option<&Garland>| {
            garland.and_then(|garland| garland.status.as_ref()).is_some_and(|status| status.lit == wanted)
        }
    };
    in_time(await_condition(garlands.clone(), "tree", lit(4))).await.unwrap();
    in_time(await_condition(garlands.clone(), "porch", lit(8))).await.unwrap();
    assert_eq!(maps.get("porch").await.unwrap().data.unwrap()["color"], "Cold");

    let cold = garlands.list(&ListParams::default().fields("spec.color=Cold")).await.unwrap();
    assert_eq!(cold.items.iter().map(|garland| garland.name_any()).collect::<Vec<_>>(), ["porch"]);

    let scaled = json!({"spec": {"replicas": 20}});
    let scale = garlands.patch_scale("tree", &PatchParams::default(), &Patch::Merge(scaled)).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(20));
    in_time(await_condition(garlands.clone(), "tree", lit(19))).await.unwrap();
    assert_eq!(garlands.get_scale("tree").await.unwrap().status.unwrap().replicas, 19);

    let map = maps.get("tree").await.unwrap().uid().unwrap();
    garlands.delete("tree", &DeleteParams::default()).await.unwrap();
    in_time(await_condition(maps, "tree", conditions::is_deleted(&map))).await.unwrap();
    running.abort();
}
