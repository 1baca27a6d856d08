//! [`Template`]: what the control planes of a lab are made of, beside state, clock and seed. The program makes them by its flags; without a
//! program they have their defaults.

use crate::authority::{ClusterKeys, FrontProxyKeys};
use kstore_access::token::Tokens;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, AuthoritiesConfig};
use kstore_cluster::{
    ClusterConfig, Components, ControlPlane, InitialObjects, server_without_listener, token_signer,
};
use kstore_nondet::Nondet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The components of a cluster beside its API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentChoice {
    /// Whether controllers run.
    pub controllers: bool,
    /// Whether the scheduler runs.
    pub scheduler: bool,
    /// Number of simulated nodes.
    pub nodes: usize,
}

impl ComponentChoice {
    /// The API server alone.
    pub const NONE: Self = Self { controllers: false, scheduler: false, nodes: 0 };
    /// Everything, with one node.
    pub const ALL: Self = Self { controllers: true, scheduler: true, nodes: 1 };

    /// Names as `--components` has them.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [
            (true, "apiserver"),
            (self.controllers, "controllers"),
            (self.scheduler, "scheduler"),
            (self.nodes > 0, "kubelet-sim"),
        ];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    }

    fn configs(&self, tokens: &Arc<Tokens>) -> Components {
        let mut all = Components::all(self.nodes);
        if let Some(controllers) = &mut all.controllers {
            controllers.token_signer = Some(token_signer(tokens.clone()));
        }
        Components {
            controllers: all.controllers.filter(|_| self.controllers),
            scheduler: all.scheduler.filter(|_| self.scheduler),
            nodes: all.nodes.filter(|_| self.nodes > 0),
        }
    }
}

/// A cluster that starts.
#[derive(Clone, Copy, Debug)]
pub struct ClusterStart<'a> {
    /// Its clock and random generator.
    pub nondet: &'a Nondet,
    /// Address of its listener.
    pub address: SocketAddr,
    /// Components beside the API server.
    pub components: ComponentChoice,
    /// Keys of certificates and service account tokens.
    pub keys: &'a Arc<ClusterKeys>,
    /// Whether it is the first cluster of the process.
    pub is_main: bool,
    /// Whether it starts with an empty store, and not from an image.
    pub is_new: bool,
}

/// Called when the API of a cluster answers, on the cluster's runtime.
pub type Started = Box<dyn FnOnce(&ControlPlane) + Send>;

/// The configuration of a control plane.
pub struct Configured {
    /// Of the API server.
    pub server: ServerConfig,
    /// Of everything else.
    pub cluster: ClusterConfig,
    /// What happens after the start.
    pub started: Started,
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// Makes the configurations of the control planes of a lab.
pub trait Template: fmt::Debug + Send + Sync {
    /// The configuration of a control plane that starts. Called on the cluster's runtime.
    ///
    /// # Errors
    /// Why it cannot be configured, for example a file that cannot be read any more.
    fn configure(&self, start: &ClusterStart<'_>) -> Result<Configured, String>;
}

/// Control planes with their defaults, whose objects name no address.
#[derive(Clone, Debug, Default)]
pub struct DefaultTemplate {
    /// Names of the only controllers that run, where controllers run; empty: all.
    pub controllers: Vec<String>,
    /// The client certificate with which API servers reach those behind APIServices; `None`: without one.
    pub front_proxy: Option<Arc<FrontProxyKeys>>,
}

/// Checks the names of controllers of [`DefaultTemplate`].
///
/// # Errors
/// The first name that no controller has.
pub fn check_controllers(names: &[String]) -> Result<(), String> {
    Components::default().select_controllers(names)
}

impl Template for DefaultTemplate {
    fn configure(&self, start: &ClusterStart<'_>) -> Result<Configured, String> {
        let server = server_without_listener(start.nondet);
        let access = AccessConfig { tokens: Some(start.keys.tokens.clone()), ..server.access };
        let mut components = start.components.configs(&start.keys.tokens);
        if !self.controllers.is_empty() {
            components.select_controllers(&self.controllers)?;
        }
        let cluster =
            ClusterConfig { components, initial_objects: InitialObjects::Shared, ..ClusterConfig::default() };
        let front_proxy_ca = self.front_proxy.as_ref().map(|keys| keys.authority().to_owned());
        let authorities = AuthoritiesConfig { front_proxy_ca, ..server.authorities };
        let server = ServerConfig { access, authorities, ..server };
        Ok(Configured { server, cluster, started: Box::new(|_| {}) })
    }
}
