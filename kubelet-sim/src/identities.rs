//! [`Identities`]: the users as which simulated nodes write.

use kstore_client::Client;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The component's name, in writes and events.
pub(crate) const AGENT: &str = "kubelet";

type ClientOf = dyn Fn(&str) -> Client + Send + Sync;

/// The identities of nodes: a user per node, which the API server restricts to that node's objects, or (by
/// default) one user for all nodes.
#[derive(Clone, Default)]
pub struct Identities(Option<Arc<PerNodeClients>>);

struct PerNodeClients {
    client_of: Box<ClientOf>,
    /// The clients made so far, by node name.
    clients: Mutex<BTreeMap<String, Client>>,
}

impl Identities {
    /// All nodes write with the client that also reads for their caches.
    pub fn shared() -> Self {
        Self(None)
    }

    /// Each node writes as `system:node:<name>`, with the client that `client_of` returns for its name. It is
    /// called once per node.
    pub fn own(client_of: impl Fn(&str) -> Client + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(PerNodeClients { client_of: Box::new(client_of), clients: Mutex::default() })))
    }

    /// The client of a node. `shared` is the client for all nodes.
    pub(crate) fn client(&self, node: &str, shared: &Client) -> Client {
        let Some(own) = &self.0 else { return shared.clone() };
        let mut clients = own.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(node) {
            return client.clone();
        }
        let client = (own.client_of)(node).agent(AGENT);
        clients.insert(node.to_owned(), client.clone());
        client
    }

    /// Whether nodes have users of their own.
    pub(crate) fn are_own(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.are_own() { "Identities::own" } else { "Identities::shared" })
    }
}
