//! [`Accounts`]: the service accounts that the controllers write with.

use kstore_client::Client;
use std::fmt;
use std::sync::Arc;

/// Gives a client that acts as a service account of `kube-system`, by the account's name (`deployment-controller`, …).
type ClientOf = dyn Fn(&str) -> Client + Send + Sync;

/// The identity of each controller's writes: a service account per controller, whose role grants only what that controller needs, or
/// (the default) one user for all controllers.
#[derive(Clone, Default)]
pub struct Accounts(Option<Arc<ClientOf>>);

impl Accounts {
    /// All controllers write with the client that their caches read with.
    pub fn shared() -> Self {
        Self(None)
    }

    /// Each controller writes as `system:serviceaccount:kube-system:<account>`, with the client that `client_of` gives for the name of
    /// the account. It is called anew whenever the controllers start.
    pub fn own(client_of: impl Fn(&str) -> Client + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(client_of)))
    }

    /// The client of an account. `shared` is the one for all.
    pub(crate) fn client(&self, account: &str, shared: &Client) -> Client {
        match &self.0 {
            Some(client_of) => client_of(account),
            None => shared.clone(),
        }
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Accounts::own" } else { "Accounts::shared" })
    }
}
