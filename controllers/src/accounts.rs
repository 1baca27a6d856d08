//! [`Accounts`]: the service accounts under which the controllers write.

use kstore_client::Client;
use std::fmt;
use std::sync::Arc;

/// Returns a client that authenticates as the `kube-system` service account with this name
/// (`deployment-controller`, …).
type ClientOf = dyn Fn(&str) -> Client + Send + Sync;

/// The identity of each controller's writes: one service account per controller with minimal RBAC, or (the
/// default) one user for all controllers.
#[derive(Clone, Default)]
pub struct Accounts(Option<Arc<ClientOf>>);

impl Accounts {
    /// All controllers write with the client that fills their caches.
    pub fn shared() -> Self {
        Self(None)
    }

    /// Each controller writes as `system:serviceaccount:kube-system:<account>`, with the client that
    /// `client_of` returns for the account name. It is called each time the controllers start.
    pub fn own(client_of: impl Fn(&str) -> Client + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(client_of)))
    }

    /// These accounts with clients that `adapt` makes of theirs, for example with the fence of a leader.
    #[must_use]
    pub fn map(self, adapt: impl Fn(Client) -> Client + Send + Sync + 'static) -> Self {
        match self.0 {
            Some(client_of) => Self::own(move |account| adapt(client_of(account))),
            None => self,
        }
    }

    /// The client of an account; `shared` if there are no separate accounts.
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
