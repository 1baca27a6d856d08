//! The Services and EndpointSlices of the cluster, for the network of simulated pods. Two watches have those of all namespaces, indexed by
//! what connections and questions ask for; they begin with the first connection or question that needs them.

use crate::limits::CONNECT_TIME;
use crate::service::{self, API_SERVER, Endpoint};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_client::{Client, WatchParams};
use kstore_informer::{Builder, Index, Informer, Key, Object, Revision, TaskGroup};
use kstore_nondet::Rng;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::time::timeout;

/// The label that names the Service of an EndpointSlice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The Services and EndpointSlices of the cluster. Clones are the same.
#[derive(Clone)]
pub(crate) struct ServiceCache {
    client: Client,
    rng: Rng,
    tasks: TaskGroup,
    informers: Arc<OnceLock<ServiceInformers>>,
}

impl ServiceCache {
    /// The Services and EndpointSlices that `client` may list and watch. Their watches run as two of `tasks`, once they are asked for.
    pub(crate) fn new(client: Client, rng: Rng, tasks: TaskGroup) -> Self {
        Self { client, rng, tasks, informers: Arc::default() }
    }

    /// The caches, once they have the first lists; `None` if these do not come in the time of a connection.
    pub(super) async fn synced(&self) -> Option<&ServiceInformers> {
        let informers = self.informers.get_or_init(|| self.start());
        if !(informers.services.is_synced() && informers.slices.is_synced()) {
            let both = async { (informers.services.synced().await, informers.slices.synced().await) };
            let (Ok(()), Ok(())) = timeout(CONNECT_TIME, both).await.ok()? else { return None };
        }
        Some(informers)
    }

    /// The Service with this name. One that the cache does not show is asked for, so that a Service has its name as soon as it was created.
    pub(super) async fn service(&self, namespace: &str, name: &str) -> Option<Arc<ServiceRecord>> {
        let informers = self.synced().await?;
        let key = Key::new(namespace, name);
        if let Some(known) = informers.services.get(&key) {
            return Some(known);
        }
        let service = self.client.api::<Service>().get(namespace, name).await.ok()?;
        let record = ServiceRecord::new(service);
        // Its address leads to it from then on.
        let _ = timeout(CONNECT_TIME, informers.services.wait_for(record.revision)).await;
        informers.services.get(&key).or_else(|| Some(Arc::new(record)))
    }

    fn start(&self) -> ServiceInformers {
        let by_address = Index::new(|record: &ServiceRecord, emit: &mut dyn FnMut(IpAddr)| {
            service::cluster_addresses(&record.service).into_iter().for_each(emit);
        });
        let by_node_port = Index::new(|record: &ServiceRecord, emit: &mut dyn FnMut(u16)| {
            service::node_ports(&record.service).into_iter().for_each(emit);
        });
        let of_service = Index::new(|record: &SliceRecord, emit: &mut dyn FnMut(Key)| {
            record.service.iter().cloned().for_each(emit);
        });
        let at_address = Index::new(|record: &SliceRecord, emit: &mut dyn FnMut(IpAddr)| {
            record.endpoints.iter().map(Endpoint::address).for_each(emit);
        });
        let source = self.client.api::<Service>().project(WatchParams::default(), ServiceRecord::decode);
        let services = Builder::new(source).name("kubelet-services").rng(&self.rng);
        let services = services.index(&by_address).index(&by_node_port);
        let (services, driver) = services.build(self.tasks.stop());
        self.tasks.spawn(driver);
        let source = self.client.api::<EndpointSlice>().project(WatchParams::default(), SliceRecord::decode);
        let slices = Builder::new(source).name("kubelet-endpoint-slices").rng(&self.rng);
        let slices = slices.index(&of_service).index(&at_address);
        let (slices, driver) = slices.build(self.tasks.stop());
        self.tasks.spawn(driver);
        ServiceInformers { services, slices, by_address, by_node_port, of_service, at_address }
    }
}

