//! Authentication of requests, and tokens of service accounts: TokenRequest and TokenReview.

use super::{Answer, Pipeline};
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue};
use kstore_access::audit;
use kstore_access::authn::service_account::{Unknown, bearer};
use kstore_access::authn::token_uses::TokenUse;
use kstore_access::authn::{self, BearerUser, RequestHead};
use kstore_access::peer::Peer;
use kstore_access::token::Tokens;
use kstore_access::token::request::claims;
use kstore_api::meta;
use kstore_api::status::{Reason, Status};
use kstore_registry::decode::{self, Expected};
use kstore_registry::error;
use kstore_registry::request::{Body, GetOptions, Request, WriteOptions};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The user of a request that was authenticated before its server got it. In the request's extensions, it spares the server to do so again:
/// only for requests that are performed at once, because credentials and rights may end.
#[derive(Clone, Debug)]
pub struct Identified {
    user: Arc<UserInfo>,
    /// How long the authentication took.
    took: Duration,
}

impl Identified {
    /// The user.
    pub fn user(&self) -> &Arc<UserInfo> {
        &self.user
    }
}

/// The user that a token authenticates, and the audiences for which it is valid.
type Named = (Arc<UserInfo>, Vec<String>);

impl Pipeline {
    /// Authenticates a request. `peer` is what the connection put into the request's extensions.
    ///
    /// # Errors
    /// 401 for an invalid credential; 403 if the caller may not impersonate the user that the headers name.
    pub async fn authenticate(
        &self,
        peer: Option<&Peer>,
        head: RequestHead<'_>,
    ) -> Result<Arc<UserInfo>, Status> {
        let began = Instant::now();
        let user = self.identify(peer, head).await;
        let name = user.as_ref().map(|user| user.username.as_str()).map_err(drop);
        self.metrics.authenticated(name, began.elapsed());
        user
    }

    /// Authenticates a request whose server has not got it yet. Leaves no trace in the metrics before [`Self::take_over`].
    ///
    /// # Errors
    /// See [`Self::authenticate`].
    pub async fn identify_ahead(
        &self,
        peer: Option<&Peer>,
        head: RequestHead<'_>,
    ) -> Result<Identified, Status> {
        let began = Instant::now();
        let user = self.identify(peer, head).await?;
        Ok(Identified { user, took: began.elapsed() })
    }

    /// The user of a request that was authenticated ahead; counts the authentication.
    pub fn take_over(&self, identified: &Identified) -> Arc<UserInfo> {
        self.metrics.authenticated(Ok(&identified.user.username), identified.took);
        identified.user.clone()
    }

