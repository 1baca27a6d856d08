//! A complete Kubernetes control plane inside a test process: store, API server, controllers, scheduler and simulated nodes, in memory.
//! It needs no port, no other process and no file; [`Cluster::listen`] opens a port for programs that need one. For a durable cluster, use
//! `kstore-server`.
//!
//! ```
//! # #[cfg(feature = "kube")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kstore_testing::Cluster;
//! use kube_client::Api;
//!
//! let cluster = Cluster::start().await;
//! let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
//! config_maps.create(&Default::default(), &serde_json::from_str(r#"{"metadata": {"name": "a"}}"#)?).await?;
//! assert_eq!(config_maps.list(&Default::default()).await?.items.len(), 1);
//! cluster.stop().await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "kube"))]
//! # fn main() {}
//! ```
//!
//! With [`Builder::virtual_time`] and `#[tokio::test(start_paused = true)]`, an hour of cluster time takes only as long as its work, mostly
//! heartbeats of nodes, and every run writes the same revisions:
//!
//! ```
//! use kstore_testing::Cluster;
//! use serde_json::json;
//! use std::time::Duration;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
//! # runtime.block_on(async {
//! let cluster = Cluster::builder().virtual_time(1).nodes(3).start().await;
//! cluster.apply("
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata: {name: web}
//! spec:
//!   replicas: 2
//!   selector: {matchLabels: {app: web}}
//!   template:
//!     metadata: {labels: {app: web}}
//!     spec: {containers: [{name: web, image: nginx}]}
//! ").await.unwrap();
//! let subset = json!({"status": {"readyReplicas": 2}});
//! cluster.wait_for(("apps", "v1", "deployments"), "default", "web", &subset).await.unwrap();
//! cluster.advance(Duration::from_secs(3600)).await;
//! cluster.stop().await;
//! # });
//! ```

/// The README, whose examples run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod builder;
mod causes;
mod cluster;
mod components;
mod faults;
mod fork;
mod limits;
mod listen;
mod report;
mod settle;
mod start;
mod subset;
mod trace;
mod wait;

pub use builder::StartError;
pub use cluster::Cluster;
pub use components::Builder;
pub use faults::{FaultCounts, Faults};
pub use fork::{ClusterImage, ForkError};
/// A version of Kubernetes, for [`Builder::kubernetes`].
pub use kstore_api::version::Minor;
/// Group, version and plural name of a resource, for [`Cluster::client`].
pub use kstore_client::Gvr;
/// Why [`Cluster::apply`] failed.
pub use kstore_client::manifest::{ApplyError, ManifestError};
/// Why a cluster could not be read for a report.
pub use kstore_cluster::ReportError as ReadError;
pub use listen::{Endpoint, ListenError};
pub use report::ReportError;
#[doc(hidden)]
pub use serde_json::json as __json;
pub use settle::SettleError;
pub use subset::is_subset;
pub use wait::{ResourceName, WaitError};
