//! [`ServerConfig`]: the configuration of an API server, besides its storage. `ServerConfig::complete` fills
//! in what follows from other fields and divides it among the parts of the server.

use crate::attempt_source::AttemptSource;
use kstore_access::audit::Audit;
use kstore_access::authn::FrontProxies;
use kstore_api::kind::OptIn;
use kstore_nondet::Nondet;
use kstore_pipeline::bootstrap::ServerIdentity;
use kstore_pipeline::fairness::RequestLimits;
pub use kstore_pipeline::pipeline::{AccessConfig, AdmissionConfig, RegistryConfig};
use kstore_pipeline::pipeline::{LocalComponents, PipelineConfig};
use kstore_registry::kinds::Kinds;
use kstore_registry::outbound::{Network, Outbound, ServiceBackends};
use kstore_storage::encryption::Encryption;
use kstore_storage::limits;
use kstore_storage::load_progress::LoadProgress;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Configuration of an API server, besides its storage. The default is a server for one process and its
/// clients on this machine: RBAC, the admission plugins that Kubernetes enables by default, neither encryption
/// nor audit, a real clock, and an address on the loopback interface.
#[derive(Clone)]
pub struct ServerConfig {
    /// Clock and randomness.
    pub nondet: Nondet,
    /// Stops watches and listeners.
    pub stop: CancellationToken,
    /// Addresses, and connections in both directions.
    pub network: NetworkConfig,
    /// The certificate authorities that the server trusts and publishes.
    pub authorities: AuthoritiesConfig,
    /// Authentication and authorization.
    pub access: AccessConfig,
    /// The admission plugins.
    pub admission: AdmissionConfig,
    /// How objects are stored.
    pub registry: RegistryConfig,
    /// How the storage is read and written.
    pub storage: StorageConfig,
    /// How many requests are served at a time, and whether priority levels divide them.
    pub requests: RequestLimits,
    /// The optional kinds and features.
    pub opt_in: OptIn,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// The components that run in the same process: the server warns about objects on which none of them
    /// acts.
    pub local_components: LocalComponents,
    /// The attempts of the scheduler in the same process; `None` if there is none.
    pub attempts: Option<Arc<dyn AttemptSource>>,
}

/// Addresses of an API server, and its connections in both directions.
#[derive(Clone)]
pub struct NetworkConfig {
    /// The `host:port` at which clients reach the server.
    pub advertised: String,
    /// The `host:port` in documents; `None`: the advertised one.
    pub external_address: Option<String>,
    /// Whether the endpoints of the Service `default/kubernetes` are left as they are.
    pub leaves_endpoints: bool,
    /// The largest number of open network connections: at most [`limits::CONNECTIONS`], and well below the
    /// limit of open files.
    pub connections: usize,
    /// TLS of connections over streams of this process, such as those of simulated pods: usually that of the listener. `None`: there
    /// are none.
    pub streams: Option<Arc<rustls::ServerConfig>>,
    /// HTTPS client for webhooks and aggregated API servers.
    pub outbound: Arc<dyn Outbound>,
    /// Encoded descriptor sets of the gRPC services that something in front of the server answers on its port: server reflection lists
    /// them beside the server's own.
    pub services_in_front: &'static [&'static [u8]],
    /// Whether watches that begin with the state are compressed with gzip for clients that accept it: Kubernetes' feature
    /// WatchListCompression.
    pub compresses_watches: bool,
}

/// The certificate authorities that an API server trusts. It publishes them for extension API servers.
#[derive(Clone, Debug, Default)]
pub struct AuthoritiesConfig {
    /// PEM of the authority of client certificates.
    pub client_ca: Option<String>,
    /// PEM of the authority of the client certificate that [`NetworkConfig::outbound`] presents to aggregated
    /// API servers. It is published with the certificate's name [`kstore_pipeline::bootstrap::FRONT_PROXY`].
    pub front_proxy_ca: Option<String>,
    /// Proxies in front of the server that authenticate the users of requests.
    pub front_proxies: Option<Arc<FrontProxies>>,
}

