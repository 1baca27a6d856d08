//! Services in the network of simulated pods: names and cluster addresses, read from the API whenever a command connects. So nothing runs
//! while no command connects, and a connection never reaches a pod that the API no longer shows.

use super::Streams;
use super::network::{Transport, vanish};
use crate::dns::{self, DnsName};
use crate::limits::ALIASES;
use crate::service::{self, AskedPort, Endpoint, Meaning};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_client::ListParams;
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
            let Ok(service) = self.client.api::<Service>().get(&namespace, &name).await else { continue };
            let spec = service.spec.as_ref()?;
            if let Some(other) = service::alias(&service).filter(|_| !is_alias) {
                (is_alias, wanted) = (true, service::meanings(other, &namespace));
                continue;
            }
            if service::is_headless(&service) || host.is_some() {
                let endpoints = self.endpoints_of(&service).await;
                return self.one_of(&service::addresses(&endpoints, host.as_deref()));
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
        let params = ListParams::default().fields(&format!("spec.clusterIP={}", to.ip()));
        let (services, _) = self.client.api::<Service>().list("", &params).await.ok()?;
        let (service, asked) = (services.first()?, AskedPort::Cluster(to.port()));
        if service::is_api_server(service) && asked.of(service, transport.text()).is_some() {
            return Some(Ok(Destination::ApiServer));
        }
        Some(self.chosen(service, (asked, transport), to, client).await.map(Destination::Endpoint))
    }

    /// Whether the API server of this process publishes this address, other than that of its Service.
    pub(super) async fn is_api_server(&self, to: SocketAddr) -> bool {
        if self.api_server.is_none() {
            return false;
        }
        let published = self.api_server_address().await;
        published.is_some_and(|(host, port)| SocketAddr::new(host, port) == to)
    }

    /// What takes connections to a port that all nodes have for a Service; `None` if no Service has it.
    pub(super) async fn node_backend(
        &self,
        (to, transport): (SocketAddr, Transport),
        client: Client<'_>,
    ) -> Option<Result<Destination, NetworkFailure>> {
        let (services, _) = self.client.api::<Service>().list("", &ListParams::default()).await.ok()?;
        let asked = AskedPort::Node(to.port());
        let service = services.iter().find(|service| asked.of(service, transport.text()).is_some())?;
        Some(self.chosen(service, (asked, transport), to, client).await.map(Destination::Endpoint))
    }

    async fn chosen(
        &self,
        service: &Service,
        (asked, transport): (AskedPort, Transport),
        to: SocketAddr,
        (node, client): Client<'_>,
    ) -> Result<SocketAddr, NetworkFailure> {
        let endpoints = self.endpoints_of(service).await;
        let all = match service::backends(service, (asked, transport.text()), &endpoints, node) {
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

    /// What takes connections of a Service: the pods that it selects, or without a selector the entries of its EndpointSlices.
    async fn endpoints_of(&self, service: &Service) -> Vec<Endpoint> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        match selector.filter(|selector| !selector.is_empty()) {
            Some(selector) => {
                let labels: Vec<String> =
                    selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let params = ListParams::default().labels(&labels.join(","));
                let listed = self.client.api::<Pod>().list(namespace, &params).await;
                service::pod_endpoints(service, &listed.map(|(pods, _)| pods).unwrap_or_default())
            }
            None => {
                let name = service.metadata.name.as_deref().unwrap_or_default();
                let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
                let listed = self.client.api::<EndpointSlice>().list(namespace, &params).await;
                service::slice_endpoints(&listed.map(|(slices, _)| slices).unwrap_or_default())
            }
        }
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
                let service = self.client.api::<Service>().get(&namespace, &service).await.ok();
                let all = match &service {
                    Some(service) => service::addresses(&self.endpoints_of(service).await, Some(&host)),
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
        let Ok(service) = self.client.api::<Service>().get(namespace, service).await else {
            return Found::Nothing;
        };
        if let Some(to) = service::alias(&service) {
            return Found::Alias(to.trim_end_matches('.').to_ascii_lowercase());
        }
        if !service::is_headless(&service) {
            return Found::Records(dns::addresses(name, kind, dns::cluster_addresses(&service)));
        }
        let all = service::addresses(&self.endpoints_of(&service).await, None);
        if all.is_empty() { Found::Nothing } else { Found::Records(dns::addresses(name, kind, all)) }
    }

    async fn port_records(
        &self,
        question: &str,
        kind: RecordKind,
        port: (&str, &str),
        (namespace, service): (&str, &str),
    ) -> Option<Vec<DnsRecord>> {
        let found = self.client.api::<Service>().get(namespace, service).await.ok()?;
        let endpoints = self.endpoints_of(&found).await;
        let mut ports = found.spec.as_ref()?.ports.iter().flatten();
        let entry = ports.find(|one| one.name.as_deref() == Some(port.0))?;
        let backends = service::backends_of(entry, &endpoints);
        let name = dns::service_name(namespace, service);
        let records = dns::ports(question, port, &name, &found, &backends)?;
        Some(if kind == RecordKind::Srv { records } else { Vec::new() })
    }

    /// The names of an address: of the Service that has it, and of the pods behind headless Services.
    async fn names_of(&self, question: &str, address: IpAddr, kind: RecordKind) -> Option<Vec<DnsRecord>> {
        let params = ListParams::default().fields(&format!("spec.clusterIP={address}"));
        let (services, _) = self.client.api::<Service>().list("", &params).await.ok()?;
        let mut names = Vec::new();
        for service in &services {
            let meta = &service.metadata;
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            names.push(dns::service_name(&part(&meta.namespace), &part(&meta.name)));
        }
        if names.is_empty() {
            let params = ListParams::default().fields("spec.clusterIP=None");
            let (services, _) = self.client.api::<Service>().list("", &params).await.ok()?;
            for service in &services {
                let endpoints = self.endpoints_of(service).await;
                let part = |text: &Option<String>| text.clone().unwrap_or_default();
                let name =
                    dns::service_name(&part(&service.metadata.namespace), &part(&service.metadata.name));
                names.extend(service::hosts_at(&endpoints, address).map(|host| format!("{host}.{name}")));
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
