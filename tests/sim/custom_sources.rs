//! A custom kind with typed and dynamic clients, and with every source of informers: kstore's gRPC interface
//! with and without a wire, and REST through kube-rs, typed and untyped. All sources keep the source
//! contract.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use kstore_client::{
    Api, Client, Custom, CustomSpec, DeleteParams, DynamicObject, Gvr, ListParams, Obj, Patch, Source,
    WatchParams, revision_of,
};
use kstore_informer::kube::{Kube, KubeSource};
use kstore_informer::testing::contract::ContractWorld;
use kstore_informer::{Builder, Key, ListerWatcher, Revision, source_contract};
use kstore_tests::{Cluster, Setup, Switchable, simulate};
use kube_client::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LampSpec {
    number: u64,
}

impl CustomSpec for LampSpec {
    const API_VERSION: &'static str = "shop.example.com/v1";
    const KIND: &'static str = "Lamp";
    const PLURAL: &'static str = "lamps";
    type Scope = NamespaceResourceScope;
    type Status = Value;
}

type Lamp = Custom<LampSpec>;

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.shop.example.com"},
        "spec": {"group": "shop.example.com", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]}})
}

fn lamps() -> Gvr {
    Gvr::of::<Lamp>()
}

#[test]
fn typed_and_dynamic_clients_read_and_write_custom_objects_over_grpc() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(definition()).await;
        let typed: Api<Lamp> = cluster.client().api();
        let dynamic = cluster.client().dynamic(lamps());
        let made = typed.create("default", &Lamp::new("hall", LampSpec { number: 1 })).await.unwrap();
        assert!(made.metadata.uid.is_some() && made.metadata.generation == Some(1));
        let refused = json!({"apiVersion": "shop.example.com/v1", "kind": "Lamp", "metadata": {"name": "x"}, "spec": {"number": "one"}});
        let refused = dynamic.create("default", &refused).await.unwrap_err();
        assert!(refused.is_invalid(), "{refused}");
        assert_eq!(refused.causes()[0].field, "spec.number");

        let mut changed = typed.get("default", "hall").await.unwrap();
        changed.spec.number = 2;
        changed.status = Some(json!({"lit": true}));
        let stale = changed.clone();
        let changed = typed.update(&changed).await.unwrap();
        assert_eq!((changed.spec.number, &changed.status), (2, &None), "the status has a way of its own");
        assert!(typed.update(&stale).await.unwrap_err().is_conflict());
        let status = Patch::Merge(json!({"status": {"lit": true}}));
        let lit = typed.patch_status("default", "hall", &status).await.unwrap();
        assert_eq!((lit.spec.number, lit.status), (2, Some(json!({"lit": true}))));
        let apply = Patch::Apply {
            object: json!({"apiVersion": "shop.example.com/v1", "kind": "Lamp", "metadata": {"name": "attic"}, "spec": {"number": 3}}),
            force: false,
        };
        assert_eq!(dynamic.patch("default", "attic", "", &apply).await.unwrap()["spec"]["number"], 3);

        let (all, revision) = typed.list("", &ListParams::default()).await.unwrap();
        let names = all.iter().map(|lamp| lamp.metadata.name.as_deref().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["attic", "hall"]);
        assert!(revision >= revision_of(&all[0]));
        typed.delete("default", "hall", &DeleteParams::default()).await.unwrap();
        dynamic.delete_collection("default", &ListParams::default(), &DeleteParams::default()).await.unwrap();
        assert!(typed.get("default", "attic").await.unwrap_err().is_not_found());
        let unknown = cluster.client().dynamic(Gvr::new("shop.example.com", "v2", "lamps"));
        assert!(unknown.list("", &ListParams::default()).await.unwrap_err().is_not_found());
    });
}

/// Awaits with a timeout: an informer retries forever, so virtual time would never stop.
async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(600), wait).await;
    waited.unwrap_or_else(|_| panic!("timed out waiting until {what}"))
}

#[test]
fn an_informer_that_starts_before_its_kind_is_defined_follows_it_through_its_life() {
    simulate(Setup::api_alone(), async |cluster| {
        let stop = CancellationToken::new();
        let lamps = Builder::new(cluster.client().api::<Lamp>().source(WatchParams::default())).spawn(&stop);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!lamps.is_synced(), "the kind is unknown");
        cluster.create(definition()).await;
        within("the informer is synced", lamps.synced()).await.unwrap();
        let api: Api<Lamp> = cluster.client().api();
        let key = Key::new("default", "hall");
        api.create("default", &Lamp::new("hall", LampSpec { number: 1 })).await.unwrap();
        let seen = within("the object is seen", lamps.until(&key, |lamp| lamp.is_some())).await;
        assert_eq!(seen.unwrap().unwrap().spec.number, 1);
        // The definition is deleted, and its objects before it.
        let definitions = cluster.resource("customresourcedefinitions");
        definitions.delete("", "lamps.shop.example.com", &DeleteParams::default()).await.unwrap();
        within("the object is deleted", lamps.until(&key, |lamp| lamp.is_none())).await.unwrap();
        let gone = async || definitions.get("", "lamps.shop.example.com").await.is_err();
        cluster.wait_until("the definition is deleted", gone).await;
        cluster.create(definition()).await;
        let again = api.create("default", &Lamp::new("hall", LampSpec { number: 2 })).await.unwrap();
        let seen = within("the new object is seen", lamps.until(&key, |lamp| lamp.is_some())).await;
        let seen = seen.unwrap().unwrap();
        assert_eq!((&seen.metadata.uid, seen.spec.number), (&again.metadata.uid, 2));
        stop.cancel();
    });
}

