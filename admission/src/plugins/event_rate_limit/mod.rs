//! EventRateLimit: limits how many Events clients create and update, for the whole server or per namespace,
//! user, or source and object. Like Kubernetes' plugin it concerns the kind Event of the core group only. A
//! request is charged to every limit, also if one of them refuses it.

mod buckets;
mod document;
#[cfg(test)]
mod tests;

use crate::plugin::{Configuration, ConfigurationContext, Plugin, Review, Row};
use crate::subject::Subject;
use buckets::Buckets;
use document::LimitConfig;
use kstore_api::admission::Operation;
use kstore_api::object::text;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    configuration: Configuration::Required(EventRateLimit::configured),
    kinds: &[("", "events")],
    validates: &[Operation::Create, Operation::Update],
    ..Row::unconfigured("EventRateLimit")
};

/// The requests that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitType {
    /// All requests.
    Server,
    /// Requests in one namespace.
    Namespace,
    /// Requests of one user.
    User,
    /// Requests about one involved object from one source.
    SourceAndObject,
}

impl LimitType {
    /// The name in the configuration.
    fn name(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }

    /// The key of the bucket that a request is charged to.
    fn key(self, subject: &Subject<'_>, event: &Value) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => subject.namespace.to_owned(),
            Self::User => subject.user.username.clone(),
            Self::SourceAndObject => {
                let (source, involved) = (&event["source"], &event["involvedObject"]);
                let parts = [
                    &source["component"],
                    &source["host"],
                    &involved["kind"],
                    &involved["namespace"],
                    &involved["name"],
                    &involved["uid"],
                    &involved["apiVersion"],
                ];
                parts.into_iter().map(text).collect()
            }
        }
    }
}

/// One configured limit with its buckets.
struct Limit {
    kind: LimitType,
    buckets: Mutex<Buckets>,
}

struct EventRateLimit {
    limits: Vec<Limit>,
}

impl EventRateLimit {
    /// The plugin by a `Configuration` of `eventratelimit.admission.k8s.io/v1alpha1`.
    ///
    /// # Errors
    /// The field that cannot be used.
    fn configured(document: Value, _: &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String> {
        Ok(Arc::new(Self::of(document)?))
    }

    fn of(document: Value) -> Result<Self, String> {
        let limit = |config: LimitConfig| Limit {
            kind: config.kind,
            buckets: Mutex::new(Buckets::new(config.rate, config.keys)),
        };
        Ok(Self { limits: document::limits(document)?.into_iter().map(limit).collect() })
    }

    /// Charges a request to all limits. The last limit that refuses it gives the error, as in Kubernetes.
    fn charge(&self, subject: &Subject<'_>, event: &Value) -> Result<(), Status> {
        let mut verdict = Ok(());
        for limit in &self.limits {
            let key = limit.kind.key(subject, event);
            if !limit.buckets.lock().try_take(&key) {
                let text =
                    format!("Too many requests: limit reached on type {} for key {key}", limit.kind.name());
                verdict = Err(Status::too_many_requests(text, 0));
            }
        }
        verdict
    }
}

/// Whether the limits of events accepted a request. It is charged once, also if it is decided repeatedly.
#[derive(Default)]
struct ChargedOnce(OnceLock<Result<(), Status>>);

impl Plugin for EventRateLimit {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Some(event) = new else { return Ok(()) };
        let charged = review.calls().effects().of::<ChargedOnce>();
        Ok(charged.0.get_or_init(|| self.charge(review.subject, event)).clone()?)
    }
}
