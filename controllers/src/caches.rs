//! The informers that all controllers share, and the indexes on them. One place, so that each kind is watched once, and all on one
//! stream: the caches pass through the same revisions together.

use crate::claim::{Claimable, controller_of};
use crate::garbage_collector::member::{self, Member};
use crate::resource::Resource;
use crate::view::{self, Address, Lease, Plain, Pod, Scaled};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, ReplicationController, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kstore_client::{Client, Obj, WatchParams};
use kstore_informer::metrics::Registry;
use kstore_informer::{Builder, Context, Index, Informer, ListerWatcher, Revision, TaskGroup};
use kstore_nondet::Nondet;
use std::net::IpAddr;

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
    pub stateful_sets: Informer<Scaled>,
    pub replication_controllers: Informer<Scaled>,
    pub budgets: Informer<Obj<PodDisruptionBudget>>,
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
    /// Services by their addresses.
    pub services_at: Index<Obj<Service>, IpAddr>,
    /// Which addresses are taken.
    pub addresses: Informer<Address>,
    /// Where addresses come from.
    pub service_cidrs: Informer<Obj<ServiceCIDR>>,
    pub slices: Informer<Obj<EndpointSlice>>,
    /// Slices by namespace and name of their service.
    pub slices_of: Index<Obj<EndpointSlice>, (String, String)>,
    pub endpoints: Informer<Obj<core::Endpoints>>,
    pub policies: Informer<Obj<ValidatingAdmissionPolicy>>,
    /// The metadata of all objects of all kinds.
    pub everything: Informer<Member>,
}

/// Spawns what drives the informers, where the runner waits for it.
struct Spawner<'a> {
    tasks: &'a TaskGroup,
    nondet: &'a Nondet,
    metrics: &'a Registry,
}

impl Spawner<'_> {
    fn start<S: ListerWatcher>(&self, name: &str, builder: Builder<S>) -> Informer<S::Obj> {
        let builder = builder.name(name).rng(&self.nondet.rng).metrics(self.metrics);
        let (informer, driver) = builder.build(self.tasks.stop());
        self.tasks.spawn(driver);
        informer
    }
}

impl Caches {
    /// Starts all informers as tasks of `tasks`.
    pub(crate) fn start(client: &Client, nondet: &Nondet, metrics: &Registry, tasks: &TaskGroup) -> Self {
        let spawner = Spawner { tasks, nondet, metrics };
        let multi = client.multi();
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
        let services_at = Index::new(|service: &Obj<Service>, emit: &mut dyn FnMut(IpAddr)| {
            crate::service_address::addresses_of(service).for_each(emit);
        });
        let services = Builder::new(multi.source::<Service>(all())).index(&services_at);
        let addresses = multi.project::<IPAddress, _, _>(all(), view::decode::<Address>);
        let service_cidrs = Builder::new(multi.source::<ServiceCIDR>(all()));
        let sets = Builder::new(multi.source::<ReplicaSet>(all())).index(&sets_held);
        let pods = Builder::new(multi.project::<core::Pod, _, _>(all(), view::decode_pod)).index(&pods_held);
        let stateful_sets = multi.project::<StatefulSet, _, _>(all(), view::decode::<Scaled>);
        let replication_controllers =
            multi.project::<ReplicationController, _, _>(all(), view::decode::<Scaled>);
        let budgets = multi.source::<PodDisruptionBudget>(all());
        let leases =
            multi.project::<coordination::Lease, _, _>(all().ns("kube-node-lease"), view::decode::<Lease>);
        let accounts = multi
            .project::<ServiceAccount, _, _>(named(crate::service_account::DEFAULT), view::decode::<Plain>);
        let root_cas = multi.source::<ConfigMap>(named(crate::root_ca::ROOT_CA));
        let slices = Builder::new(multi.source::<EndpointSlice>(all())).index(&slices_of);
        Self {
            deployments: spawner.start("deployments", Builder::new(multi.source::<Deployment>(all()))),
            sets: spawner.start("replicasets", sets),
            sets_held,
            stateful_sets: spawner.start("statefulsets", Builder::new(stateful_sets)),
            replication_controllers: spawner
                .start("replicationcontrollers", Builder::new(replication_controllers)),
            budgets: spawner.start("poddisruptionbudgets", Builder::new(budgets)),
            pods: spawner.start("pods", pods),
            pods_held,
            nodes: spawner.start("nodes", Builder::new(multi.source::<Node>(all()))),
            leases: spawner.start("leases", Builder::new(leases)),
            namespaces: spawner.start("namespaces", Builder::new(multi.source::<Namespace>(all()))),
            accounts: spawner.start("serviceaccounts", Builder::new(accounts)),
            root_cas: spawner.start("configmaps", Builder::new(root_cas)),
            services: spawner.start("services", services),
            services_at,
            addresses: spawner.start("ipaddresses", Builder::new(addresses)),
            service_cidrs: spawner.start("servicecidrs", service_cidrs),
            slices: spawner.start("endpointslices", slices),
            slices_of,
            endpoints: spawner.start("endpoints", Builder::new(multi.source::<core::Endpoints>(all()))),
            policies: spawner.start(
                "validatingadmissionpolicies",
                Builder::new(multi.source::<ValidatingAdmissionPolicy>(all())),
            ),
            everything: spawner.start("everything", Builder::new(multi.part(member::source(client)))),
        }
    }

    /// Says that the run `cx` wrote `revision`, to the cache that its controller will read it from.
    pub(crate) fn wrote(&self, cx: &Context, resource: &Resource, revision: Revision) {
        match &*resource.plural {
            "configmaps" => cx.wrote(&self.root_cas, revision),
            "deployments" => cx.wrote(&self.deployments, revision),
            "endpoints" => cx.wrote(&self.endpoints, revision),
            "endpointslices" => cx.wrote(&self.slices, revision),
            "ipaddresses" => cx.wrote(&self.addresses, revision),
            "namespaces" => cx.wrote(&self.namespaces, revision),
            "nodes" => cx.wrote(&self.nodes, revision),
            "poddisruptionbudgets" => cx.wrote(&self.budgets, revision),
            "pods" => cx.wrote(&self.pods, revision),
            "replicasets" => cx.wrote(&self.sets, revision),
            "serviceaccounts" => cx.wrote(&self.accounts, revision),
            "servicecidrs" => cx.wrote(&self.service_cidrs, revision),
            "validatingadmissionpolicies" => cx.wrote(&self.policies, revision),
            _ => cx.wrote(&self.everything, revision),
        }
    }
}

fn holder(object: &impl Claimable, namespace: &str) -> Held {
    match controller_of(object.owners()) {
        Some(owner) => Held::By(owner.uid.clone()),
        None => Held::Free(namespace.to_owned()),
    }
}
