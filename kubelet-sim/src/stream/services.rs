//! Services in the network of simulated pods: names, cluster addresses and ports of nodes. Where they lead the EndpointSlices say, as for
//! kube-proxy and CoreDNS.

use super::Streams;
use super::network::{Transport, vanish};
use super::service_cache::{ServiceInformers, ServiceRecord, SliceRecord};
use crate::dns::{self, DnsName};
use crate::limits::ALIASES;
use crate::service::{self, AskedPort, Endpoint, Meaning};
use k8s_openapi::api::core::v1::Namespace;
use kstore_container_sim::{DnsAnswer, DnsQuestion, DnsRecord, NetworkFailure, RecordKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};
use tokio::time::Instant;

/// The pod that connects: its node and its address.
pub(super) type Client<'a> = (&'a str, IpAddr);

/// What takes a connection to an address of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The endpoint with this address and port.
    Endpoint(SocketAddr),
    /// The API server itself.
    ApiServer,
}

/// What there is at a name.
enum Found {
    /// It stands for another name.
    Alias(String),
    /// Its records of the wanted kind.
    Records(Vec<DnsRecord>),
    /// There is no such name.
    Nothing,
}

impl Streams {
    /// The address that a name means in a namespace.
    pub(super) async fn resolve(&self, name: &str, namespace: &str) -> Option<IpAddr> {
        let mut wanted = service::meanings(name, namespace);
        // A Service may stand for another name, once.
        let mut is_alias = false;
        while !wanted.is_empty() {
            let (host, namespace, name) = match wanted.remove(0) {
                Meaning::Address(address) => return Some(address),
                Meaning::Service(namespace, name) => (None, namespace, name),
                Meaning::PodOf(host, namespace, name) => (Some(host), namespace, name),
            };
            let Some(record) = self.services.service(&namespace, &name).await else { continue };
            let spec = record.service.spec.as_ref()?;
            if let Some(other) = service::alias(&record.service).filter(|_| !is_alias) {
                (is_alias, wanted) = (true, service::meanings(other, &namespace));
                continue;
            }
            if service::is_headless(&record.service) || host.is_some() {
                let slices = self.services.synced().await?.slices_of(record.key());
                return self.one_of(&service::addresses(&named(&slices), host.as_deref()));
            }
            return spec.cluster_ip.as_deref()?.parse().ok();
        }
        None
    }

    /// What takes connections to a cluster address. `None` if no Service has the address.
    pub(super) async fn backend(
        &self,
        (to, transport): (SocketAddr, Transport),
        client: Client<'_>,
    ) -> Option<Result<Destination, NetworkFailure>> {
        let caches = self.services.synced().await?;
        let (record, asked) = (caches.at(to.ip())?, AskedPort::Cluster(to.port()));
        let service = &record.service;
        if service::is_api_server(service) && asked.of(service, transport.text()).is_some() {
            return Some(Ok(Destination::ApiServer));
        }
        if !record.is_proxied {
            return None;
        }
        Some(self.chosen((caches, &record), (asked, transport), to, client).await.map(Destination::Endpoint))
    }

    /// Whether the API server of this process publishes this address, other than that of its Service.
    pub(super) async fn is_api_server(&self, to: SocketAddr) -> bool {
        if self.api_server.is_none() {
            return false;
        }
        self.services.synced().await.is_some_and(|caches| caches.api_server() == Some(to))
    }

    /// What takes connections to a port that all nodes have for a Service; `None` if no Service has it.
    pub(super) async fn node_backend(
        &self,
        (to, transport): (SocketAddr, Transport),
        client: Client<'_>,
    ) -> Option<Result<Destination, NetworkFailure>> {
        let (caches, asked) = (self.services.synced().await?, AskedPort::Node(to.port()));
        let all = caches.at_node_port(to.port());
        let is_meant = |record: &&ServiceRecord| {
            record.is_proxied && asked.of(&record.service, transport.text()).is_some()
        };
        let record = all.iter().map(|record| &**record).find(is_meant)?;
        Some(self.chosen((caches, record), (asked, transport), to, client).await.map(Destination::Endpoint))
    }

    async fn chosen(
        &self,
        (caches, record): (&ServiceInformers, &ServiceRecord),
        (asked, transport): (AskedPort, Transport),
        to: SocketAddr,
        (node, client): Client<'_>,
    ) -> Result<SocketAddr, NetworkFailure> {
        let (service, slices) = (&record.service, caches.slices_of(record.key()));
        let of_slice = slices.iter().filter(|slice| slice.is_proxied).flat_map(|slice| &slice.endpoints);
        let endpoints = of_slice.filter(|endpoint| endpoint.address().is_ipv4() == to.is_ipv4());
        let all = match service::backends(service, (asked, transport.text()), endpoints, node) {
            Some(Ok(all)) => all,
            Some(Err(service::Dropped)) => return Err(vanish(to.ip()).await),
            None => Vec::new(),
        };
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let chosen = match service::affinity(service) {
            None => self.one_of(&all),
            Some(timeout) => {
                let session = (Arc::from(uid), to.port(), client);
                let mut affinities = self.affinities.lock().unwrap_or_else(PoisonError::into_inner);
                affinities.endpoint(session, &all, (timeout, Instant::now()), || self.one_of(&all))
            }
        };
        chosen.ok_or(NetworkFailure::Refused(to.ip()))
    }

