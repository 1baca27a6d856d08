//! [`Executor`]: executes actions without decisions. A list runs in order, and its first failure ends this list
//! only (`independent`). [`Action::Together`] runs concurrently with a bound.

mod independent;
mod transaction;

use crate::action::{Action, PatchKind, Plan, Propagation, Target};
use crate::caches::Caches;
use crate::limits::{CREATE_CALL_BYTES, CREATES_PER_CALL, SLOW_START, WRITES_IN_FLIGHT};
use crate::object::Object;
use crate::resource::{NAMESPACES, Resource, gvr};
use crate::resource_api::{ResourceApi, revision_in};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use independent::run_independent;
use k8s_openapi::api::core::v1::Namespace;
use kstore_api::json::value_of;
use kstore_client::{ApiError, Client, DeleteParams, Each, ListParams, Stored};
use kstore_informer::{Context, Recorder, Revision, slow_start_together};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// Executor of a component's writes, with its client, its event recorder, and the caches that must show the
/// writes.
#[derive(Clone)]
pub(crate) struct Executor {
    /// The client, with the component's field manager.
    pub client: Client,
    /// Recorder of the component's events.
    pub recorder: Recorder,
    /// Caches that a key waits for after its writes.
    pub caches: Arc<Caches>,
}

/// Result of a list of actions.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Names of the objects that batches created, in no order.
    pub created: Vec<String>,
    /// The failure that ended the list early.
    pub failure: Option<Failed>,
}

/// The failed action and its error.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Index of the action in the list.
    pub at: usize,
    /// Error of the write.
    pub error: ApiError,
}

impl Outcome {
    /// The error, for callers that handle all errors alike.
    pub(crate) fn result(self) -> Result<(), ApiError> {
        self.failure.map_or(Ok(()), |f| Err(f.error))
    }

    /// Records the result of a write. Returns false if the list must end.
    fn take(&mut self, at: usize, result: Result<(), ApiError>) -> bool {
        let Err(error) = result else { return true };
        // A terminating namespace refuses new objects, and would delete them anyway: no failure.
        if !error.is_namespace_terminating() && self.failure.is_none() {
            self.failure = Some(Failed { at, error });
        }
        false
    }
}

impl Executor {
    /// Executes `actions` in the run `cx`. The writes carry the run's causes, and the key does not run again
    /// before the caches show them.
    pub(crate) async fn execute(&self, cx: &Context, actions: &[Action]) -> Outcome {
        let span = tracing::debug_span!("apply", actions = actions.len());
        self.caused_by(cx).in_order(cx, actions).instrument(span).await
    }