/// Lamps of the namespace `default`, read by a source of type `S`.
struct LampSourceFixture<S> {
    client: Client,
    cluster: Cluster,
    line: Switchable,
    source: fn(&Self) -> S,
}

impl<S> LampSourceFixture<S> {
    async fn new(source: fn(&Self) -> S, wired: bool) -> Self {
        let cluster = Cluster::start(Setup::api_alone()).await;
        cluster.create(definition()).await;
        let line = Switchable::new(cluster.in_process());
        let client = Client::over(line.clone(), "contract");
        let feed = line.clone();
        let client = match wired {
            true => client,
            false => client.with_feed(move |request| feed.clone().watch(request)),
        };
        Self { client, cluster, line, source }
    }

    fn lamps(&self) -> Api<Lamp> {
        self.client.api()
    }
}

/// An object with the number of a lamp.
trait Numbered {
    fn number(&self) -> u64;
}

impl Numbered for Obj<Lamp> {
    fn number(&self) -> u64 {
        self.spec.number
    }
}

impl Numbered for DynamicObject {
    fn number(&self) -> u64 {
        self.value()["spec"]["number"].as_u64().unwrap()
    }
}

impl Numbered for Kube<Lamp> {
    fn number(&self) -> u64 {
        self.spec.number
    }
}

impl Numbered for Kube<kube_client::core::DynamicObject> {
    fn number(&self) -> u64 {
        self.data["spec"]["number"].as_u64().unwrap()
    }
}

impl<S: ListerWatcher<Obj: Numbered>> ContractWorld for LampSourceFixture<S> {
    type Source = S;

    fn source(&self) -> S {
        (self.source)(self)
    }

    async fn create(&self, name: &str, number: u64) -> Revision {
        revision_of(&self.lamps().create("default", &Lamp::new(name, LampSpec { number })).await.unwrap())
    }

    async fn update(&self, name: &str, number: u64) -> Revision {
        let patch = Patch::Merge(json!({"spec": {"number": number}}));
        revision_of(&self.lamps().patch("default", name, &patch).await.unwrap())
    }

    async fn delete(&self, name: &str) -> Revision {
        self.lamps().delete("default", name, &DeleteParams::default()).await.unwrap();
        // Without other writers, the newest revision is the deletion's.
        self.lamps().list("default", &ListParams::default()).await.unwrap().1
    }

    fn number(&self, object: &S::Obj) -> u64 {
        object.number()
    }

    async fn elsewhere(&self) -> Option<Revision> {
        let account = from_value(json!({"metadata": {"name": "another"}})).unwrap();
        let created = self.client.api::<ServiceAccount>().create("default", &account).await.unwrap();
        Some(revision_of(&created))
    }

    async fn compact(&self) -> bool {
        self.cluster.store().compact(self.cluster.store().revision()).await.unwrap();
        self.line.switch(self.cluster.another_apiserver().await);
        true
    }

    async fn disconnect(&self) -> bool {
        self.line.cut();
        true
    }
}

fn of_default() -> WatchParams {
    WatchParams::default().ns("default")
}

mod typed_over_grpc {
    use super::*;

    async fn world() -> LampSourceFixture<Source<Obj<Lamp>>> {
        LampSourceFixture::new(|world| world.lamps().source(of_default()), true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod dynamic_without_a_wire {
    use super::*;

    async fn world() -> LampSourceFixture<Source<DynamicObject>> {
        LampSourceFixture::new(|world| world.client.dynamic(lamps()).source(of_default()), false).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

fn kube<S>(world: &LampSourceFixture<S>) -> kube_client::Client {
    kube_client::Client::new(world.line.clone(), "default")
}

mod typed_over_rest {
    use super::*;

    type Lamps = KubeSource<Kube<Lamp>>;

    async fn world() -> LampSourceFixture<Lamps> {
        let source = |world: &LampSourceFixture<Lamps>| {
            Lamps::new(&kube(world)).namespace("default").progress_every(Duration::from_secs(60))
        };
        LampSourceFixture::new(source, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod dynamic_over_rest_without_streaming_lists {
    use super::*;

    type Lamps = KubeSource<Kube<kube_client::core::DynamicObject>>;

    async fn world() -> LampSourceFixture<Lamps> {
        let source = |world: &LampSourceFixture<Lamps>| {
            let kind = GroupVersionKind::gvk("shop.example.com", "v1", "Lamp");
            let resource = ApiResource::from_gvk_with_plural(&kind, "lamps");
            let lamps = Lamps::of(&kube(world), &resource).namespace("default");
            lamps.progress_every(Duration::from_secs(60)).without_streaming()
        };
        LampSourceFixture::new(source, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

/// The source of kstore's API before a server of which only the REST API is used.
mod typed_before_kubernetes {
    use super::*;

    async fn world() -> LampSourceFixture<Source<Obj<Lamp>>> {
        let source = |world: &LampSourceFixture<Source<Obj<Lamp>>>| {
            let client = Client::over_kubernetes(world.line.clone(), "contract");
            client.api::<Lamp>().source(of_default())
        };
        LampSourceFixture::new(source, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}
