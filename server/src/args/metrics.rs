//! The flag of the metrics server, and what follows from it.

use super::{COMPONENTS, Component};
use clap::Args;
use std::collections::BTreeSet;

/// The flag.
#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// Serve metrics.k8s.io with what simulated containers use by their annotations, for `kubectl top` and autoscalers; by default
    /// where there are simulated nodes
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = COMPONENTS)]
    metrics_server: Option<bool>,
}

/// What an apiserver does about metrics.k8s.io.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsServer {
    /// Nothing: it hands requests on to the Service of an APIService, like those of all groups. An APIService that an earlier start of
    /// kstore-server created is deleted.
    Off,
    /// It answers requests for the Service of the metrics server itself, if an APIService names that.
    Answers,
    /// It answers, and creates the APIService, unless there is one.
    Installed,
}

impl MetricsArgs {
    /// The flag, if it was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.metrics_server.map(|_| "--metrics-server")
    }

    /// What follows beside an apiserver and these loops. An apiserver without nodes still answers: others on the same store may have
    /// created the APIService, as an earlier start may have.
    pub(super) fn choice(&self, loops: &BTreeSet<Component>, nodes: u32) -> MetricsServer {
        match self.metrics_server {
            Some(false) => MetricsServer::Off,
            Some(true) => MetricsServer::Installed,
            None if loops.contains(&Component::KubeletSim) && nodes > 0 => MetricsServer::Installed,
            None => MetricsServer::Answers,
        }
    }
}
