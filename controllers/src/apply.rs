//! [`Hands`]: carries actions out, without judgement. In order; neighbours of one kind that do not depend on one another go
//! together, a bounded number at a time. The first failure ends the list, and no other list (`independent`).

mod independent;

use crate::action::{Action, Object, PatchKind, Plan, Propagation, Target};
use crate::caches::Caches;
use crate::draft::Draft;
use crate::limits::{SLOW_START, WRITES_IN_FLIGHT};
use crate::resource::{PODS, Resource};
use futures::{FutureExt, StreamExt};
use independent::run_independent;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kstore_client::{ApiError, Client, DeleteParams, Gvr, Kind, ListParams, Patch, revision_of};
use kstore_informer::{Context, Recorder, Revision, slow_start};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// What one component writes with: its client, its recorder of events, and the caches that are to show what it wrote.
#[derive(Clone)]
pub(crate) struct Hands {
    /// The client, under the component's name.
    pub client: Client,
    /// Tells users.
    pub recorder: Recorder,
    /// A key that wrote waits for them.
    pub caches: Arc<Caches>,
}

/// What became of a list of actions.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Names that the server gave to created pods.
    pub created: Vec<String>,
    /// What ended the list early.
    pub failure: Option<Failed>,
}

/// The action that failed, and why.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Its place in the list.
    pub at: usize,
    /// Why.
    pub error: ApiError,
}

impl Outcome {
    /// The error, for callers to whom all are the same.
    pub(crate) fn result(self) -> Result<(), ApiError> {
        self.failure.map_or(Ok(()), |f| Err(f.error))
    }

    /// Notes how a write ended. False ends the list.
    fn take(&mut self, at: usize, result: Result<(), ApiError>) -> bool {
        let Err(error) = result else { return true };
        // A namespace that is being deleted takes nothing new, and what was wanted will go anyway.
        if !error.is_namespace_terminating() && self.failure.is_none() {
            self.failure = Some(Failed { at, error });
        }
        false
    }
}

type Written = (Resource, Revision);

impl Hands {
    /// Carries `actions` out in the run `cx`: the writes say what led to them, and the key does not run again before the caches
    /// show them.
    pub(crate) async fn carry_out(&self, cx: &Context, actions: &[Action]) -> Outcome {
        let span = tracing::debug_span!("apply", actions = actions.len());
        self.caused_by(cx).in_order(cx, actions).instrument(span).await
    }

