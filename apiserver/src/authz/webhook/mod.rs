//! [`AuthorizationWebhook`]: a server that is asked by a SubjectAccessReview what a caller may do. Its verdicts are kept for a time.

pub(super) mod review;

use super::Decision;
use crate::authn::ReviewVersion;
use crate::expiring::Expiring;
use crate::limits;
use crate::metrics::{Counter, Family, Page};
use crate::outbound::{Backoff, Remote, is_worth_another_call};
use kstore_api::expression::plain::Expression;
use kstore_nondet::Rng;
use review::Question;
use std::fmt;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The first pause after a call that failed, as in Kubernetes.
const BACKOFF: Duration = Duration::from_millis(500);
/// The variable of match conditions: the spec of the review.
const REQUEST: &str = "request";

/// What a webhook's failure means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It has no opinion.
    #[default]
    NoOpinion,
    /// It forbids.
    Deny,
}

/// How a webhook is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationWebhookOptions {
    /// Its name in metrics.
    pub name: String,
    /// How long what it allowed is kept; zero: not at all.
    pub authorized_ttl: Duration,
    /// How long what it did not allow is kept; zero: not at all.
    pub unauthorized_ttl: Duration,
    /// How long a call may take.
    pub timeout: Duration,
    /// The version of reviews.
    pub version: ReviewVersion,
    /// What its failure means.
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

/// A server that authorizes.
pub struct AuthorizationWebhook {
    remote: Remote,
    options: AuthorizationWebhookOptions,
    /// It is asked only where all of these are true.
    conditions: Vec<Expression>,
    kept: Expiring<[u8; 32], Verdict>,
    calls: Semaphore,
    rng: Rng,
    answered: Family<&'static str, Counter>,
}

/// What came of asking a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What it decided.
    pub(crate) decision: Decision,
    /// What went wrong.
    pub(crate) error: Option<String>,
}

impl fmt::Debug for AuthorizationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationWebhook").field("options", &self.options).finish_non_exhaustive()
    }
}

impl AuthorizationWebhook {
    /// A webhook that is asked about requests for which all conditions (CEL, over the variable `request`) are true.
    ///
    /// # Errors
    /// The index of the first condition that is none, and why.
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
            kept: Expiring::new(limits::WEBHOOK_ANSWERS),
            calls: Semaphore::new(limits::WEBHOOK_CALLS),
            rng,
            answered: Family::new(Counter::default),
        })
    }

    /// The verdict on a question, as far as it can be told without asking: it is kept, or a condition settles it.
    pub(super) fn known(&self, question: &Question) -> Option<Verdict> {
        let mut failure = None;
        if !self.conditions.is_empty() {
            let spec = question.condition_spec();
            for condition in &self.conditions {
                match condition.is_true(&[(REQUEST, &spec)]) {
                    Ok(true) => {}
                    // One that is false excludes the webhook, whatever fails beside it.
                    Ok(false) => {
                        return Some(Verdict { decision: Decision::NoOpinion(String::new()), error: None });
                    }
                    Err(why) => failure = Some(why),
                }
            }
        }
        failure.map(|why| self.failed(why)).or_else(|| self.kept.get(&question.key()))
    }

    /// Asks.
    pub(super) async fn ask(&self, question: &Question) -> Verdict {
        let _call = self.calls.acquire().await.expect("the semaphore is never closed");
        // Others may have asked the same while this waited.
        if let Some(known) = self.kept.get(&question.key()) {
            return known;
        }
        let body = bytes::Bytes::from(question.review(self.options.version).to_string());
        let mut waits = Backoff::starting_at(BACKOFF).waits(&self.rng);
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
                tracing::warn!(why, webhook = self.options.name, "an authorization webhook gives no verdict");
                self.failed(why)
            }
            Ok(verdict) => {
                let time = match verdict.decision {
                    Decision::Allow(_) => self.options.authorized_ttl,
                    Decision::NoOpinion(_) | Decision::Deny(_) => self.options.unauthorized_ttl,
                };
                if question.is_short() {
                    self.kept.put(question.key(), verdict.clone(), time);
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

    /// Writes the counters of several webhooks.
    pub(crate) fn render_metrics<'a>(webhooks: impl Iterator<Item = &'a Self>, page: &mut Page<'_>) {
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
