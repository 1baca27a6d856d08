//! [`RequestEffects`]: what plugins did for one request outside its decision. A decision may be repeated, but
//! a request is charged to the limits of events once, and its images are reviewed once.

use super::image_policy_webhook::ImageVerdict;
use kstore_api::admission::Operation;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use parking_lot::Mutex;
use std::sync::OnceLock;

/// Results of plugins that are kept for the repeated decisions about one request.
#[derive(Debug, Default)]
pub(crate) struct RequestEffects {
    /// Whether images of pods are reviewed.
    reviews_images: bool,
    /// Whether new objects wait for initializers.
    initializes: bool,
    /// Whether the limits of events accepted the request.
    pub(super) event_limits: OnceLock<Result<(), Status>>,
    /// The latest image review and its verdict.
    images: Mutex<Option<(String, ImageVerdict)>>,
}

impl RequestEffects {
    /// No effects yet. With `reviews_images` a decision about a pod may wait for the image policy webhook.
    /// With `initializes` a decision may wait for an authorization webhook.
    pub(super) fn new(reviews_images: bool, initializes: bool) -> Self {
        Self { reviews_images, initializes, ..Self::default() }
    }

    /// Whether new objects wait for initializers.
    pub(super) fn initializes(&self) -> bool {
        self.initializes
    }

    /// Whether decisions about such requests may wait for a server.
    pub(super) fn may_wait(&self, operation: Operation, resource: &Resource) -> bool {
        let waits = self.initializes || self.reviews_images && resource.is("", "pods");
        waits && matches!(operation, Operation::Create | Operation::Update)
    }

    /// The verdict on an image review that this request waited for.
    pub(super) fn image_verdict(&self, review: &str) -> Option<ImageVerdict> {
        let images = self.images.lock();
        images.as_ref().filter(|(known, _)| known == review).map(|(_, verdict)| verdict.clone())
    }

    /// Keeps the verdict on an image review.
    pub(super) fn keep_image_verdict(&self, review: String, verdict: ImageVerdict) {
        *self.images.lock() = Some((review, verdict));
    }
}
