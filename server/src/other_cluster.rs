//! Simulated nodes inside a cluster whose API server may be another one than kstore's: the connection, and what is checked before nodes
//! are registered.

use crate::args::Component;
use crate::clients;
use anyhow::bail;
use k8s_openapi::api::core::v1::Node;
use kstore_client::{Client, Kubeconfig, ListParams, ServerApi};
use std::collections::BTreeSet;
use tracing::info;

/// What the provider ids of simulated nodes begin with.
const PROVIDER: &str = "kstore://";

/// Connects a component to the API server of a kubeconfig: simulated nodes to any, other components to one of kstore.
pub(crate) async fn connect(
    config: &Kubeconfig,
    component: Component,
) -> anyhow::Result<(Client, ServerApi)> {
    let agent = clients::identity(component).file;
    if component != Component::KubeletSim {
        return Ok((Client::connect(config, agent).await?, ServerApi::Kstore));
    }
    let (client, api) = Client::connect_to_any(config, agent).await?;
    let server = &config.server;
    match api {
        ServerApi::Kstore => info!(server, "the API server is one of kstore"),
        ServerApi::Kubernetes => {
            info!(server, "the API server is not one of kstore: Kubernetes' REST API is used");
        }
    }
    Ok((client, api))
}

/// The configuration of simulated nodes for another API server: guarded if `is_guarded`.
///
/// # Errors
///
/// A Node of the cluster has the name of one of these nodes and is no simulated one, or the server refuses to list them.
pub(crate) async fn nodes(
    config: kstore_kubelet_sim::Config,
    client: &Client,
    is_guarded: bool,
) -> anyhow::Result<kstore_kubelet_sim::Config> {
    let (nodes, _) = client.api::<Node>().list("", &ListParams::default()).await?;
    let others = nodes.iter().filter(|node| !is_simulated(node));
    let others: BTreeSet<&str> = others.filter_map(|node| node.metadata.name.as_deref()).collect();
    let taken = |name: &String| others.contains(&**name);
    if let Some(name) = (0..config.nodes).map(|index| config.node_name(index)).find(taken) {
        bail!(
            "node {name:?} of the cluster is not a simulated one: give --node-prefix another beginning of names"
        );
    }
    Ok(kstore_kubelet_sim::Config { is_guarded, ..config })
}

fn is_simulated(node: &Node) -> bool {
    let provider = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    provider.is_some_and(|id| id.starts_with(PROVIDER))
}
