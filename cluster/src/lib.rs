//! One control plane: storage, API server, controllers, scheduler and simulated nodes, with their identities and in-process clients. The
//! program `kstore-server`, the test library `kstore-testing`, and every other crate that needs a control plane start it here.
//!
//! A [`ControlPlane`] starts from a [`ServerConfig`](kstore_apiserver::ServerConfig) and a [`ClusterConfig`], or from a
//! [`ControlPlaneImage`] of another one. It ends in [`Phases`].

/// The README, whose example runs as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod api_path;
mod attempts;
mod clients;
mod component;
mod config;
mod control_plane;
mod image;
mod initial;
mod namespaces;
mod node_faults;
mod object_lists;
mod pending;
mod phase;
mod placement;
mod report;
mod retention;
mod schedule;
mod scheduler_settings;
mod start;
mod storage;
mod store_size;
mod token_signer;

pub use api_path::escape;
pub use clients::{ClientParts, Direct, Middleware};
pub use component::{CONTROLLERS_LEASE, Component, LEASE_NAMESPACE, NODES_LEASE, SCHEDULER_LEASE, candidate};
pub use config::{ClusterConfig, Components, InitialObjects, server_without_listener};
pub use control_plane::{ControlPlane, StartError, Starting};
pub use image::{ControlPlaneImage, ImageError};
pub use namespaces::RenewError;
pub use node_faults::NodeFaultError;
pub use object_lists::{ObjectList, list_objects};
pub use pending::{Ended, PendingWork, WriteMonitor};
pub use phase::{Phase, Phases};
pub use placement::{
    PlacementAnswer, PlacementError, PlacementMoment, PodName, PodState, explain_pending, explain_placement,
};
pub use report::{ReportError, ReportRequest, report};
pub use retention::{History, Retention, SHORT_LIVED_HISTORY_BYTES, keep_store};
pub use schedule::{PermutedService, Schedule};
pub use scheduler_settings::{SchedulerSettings, SchedulerSettingsError};
pub use storage::Storage;
pub use token_signer::{token_signer, token_signer_of_key};
