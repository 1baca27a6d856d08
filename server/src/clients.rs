//! Clients of the API: the identity of each component, and clients that need no certificate.

use crate::args::Component;
use crate::pki::{self, Identity};
use kstore_client::{Client, ConnectError, Kubeconfig, ServiceAccounts};
use kstore_cluster::ControlPlane;
use kstore_registry::user::UserInfo;

/// The identity with which a component authenticates at the apiserver.
pub(crate) fn identity(component: Component) -> Identity {
    match component {
        Component::Apiserver | Component::Store => pki::ADMIN,
        Component::Controllers => pki::CONTROLLERS,
        Component::Scheduler => pki::SCHEDULER,
        Component::KubeletSim => pki::KUBELET_SIM,
    }
}

/// A client of the apiserver in this process, as this identity.
pub(crate) fn client(plane: &ControlPlane, identity: Identity) -> Client {
    plane.client(UserInfo::new(identity.user, identity.group), identity.file)
}

/// Clients with the controllers' service account tokens, which `client` requests.
pub(crate) fn service_accounts(
    kubeconfig: &Kubeconfig,
    client: &Client,
) -> Result<ServiceAccounts, ConnectError> {
    ServiceAccounts::connect_lazy(kubeconfig, client, "kube-system")
}
