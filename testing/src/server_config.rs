//! The configuration of the API servers of test clusters, for this crate and for kstore's own tests.

use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::NetworkConfig;
use kstore_kubelet_sim::behavior;
use kstore_nondet::Nondet;
use kstore_pipeline::pipeline::{AnnotationCheck, LocalComponents};
use tokio_util::sync::CancellationToken;

/// An API server without a listener, with these components beside it.
pub fn server_config(nondet: &Nondet, stop: &CancellationToken, components: LocalComponents) -> ServerConfig {
    let network = NetworkConfig {
        // An address reserved for documentation (RFC 5737): the cluster has no listener unless a test opens one later.
        advertised: "192.0.2.1:6443".to_owned(),
        ..NetworkConfig::default()
    };
    ServerConfig {
        nondet: nondet.clone(),
        stop: stop.clone(),
        network,
        local_components: components,
        ..ServerConfig::default()
    }
}

/// The components of a process with or without controllers and simulated nodes.
pub fn local_components(controllers: bool, nodes: bool) -> LocalComponents {
    let check = AnnotationCheck { prefix: behavior::ANNOTATION_PREFIX, problems: behavior::problems };
    LocalComponents { controllers, kubelets: nodes, annotations: nodes.then_some(check) }
}
