//! Objects that wait for initializers: a create is answered when its object is initialized, and an object whose
//! initialization has failed is deleted. The plugin `admission::initializers` decides who may change them.

use super::{Answer, Answered, ObjectAnswer, Pipeline, Refused, in_time};
use kstore_api::initializers::Initializers;
use kstore_api::meta;
use kstore_api::status::{Reason, Status};
use kstore_registry::cache::{Filter, Watch, WatchStart};
use kstore_registry::decode::Expected;
use kstore_registry::entry::Entry;
use kstore_registry::registry::Decision;
use kstore_registry::request::{Action, Request, Target};
use kstore_storage::metrics::Kind;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A new object whose creator waits until it is initialized.
pub(super) struct Awaited {
    target: Target,
    /// When the creator gets an error instead.
    deadline: Instant,
    /// The labels under which the request is counted.
    kind: Kind,
}

impl Pipeline {
    /// Whether new objects wait for initializers.
    pub(crate) fn initializes(&self) -> bool {
        self.admission.initializes()
    }

    /// The filter of a list or watch. It hides objects that wait for initializers unless `includes_all`.
    pub fn shown(&self, filter: Filter, includes_all: bool) -> Filter {
        Filter { includes_uninitialized: includes_all || !self.initializes(), ..filter }
    }

    /// The kind of a body on this server.
    pub(super) fn expected<'a>(&self, expected: Expected<'a>) -> Expected<'a> {
        expected.with_initializers(self.initializes())
    }

    /// What a request waits for after its object was created; `None` if its answer does not wait. Boxed because
    /// it is rare: otherwise the future of every request would be larger.
    pub(super) fn awaited(&self, request: &Request, limit: Duration, kind: Kind) -> Option<Box<Awaited>> {
        let Action::Create(_, options) = &request.action else { return None };
        let has_company = request.stage.is_some() || request.group.is_some();
        let answers_at_once = options.dry_run || options.includes_uninitialized || has_company;
        let waits = self.initializes() && !answers_at_once && request.target.subresource.is_empty();
        let (target, deadline) = (&request.target, Instant::now() + limit);
        waits.then(|| Box::new(Awaited { target: target.clone(), deadline, kind }))
    }

    /// The answer to a create as soon as its object is initialized, or an error at the deadline. It is called
    /// without a permit, because the writes of the initializers need some.
    pub(super) async fn when_initialized(
        &self,
        awaited: &Awaited,
        answered: Result<Answered, Refused>,
    ) -> Result<Answered, Refused> {
        let left = awaited.deadline.saturating_duration_since(Instant::now());
        let waiting = self.initialized(&awaited.target, answered?);
        in_time(left, waiting, || self.metrics.terminated(awaited.kind)).await
    }

    /// Waits until a new object is initialized.
    ///
    /// # Errors
    /// The reason for which its initialization failed; 500 if it was deleted meanwhile.
    async fn initialized(&self, target: &Target, answered: Answered) -> Result<Answered, Refused> {
        let Answer::Object(ObjectAnswer { entry, created: true, .. }) = &answered.answer else {
            return Ok(answered);
        };
        if !entry.is_uninitialized() {
            return Ok(answered);
        }
        let refused = |status| Refused { status, warnings: answered.warnings.clone() };
        let entry = self.initialized_entry(target, entry).await.map_err(refused)?;
        let answer = Answer::Object(ObjectAnswer { entry, created: true, removed: false });
        Ok(Answered { answer, ..answered })
    }

    async fn initialized_entry(&self, target: &Target, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
        check_failure(entry)?;
        let filter = Filter {
            namespace: entry.namespace().to_owned(),
            name: entry.name().to_owned(),
            ..Filter::all(entry.resource)
        };
        let ended = |_| {
            let (resource, name) = (target.resource.qualified(), entry.name());
            Status::timeout(
                &format!("server has timed out waiting for the initialization of {resource} {name}"),
                0,
            )
        };
        let start = WatchStart::After(entry.revision);
        let mut watch = Watch::start(self.cache().clone(), vec![filter], start).await.map_err(ended)?;
        loop {
            for delivery in watch.next().await.map_err(ended)?.deliveries {
                let Some(newer) = &delivery.change.new else {
                    delivery.change.old.as_deref().map_or(Ok(()), check_failure)?;
                    return Err(Status::internal("object deleted while waiting for creation"));
                };
                if !newer.is_uninitialized() {
                    return self.in_requested_version(target, newer).await;
                }
                check_failure(newer)?;
            }
        }
    }

    /// The entry in the version of the request.
    async fn in_requested_version(&self, target: &Target, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
        let Some(custom) = &target.custom else { return Ok(entry.clone()) };
        self.converter.prepare(self.cache(), custom, [entry].into_iter()).await?;
        custom.view(entry)
    }

    /// Deletes an object whose initialization has failed, whatever finalizers it has.
    pub(super) async fn remove_if_failed(&self, request: &Request, entry: &Entry) -> Result<(), Status> {
        if check_failure(entry).is_ok() {
            return Ok(());
        }
        let decide = |current: Option<&Value>| match current {
            Some(current) if meta::uid(current) == entry.uid() => Ok(Decision::Remove(current.clone())),
            _ => Ok(Decision::Keep),
        };
        let context = self.write_context(request);
        match self.registry.guaranteed_update(&request.target, context, false, decide).await {
            Err(status) if status.reason != Reason::NotFound => Err(status),
            _ => Ok(()),
        }
    }
}

/// The failure of an object's initialization as an error.
fn check_failure(entry: &Entry) -> Result<(), Status> {
    let object = serde_json::json!({ "metadata": entry.parse_metadata() });
    let initializers = Initializers::of(&object).map_err(Status::internal)?;
    match initializers.and_then(|initializers| initializers.result) {
        None => Ok(()),
        Some(mut result) => {
            if result.code < 400 {
                result.code = 500;
            }
            Err(result)
        }
    }
}
