//! [`Bearers`]: authenticators of bearer tokens beside service account tokens, tried in Kubernetes' order,
//! and of passwords.

use super::basic_auth::{self, BasicAuth};
use super::oidc::Issuers;
use super::{TokenFile, TokenWebhook, bootstrap_token};
use crate::reloaded::Reloaded;
use http::HeaderMap;
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_metrics_text::Page;
use kstore_registry::lookup::Lookup;
use kstore_registry::user::UserInfo;
use std::sync::Arc;

/// The configured authenticators of bearer tokens. None by default.
#[derive(Clone, Debug, Default)]
pub struct Bearers {
    /// Static tokens of users.
    pub file: Option<Arc<TokenFile>>,
    /// Whether bootstrap tokens are accepted.
    pub bootstrap: bool,
    /// OpenID Connect issuers, which may follow a file.
    pub issuers: Option<Arc<Reloaded<Issuers>>>,
    /// A webhook that authenticates tokens; tried last.
    pub webhook: Option<Arc<TokenWebhook>>,
    /// Users with passwords; asked if a request has no bearer token.
    pub basic: Option<Arc<BasicAuth>>,
}

/// The user that a bearer token authenticates, with the audiences of the token.
pub enum BearerUser {
    /// The token is valid for every audience.
    Anywhere(Arc<UserInfo>),
    /// The token is valid for these audiences.
    For(Arc<UserInfo>, Vec<String>),
}

impl Bearers {
    /// Whether a token has to be looked up in the cluster's objects.
    pub fn needs_cluster_state(&self, token: &str) -> bool {
        self.bootstrap && bootstrap_token::parts(token).is_some()
    }

    /// Authenticates a token by bootstrap tokens, issuers and the webhook, in this order. `audiences` are the
    /// wanted audiences.
    pub async fn user(
        &self,
        token: &str,
        audiences: &[&str],
        cluster: &dyn Lookup,
        now: Timestamp,
    ) -> Option<BearerUser> {
        if self.bootstrap
            && let Some(user) = bootstrap_token::user(token, cluster, now)
        {
            return Some(BearerUser::Anywhere(Arc::new(user)));
        }
        if let Some(issuers) = &self.issuers {
            match issuers.get().identity(token, now).await {
                Ok(Some(user)) => return Some(BearerUser::Anywhere(user)),
                Ok(None) => {}
                Err(why) => tracing::debug!(why, "a token of an OpenID Connect issuer is refused"),
            }
        }
        match self.webhook.as_ref()?.identity(token, audiences).await {
            Ok(known) => known.map(|(user, good)| BearerUser::For(user, good)),
            Err(why) => {
                tracing::warn!(why, "the token webhook failed");
                None
            }
        }
    }

    /// Authenticates the sender of a user name and a password; `None` if the request has none, or if
    /// passwords are not accepted.
    pub async fn password_user(&self, headers: &HeaderMap) -> Option<Result<Arc<UserInfo>, Status>> {
        let basic = self.basic.as_ref()?;
        match basic_auth::of_headers(headers)? {
            // Boxed because it is rare: otherwise the future of every request would be larger.
            Ok(given) => Some(Box::pin(basic.user(given)).await),
            Err(basic_auth::MalformedCredentials) => Some(Err(Status::unauthorized())),
        }
    }

    /// The expiry of a token that was accepted before, if the token has one.
    pub fn expires(&self, token: &str) -> Option<Timestamp> {
        self.issuers.as_ref()?.get().expires(token)
    }

    /// Writes the metrics.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        if let Some(issuers) = &self.issuers {
            issuers.render_metrics("authentication", page);
            issuers.get().render_metrics(page);
        }
        if let Some(webhook) = &self.webhook {
            webhook.render_metrics(page);
        }
        if let Some(basic) = &self.basic {
            basic.render_metrics(page);
        }
    }
}