    /// Executes a whole plan in the run `cx`: its actions in order, and concurrently its independent lists.
    /// All lists are tried.
    ///
    /// # Errors
    /// The failure of `actions`, else that of the first failed independent list.
    pub(crate) async fn execute_plan(&self, cx: &Context, plan: &Plan) -> Result<(), ApiError> {
        let lists = std::iter::once(&plan.actions).chain(&plan.independent);
        let failures = self.execute_lists(cx, lists).await;
        failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Executes independent lists of actions. A failure does not stop the other lists; returns the failures with the
    /// indexes of their lists.
    pub(crate) async fn execute_lists(
        &self,
        cx: &Context,
        lists: impl Iterator<Item = &Vec<Action>>,
    ) -> Vec<(usize, ApiError)> {
        let executor = self.caused_by(cx);
        let runs: Vec<_> =
            lists.map(|list| async { executor.in_order(cx, list).await.result() }.boxed()).collect();
        let span = tracing::debug_span!("apply", lists = runs.len());
        run_independent(runs).instrument(span).await
    }

    /// This executor with writes that carry the causes of the run.
    fn caused_by(&self, cx: &Context) -> Self {
        let (client, recorder) = (self.client.causes(&cx.causes), self.recorder.causes(&cx.causes));
        Self { client, recorder, caches: Arc::clone(&self.caches) }
    }

    async fn in_order(&self, cx: &Context, actions: &[Action]) -> Outcome {
        let mut outcome = Outcome::default();
        for (at, action) in actions.iter().enumerate() {
            let go_on = match action {
                Action::CreateBatch(objects) => self.create_batch(cx, at, objects, &mut outcome).await,
                Action::Together(writes) => self.together(cx, at, writes, &mut outcome).await,
                _ => outcome.take(at, self.one(cx, action).await),
            };
            if !go_on {
                break;
            }
        }
        outcome
    }

    /// Executes `actions` concurrently within the bound. All are tried, even if one fails.
    async fn together(&self, cx: &Context, at: usize, actions: &[Action], outcome: &mut Outcome) -> bool {
        let writes: Vec<_> = actions.iter().map(|action| self.one(cx, action).boxed()).collect();
        let mut results = futures::stream::iter(writes).buffered(WRITES_IN_FLIGHT);
        let mut go_on = true;
        while let Some(result) = results.next().await {
            go_on &= outcome.take(at, result);
        }
        go_on
    }

    /// Creates objects in batches of 1, 2, 4, …; a batch starts only if the previous one had no failure.
    async fn create_batch(&self, cx: &Context, at: usize, objects: &[Object], outcome: &mut Outcome) -> bool {
        // In-process calls are served in the awaiting task: without a task each, all would run on one thread.
        let create = |objects: Vec<Object>| {
            let call = create_together(self.client.clone(), objects);
            let task = AbortOnDropHandle::new(tokio::spawn(call.in_current_span()));
            async { task.await.expect("a call neither panics nor is cancelled while it is awaited") }
        };
        let calls = (CREATES_PER_CALL, WRITES_IN_FLIGHT / CREATES_PER_CALL);
        let started = slow_start_together(objects.to_vec(), SLOW_START, calls, create).await;
        let mut go_on = true;
        for result in started.results {
            let result = result.map(|(resource, name, revision)| {
                self.fence(cx, &resource, revision);
                outcome.created.push(name);
            });
            go_on &= outcome.take(at, result);
        }
        go_on
    }

    fn fence(&self, cx: &Context, resource: &Resource, revision: Revision) {
        self.caches.wrote(cx, resource, revision);
    }

    /// Executes one action.
    async fn one(&self, cx: &Context, action: &Action) -> Result<(), ApiError> {
        let (resource, revision) = match action {
            Action::Create(object) => {
                let api = self.client.dynamic(gvr(&object.resource));
                let stored = api.create_text(&object.namespace, &object.name, object.json()).await?;
                (&object.resource, stored.revision())
            }
            Action::Update(object) => (&object.resource, self.replace(object, "").await?),
            Action::Approve(object) => (&object.resource, self.replace(object, "approval").await?),
            Action::UpdateStatus(object) => (&object.resource, self.replace(object, "status").await?),
            Action::Patch { target, status, kind, patch } => {
                (&target.resource, self.patch(target, *status, *kind, patch).await?)
            }
            Action::Delete { target, propagation, force } => {
                (&target.resource, self.delete(target, *propagation, *force).await?)
            }
            Action::DeleteAll { resource, namespace } => {
                let api = self.client.dynamic(gvr(resource));
                let background = kstore_client::Propagation::Background;
                let (all, params) = (ListParams::default(), DeleteParams::default().propagation(background));
                api.delete_collection(namespace, &all, &params).await?;
                // The answer has no revision to wait for. The caller lists the namespace again.
                return Ok(());
            }
            Action::Finalize(namespace) => (&NAMESPACES, self.finalize(namespace).await?),
            Action::Event(event) => {
                self.recorder.record(event.clone());
                return Ok(());
            }
            Action::Transaction(writes) => return self.transact(cx, writes).await,
            Action::CreateBatch(_) | Action::Together(_) => return self.nested(cx, action).await,
        };
        self.fence(cx, resource, revision);
        Ok(())
    }

    /// Executes a nested list.
    fn nested<'a>(&'a self, cx: &'a Context, action: &'a Action) -> BoxFuture<'a, Result<(), ApiError>> {
        async { self.in_order(cx, std::slice::from_ref(action)).await.result() }.boxed()
    }

    async fn transact(&self, cx: &Context, writes: &[Action]) -> Result<(), ApiError> {
        let (transaction, resources) = transaction::of(&self.client, writes)?;
        let revision = transaction.commit().await.map_err(|refused| refused.error)?.revision();
        resources.iter().for_each(|resource| self.fence(cx, resource, revision));
        Ok(())
    }

    /// A missing object needs no patch. An error would end the list and skip the patches of other objects.
    async fn patch(
        &self,
        target: &Target,
        status: bool,
        kind: PatchKind,
        patch: &serde_json::Value,
    ) -> Result<Revision, ApiError> {
        let subresource = if status { "status" } else { "" };
        let api = ResourceApi::of(&self.client, &target.resource);
        match api.patch((&target.namespace, &target.name, subresource), &kind.of(patch)).await {
            Ok(revision) => Ok(revision),
            Err(error) if error.is_not_found() => Ok(Revision::default()),
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, object: &Object, subresource: &str) -> Result<Revision, ApiError> {
        let api = self.client.dynamic(gvr(&object.resource));
        let stored = api.replace_text(&object.namespace, &object.name, subresource, object.json()).await?;
        Ok(stored.revision())
    }

    /// A missing or recreated object counts as deleted.
    async fn delete(
        &self,
        target: &Target,
        propagation: Propagation,
        force: bool,
    ) -> Result<Revision, ApiError> {
        let params = delete_params(target, propagation, force);
        let api = ResourceApi::of(&self.client, &target.resource);
        match api.delete(&target.namespace, &target.name, &params).await {
            Ok(revision) => Ok(revision),
            Err(error) if error.is_not_found() => Ok(Revision::default()),
            Err(error) if error.is_conflict() && params.resource_version.is_none() => Ok(Revision::default()),
            Err(error) => Err(error),
        }
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<Revision, ApiError> {
        let object = value_of(namespace).map_err(|e| ApiError::Json(e.to_string()))?;
        match self.client.dynamic(gvr(&NAMESPACES)).replace(&object, "finalize").await {
            Ok(stored) => Ok(revision_in(&stored)),
            Err(error) if error.is_not_found() => Ok(Revision::default()),
            Err(error) => Err(error),
        }
    }
}

/// Creates objects by one call, or one by one if they are large. Returns the resource, the name and the revision of each.
async fn create_together(
    client: Client,
    objects: Vec<Object>,
) -> Vec<Result<(Resource, String, Revision), ApiError>> {
    let bytes: usize = objects.iter().map(|object| object.json().len()).sum();
    let stored = match objects.len() > 1 && bytes <= CREATE_CALL_BYTES {
        true => {
            let each = objects.iter().fold(Each::new(&client), |each, object| {
                each.create_text(&gvr(&object.resource), &object.namespace, &object.name, object.json())
            });
            let failed = |error: ApiError| objects.iter().map(|_| Err(error.clone())).collect();
            each.execute().await.unwrap_or_else(failed)
        }
        false => {
            let mut stored = Vec::with_capacity(objects.len());
            for object in &objects {
                let api = client.dynamic(gvr(&object.resource));
                stored.push(api.create_text(&object.namespace, &object.name, object.json()).await);
            }
            stored
        }
    };
    let named = |(object, stored): (Object, Result<Stored, ApiError>)| {
        let stored = stored?;
        Ok((object.resource, stored.name()?, stored.revision()))
    };
    objects.into_iter().zip(stored).map(named).collect()
}

fn delete_params(target: &Target, propagation: Propagation, force: bool) -> DeleteParams {
    DeleteParams {
        uid: (!target.uid.is_empty()).then(|| target.uid.clone()),
        resource_version: target.resource_version.as_ref().and_then(|v| v.parse().ok()).map(Revision),
        grace: force.then_some(0),
        propagation: match propagation {
            Propagation::Default => None,
            Propagation::Background => Some(kstore_client::Propagation::Background),
            Propagation::Foreground => Some(kstore_client::Propagation::Foreground),
            Propagation::Orphan => Some(kstore_client::Propagation::Orphan),
        },
    }
}
