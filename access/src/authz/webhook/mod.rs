//! [`AuthorizationWebhook`]: a webhook that authorizes requests by SubjectAccessReview. Its verdicts are
//! cached for a time.

pub(super) mod review;

use super::Decision;
use crate::authz::ReviewVersion;
use crate::expiring::Expiring;
use crate::single_flight::SingleFlight;
use kstore_api::expression::plain::Expression;
use kstore_metrics_text::Page;
use kstore_nondet::Rng;
use kstore_registry::outbound::{Remote, WebhookBackoff, is_worth_another_call};
use kstore_storage::limits;
use kstore_storage::series::{Counter, Family};
use review::Question;
use std::fmt;
use std::time::Duration;
use tokio::sync::Semaphore;

/// First pause after a failed call, as in Kubernetes.
const BACKOFF: Duration = Duration::from_millis(500);
/// The CEL variable of match conditions: the spec of the review.
const REQUEST: &str = "request";

/// The decision if a webhook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The webhook has no opinion, so that the next mode decides.
    #[default]
    NoOpinion,
    /// The request is denied.
    Deny,
}

/// Options of an authorization webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationWebhookOptions {
    /// The name of the webhook in metrics.
    pub name: String,
    /// How long allowed requests are cached; zero disables it.
    pub authorized_ttl: Duration,
    /// How long other verdicts are cached; zero disables it.
    pub unauthorized_ttl: Duration,
    /// Timeout of a call.
    pub timeout: Duration,
    /// The API version of the reviews that are sent.
    pub version: ReviewVersion,
    /// The decision if the webhook fails.
    pub failure_policy: FailurePolicy,
}

impl Default for AuthorizationWebhookOptions {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            authorized_ttl: Duration::from_secs(300),
            unauthorized_ttl: Duration::from_secs(30),
            timeout: Duration::from_secs(30),
            version: ReviewVersion::default(),
            failure_policy: FailurePolicy::default(),
        }
    }
}

/// An authorization webhook with a cache of its verdicts.
pub struct AuthorizationWebhook {
    remote: Remote,
    options: AuthorizationWebhookOptions,
    /// Match conditions: the webhook is called only if all of them are true.
    conditions: Vec<Expression>,
    cache: Expiring<[u8; 32], Verdict>,
    flights: SingleFlight<[u8; 32], Verdict>,
    calls: Semaphore,
    rng: Rng,
    answered: Family<&'static str, Counter>,
}

/// A webhook's decision about a request, with the error if it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The decision.
    pub(crate) decision: Decision,
    /// The failure, if any.
    pub(crate) error: Option<String>,
}

impl fmt::Debug for AuthorizationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationWebhook").field("options", &self.options).finish_non_exhaustive()
    }
}

impl AuthorizationWebhook {
    /// A webhook that is called for requests for which all conditions (CEL, over the variable `request`) are
    /// true.
    ///
    /// # Errors
    /// The index of the first invalid condition, and why it is invalid.
    pub fn new(
        remote: Remote,
        options: AuthorizationWebhookOptions,
        conditions: &[String],
        rng: Rng,
    ) -> Result<Self, (usize, String)> {
        let compile = |(index, text): (usize, &String)| {
            Expression::condition(text, &[REQUEST]).map_err(|why| (index, why))
        };
        Ok(Self {
            remote,
            options,
            conditions: conditions.iter().enumerate().map(compile).collect::<Result<_, _>>()?,
            cache: Expiring::new(limits::WEBHOOK_ANSWERS),
            flights: SingleFlight::new(),
            calls: Semaphore::new(limits::WEBHOOK_CALLS),
            rng,
            answered: Family::new(Counter::default),
        })
    }

    /// The verdict on a request without a call: a cached one, or one that the conditions decide.
    pub(super) fn known(&self, question: &Question) -> Option<Verdict> {
        let mut failure = None;
        if !self.conditions.is_empty() {
            let spec = question.condition_spec();
            for condition in &self.conditions {
                match condition.is_true(&[(REQUEST, &spec)]) {
                    Ok(true) => {}
                    // A false condition excludes the webhook, even if others fail.
                    Ok(false) => {
                        return Some(Verdict { decision: Decision::NoOpinion(String::new()), error: None });
                    }
                    Err(why) => failure = Some(why),
                }
            }
        }
        failure.map(|why| self.failed(why)).or_else(|| self.cache.get(&question.key()))
    }

    /// Asks the webhook. Concurrent equal requests share one call if its verdict would be cached: a shared
    /// verdict is then no older than a cached one.
    pub(super) async fn ask(&self, question: &Question) -> Verdict {
        let times = [self.options.authorized_ttl, self.options.unauthorized_ttl];
        if !question.is_cacheable() || times.iter().any(Duration::is_zero) {
            return self.call(question).await;
        }
        self.flights.run(question.key(), || self.call(question)).await
    }

    /// Calls the webhook, unless a concurrent request has just cached the verdict.
    async fn call(&self, question: &Question) -> Verdict {
        let _call = self.calls.acquire().await.expect("the semaphore is never closed");
        // A concurrent request may have got the verdict while this one waited.
        if let Some(known) = self.cache.get(&question.key()) {
            return known;
        }
        let body = bytes::Bytes::from(question.review(self.options.version).to_string());
        let mut waits = WebhookBackoff::starting_at(BACKOFF).waits(&self.rng);
        let answer = loop {
            let answer = self.remote.post(body.clone(), self.options.timeout).await;
            match waits.next().filter(|_| is_worth_another_call(&answer)) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => break answer,
            }
        };
        let read = match answer {
            Ok(answer) if (200..300).contains(&answer.status) => review::read(&answer.body),
            Ok(answer) => Err(format!("the webhook answered {}", answer.status)),
            Err(error) => Err(format!("Post {:?}: {error}", self.remote.url())),
        };
        self.answered.get(&if read.is_ok() { "success" } else { "error" }).add(1);
        match read {
            Err(why) => {
                tracing::warn!(why, webhook = self.options.name, "an authorization webhook failed");
                self.failed(why)
            }
            Ok(verdict) => {
                let time = match verdict.decision {
                    Decision::Allow(_) => self.options.authorized_ttl,
                    Decision::NoOpinion(_) | Decision::Deny(_) => self.options.unauthorized_ttl,
                };
                if question.is_cacheable() {
                    self.cache.put(question.key(), verdict.clone(), time);
                }
                verdict
            }
        }
    }

    fn failed(&self, why: String) -> Verdict {
        let decision = match self.options.failure_policy {
            FailurePolicy::NoOpinion => Decision::NoOpinion(String::new()),
            FailurePolicy::Deny => Decision::Deny(String::new()),
        };
        Verdict { decision, error: Some(why) }
    }

    /// Writes the metrics of several webhooks.
    pub fn render_metrics<'a>(webhooks: impl Iterator<Item = &'a Self>, page: &mut Page<'_>) {
        let name = "apiserver_authorization_webhook_evaluations_total";
        page.head(name, "counter", "Round-trips to authorization webhooks.");
        for webhook in webhooks {
            for (result, counter) in webhook.answered.sorted() {
                page.line(name, &[("name", &webhook.options.name), ("result", result)], counter.get());
            }
        }
    }
}

#[cfg(test)]
mod tests;