    /// Carries out a whole plan in the run `cx`: its actions in order, beside them its independent lists. All of them are tried.
    ///
    /// # Errors
    /// The failure of the actions, else that of the first independent list that failed.
    pub(crate) async fn carry_out_plan(&self, cx: &Context, plan: &Plan) -> Result<(), ApiError> {
        let lists = std::iter::once(&plan.actions).chain(&plan.independent);
        let failures = self.carry_out_lists(cx, lists).await;
        failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Carries out lists that do not depend on one another. All of them are tried; gives the failures with the places of their
    /// lists.
    pub(crate) async fn carry_out_lists(
        &self,
        cx: &Context,
        lists: impl Iterator<Item = &Vec<Action>>,
    ) -> Vec<(usize, ApiError)> {
        let hands = self.caused_by(cx);
        let runs: Vec<_> =
            lists.map(|list| async { hands.in_order(cx, list).await.result() }.boxed()).collect();
        let span = tracing::debug_span!("apply", lists = runs.len());
        run_independent(runs).instrument(span).await
    }

    /// The same hands, whose writes say what led to them.
    fn caused_by(&self, cx: &Context) -> Self {
        let (client, recorder) = (self.client.causes(&cx.causes), self.recorder.causes(&cx.causes));
        Self { client, recorder, caches: Arc::clone(&self.caches) }
    }

    async fn in_order(&self, cx: &Context, actions: &[Action]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut at = 0;
        while let Some(action) = actions.get(at) {
            let run = run_length(&actions[at..]);
            let go_on = match action {
                Action::Event(event) => {
                    self.recorder.record(event.clone());
                    true
                }
                Action::CreatePods { pod, count } => {
                    self.create_pods(cx, at, pod, *count, &mut outcome).await
                }
                _ => self.together(cx, at, &actions[at..at + run], &mut outcome).await,
            };
            if !go_on {
                break;
            }
            at += run;
        }
        outcome
    }

    /// All of `actions` at once, as far as the bound allows. All are tried, even if one fails.
    async fn together(&self, cx: &Context, at: usize, actions: &[Action], outcome: &mut Outcome) -> bool {
        let writes: Vec<_> = actions.iter().map(|action| self.fenced(cx, action).boxed()).collect();
        let mut results = futures::stream::iter(writes).buffered(WRITES_IN_FLIGHT).enumerate();
        let mut go_on = true;
        while let Some((i, result)) = results.next().await {
            go_on &= outcome.take(at + i, result);
        }
        go_on
    }

    /// Batches of 1, 2, 4, … pods; the next one only if the last had no failure.
    async fn create_pods(
        &self,
        cx: &Context,
        at: usize,
        pod: &Pod,
        count: usize,
        outcome: &mut Outcome,
    ) -> bool {
        let draft = match Draft::of(pod) {
            Ok(draft) => draft,
            Err(error) => return outcome.take(at, Err(ApiError::Json(error.to_string()))),
        };
        let ns = pod.metadata.namespace.clone().unwrap_or_default();
        let api = self.client.api::<Draft>();
        let draft = Arc::new(draft);
        // In the server's process a call is served where it is awaited: without tasks of their own, all would be served on one
        // thread.
        let create = |()| {
            let (api, ns, draft) = (api.clone(), ns.clone(), Arc::clone(&draft));
            let call = async move { api.create(&ns, &draft).await };
            let task = AbortOnDropHandle::new(tokio::spawn(call.in_current_span()));
            async { task.await.expect("a call neither panics nor is cancelled while it is awaited") }
        };
        let started = slow_start(vec![(); count], SLOW_START, WRITES_IN_FLIGHT, create).await;
        let mut go_on = true;
        for result in started.results {
            let result = result.map(|made| {
                self.caches.wrote(cx, &PODS, revision_of(&made));
                outcome.created.extend(made.into_name());
            });
            go_on &= outcome.take(at, result);
        }
        go_on
    }

    async fn fenced(&self, cx: &Context, action: &Action) -> Result<(), ApiError> {
        let (resource, revision) = self.write(action).await?;
        self.caches.wrote(cx, &resource, revision);
        Ok(())
    }

    async fn write(&self, action: &Action) -> Result<Written, ApiError> {
        match action {
            Action::Create(object) => self.whole(object, How::Create).await,
            Action::Update(object) => self.whole(object, How::Update).await,
            Action::UpdateStatus(object) => self.whole(object, How::Status).await,
            Action::Patch { target, status, kind, patch } => {
                let subresource = if *status { "status" } else { "" };
                let api = self.client.dynamic(gvr(&target.resource));
                let patch = match kind {
                    PatchKind::Merge => Patch::Merge(patch.clone()),
                    PatchKind::Strategic => Patch::Strategic(patch.clone()),
                };
                // An object that is gone has nothing left to patch. Its neighbours in the list do: an error here would hide theirs.
                let revision = match api.patch(&target.namespace, &target.name, subresource, &patch).await {
                    Ok(stored) => revision_in(&stored),
                    Err(error) if error.is_not_found() => Revision::default(),
                    Err(error) => return Err(error),
                };
                Ok((target.resource.clone(), revision))
            }
            Action::Delete { target, propagation, force } => self.delete(target, *propagation, *force).await,
            Action::DeleteAll { resource, namespace } => {
                let api = self.client.dynamic(gvr(resource));
                let (all, params) = (ListParams::default(), DeleteParams::default());
                api.delete_collection(namespace, &all, &params).await?;
                // No cache shows these objects, so no run waits for a revision.
                Ok((resource.clone(), Revision::default()))
            }
            Action::Finalize(namespace) => self.finalize(namespace).await,
            Action::CreatePods { .. } | Action::Event(_) => Ok((PODS, Revision::default())),
        }
    }

    async fn whole(&self, object: &Object, how: How) -> Result<Written, ApiError> {
        match object {
            Object::ConfigMap(o) => self.send(&**o, how).await,
            Object::Deployment(o) => self.send(&**o, how).await,
            Object::DisruptionBudget(o) => self.send(&**o, how).await,
            Object::EndpointSlice(o) => self.send(&**o, how).await,
            Object::Endpoints(o) => self.send(&**o, how).await,
            Object::IpAddress(o) => self.send(&**o, how).await,
            Object::Namespace(o) => self.send(&**o, how).await,
            Object::ReplicaSet(o) => self.send(&**o, how).await,
            Object::ServiceAccount(o) => self.send(&**o, how).await,
        }
    }

    async fn send<K: Kind>(&self, object: &K, how: How) -> Result<Written, ApiError> {
        let api = self.client.api::<K>();
        let stored = match how {
            How::Create => {
                api.create(object.metadata().namespace.as_deref().unwrap_or_default(), object).await
            }
            How::Update => api.update(object).await,
            How::Status => api.update_status(object).await,
        }?;
        Ok((resource_of::<K>(), revision_of(&stored)))
    }

    /// An object that is gone, or was replaced by another of its name, counts as deleted.
    async fn delete(
        &self,
        target: &Target,
        propagation: Propagation,
        force: bool,
    ) -> Result<Written, ApiError> {
        let params = DeleteParams {
            uid: (!target.uid.is_empty()).then(|| target.uid.clone()),
            resource_version: target.resource_version.as_ref().and_then(|v| v.parse().ok()).map(Revision),
            grace: force.then_some(0),
            propagation: match propagation {
                Propagation::Default => None,
                Propagation::Background => Some(kstore_client::Propagation::Background),
                Propagation::Foreground => Some(kstore_client::Propagation::Foreground),
                Propagation::Orphan => Some(kstore_client::Propagation::Orphan),
            },
        };
        let api = self.client.dynamic(gvr(&target.resource));
        let revision = match api.delete(&target.namespace, &target.name, &params).await {
            Ok(revision) => revision,
            Err(error) if error.is_not_found() => Revision::default(),
            Err(error) if error.is_conflict() && params.resource_version.is_none() => Revision::default(),
            Err(error) => return Err(error),
        };
        Ok((target.resource.clone(), revision))
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<Written, ApiError> {
        let object = serde_json::to_value(namespace).map_err(|e| ApiError::Json(e.to_string()))?;
        let api = self.client.dynamic(Gvr::of::<Namespace>());
        let stored = match api.replace(&object, "finalize").await {
            Err(error) if error.is_not_found() => {
                return Ok((resource_of::<Namespace>(), Revision::default()));
            }
            other => other?,
        };
        Ok((resource_of::<Namespace>(), revision_in(&stored)))
    }
}

#[derive(Clone, Copy)]
enum How {
    Create,
    Update,
    Status,
}

/// How many actions from the first on are carried out at once, in no order: deletes of different objects, patches of different
/// objects. A plan never lists one behind the other if the second may only follow the success of the first.
fn run_length(actions: &[Action]) -> usize {
    let same: fn(&Action) -> bool = match actions.first() {
        Some(Action::Delete { .. }) => |a| matches!(a, Action::Delete { .. }),
        Some(Action::Patch { .. }) => |a| matches!(a, Action::Patch { .. }),
        _ => return 1,
    };
    actions.iter().take_while(|a| same(a)).count()
}

fn revision_in(object: &serde_json::Value) -> Revision {
    let version = object["metadata"]["resourceVersion"].as_str();
    Revision(version.and_then(|v| v.parse().ok()).unwrap_or_default())
}

/// The resource as the client names it.
pub(crate) fn gvr(resource: &Resource) -> Gvr {
    Gvr::new(resource.group.clone(), resource.version.clone(), resource.plural.clone())
}

fn resource_of<K: Kind>() -> Resource {
    Resource { group: K::GROUP.into(), version: K::VERSION.into(), plural: K::URL_PATH_SEGMENT.into() }
}