    /// Authenticates like [`Self::authenticate`], without a trace in the metrics. Boxed here, so that no crate above generates the code
    /// of all authenticators again.
    ///
    /// # Errors
    /// See [`Self::authenticate`].
    pub fn identify<'a>(
        &'a self,
        peer: Option<&'a Peer>,
        head: RequestHead<'a>,
    ) -> BoxFuture<'a, Result<Arc<UserInfo>, Status>> {
        Box::pin(self.identify_caller(peer, head))
    }

    async fn identify_caller(
        &self,
        peer: Option<&Peer>,
        head: RequestHead<'_>,
    ) -> Result<Arc<UserInfo>, Status> {
        let headers = head.headers;
        let bearer = match (peer, bearer(headers)) {
            (Some(Peer::Tls { .. }), Some(token)) => {
                Some(self.token_user(&token, &[]).await.map(|(user, _)| user))
            }
            // A valid certificate takes precedence, so that the password need not be checked.
            (Some(peer), None) if !peer.has_valid_certificate(self.nondet.clock.now()) => {
                self.bearers.password_user(headers).await
            }
            _ => None,
        };
        let terms =
            authn::Terms { now: self.nondet.clock.now(), anonymous: self.anonymous.serves(head.path) };
        let began = Instant::now();
        let (authorizer, impersonation) = (&*self.authorizer, &self.impersonation);
        let look = |bearer| authn::authenticate_peer(peer, head, bearer, authorizer, impersonation, terms);
        let verdict = match look(bearer.clone()).await {
            // The right to impersonate may just have been granted: a 403 counts only after all acknowledged
            // writes are in the cache.
            Err(status) if status.code == 403 && self.cache().fresh().await.is_ok() => look(bearer).await,
            verdict => verdict,
        };
        if verdict.as_ref().is_err_and(|status| status.code == 403) {
            impersonation.count_refusal(began.elapsed());
        }
        verdict
    }

    /// The challenge in the header `WWW-Authenticate` of a 401, if users may authenticate with passwords.
    pub fn challenge(&self) -> Option<HeaderValue> {
        self.bearers.basic.is_some().then(|| HeaderValue::from_static(authn::basic_auth::CHALLENGE))
    }

    /// How long the credentials of a request stay valid; `None` if they do not expire. Watches use it, for
    /// they outlast the moment of authentication.
    pub fn credentials_last(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Option<Duration> {
        let expires = match peer? {
            Peer::InProcess(_) => return None,
            Peer::Tls { proxy: Some(proxy), .. } if proxy.is_allowed => proxy.expires,
            Peer::Tls { certificate: Some(certificate), .. } => certificate.expires,
            Peer::Tls { certificate: None, .. } => {
                let token = bearer(headers)?;
                let own = self.tokens.as_ref().and_then(|tokens| tokens.expires(&token));
                own.or_else(|| self.bearers.expires(&token))?
            }
        };
        let left = expires.duration_since(self.nondet.clock.now());
        Some(Duration::try_from(left).unwrap_or_default().min(limits::WATCH_TIMEOUT_MAX))
    }

    /// Authenticates a token: its user, and the requested audiences for which it is valid.
    async fn token_user(&self, token: &str, audiences: &[&str]) -> Result<Named, Status> {
        if let Some(user) = self.bearers.file.as_ref().and_then(|file| file.user(token)) {
            return self.accepted_audiences(audiences).map(|good| (user, good));
        }
        let refused = match self.account(token, audiences).await? {
            Ok(found) => return Ok(found),
            Err(why) => why,
        };
        let own: Vec<&str> =
            self.tokens().map(Tokens::audiences).unwrap_or_default().iter().map(String::as_str).collect();
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
        if self.bearers.needs_cluster_state(token) {
            // The cache may not have the token's Secret yet.
            self.cache().fresh().await.map_err(error::of_read)?;
        }
        match self.bearers.user(token, wanted, &**self.cache(), self.nondet.clock.now()).await {
            Some(BearerUser::Anywhere(user)) => self.accepted_audiences(audiences).map(|good| (user, good)),
            Some(BearerUser::For(user, good)) => Ok((user, good)),
            None => {
                tracing::debug!(why = refused, "a token is refused");
                Err(Status::unauthorized())
            }
        }
    }

    /// Authenticates a token as one of this server's service account tokens; the inner error says why it is not.
    async fn account(&self, token: &str, audiences: &[&str]) -> Result<Result<Named, String>, Status> {
        let Some(tokens) = &self.tokens else { return Ok(Err("there are no service accounts".to_owned())) };
        let cache = &**self.cache();
        let look = || tokens.check(token, audiences, cache, self.nondet.clock.now());
        let mut found = look();
        if let Err(Unknown::Gone(_) | Unknown::Invalidated) = found.audiences {
            // The cache may not have the newest state of the token's account or Secret yet.
            self.cache().fresh().await.map_err(error::of_read)?;
            found = look();
        }
        if let Some(used) = TokenUse::of(&found, cache, self.nondet.clock.now()) {
            tokens.uses().count(&used);
            if let Some(trail) = audit::current() {
                trail.annotate(used.annotations());
            }
        }
        if let Ok(_) | Err(Unknown::Invalidated) = found.audiences {
            self.record_token_use(tokens, token).await;
        }
        Ok(found.into_identity().map_err(|why| why.to_string()))
    }

    /// The `audiences` that are this API's. A token that names no audiences is valid for these.
    fn accepted_audiences(&self, audiences: &[&str]) -> Result<Vec<String>, Status> {
        let own = self.tokens().map(Tokens::audiences).unwrap_or_default();
        if audiences.is_empty() {
            return Ok(own.to_vec());
        }
        let good: Vec<_> = own.iter().filter(|own| audiences.contains(&own.as_str())).cloned().collect();
        if good.is_empty() { Err(Status::unauthorized()) } else { Ok(good) }
    }

    /// Serves POST serviceaccounts/NAME/token.
    pub(super) async fn create_token(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let tokens = self.tokens().ok_or_else(|| error::not_served(target, target.subresource))?;
        let expected = Expected::of(target.resource, target.subresource);
        let wanted = decode::object(expected, body, options.field_validation, warnings)?;
        let mut wanted = self.admit_posted(request, wanted, options, warnings).await?;
        let account = self.registry.get(target, &GetOptions::default()).await?.parse();
        check_account(&wanted, &account, request)?;
        let find = |row, namespace: &str, name: &str| {
            kstore_registry::lookup::Lookup::get(&**self.cache(), row, namespace, name)
        };
        let now = self.nondet.clock.now();
        let claims = claims(&mut wanted, &account, &find, (now, self.nondet.rng.uuid()), tokens)?;
        let token = tokens.sign(&claims).map_err(Status::internal)?;
        wanted["status"]["token"] = json!(token);
        meta::set_name(&mut wanted, &target.name);
        meta::set_namespace(&mut wanted, &target.namespace);
        meta::metadata_mut(&mut wanted).insert("creationTimestamp".into(), json!(meta::format_time(now)));
        Ok(Answer::Value { value: wanted, created: true })
    }

    /// Fills in the status of a TokenReview.
    pub(super) async fn review_token(&self, mut review: Value) -> Result<Answer, Status> {
        let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = review["spec"]["audiences"].clone();
        let audiences: Vec<&str> =
            audiences.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        review["status"] = match self.token_user(&token, &audiences).await {
            Ok((user, good)) => json!({"authenticated": true, "user": *user, "audiences": good}),
            Err(Status { reason: Reason::Unauthorized, .. }) => {
                json!({"user": {}, "error": "invalid bearer token"})
            }
            Err(status) => json!({"user": {}, "error": status.message}),
        };
        meta::metadata_mut(&mut review);
        Ok(Answer::Value { value: review, created: true })
    }
}

/// Checks that the TokenRequest is about this account, if it names one.
fn check_account(wanted: &Value, account: &Value, request: &Request) -> Result<(), Status> {
    let target = &request.target;
    let (name, uid) = (meta::name(wanted), meta::uid(wanted));
    if !name.is_empty() && name != target.name {
        return Err(super::create::name_mismatch(name, &target.name));
    }
    if !uid.is_empty() && uid != meta::uid(account) {
        return Err(error::uid_precondition(target, uid, meta::uid(account)));
    }
    Ok(())
}