/// How an API server reads and writes its storage.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Encryption of stored objects, if there is any.
    pub encryption: Option<Arc<Encryption>>,
    /// Bytes of provenance in memory.
    pub explain_bytes: usize,
    /// Counts the stored objects that the server has read while it starts. The caller keeps a clone, and may
    /// show it.
    pub load_progress: Arc<LoadProgress>,
    /// Whether the server creates missing initial objects, and updates those that describe it. `false`: the storage belongs to another
    /// writer, which also decides about roles and bindings, and the server is frozen from the start.
    pub creates_initial_objects: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            nondet: Nondet::real(),
            stop: CancellationToken::new(),
            network: NetworkConfig::default(),
            authorities: AuthoritiesConfig::default(),
            access: AccessConfig::default(),
            admission: AdmissionConfig::default(),
            registry: RegistryConfig::default(),
            storage: StorageConfig::default(),
            requests: RequestLimits::default(),
            opt_in: OptIn::default(),
            audit: None,
            local_components: LocalComponents::default(),
            attempts: None,
        }
    }
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            advertised: "127.0.0.1:6443".to_owned(),
            external_address: None,
            leaves_endpoints: false,
            connections: limits::CONNECTIONS,
            streams: None,
            outbound: Arc::new(Network::new(ServiceBackends::default())),
            services_in_front: &[],
            compresses_watches: false,
        }
    }
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            encryption: None,
            explain_bytes: limits::TRACE_BYTES,
            load_progress: Arc::default(),
            creates_initial_objects: true,
        }
    }
}

/// A configuration in which everything is filled in, by the parts of a server that take it.
pub(crate) struct CompletedConfig {
    pub(crate) stop: CancellationToken,
    pub(crate) storage: StorageConfig,
    pub(crate) pipeline: PipelineConfig,
    /// The server as the objects of `default/kubernetes` and of its authorities describe it.
    pub(crate) identity: ServerIdentity,
    /// The `host:port` in documents.
    pub(crate) document_address: String,
    pub(crate) front_proxies: Option<Arc<FrontProxies>>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) attempts: Option<Arc<dyn AttemptSource>>,
    /// The largest number of open connections.
    pub(crate) connections: usize,
    /// TLS of connections over streams of this process.
    pub(crate) streams: Option<Arc<rustls::ServerConfig>>,
    /// Descriptor sets of gRPC services in front of the server.
    pub(crate) services_in_front: &'static [&'static [u8]],
    pub(crate) compresses_watches: bool,
    opt_in: OptIn,
}

impl ServerConfig {
    /// Fills in what follows from other fields, and divides the configuration among the parts of a server.
    pub(crate) fn complete(self) -> CompletedConfig {
        let Self { nondet, stop, network, authorities, access, admission, registry, storage, .. } = self;
        let identity = identity(&network, &authorities);
        let pipeline = PipelineConfig {
            nondet,
            outbound: network.outbound,
            access,
            admission,
            registry,
            requests: Some(self.requests),
            local_components: self.local_components,
        };
        CompletedConfig {
            stop,
            storage,
            pipeline,
            identity,
            document_address: network.external_address.unwrap_or(network.advertised),
            front_proxies: authorities.front_proxies,
            audit: self.audit,
            attempts: self.attempts,
            connections: network.connections.min(limits::CONNECTIONS),
            streams: network.streams,
            services_in_front: network.services_in_front,
            compresses_watches: network.compresses_watches,
            opt_in: self.opt_in,
        }
    }
}

impl CompletedConfig {
    /// The kinds that the server serves without any stored definition.
    pub(crate) fn kinds(&self) -> Kinds {
        self.pipeline.admission.switches.kinds(self.opt_in.clone())
    }
}

fn identity(network: &NetworkConfig, authorities: &AuthoritiesConfig) -> ServerIdentity {
    let AuthoritiesConfig { client_ca, front_proxy_ca, front_proxies } = authorities;
    let identity = ServerIdentity::new(&network.advertised, client_ca.clone(), front_proxy_ca.clone());
    let identity = if network.leaves_endpoints { identity.without_endpoints() } else { identity };
    match front_proxies {
        None => identity,
        Some(proxies) => {
            identity.with_front_proxies(proxies.authorities_pem.clone(), proxies.allowed_names.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_advertised_address_unless_another_is_configured() {
        let completed = |external: Option<&str>| {
            let external_address = external.map(str::to_owned);
            let network = NetworkConfig { external_address, ..NetworkConfig::default() };
            ServerConfig { network, ..ServerConfig::default() }.complete()
        };
        assert_eq!(completed(None).document_address, "127.0.0.1:6443");
        assert_eq!(completed(Some("api.example.com:443")).document_address, "api.example.com:443");
    }

    #[test]
    fn connections_stay_below_the_servers_own_bound() {
        let network = NetworkConfig { connections: usize::MAX, ..NetworkConfig::default() };
        let completed = ServerConfig { network, ..ServerConfig::default() }.complete();
        assert_eq!(completed.connections, limits::CONNECTIONS);
    }
}
