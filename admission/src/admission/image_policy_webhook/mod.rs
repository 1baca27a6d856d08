//! ImagePolicyWebhook: asks an HTTPS server by ImageReview whether a pod may run its images. Answers are
//! cached for a time. Reviews are sent for new and updated pods and for new ephemeral containers.
//!
//! If the server fails and `defaultAllow` is set, the pod is admitted with an audit annotation. Kubernetes
//! annotates the pod itself, too; here validating plugins do not change objects.

mod document;
mod review;
#[cfg(test)]
mod tests;

use super::{Plugin, Remarks, Subject};
use crate::admission::Cluster;
use bytes::Bytes;
pub use document::ImagePolicyOptions;
use kstore_access::expiring::Expiring;
use kstore_nondet::Rng;
use kstore_registry::outbound::{Remote, WebhookBackoff, is_worth_another_call};
use kstore_registry::undecided::Undecided;
use kstore_storage::limits;
pub(super) use review::ImageVerdict;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Name of the plugin.
pub(super) const NAME: &str = "ImagePolicyWebhook";
/// Timeout of one call, as in Kubernetes.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Prefix of audit annotations.
const AUDIT: &str = "imagepolicywebhook.image-policy.k8s.io/";

pub(super) struct ImagePolicyWebhook(Arc<Reviewer>);

impl ImagePolicyWebhook {
    /// The plugin with the server that decides.
    pub(super) fn new(remote: Remote, options: ImagePolicyOptions, rng: Rng) -> Self {
        let cache = Expiring::new(limits::IMAGE_REVIEWS);
        Self(Arc::new(Reviewer { remote, options, cache, calls: Semaphore::new(limits::WEBHOOK_CALLS), rng }))
    }
}

/// The server that decides, with a cache of its answers.
struct Reviewer {
    remote: Remote,
    options: ImagePolicyOptions,
    cache: Expiring<String, ImageVerdict>,
    calls: Semaphore,
    rng: Rng,
}

impl Reviewer {
    /// The verdict on a review. Failures are not cached.
    async fn ask(&self, review: &str) -> ImageVerdict {
        let _call = self.calls.acquire().await.expect("the semaphore is never closed");
        // A concurrent request may have got the answer while this one waited.
        if let Some(known) = self.cache.get(&review.to_owned()) {
            return known;
        }
        let body = Bytes::from(review.to_owned());
        let mut waits = WebhookBackoff::starting_at(self.options.retry_backoff).waits(&self.rng);
        let answer = loop {
            let answer = self.remote.post(body.clone(), CALL_TIMEOUT).await;
            match waits.next().filter(|_| is_worth_another_call(&answer)) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => break answer,
            }
        };
        let read = match answer {
            Ok(answer) if (200..300).contains(&answer.status) => review::read(&answer.body),
            Ok(answer) => Err(format!("Error contacting webhook: {}", answer.status)),
            Err(error) => Err(format!("Post {:?}: {error}", self.remote.url())),
        };
        match read {
            Ok(verdict) => {
                let is_allowed = matches!(verdict, ImageVerdict::Allowed { .. });
                let time = if is_allowed { self.options.allow_ttl } else { self.options.deny_ttl };
                self.cache.put(review.to_owned(), verdict.clone(), time);
                verdict
            }
            Err(why) => {
                tracing::warn!(why, allowed = self.options.default_allow, "the image policy webhook failed");
                ImageVerdict::Failed(why)
            }
        }
    }
}

impl Plugin for ImagePolicyWebhook {
    fn decide(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        _: Option<&Value>,
        remarks: &mut Remarks,
    ) -> Result<(), Undecided> {
        let is_meant = remarks.effects.may_wait(subject.operation, subject.resource)
            && matches!(subject.subresource, "" | "ephemeralcontainers");
        let Some(pod) = new.filter(|_| is_meant) else { return Ok(()) };
        let review = review::of(subject, pod).to_string();
        let known = remarks.effects.image_verdict(&review).or_else(|| self.0.cache.get(&review));
        let Some(verdict) = known else {
            let (reviewer, effects) = (self.0.clone(), remarks.effects.clone());
            return Err(Undecided::Pending(Box::pin(async move {
                let verdict = reviewer.ask(&review).await;
                effects.keep_image_verdict(review, verdict);
            })));
        };
        let refused = match verdict {
            ImageVerdict::Allowed { notes } => {
                note_all(notes, remarks);
                return Ok(());
            }
            ImageVerdict::Failed(_) if self.0.options.default_allow => {
                remarks.note(|| (format!("{AUDIT}failed-open"), "true".to_owned()));
                return Ok(());
            }
            ImageVerdict::Failed(why) => why,
            ImageVerdict::Denied { reason, notes } => {
                note_all(notes, remarks);
                match reason.as_str() {
                    "" => "one or more images rejected by webhook backend".to_owned(),
                    _ => format!("image policy webhook backend denied one or more images: {reason}"),
                }
            }
        };
        Err(subject.forbidden(&refused).into())
    }
}

fn note_all(notes: Vec<(String, String)>, remarks: &mut Remarks) {
    for (key, value) in notes {
        remarks.note(|| (format!("{AUDIT}{key}"), value));
    }
}
