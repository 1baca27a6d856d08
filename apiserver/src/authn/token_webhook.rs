//! [`TokenWebhook`]: a server that knows bearer tokens. It is asked by a TokenReview; its answers are kept for a time.

use super::UserInfo;
use crate::expiring::Expiring;
use crate::limits;
use crate::metrics::{Counter, Family, Page};
use crate::outbound::{Backoff, Remote, is_worth_another_call};
use bytes::Bytes;
use kstore_nondet::Rng;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long one call may take, as in Kubernetes.
const CALL: Duration = Duration::from_secs(30);
/// The first pause after a call that failed, as in Kubernetes.
const BACKOFF: Duration = Duration::from_millis(500);

/// The version of the reviews that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`, Kubernetes' default.
    #[default]
    V1Beta1,
}

impl ReviewVersion {
    /// The version of a name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// Whom a token speaks for and the audiences that it is good for; `None`: the server does not know it.
pub(crate) type Known = Option<(Arc<UserInfo>, Vec<String>)>;

/// A server that knows tokens.
pub struct TokenWebhook {
    remote: Remote,
    version: ReviewVersion,
    /// How long answers are kept.
    ttl: Duration,
    kept: Expiring<[u8; 32], Known>,
    calls: Semaphore,
    rng: Rng,
    asked: Family<&'static str, Counter>,
    fetched: Family<&'static str, Counter>,
}

impl fmt::Debug for TokenWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWebhook").field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl TokenWebhook {
    /// A server whose answers are kept for `ttl`; zero: not at all.
    pub fn new(remote: Remote, version: ReviewVersion, ttl: Duration, rng: Rng) -> Self {
        Self {
            remote,
            version,
            ttl,
            kept: Expiring::new(limits::WEBHOOK_ANSWERS),
            calls: Semaphore::new(limits::WEBHOOK_CALLS),
            rng,
            asked: Family::new(Counter::default),
            fetched: Family::new(Counter::default),
        }
    }

    /// Whom a token speaks for, if it is for one of `audiences`.
    ///
    /// # Errors
    /// The server gave no usable answer, or says what is wrong with the token. That is not kept.
    pub(crate) async fn identity(&self, token: &str, audiences: &[&str]) -> Result<Known, String> {
        let key = key(token, audiences);
        if let Some(known) = self.kept.get(&key) {
            self.asked.get(&"hit").add(1);
            return Ok(known);
        }
        self.asked.get(&"miss").add(1);
        let _call = self.calls.acquire().await.expect("the semaphore is never closed");
        // Others may have asked the same while this waited.
        if let Some(known) = self.kept.get(&key) {
            return Ok(known);
        }
        let known = self.ask(token, audiences).await;
        self.fetched.get(&if known.is_ok() { "ok" } else { "error" }).add(1);
        let known = known?;
        self.kept.put(key, known.clone(), self.ttl);
        Ok(known)
    }

    async fn ask(&self, token: &str, audiences: &[&str]) -> Result<Known, String> {
        let review = json!({
            "kind": "TokenReview",
            "apiVersion": format!("authentication.k8s.io/{}", self.version.name()),
            "metadata": {"creationTimestamp": null},
            "spec": {"token": token, "audiences": audiences},
            "status": {"user": {}},
        });
        let body = Bytes::from(review.to_string());
        let mut waits = Backoff::starting_at(BACKOFF).waits(&self.rng);
        let answer = loop {
            let answer = self.remote.post(body.clone(), CALL).await;
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

    /// Writes the counters.
    pub(crate) fn render_metrics(&self, page: &mut Page<'_>) {
        let name = "authentication_token_cache_request_total";
        page.head(name, "counter", "Counter of requests for answers of the token webhook that are kept.");
        for (status, counter) in self.asked.sorted() {
            page.line(name, &[("status", status)], counter.get());
        }
        let name = "authentication_token_cache_fetch_total";
        page.head(name, "counter", "Counter of calls to the token webhook.");
        for (status, counter) in self.fetched.sorted() {
            page.line(name, &[("status", status)], counter.get());
        }
    }
}

/// No two questions share one.
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
    user: Option<Named>,
    #[serde(default)]
    audiences: Option<Vec<String>>,
    #[serde(default)]
    error: String,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Option<Vec<String>>,
    #[serde(default)]
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

/// What an answer means. A server that says nothing of audiences knows of none, and its tokens are good for all.
fn read(body: &[u8], audiences: &[&str]) -> Result<Known, String> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("the webhook's answer is no TokenReview: {error}"))?;
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
