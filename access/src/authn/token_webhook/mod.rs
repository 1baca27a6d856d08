//! [`TokenWebhook`]: a webhook that authenticates bearer tokens by TokenReview. Its answers are cached for a
//! time.

use crate::authz::ReviewVersion;
use crate::expiring::Expiring;
use crate::single_flight::SingleFlight;
use bytes::Bytes;
use kstore_metrics_text::Page;
use kstore_nondet::Rng;
use kstore_registry::outbound::{Remote, WebhookBackoff, is_worth_another_call};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use kstore_storage::series::{Counter, Family};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Timeout of one call, as in Kubernetes.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// First pause after a failed call, as in Kubernetes.
const BACKOFF: Duration = Duration::from_millis(500);

/// The user of a token and the audiences for which it is valid; `None` if the webhook does not know the
/// token.
pub(crate) type TokenIdentity = Option<(Arc<UserInfo>, Vec<String>)>;

/// A webhook that authenticates tokens, with a cache of its answers.
pub struct TokenWebhook {
    remote: Remote,
    version: ReviewVersion,
    /// How long answers are cached.
    ttl: Duration,
    cache: Expiring<[u8; 32], TokenIdentity>,
    flights: SingleFlight<[u8; 32], Result<TokenIdentity, String>>,
    calls: Semaphore,
    rng: Rng,
    lookups: Family<&'static str, Counter>,
    fetched: Family<&'static str, Counter>,
}

impl fmt::Debug for TokenWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWebhook").field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl TokenWebhook {
    /// A webhook whose answers are cached for `ttl`; zero disables the cache.
    pub fn new(remote: Remote, version: ReviewVersion, ttl: Duration, rng: Rng) -> Self {
        Self {
            remote,
            version,
            ttl,
            cache: Expiring::new(limits::WEBHOOK_ANSWERS),
            flights: SingleFlight::new(),
            calls: Semaphore::new(limits::WEBHOOK_CALLS),
            rng,
            lookups: Family::new(Counter::default),
            fetched: Family::new(Counter::default),
        }
    }

    /// Authenticates a token for any of `audiences`. Concurrent requests with the same token share one call,
    /// unless the cache is disabled.
    ///
    /// # Errors
    /// The webhook gave no usable answer, or reported an error about the token. Errors are not cached.
    pub async fn identity(&self, token: &str, audiences: &[&str]) -> Result<TokenIdentity, String> {
        let key = key(token, audiences);
        if let Some(known) = self.cache.get(&key) {
            self.lookups.get(&"hit").add(1);
            return Ok(known);
        }
        self.lookups.get(&"miss").add(1);
        if self.ttl.is_zero() {
            return self.fetch(key, token, audiences).await;
        }
        self.flights.run(key, || self.fetch(key, token, audiences)).await
    }

    /// Calls the webhook, and caches its answer.
    async fn fetch(&self, key: [u8; 32], token: &str, audiences: &[&str]) -> Result<TokenIdentity, String> {
        let _call = self.calls.acquire().await.expect("the semaphore is never closed");
        // A concurrent request may have got the answer while this one waited.
        if let Some(known) = self.cache.get(&key) {
            return Ok(known);
        }
        let known = self.ask(token, audiences).await;
        self.fetched.get(&if known.is_ok() { "ok" } else { "error" }).add(1);
        let known = known?;
        self.cache.put(key, known.clone(), self.ttl);
        Ok(known)
    }

    async fn ask(&self, token: &str, audiences: &[&str]) -> Result<TokenIdentity, String> {
        let review = json!({
            "kind": "TokenReview",
            "apiVersion": format!("authentication.k8s.io/{}", self.version.name()),
            "metadata": {"creationTimestamp": null},
            "spec": {"token": token, "audiences": audiences},
            "status": {"user": {}},
        });
        let body = Bytes::from(review.to_string());
        let mut waits = WebhookBackoff::starting_at(BACKOFF).waits(&self.rng);
        let answer = loop {
            let answer = self.remote.post(body.clone(), CALL_TIMEOUT).await;
            match waits.next().filter(|_| is_worth_another_call(&answer)) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => break answer,
            }
        };
        let answer = answer.map_err(|error| error.to_string())?;
        if !(200..300).contains(&answer.status) {
            return Err(format!("the webhook answered {}", answer.status));
        }
        read(&answer.body, audiences)
    }

    /// Writes the metrics.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        let name = "authentication_token_cache_request_total";
        page.head(name, "counter", "Counter of requests for answers of the token webhook that are kept.");
        for (status, counter) in self.lookups.sorted() {
            page.line(name, &[("status", status)], counter.get());
        }
        let name = "authentication_token_cache_fetch_total";
        page.head(name, "counter", "Counter of calls to the token webhook.");
        for (status, counter) in self.fetched.sorted() {
            page.line(name, &[("status", status)], counter.get());
        }
    }
}

/// The cache key of a token and its audiences, unique by hash.
fn key(token: &str, audiences: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in [token].iter().chain(audiences) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize().into()
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: Option<ReviewUser>,
    #[serde(default)]
    audiences: Option<Vec<String>>,
    #[serde(default)]
    error: String,
}

#[derive(Default, Deserialize)]
struct ReviewUser {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Option<Vec<String>>,
    #[serde(default)]
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

/// Interprets a TokenReview answer. A webhook that names no audiences does not support them; its tokens are
/// valid for all.
fn read(body: &[u8], audiences: &[&str]) -> Result<TokenIdentity, String> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("the webhook's answer is not a TokenReview: {error}"))?;
    let status = review.status.ok_or("the webhook's answer has no status")?;
    let good: Vec<String> = match status.audiences.filter(|good| !good.is_empty()) {
        None => audiences.iter().map(|&wanted| wanted.to_owned()).collect(),
        Some(good) => audiences
            .iter()
            .filter(|wanted| good.iter().any(|good| good == *wanted))
            .map(|&w| w.to_owned())
            .collect(),
    };
    if good.is_empty() && !audiences.is_empty() {
        return Ok(None);
    }
    if !status.authenticated {
        return if status.error.is_empty() { Ok(None) } else { Err(status.error) };
    }
    let named = status.user.unwrap_or_default();
    let mut user = UserInfo::new(named.username, named.groups.unwrap_or_default());
    (user.uid, user.extra) = (named.uid, named.extra.unwrap_or_default());
    Ok(Some((Arc::new(user), good)))
}

#[cfg(test)]
mod tests;
