//! The flag of the metrics server, and the mode that it selects.

use super::{COMPONENTS, Component, LoopsConfig};
use clap::Args;

/// The `--metrics-server` flag.
#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// Serve metrics.k8s.io for `kubectl top` and autoscalers, with the usage in the annotations of simulated pods [default:
    /// true with simulated nodes]
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = COMPONENTS)]
    metrics_server: Option<bool>,
}

/// How an apiserver serves metrics.k8s.io.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsServer {
    /// The apiserver does not serve it: requests are proxied to the Service of an APIService, as for every aggregated group. An
    /// APIService that an earlier start of kstore-server created is deleted.
    Off,
    /// The apiserver answers requests for the metrics server's Service, if an APIService names that Service.
    Answers,
    /// The apiserver answers these requests, and creates the APIService unless there is one.
    Installed,
}

impl MetricsArgs {
    /// The mode of an apiserver with these loops beside it. An apiserver without nodes still answers: an earlier start, or
    /// another apiserver on the same store, may have created the APIService.
    pub(super) fn choice(&self, loops: &LoopsConfig) -> MetricsServer {
        match self.metrics_server {
            Some(false) => MetricsServer::Off,
            Some(true) => MetricsServer::Installed,
            None if loops.components.contains(&Component::KubeletSim) && loops.nodes > 0 => {
                MetricsServer::Installed
            }
            None => MetricsServer::Answers,
        }
    }
}
