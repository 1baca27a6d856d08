//! The API `metrics.k8s.io/v1beta1`: what nodes and pods use of processors and memory, as `kubectl top` and HorizontalPodAutoscalers
//! read it. A server behind an APIService, which is a plain client of the cluster: it asks the kubelets of the nodes when it is asked
//! itself, and does nothing in between.
//!
//! A request's way: `request` (path, query, Accept) → `server` (lists objects, asks kubelets) → `summary` (what a kubelet
//! answers) → `metrics` (NodeMetrics and PodMetrics) → `table`, if a table is asked for. Only `server` and `install` do I/O.

mod discovery;
mod install;
mod limits;
mod metrics;
mod request;
mod server;
mod summary;
mod table;

pub use install::{API_SERVICE, NAME, NAMESPACE, PORT, install, uninstall};
pub use server::MetricsServer;

/// The API group.
pub const GROUP: &str = "metrics.k8s.io";
/// The version of the group.
pub const VERSION: &str = "v1beta1";
