//! The informers that all controllers share, and the indexes on them. One place, so that each kind is watched once.

use crate::claim::{Claimable, controller_of};
use crate::garbage_collector::member::{self, Member};
use crate::view::{self, Lease, Plain, Pod};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_client::{Client, Obj, WatchParams};
use kstore_informer::{Builder, Index, Informer, ListerWatcher};
use kstore_nondet::Nondet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where an object is found by those who may control it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// By the uid of its controller.
    By(String),
    /// It has none: by its namespace.
    Free(String),
    /// By the node it is bound to.
    On(String),
}

/// All caches.
pub(crate) struct Caches {
    pub deployments: Informer<Obj<Deployment>>,
    pub sets: Informer<Obj<ReplicaSet>>,
    pub sets_held: Index<Obj<ReplicaSet>, Held>,
    pub pods: Informer<Pod>,
    pub pods_held: Index<Pod, Held>,
    pub nodes: Informer<Obj<Node>>,
    pub leases: Informer<Lease>,
    pub namespaces: Informer<Obj<Namespace>>,
    /// The accounts named `default`.
    pub accounts: Informer<Plain>,
    /// The ConfigMaps that hold the root certificate.
    pub root_cas: Informer<Obj<ConfigMap>>,
    pub services: Informer<Obj<Service>>,
    pub slices: Informer<Obj<EndpointSlice>>,
    /// Slices by namespace and name of their service.
    pub slices_of: Index<Obj<EndpointSlice>, (String, String)>,
    pub endpoints: Informer<Obj<core::Endpoints>>,
    /// The metadata of all objects of all kinds.
    pub everything: Informer<Member>,
}

/// Spawns what drives the informers, where the runner waits for it.
struct Spawner<'a> {
    tasks: &'a TaskTracker,
    stop: &'a CancellationToken,
    nondet: &'a Nondet,
}

impl Spawner<'_> {
    fn start<S: ListerWatcher>(&self, name: &str, builder: Builder<S>) -> Informer<S::Obj> {
        let (informer, driver) = builder.name(name).rng(&self.nondet.rng).build(self.stop);
        self.tasks.spawn(driver);
        informer
    }
}

impl Caches {
    /// Starts all informers as tasks of `tasks`.
    pub(crate) fn start(
        client: &Client,
        nondet: &Nondet,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let spawner = Spawner { tasks, stop, nondet };
        let all = WatchParams::default;
        let named = |name: &str| WatchParams::default().fields(&format!("metadata.name={name}"));
        let sets_held = Index::new(|set: &Obj<ReplicaSet>, emit: &mut dyn FnMut(Held)| {
            emit(holder(&**set, set.metadata.namespace.as_deref().unwrap_or_default()));
        });
        let pods_held = Index::new(|pod: &Pod, emit: &mut dyn FnMut(Held)| {
            emit(holder(pod, &pod.metadata.namespace));
            if !pod.spec.node_name.is_empty() {
                emit(Held::On(pod.spec.node_name.clone()));
            }
        });
        let slices_of = Index::new(|slice: &Obj<EndpointSlice>, emit: &mut dyn FnMut((String, String))| {
            let service =
                slice.metadata.labels.as_ref().and_then(|l| l.get(crate::endpoint_slice::SERVICE_LABEL));
            if let Some(service) = service {
                emit((slice.metadata.namespace.clone().unwrap_or_default(), service.clone()));
            }
        });
        let sets = Builder::new(client.api::<ReplicaSet>().source(all())).index(&sets_held);
        let pods = Builder::new(client.api::<core::Pod>().project(all(), view::decode_pod)).index(&pods_held);
        let leases =
            client.api::<coordination::Lease>().project(all().ns("kube-node-lease"), view::decode::<Lease>);
        let accounts = client.api::<ServiceAccount>();
        let accounts = accounts.project(named(crate::service_account::DEFAULT), view::decode::<Plain>);
        let root_cas = client.api::<ConfigMap>().source(named(crate::service_account::ROOT_CA));
        let slices = Builder::new(client.api::<EndpointSlice>().source(all())).index(&slices_of);
        Self {
            deployments: spawner.start("deployments", Builder::new(client.api::<Deployment>().source(all()))),
            sets: spawner.start("replicasets", sets),
            sets_held,
            pods: spawner.start("pods", pods),
            pods_held,
            nodes: spawner.start("nodes", Builder::new(client.api::<Node>().source(all()))),
            leases: spawner.start("leases", Builder::new(leases)),
            namespaces: spawner.start("namespaces", Builder::new(client.api::<Namespace>().source(all()))),
            accounts: spawner.start("serviceaccounts", Builder::new(accounts)),
            root_cas: spawner.start("configmaps", Builder::new(root_cas)),
            services: spawner.start("services", Builder::new(client.api::<Service>().source(all()))),
            slices: spawner.start("endpointslices", slices),
            slices_of,
            endpoints: spawner
                .start("endpoints", Builder::new(client.api::<core::Endpoints>().source(all()))),
            everything: spawner.start("everything", Builder::new(member::source(client))),
        }
    }
}

fn holder(object: &impl Claimable, namespace: &str) -> Held {
    match controller_of(object.owners()) {
        Some(owner) => Held::By(owner.uid.clone()),
        None => Held::Free(namespace.to_owned()),
    }
}