/// The caches of a [`ServiceCache`], with their indexes.
pub(super) struct ServiceInformers {
    services: Informer<ServiceRecord>,
    slices: Informer<SliceRecord>,
    by_address: Index<ServiceRecord, IpAddr>,
    by_node_port: Index<ServiceRecord, u16>,
    of_service: Index<SliceRecord, Key>,
    at_address: Index<SliceRecord, IpAddr>,
}

impl ServiceInformers {
    /// The Service that has a cluster address.
    pub(super) fn at(&self, address: IpAddr) -> Option<Arc<ServiceRecord>> {
        self.services.view().by(&self.by_address, &address).next().cloned()
    }

    /// The Services that have a port of all nodes, of any protocol.
    pub(super) fn at_node_port(&self, port: u16) -> Vec<Arc<ServiceRecord>> {
        self.services.by(&self.by_node_port, &port)
    }

    /// The EndpointSlices of a Service, whatever manages them.
    pub(super) fn slices_of(&self, service: &Key) -> Vec<Arc<SliceRecord>> {
        self.slices.by(&self.of_service, service)
    }

    /// The Service with this name, if the cache shows it.
    pub(super) fn service(&self, key: &Key) -> Option<Arc<ServiceRecord>> {
        self.services.get(key)
    }

    /// The Services that have an endpoint with an address, each once.
    pub(super) fn services_with_endpoint(&self, address: IpAddr) -> Vec<Key> {
        let slices = self.slices.by(&self.at_address, &address);
        let mut services: Vec<Key> = slices.iter().filter_map(|slice| slice.service.clone()).collect();
        services.sort_unstable();
        services.dedup();
        services
    }

    /// Where the API server listens, as it publishes it.
    pub(super) fn api_server(&self) -> Option<SocketAddr> {
        let slice = self.slices.get(&Key::new(API_SERVER.0, API_SERVER.1))?;
        let endpoint = slice.endpoints.first()?;
        Some(SocketAddr::new(endpoint.address(), endpoint.first_port()?))
    }
}

/// A Service in the cache.
pub(super) struct ServiceRecord {
    key: Key,
    revision: Revision,
    pub(super) service: Service,
    /// Whether connections to its cluster address and its ports of nodes are served.
    pub(super) is_proxied: bool,
}

impl ServiceRecord {
    fn new(mut service: Service) -> Self {
        let is_proxied = service::is_proxied(&service);
        let (key, revision) = identity(&service.metadata);
        // What no connection needs is not kept.
        let meta = &mut service.metadata;
        (meta.managed_fields, meta.annotations, meta.labels) = (None, None, None);
        Self { key, revision, service, is_proxied }
    }

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json).map(Self::new)
    }

    /// Namespace and name.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }
}

impl Object for ServiceRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        self.service.metadata.uid.as_deref().unwrap_or_default()
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

/// An EndpointSlice in the cache.
pub(super) struct SliceRecord {
    key: Key,
    revision: Revision,
    uid: String,
    /// Namespace and name of its Service, if it has one.
    service: Option<Key>,
    /// Whether connections through the Service go to its endpoints.
    pub(super) is_proxied: bool,
    pub(super) endpoints: Vec<Endpoint>,
}

impl SliceRecord {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let slice: EndpointSlice = serde_json::from_slice(json)?;
        let (key, revision) = identity(&slice.metadata);
        let name = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
        let service = name.map(|name| Key::new(key.namespace(), name));
        let uid = slice.metadata.uid.clone().unwrap_or_default();
        let (is_proxied, endpoints) = (service::is_proxied_slice(&slice), service::slice_endpoints(&slice));
        Ok(Self { key, revision, uid, service, is_proxied, endpoints })
    }
}

impl Object for SliceRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

fn identity(meta: &ObjectMeta) -> (Key, Revision) {
    let text = |member: &Option<String>| member.clone().unwrap_or_default();
    let revision = Revision(text(&meta.resource_version).parse().unwrap_or_default());
    (Key::new(&text(&meta.namespace), &text(&meta.name)), revision)
}
