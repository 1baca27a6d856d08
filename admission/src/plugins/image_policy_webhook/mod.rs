//! ImagePolicyWebhook: asks an HTTPS server by ImageReview whether a pod may run its images. Answers are
//! cached for a time. Reviews are sent for new and updated pods and for new ephemeral containers.
//!
//! If the server fails and `defaultAllow` is set, the pod is admitted with an audit annotation. Kubernetes
//! annotates the pod itself, too; here validating plugins do not change objects.

mod document;
mod review;
#[cfg(test)]
mod tests;

use crate::plugin::{Configuration, ConfigurationContext, Plugin, Review, Row};
use bytes::Bytes;
use document::ImagePolicyOptions;
use kstore_access::expiring::Expiring;
use kstore_api::admission::Operation;
use kstore_nondet::Rng;
use kstore_registry::outbound::{Remote, WebhookBackoff, is_worth_another_call};
use kstore_registry::undecided::Undecided;
use kstore_storage::limits;
use parking_lot::Mutex;
use review::ImageVerdict;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    configuration: Configuration::Required(ImagePolicyWebhook::configured),
    kinds: &[("", "pods")],
    subresources: &["", "ephemeralcontainers"],
    validates: &[Operation::Create, Operation::Update],
    may_wait: true,
    ..Row::unconfigured("ImagePolicyWebhook")
};

/// Timeout of one call, as in Kubernetes.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Prefix of audit annotations.
const AUDIT: &str = "imagepolicywebhook.image-policy.k8s.io/";

struct ImagePolicyWebhook(Arc<Reviewer>);

impl ImagePolicyWebhook {
    /// The plugin by an object with the member `imagePolicy`, whose kubeconfig names the server that decides.
    ///
    /// # Errors
    /// The field or file that cannot be used.
    fn configured(document: Value, context: &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String> {
        let options = ImagePolicyOptions::parse(document)?;
        let remote = (context.connect)("imagePolicy.kubeConfigFile", &options.kubeconfig)?;
        Ok(Arc::new(Self::new(remote, options, context.rng.fork("image-policy"))))
    }

    /// The plugin with the server that decides.
    fn new(remote: Remote, options: ImagePolicyOptions, rng: Rng) -> Self {
        let cache = Expiring::new(limits::IMAGE_REVIEWS);
        Self(Arc::new(Reviewer { remote, options, cache, calls: Semaphore::new(limits::WEBHOOK_CALLS), rng }))
    }
}

/// The latest image review of a request and its verdict.
#[derive(Default)]
struct LatestReview(Mutex<Option<(String, ImageVerdict)>>);

impl LatestReview {
    /// The verdict on this image review, if the request waited for it.
    fn verdict(&self, review: &str) -> Option<ImageVerdict> {
        let latest = self.0.lock();
        latest.as_ref().filter(|(known, _)| known == review).map(|(_, verdict)| verdict.clone())
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
    fn validate(&self, request: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Some(pod) = new else { return Ok(()) };
        let review = review::of(request.subject, pod).to_string();
        let latest = request.calls().effects().of::<LatestReview>();
        let Some(verdict) = latest.verdict(&review).or_else(|| self.0.cache.get(&review)) else {
            let reviewer = self.0.clone();
            return Err(Undecided::Pending(Box::pin(async move {
                let verdict = reviewer.ask(&review).await;
                *latest.0.lock() = Some((review, verdict));
            })));
        };
        let refused = match verdict {
            ImageVerdict::Allowed { annotations } => {
                annotate_all(annotations, request);
                return Ok(());
            }
            ImageVerdict::Failed(_) if self.0.options.default_allow => {
                request.annotate(|| (format!("{AUDIT}failed-open"), "true".to_owned()));
                return Ok(());
            }
            ImageVerdict::Failed(why) => why,
            ImageVerdict::Denied { reason, annotations } => {
                annotate_all(annotations, request);
                match reason.as_str() {
                    "" => "one or more images rejected by webhook backend".to_owned(),
                    _ => format!("image policy webhook backend denied one or more images: {reason}"),
                }
            }
        };
        request.subject.refuse(&refused)
    }
}

fn annotate_all(annotations: Vec<(String, String)>, request: &Review<'_>) {
    for (key, value) in annotations {
        request.annotate(|| (format!("{AUDIT}{key}"), value));
    }
}
