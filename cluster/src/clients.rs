//! In-process API clients: those of the components, and what a program puts between clients and the API server.

use crate::schedule::Schedule;
use axum::Router;
use kstore_apiserver::{ApiServer, InProcess};
use kstore_client::Client;
use kstore_controllers::Accounts;
use kstore_kubelet_sim::Identities;
use kstore_registry::user::UserInfo;
use kstore_store::Store;
use std::sync::Arc;

/// Code between the clients of a control plane and its API server, such as fault injection and request logs. Both functions have a default
/// that adds nothing.
pub trait Middleware: Send + Sync {
    /// Wraps the service of all requests, see [`ApiServer::layered`]. `store` is the store below the API server; `None` if that is outside
    /// of this process.
    fn layer(&self, router: Router, store: Option<&Store>) -> Router {
        let _ = store;
        router
    }

    /// Makes a client in this process: of a component, or by [`ControlPlane::client`](crate::ControlPlane::client). Its requests pass
    /// [`Self::layer`], its watches do not, because they bypass the router.
    fn client(&self, parts: ClientParts<'_>) -> Client {
        parts.direct()
    }
}

/// A [`Middleware`] that adds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Middleware for Direct {}

/// The parts of a client in this process.
pub struct ClientParts<'a> {
    /// The API, authenticated as the user.
    pub service: InProcess,
    /// The user's name.
    pub user: &'a str,
    /// The user agent, which is the field manager of the client's writes.
    pub agent: &'a str,
    /// The order of the control plane's tasks: wraps the service and the stream of a watch, unless it is first in, first out.
    pub schedule: &'a Schedule,
}

impl ClientParts<'_> {
    /// A client whose requests call the service, and whose watches share the memory of the watch cache.
    pub fn direct(self) -> Client {
        let (feed, schedule) = (self.service.clone(), self.schedule.clone());
        if schedule.is_fifo() {
            return Client::over(self.service, self.agent).with_feed(move |request| feed.watch(request));
        }
        Client::over(schedule.service(self.service), self.agent).with_feed(move |request| {
            let (opening, schedule) = (feed.watch(request), schedule.clone());
            async move { Ok(schedule.stream(opening.await?)) }
        })
    }
}

/// Makes the in-process clients of one control plane.
#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) api: ApiServer,
    pub(crate) middleware: Arc<dyn Middleware>,
    pub(crate) schedule: Schedule,
}

impl Clients {
    pub(crate) fn client(&self, user: UserInfo, agent: &str) -> Client {
        let name = user.username.clone();
        let service = self.api.in_process(user);
        let parts = ClientParts { service, user: &name, agent, schedule: &self.schedule };
        self.middleware.client(parts)
    }

    /// Clients of the controllers, each with its own service account.
    pub(crate) fn accounts(&self) -> Accounts {
        let clients = self.clone();
        Accounts::own(move |account| {
            clients.client(UserInfo::service_account("kube-system", account), account)
        })
    }

    /// Clients of the simulated nodes, each with its node's user.
    pub(crate) fn node_identities(&self) -> Identities {
        let clients = self.clone();
        Identities::own(move |node| clients.client(UserInfo::node(node), node))
    }
}
