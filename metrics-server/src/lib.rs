//! The API `metrics.k8s.io/v1beta1`, and `v1` in Kubernetes 1.37: processor and memory usage of nodes and pods, for `kubectl top` and
//! HorizontalPodAutoscalers. A server behind an APIService and a plain client of the cluster: it reads
//! kubelets' summaries for each request, and does nothing between requests.
//!
//! The path of a request: `request` (path, query, Accept) → `server` (lists objects, reads summaries) →
//! `summary` (a kubelet's answer) → `metrics` (NodeMetrics and PodMetrics) → `table`, if a table is
//! requested. `discovery` and `openapi` have the documents about the API, `resource` its resources. Only `server` and `install` do I/O.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod discovery;
mod install;
mod limits;
mod metrics;
mod openapi;
mod request;
mod resource;
mod server;
mod summary;
mod table;

pub use install::{API_SERVICE, NAME, NAMESPACE, PORT, install, uninstall};
pub use resource::{GROUP, STABLE, VERSION};
pub use server::MetricsServer;
