//! Leader election of the components: each competes for the Lease that Kubernetes' program of the same work
//! has, with the protocol of client-go. A component works while it is the leader, and its writes carry the fence
//! of that term. `kstore_informer` implements the election.

use crate::args::Component;
use crate::hostname::hostname;
use kstore_client::{Client, ClientLease};
use kstore_informer::{Elector, Fence, Leadership};
use kstore_nondet::Nondet;
use std::future::Future;
use tokio_util::sync::CancellationToken;

/// Default namespace of the Lease.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Name of the Lease that a component must hold to work: Kubernetes' program for the same work. `None` for
/// components that work in several processes at the same time.
pub(crate) fn lease_of(component: Component) -> Option<&'static str> {
    match component {
        Component::Controllers => Some("kube-controller-manager"),
        Component::Scheduler => Some("kube-scheduler"),
        Component::Apiserver | Component::Store | Component::KubeletSim => None,
    }
}

/// A unique identity of a candidate, in the format of Kubernetes' programs (`HOST_UUID`).
pub(crate) fn identity(nondet: &Nondet) -> String {
    format!("{}_{}", hostname(), nondet.rng.uuid())
}

/// The client for a term of leadership; without a fence, the client itself.
pub(crate) fn fenced(client: &Client, fence: Option<&Fence>) -> Client {
    match fence {
        Some(fence) => client.fence(fence),
        None => client.clone(),
    }
}

/// Runs a component until `stop` is cancelled; with an elector, only while this process is the leader. `work`
/// gets the fence of the term, and the token that ends it.
pub(crate) async fn run<F: Future<Output = ()> + Send>(
    elector: Option<Elector<ClientLease>>,
    stop: CancellationToken,
    work: impl Fn(Option<Fence>, CancellationToken) -> F + Send + Sync,
) {
    let Some(elector) = elector else { return work(None, stop).await };
    let lead = |leadership: Leadership| {
        let (fence, lost) = (leadership.fence().clone(), leadership.lost().clone());
        work(Some(fence), lost)
    };
    // Boxed: the future contains the future of the whole component.
    Box::pin(elector.run(stop, lead)).await;
}
