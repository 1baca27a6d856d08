//! Conversion of stored objects to the version that a reader requests. [`in_version`] converts objects of built-in kinds.
//! [`Converter`]: calls conversion webhooks for custom objects that readers request in another version. A
//! reader notes the missing conversions in its kind's `Conversions`. The encoding of reviews and the texts of
//! failures are `kstore_api::admission::conversion`'s.

mod selection;

use crate::cache::Cache;
use crate::entry::Entry;
use crate::kinds::{CustomKind, CustomVersion, Missing, is_conversion_needed};
use crate::outbound::{Answer, Call, Outbound};
use kstore_api::admission::client::ClientConfig;
use kstore_api::admission::conversion::{Batch, ConversionError, Review, TIMEOUT_SECONDS};
use kstore_api::admission::review::ReviewVersion;
use kstore_api::admission::review::transport::HttpAnswer;
use kstore_api::crd::Conversion;
use kstore_api::group_version::split_api_version;
use kstore_api::object;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_storage::metrics::ConversionWebhooks;
pub use selection::{FieldSelection, filter_by_version};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Converts a stored object into the version of `resource`.
pub fn in_version(resource: &'static Resource, mut stored: Value) -> Value {
    if !resource.is_same_version(resource.storage_row()) {
        kstore_api::convert::from_storage(resource, &mut stored);
    }
    stored
}

/// Client of conversion webhooks. One per apiserver.
#[derive(Debug)]
pub struct Converter {
    outbound: Arc<dyn Outbound>,
    nondet: Nondet,
    metrics: Arc<ConversionWebhooks>,
}

impl Converter {
    /// Calls webhooks through `outbound`.
    pub fn new(outbound: Arc<dyn Outbound>, nondet: Nondet) -> Self {
        Self { outbound, nondet, metrics: Arc::default() }
    }

    /// Returns a function that writes the webhook metrics in the Prometheus text format.
    pub fn render_metrics(&self) -> impl Fn(&mut String) + Send + Sync + 'static {
        let metrics = self.metrics.clone();
        move |out| metrics.render(&mut Page::new(out))
    }

    /// Converts all objects of the kind that readers have noted as missing. On return, `Conversions` has each
    /// result or the reason for its failure.
    pub async fn convert(&self, cache: &Arc<Cache>, kind: &CustomKind) {
        let _in_call = kind.conversions.in_call.lock().await;
        for missing in kind.conversions.take_missing() {
            let Missing { version, objects } = missing;
            let (keys, objects): (Vec<_>, Vec<_>) = objects.into_iter().unzip();
            let outcomes: Vec<Result<Value, Status>> = match self.call(cache, kind, &version, objects).await {
                Ok(converted) => converted.into_iter().map(Ok).collect(),
                Err(status) => keys.iter().map(|_| Err(status.clone())).collect(),
            };
            kind.conversions.put(keys.into_iter().zip(outcomes));
        }
    }

    async fn call(
        &self,
        cache: &Arc<Cache>,
        kind: &CustomKind,
        version: &str,
        objects: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        let definition = &kind.definition;
        let Conversion::Webhook { client_config, review_version } = &definition.conversion else {
            return Err(Status::internal("the definition has no conversion webhook"));
        };
        let no_client = || Status::internal("the conversion webhook has neither a URL nor a service");
        let client = ClientConfig::read(client_config).ok_or_else(no_client)?;
        let desired = definition.api_version(version);
        let list_version =
            objects.first().map(|first| object::api_version(first).to_owned()).unwrap_or_default();
        let list_kind = definition.names.list_kind.to_string();
        let batch = match objects.len() {
            1 => Batch::Single,
            _ => Batch::List { api_version: &list_version, kind: &list_kind },
        };
        let review_version = ReviewVersion::read(review_version).unwrap_or(ReviewVersion::V1);
        let review = Review::new(review_version, &desired, batch, objects);
        if !review.needs_call() {
            return Ok(review.into_unconverted());
        }
        let uid = self.nondet.rng.uuid();
        let body = review.encode_request(&uid).into();
        let call = Call { client: client.clone(), timeout: Duration::from_secs(TIMEOUT_SECONDS), body };
        let began = Instant::now();
        let answered = match self.outbound.post(cache.clone(), call).await {
            Ok(answer) => {
                let Answer { status, content_type, body } = &answer;
                review.finish(&uid, &HttpAnswer { status: *status, content_type, body })
            }
            Err(why) => Err(review.no_answer(&client, why)),
        };
        let failure = answered.as_ref().err().map(ConversionError::failure);
        let versions = (split_api_version(&list_version).1, version);
        self.metrics.observe(&definition.name, versions, began.elapsed(), failure);
        answered.map_err(|error| error.status())
    }

    /// Converts the entries that are not yet available in the version, so that reading them no longer waits
    /// for a webhook.
    ///
    /// # Errors
    /// The reason for which an entry cannot be converted.
    pub async fn prepare<'e>(
        &self,
        cache: &Arc<Cache>,
        custom: &CustomVersion,
        entries: impl Iterator<Item = &'e Arc<Entry>> + Clone + Send,
    ) -> Result<(), Status> {
        // Each call converts all missing objects, or as many as one call may carry, so the loop ends.
        let mut calls_left =
            if custom.needs_webhook() { entries.clone().count().saturating_add(1) } else { 0 };
        while calls_left > 0 && are_waiting(custom, entries.clone())? {
            self.convert(cache, &custom.kind).await;
            calls_left -= 1;
        }
        Ok(())
    }
}

/// Whether some entries wait for the webhook; those are noted as missing.
fn are_waiting<'e>(
    custom: &CustomVersion,
    entries: impl Iterator<Item = &'e Arc<Entry>>,
) -> Result<bool, Status> {
    let mut is_any_waiting = false;
    for entry in entries {
        match custom.view(entry) {
            Ok(_) => {}
            Err(status) if is_conversion_needed(&status) => is_any_waiting = true,
            Err(status) => return Err(status),
        }
    }
    Ok(is_any_waiting)
}
