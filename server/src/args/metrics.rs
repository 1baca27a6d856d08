//! The modes of the metrics server, which `--metrics-server` selects.

use super::{Component, LoopsConfig};

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

impl MetricsServer {
    /// The mode of an apiserver with these loops beside it, by the flag if it is given. An apiserver without nodes still answers: an
    /// earlier start, or another apiserver on the same store, may have created the APIService.
    pub(super) fn of(flag: Option<bool>, loops: &LoopsConfig) -> Self {
        match flag {
            Some(false) => Self::Off,
            Some(true) => Self::Installed,
            None if loops.components.contains(&Component::KubeletSim) && loops.has_nodes() => Self::Installed,
            None => Self::Answers,
        }
    }
}
