//! The configuration of the control plane that a [`Builder`] describes: `kstore-cluster` starts it.

use crate::components::Builder;
use crate::faults::FaultInjector;
use crate::limits::CONNECTIONS;
use kstore_access::authn::impersonation::ServedModes;
use kstore_access::token::Tokens;
use kstore_api::gate;
use kstore_api::version::Minor;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, NetworkConfig, RegistryConfig};
use kstore_client::manifest::ApplyError;
use kstore_cluster::{
    ClusterConfig, Components, InitialObjects, Retention, StartError as PlaneError, server_without_listener,
};
use kstore_nondet::Nondet;
use std::sync::Arc;

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store did not open.
    #[error("the store cannot be opened: {0}")]
    Store(#[from] kstore_store::OpenError),
    /// The API server did not start.
    #[error(transparent)]
    ApiServer(#[from] kstore_apiserver::StartError),
    /// A name of [`Builder::optional_api`] stands for no API.
    #[error(transparent)]
    Api(#[from] kstore_api::kind::opt_in::UnknownApi),
    /// The text of [`Builder::scheduler_config`] is refused.
    #[error("the scheduler cannot use its configuration: {0}")]
    Scheduler(#[from] kstore_cluster::SchedulerSettingsError),
    /// An object of [`Builder::apply`] was refused.
    #[error("the manifests of the builder cannot be applied: {0}")]
    Apply(#[from] ApplyError),
}

impl From<PlaneError> for StartError {
    fn from(error: PlaneError) -> Self {
        match error {
            PlaneError::Store(error) => Self::Store(error),
            PlaneError::ApiServer(error) => Self::ApiServer(error),
        }
    }
}

/// Whether a version has a feature by default.
fn has(version: Minor, gate: &str) -> bool {
    gate::find(version, gate).is_some_and(|gate| gate.is_on)
}

/// The modes of impersonation that a version has by default.
fn impersonation(version: Minor) -> ServedModes {
    if has(version, "ConstrainedImpersonation") { ServedModes::All } else { ServedModes::Legacy }
}

impl Builder {
    /// Clock and random generator of a cluster.
    pub(crate) fn nondet(&self) -> Nondet {
        self.seed.map_or_else(Nondet::real, Nondet::simulated)
    }

    /// The API server's configuration.
    pub(crate) fn server_config(&self, tokens: Option<Arc<Tokens>>) -> ServerConfig {
        let config = server_without_listener(&self.nondet());
        ServerConfig {
            network: NetworkConfig {
                connections: CONNECTIONS,
                compresses_watches: has(self.version, "WatchListCompression"),
                ..config.network
            },
            registry: RegistryConfig {
                unsafe_deletion: has(self.version, "AllowUnsafeMalformedObjectDeletion"),
                ..config.registry
            },
            access: AccessConfig { tokens, impersonation: impersonation(self.version), ..config.access },
            opt_in: self.opt_in.clone(),
            ..config
        }
    }

    /// The configuration of the other parts, with faults between clients and the API server.
    pub(crate) fn cluster_config(&self, injector: &FaultInjector) -> ClusterConfig {
        let nodes = kstore_kubelet_sim::Config {
            nodes: self.nodes,
            missing_images: self.missing_images.clone(),
            ..Default::default()
        };
        let mut components = Components {
            controllers: self.controllers.then(Box::default),
            scheduler: self.scheduler.then(|| Box::new(self.scheduler_settings.config())),
            nodes: (self.nodes > 0).then(|| Box::new(nodes)),
        };
        if let Some(controllers) = &mut components.controllers {
            controllers.unused_claims = has(self.version, "PersistentVolumeClaimUnusedSinceTime");
        }
        ClusterConfig {
            components,
            retention: self.history.map(Retention::coarse).unwrap_or_default(),
            initial_objects: InitialObjects::Shared,
            permutes_tasks: self.is_permuted && self.seed.is_some(),
            middleware: Arc::new(injector.clone()),
            ..ClusterConfig::default()
        }
    }

    /// A new signing key for service account tokens. None in virtual time, since it would be random, or if key generation fails.
    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        if self.seed.is_some() {
            return None;
        }
        let key = rcgen::KeyPair::generate().ok()?;
        Tokens::new(&key.serialize_der()).ok().map(Arc::new)
    }
}