    /// The slices of a Service, with the endpoints that its names have.
    async fn slices_of(&self, record: &ServiceRecord) -> Vec<Arc<SliceRecord>> {
        self.services.synced().await.map(|caches| caches.slices_of(record.key())).unwrap_or_default()
    }

    /// Answers a question as the cluster's name server does.
    pub(super) async fn lookup(&self, question: &DnsQuestion) -> DnsAnswer {
        let (mut records, mut name) = (Vec::new(), question.name.clone());
        for _ in 0..ALIASES {
            match self.records_of(&name, question.kind).await {
                Found::Alias(to) => {
                    records.push(dns::record(&name, RecordKind::Cname, format!("{to}.")));
                    if question.kind == RecordKind::Cname {
                        break;
                    }
                    name = to;
                }
                Found::Records(found) => {
                    records.extend(found);
                    break;
                }
                // The alias exists, whatever it stands for.
                Found::Nothing => return DnsAnswer { exists: !records.is_empty(), records },
            }
        }
        DnsAnswer { exists: true, records }
    }

    async fn records_of(&self, name: &str, kind: RecordKind) -> Found {
        let records = match DnsName::of(name) {
            None => None,
            Some(DnsName::Zone) => Some(Vec::new()),
            Some(DnsName::Address(address, namespace)) => {
                let exists = self.client.api::<Namespace>().get("", &namespace).await.is_ok();
                exists.then(|| dns::addresses(name, kind, [address]))
            }
            Some(DnsName::Reverse(address)) => self.names_of(name, address, kind).await,
            Some(DnsName::Service(namespace, service)) => {
                return self.service_records(name, kind, (&namespace, &service)).await;
            }
            Some(DnsName::PodOf(host, namespace, service)) => {
                let all = match self.services.service(&namespace, &service).await {
                    Some(record) => service::addresses(&named(&self.slices_of(&record).await), Some(&host)),
                    None => Vec::new(),
                };
                (!all.is_empty()).then(|| dns::addresses(name, kind, all))
            }
            Some(DnsName::PortOf(port, protocol, namespace, service)) => {
                self.port_records(name, kind, (&port, &protocol), (&namespace, &service)).await
            }
        };
        records.map_or(Found::Nothing, Found::Records)
    }

    async fn service_records(
        &self,
        name: &str,
        kind: RecordKind,
        (namespace, service): (&str, &str),
    ) -> Found {
        let Some(record) = self.services.service(namespace, service).await else { return Found::Nothing };
        let service = &record.service;
        if let Some(to) = service::alias(service) {
            return Found::Alias(to.trim_end_matches('.').to_ascii_lowercase());
        }
        if !service::is_headless(service) {
            return Found::Records(dns::addresses(name, kind, service::cluster_addresses(service)));
        }
        let all = service::addresses(&named(&self.slices_of(&record).await), None);
        if all.is_empty() { Found::Nothing } else { Found::Records(dns::addresses(name, kind, all)) }
    }

    async fn port_records(
        &self,
        question: &str,
        kind: RecordKind,
        port: (&str, &str),
        (namespace, service): (&str, &str),
    ) -> Option<Vec<DnsRecord>> {
        let record = self.services.service(namespace, service).await?;
        let (found, slices) = (&record.service, self.slices_of(&record).await);
        let mut ports = found.spec.as_ref()?.ports.iter().flatten();
        let entry = ports.find(|one| one.name.as_deref() == Some(port.0))?;
        let backends = service::backends_of(entry, &named(&slices));
        let name = dns::service_name(namespace, service);
        let records = dns::ports(question, port, &name, found, &backends)?;
        Some(if kind == RecordKind::Srv { records } else { Vec::new() })
    }

    /// The names of an address: of the Service that has it, and of the pods behind headless Services.
    async fn names_of(&self, question: &str, address: IpAddr, kind: RecordKind) -> Option<Vec<DnsRecord>> {
        let caches = self.services.synced().await?;
        let mut names = Vec::new();
        if let Some(record) = caches.at(address) {
            names.push(dns::service_name(record.key().namespace(), record.key().name()));
        } else {
            for key in caches.services_with_endpoint(address) {
                let Some(record) = caches.service(&key) else { continue };
                if service::is_headless(&record.service) {
                    let (slices, name) =
                        (caches.slices_of(&key), dns::service_name(key.namespace(), key.name()));
                    let hosts = named(&slices);
                    names.extend(service::hosts_at(&hosts, address).map(|host| format!("{host}.{name}")));
                }
            }
        }
        let record = |name: String| dns::record(question, RecordKind::Ptr, format!("{name}."));
        let is_wanted = kind == RecordKind::Ptr;
        (!names.is_empty()).then(|| names.into_iter().filter(|_| is_wanted).map(record).collect())
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> Option<T> {
        let index = self.rng.below(u64::try_from(all.len()).ok().filter(|count| *count > 0)?);
        all.get(usize::try_from(index).ok()?).copied()
    }
}

/// The endpoints that names of a Service lead to: ready ones, in all slices.
fn named(slices: &[Arc<SliceRecord>]) -> Vec<&Endpoint> {
    slices.iter().flat_map(|slice| &slice.endpoints).filter(|endpoint| endpoint.is_ready()).collect()
}
