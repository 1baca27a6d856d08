//! [`Bearers`]: who else knows bearer tokens, beside the token file and the keys of service accounts, in Kubernetes' order.

use super::oidc::Issuers;
use super::{TokenFile, TokenWebhook, UserInfo, bootstrap_token};
use crate::lookup::Lookup;
use crate::metrics::Page;
use jiff::Timestamp;
use std::sync::Arc;

/// The authenticators of bearer tokens that a server can be given. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Bearers {
    /// Tokens of users.
    pub file: Option<Arc<TokenFile>>,
    /// Whether bootstrap tokens are good.
    pub bootstrap: bool,
    /// Issuers of OpenID Connect.
    pub issuers: Option<Arc<Issuers>>,
    /// A server that knows tokens, asked last.
    pub webhook: Option<Arc<TokenWebhook>>,
}

/// Whom a token speaks for.
pub(crate) enum Bearer {
    /// This user, whatever the audience.
    Anywhere(Arc<UserInfo>),
    /// This user, towards these audiences.
    For(Arc<UserInfo>, Vec<String>),
}

impl Bearers {
    /// Whether the state of the cluster decides about a token.
    pub(crate) fn asks_cluster(&self, token: &str) -> bool {
        self.bootstrap && bootstrap_token::parts(token).is_some()
    }

    /// Whom a token speaks for that the token file and service accounts do not know. `audiences` are those that are wanted.
    pub(crate) async fn user(
        &self,
        token: &str,
        audiences: &[&str],
        cluster: &dyn Lookup,
        now: Timestamp,
    ) -> Option<Bearer> {
        if self.bootstrap
            && let Some(user) = bootstrap_token::user(token, cluster, now)
        {
            return Some(Bearer::Anywhere(Arc::new(user)));
        }
        if let Some(issuers) = &self.issuers {
            match issuers.identity(token, now).await {
                Ok(Some(user)) => return Some(Bearer::Anywhere(user)),
                Ok(None) => {}
                Err(why) => tracing::debug!(why, "a token of an issuer is refused"),
            }
        }
        match self.webhook.as_ref()?.identity(token, audiences).await {
            Ok(known) => known.map(|(user, good)| Bearer::For(user, good)),
            Err(why) => {
                tracing::warn!(why, "the token webhook does not tell whose a token is");
                None
            }
        }
    }

    /// When a token that was found good expires, as far as it says.
    pub(crate) fn expires(&self, token: &str) -> Option<Timestamp> {
        self.issuers.as_ref()?.expires(token)
    }

    /// Writes the counters.
    pub(crate) fn render_metrics(&self, page: &mut Page<'_>) {
        if let Some(issuers) = &self.issuers {
            issuers.render_metrics(page);
        }
        if let Some(webhook) = &self.webhook {
            webhook.render_metrics(page);
        }
    }
}
