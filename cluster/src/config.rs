//! [`ClusterConfig`]: the configuration of a control plane beside that of its API server.

use crate::clients::{Direct, Middleware};
use crate::phase::Phases;
use crate::retention::Retention;
use crate::storage::Storage;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::NetworkConfig;
use kstore_informer::metrics::Registry;
use kstore_informer::{CacheSet, Revision};
use kstore_kubelet_sim::{behavior, sim_api};
use kstore_nondet::Nondet;
use kstore_pipeline::pipeline::{LocalComponents, SimulationCheck};
use kstore_store::NoSpaceReason;
use std::fmt;
use std::sync::Arc;

/// Configuration of a control plane, beside [`ServerConfig`]. The default is an API server alone, over a new store in memory.
#[derive(Clone)]
pub struct ClusterConfig {
    /// Where the objects are stored.
    pub storage: Storage,
    /// Writes the message for clients whose writes the store of this process refuses for lack of space. A program adds the commands that
    /// help.
    pub explains_no_space: fn(&NoSpaceReason) -> String,
    /// The history that the store of this process keeps; an external storage compacts itself.
    pub retention: Retention,
    /// The components that run beside the API server.
    pub components: Components,
    /// Who creates the initial objects of a new store in memory.
    pub initial_objects: InitialObjects,
    /// Name of this host. With it the API server keeps the Lease that shows where servers of the cluster run.
    pub host: Option<String>,
    /// Whether controllers and scheduler work only while they hold their Leases: for control planes of several processes.
    pub elects_leaders: bool,
    /// Whether nodes are simulated only while this process holds their Lease, if the cluster has the kinds of `sim.kstore.io`: another
    /// process beside this one would make the nodes of the same NodeGroups. Not for clusters in virtual time, which have no other process.
    pub elects_nodes: bool,
    /// Whether the random generator of [`ServerConfig::nondet`] also permutes the order in which ready tasks run: see
    /// [`Schedule`](crate::Schedule).
    pub permutes_tasks: bool,
    /// Code between all clients and the API server.
    pub middleware: Arc<dyn Middleware>,
    /// Metrics of the components, which the API server's page `/metrics` shows, too.
    pub metrics: Registry,
    /// The phases in which the control plane ends. A caller that has tasks of its own keeps a clone.
    pub phases: Phases,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            storage: Storage::default(),
            explains_no_space: NoSpaceReason::to_string,
            retention: Retention::default(),
            components: Components::default(),
            initial_objects: InitialObjects::default(),
            host: None,
            elects_leaders: false,
            elects_nodes: false,
            permutes_tasks: false,
            middleware: Arc::new(Direct),
            metrics: Registry::new(),
            phases: Phases::default(),
        }
    }
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig").field("storage", &self.storage).finish_non_exhaustive()
    }
}

/// Who creates the initial objects of every cluster, such as namespaces, roles and flow control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialObjects {
    /// The API server of this control plane, unless the storage has them.
    #[default]
    Created,
    /// The first control plane of this process, which shares their memory with all others; namespaces get other UIDs. Saves most of a
    /// start. Needs [`Storage::Embedded`] in memory, and an API server whose options leave the initial objects as they are by default:
    /// otherwise as [`Self::Created`].
    Shared,
}

/// The components of a control plane beside its API server. The default has none.
///
/// The control plane sets the members for identities, metrics and caches of each configuration.
#[derive(Clone, Debug, Default)]
pub struct Components {
    /// The controllers.
    pub controllers: Option<Box<kstore_controllers::Config>>,
    /// The scheduler.
    pub scheduler: Option<Box<kstore_scheduler::Config>>,
    /// The simulated nodes.
    pub nodes: Option<Box<kstore_kubelet_sim::Config>>,
}

impl Components {
    /// Controllers, scheduler and this number of simulated nodes, with their default configurations.
    pub fn all(nodes: usize) -> Self {
        let nodes = kstore_kubelet_sim::Config { nodes, ..Default::default() };
        Self {
            controllers: Some(Box::default()),
            scheduler: Some(Box::default()),
            nodes: Some(Box::new(nodes)),
        }
    }

    /// Lets only these controllers run, by their names in kube-controller-manager or their older forms, such as `deployment`. Without
    /// controllers it only checks the names.
    ///
    /// # Errors
    /// The first name that no controller of kstore has.
    pub fn select_controllers(&mut self, names: &[String]) -> Result<(), String> {
        let parsed = kstore_controllers::Selection::parse(names.iter().map(String::as_str));
        let (selection, missing) = parsed.map_err(|unknown| unknown.to_string())?;
        if let Some(missing) = missing.first() {
            return Err(format!("kstore has no controller {missing:?}"));
        }
        if let Some(controllers) = &mut self.controllers {
            controllers.controllers = selection;
        }
        Ok(())
    }

    /// Whether there is no component.
    pub fn is_empty(&self) -> bool {
        self.controllers.is_none() && self.scheduler.is_none() && self.nodes.is_none()
    }

    /// The components about which the API server knows.
    pub(crate) fn local(&self) -> LocalComponents {
        let check = SimulationCheck {
            prefix: behavior::ANNOTATION_PREFIX,
            group: sim_api::GROUP,
            problems: sim_api::problems,
        };
        let simulation = self.nodes.is_some().then_some(check);
        LocalComponents { controllers: self.controllers.is_some(), simulation }
    }
}

/// The informers' caches of each component.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComponentCaches {
    /// Of the controllers.
    pub(crate) controllers: CacheSet,
    /// Of the scheduler.
    pub(crate) scheduler: CacheSet,
    /// Of the simulated nodes.
    pub(crate) nodes: CacheSet,
}

impl ComponentCaches {
    /// Lets all caches read up to a revision soon.
    pub(crate) fn demand(&self, revision: Revision) {
        self.all().into_iter().for_each(|caches| caches.demand(revision));
    }

    /// Waits until all caches show a revision.
    pub(crate) async fn reached(&self, revision: Revision) {
        for caches in self.all() {
            caches.reached(revision).await;
        }
    }

    fn all(&self) -> [&CacheSet; 3] {
        [&self.controllers, &self.scheduler, &self.nodes]
    }
}

/// Configuration of an API server that has no listener: its address is one that is reserved for documentation (RFC 5737).
pub fn server_without_listener(nondet: &Nondet) -> ServerConfig {
    let network = NetworkConfig { advertised: "192.0.2.1:6443".to_owned(), ..NetworkConfig::default() };
    ServerConfig { nondet: nondet.clone(), network, ..ServerConfig::default() }
}
