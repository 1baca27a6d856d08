//! The stages of a request that plans, fault rules and caches change, carried out: in the order of [`crate::request::STAGES`]. Delays
//! and waits are in real time, on the listener's runtime; the clock of the cluster stands meanwhile.

use super::Stage;
use crate::cache::answer::{CacheAnswer, answer};
use crate::cache::caches::Routed;
use crate::fault::answer::intervention;
use crate::fault::decide::RequestIdentity;
use crate::limits;
use crate::objects;
use crate::perturb::Perturbations;
use crate::plan::matching::{Observation, ObservedRequest, ReadObject};
use crate::plan::run::Verdicts;
use crate::request::{CutForm, Intervention, Phase, Refusal, RequestTarget, Verb, Version, parameter};
use crate::select::ClientIdentity;
use crate::watch::{WatchBegin, WatchControl, WatchIdentity};
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_apiserver::ResetAnswer;
use kstore_apiserver::rest::respond::refusal;
use kstore_client::{Gvr, Patch};
use kstore_registry::cache::{ReadBound, WatchEnd};
use kstore_registry::entry::Entry;
use kstore_registry::error::to_grpc;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Error text of a body that a fault breaks.
const BROKEN: &str = "the connection was cut by a fault of the lab";

/// Path prefix of kstore's own gRPC API.
const GRPC: &str = "/kstore.v1.Kstore/";

/// What a request found stored, for conditions of plans.
#[derive(Clone, Debug, Default)]
struct Seen {
    old: Option<Arc<Entry>>,
    body: Value,
    name: String,
}

/// The next frame of a body that may be cut: a body that ends cleanly breaks if the cut says so, and a frame breaks in its middle.
pub(super) fn cut(
    next: Option<Result<Frame<Bytes>, axum::Error>>,
    form: Option<CutForm>,
) -> Option<Result<Frame<Bytes>, axum::Error>> {
    match (next, form) {
        (next, None | Some(CutForm::End)) => next,
        (Some(Ok(frame)), Some(CutForm::Frame)) => {
            Some(Ok(frame.map_data(|bytes| bytes.slice(..bytes.len() / 2))))
        }
        (None, Some(_)) => Some(Err(broken())),
        (next, Some(_)) => next,
    }
}

/// The error of a body that a fault breaks.
pub(super) fn broken() -> axum::Error {
    axum::Error::new(std::io::Error::new(std::io::ErrorKind::ConnectionReset, BROKEN))
}

impl Stage {
    fn hub(&self) -> &Arc<Perturbations> {
        &self.bridge.perturbations
    }

    fn user(&self) -> &str {
        &self.active.sender().user
    }

    fn identity(&self) -> ClientIdentity<'_> {
        ClientIdentity { name: self.active.client(), user: self.user(), agent: &self.agent }
    }

    /// Passes a request through the stages of plans, faults and caches to the API server.
    pub(super) async fn perturbed(
        &self,
        request: Request<Body>,
    ) -> (Response<Body>, Option<Arc<WatchControl>>) {
        let Some(target) = self.target.clone() else {
            return (self.bridge.running.api().answer(request).await, None);
        };
        let (request, seen) = match self.look(request, &target).await {
            Ok(looked) => looked,
            Err(status) => return (refusal(&status), None),
        };
        let is_call = request.uri().path().starts_with(GRPC);
        let verdicts = self.observe(&target, &seen, Phase::Arrived);
        self.hold(&verdicts).await;
        if verdicts.hold.is_some() && self.is_abandoned() {
            return (self.refuse(&Refusal::Reset, is_call).await, None);
        }
        if target.verb == Verb::List || target.verb == Verb::Watch {
            let from = match (target.verb, target.version) {
                (Verb::Watch, Version::Min(from)) => Some(from),
                _ => None,
            };
            let waits = self.active.wait();
            let is_expired = self.hub().unblocked(self.active.client(), &target.resource, from).await;
            drop(waits);
            if is_expired {
                let begin =
                    WatchBegin { refusal: Some(expired(&target, self.head())), ..WatchBegin::default() };
                return self.begin(request, &target, begin).await;
            }
        }
        let intervention = self.intervention(&verdicts, &target, request.uri().path());
        self.note(&intervention, &verdicts);
        self.pause(intervention.delay).await;
        if intervention.touches {
            let uri = request.uri().clone();
            self.touch(&target, &uri, &seen).await;
        }
        if let Some(refused) = intervention.refusal.as_ref().filter(|_| !intervention.is_performed) {
            return (self.refuse(refused, is_call).await, None);
        }
        if target.verb == Verb::Watch {
            return self.controlled(request, &target, &intervention).await;
        }
        let request = match self.bounded(request, &target, intervention.stale_by).await {
            Ok(request) => request,
            Err(status) => return (refusal(&status), None),
        };
        let response = self.bridge.running.api().answer(request).await;
        let verdicts = self.observe_done(&target, &seen);
        self.hold(&verdicts).await;
        let lost = verdicts.faults.first().map(|fault| self::intervention(fault, self.user(), &target));
        if let Some(lost) = &lost {
            self.note(lost, &verdicts);
        }
        let lost = lost.as_ref().unwrap_or(&intervention);
        match &lost.refusal {
            Some(refused) if response.status().is_success() => (self.refuse(refused, is_call).await, None),
            _ => (response, None),
        }
    }

    fn head(&self) -> i64 {
        self.bridge.running.store().revision().0
    }

    /// Reads what conditions of plans, and `touch`, need: the body and the stored object.
    async fn look(
        &self,
        request: Request<Body>,
        target: &RequestTarget,
    ) -> Result<(Request<Body>, Seen), Status> {
        let mut seen = Seen { name: target.name.clone(), ..Seen::default() };
        let is_change = matches!(target.verb, Verb::Update | Verb::Patch);
        let needs_body = target.verb.is_write() && self.hub().plans.reads_bodies()
            || is_change && (self.hub().faults.is_set() || self.hub().plans.is_running());
        if !needs_body || request.uri().path().starts_with(GRPC) {
            return Ok((request, seen));
        }
        let (parts, body) = request.into_parts();
        let read = Limited::new(body, limits::PLAN_BODY_BYTES).collect().await;
        let bytes = read.map_err(|error| match error.is::<LengthLimitError>() {
            true => Status::too_large(&format!("limit is {}", limits::PLAN_BODY_BYTES)),
            false => Status::bad_request(format!("the body cannot be read: {error}")),
        });
        let bytes = bytes?.to_bytes();
        seen.body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if seen.name.is_empty() {
            seen.name = seen.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        seen.old = self.stored(&parts.uri, target, &seen.name);
        Ok((Request::from_parts(parts, Body::from(bytes)), seen))
    }

    /// The row of the kind of a path.
    fn row(&self, uri: &Uri, target: &RequestTarget) -> Option<(&'static Resource, String)> {
        let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
        let (group, version) = match segments.next()? {
            "api" => ("", segments.next()?),
            "apis" => (segments.next()?, segments.next()?),
            _ => return None,
        };
        let plural = target.resource.split('.').next()?;
        let kinds = self.bridge.running.api().pipeline().cache().kinds();
        Some((kinds.lookup(group, version, plural)?.resource, version.to_owned()))
    }

    fn stored(&self, uri: &Uri, target: &RequestTarget, name: &str) -> Option<Arc<Entry>> {
        let (row, _) = self.row(uri, target)?;
        let key = row.storage_key(&target.namespace, name);
        self.bridge.running.api().pipeline().cache().get(row, &key)
    }

    /// Lets plans observe the request.
    fn observe(&self, target: &RequestTarget, seen: &Seen, phase: Phase) -> Verdicts {
        let old = || seen.old.as_ref().map_or(Value::Null, |entry| entry.parse());
        let body = || seen.body.clone();
        self.observe_with(target, seen, phase, (&old, &body, &body))
    }

    /// Lets plans observe a request that was performed, with the object as it is stored now.
    fn observe_done(&self, target: &RequestTarget, seen: &Seen) -> Verdicts {
        if !self.hub().plans.is_running() {
            return Verdicts::default();
        }
        let old = || seen.old.as_ref().map_or(Value::Null, |entry| entry.parse());
        let body = || seen.body.clone();
        let new = || {
            let kinds = self.bridge.running.api().pipeline().cache().kinds();
            let (plural, group) = target.resource.split_once('.').unwrap_or((target.resource.as_str(), ""));
            let version =
                kinds.rows().versions(group).find(|version| kinds.lookup(group, version, plural).is_some());
            let row = version.and_then(|version| kinds.lookup(group, version, plural));
            let entry = row.and_then(|served| {
                let key = served.resource.storage_key(&target.namespace, &seen.name);
                self.bridge.running.api().pipeline().cache().get(served.resource, &key)
            });
            entry.map_or(Value::Null, |entry| entry.parse())
        };
        self.observe_with(target, seen, Phase::Done, (&old, &new, &body))
    }

    fn observe_with(
        &self,
        target: &RequestTarget,
        seen: &Seen,
        phase: Phase,
        (old, new, request): (ReadObject<'_>, ReadObject<'_>, ReadObject<'_>),
    ) -> Verdicts {
        let observed = ObservedRequest {
            number: self.number,
            phase,
            client: self.active.client(),
            verb: target.verb,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &seen.name,
            old,
            new,
            request,
        };
        let now = self.bridge.running.plane.nondet().clock.now();
        self.hub().plans.observe(&Observation::Request(&observed), now)
    }

    /// Waits while a plan holds the request, at most [`limits::HELD_TIME`] of real time.
    async fn hold(&self, verdicts: &Verdicts) {
        let Some(hold) = verdicts.hold else { return };
        let _waits = self.active.wait();
        tokio::select! {
            biased;
            () = self.hub().plans.released(hold) => {}
            () = self.pause(limits::HELD_TIME) => self.hub().plans.give_up(hold),
        }
    }

    /// Whether the program that sent the request was killed meanwhile. Its connection may still seem open.
    fn is_abandoned(&self) -> bool {
        self.is_of_program && self.bridge.programs.has_ended(self.active.client(), self.active.incarnation())
    }

    /// Real time.
    async fn pause(&self, time: Duration) {
        if !time.is_zero() {
            let sleeping = self.bridge.real.spawn(async move { tokio::time::sleep(time).await });
            let sleeping = tokio_util::task::AbortOnDropHandle::new(sleeping);
            let _ = sleeping.await;
        }
    }

    /// The fault of a plan, else those of the seeded rules.
    fn intervention(&self, verdicts: &Verdicts, target: &RequestTarget, path: &str) -> Intervention {
        let identity = RequestIdentity { client: self.identity(), target, path };
        let decision = self.hub().faults.decide(&identity);
        let planned = verdicts.faults.iter().find(|fault| fault.affects(target));
        let fault = planned.or(decision.fault.as_ref());
        let decided = fault.map(|fault| intervention(fault, self.user(), target)).unwrap_or_default();
        let name = if decided.fault.is_empty() && !decision.delay.is_zero() { "slow" } else { decided.fault };
        Intervention { fault: name, ..decided.delayed(decision.delay) }
    }

    fn note(&self, intervention: &Intervention, verdicts: &Verdicts) {
        if intervention.fault.is_empty() && verdicts.plan.is_empty() {
            return;
        }
        self.bridge.log.change(self.number, |entry| {
            let perturbed = entry.perturbed();
            intervention.fault.clone_into(&mut perturbed.fault);
            perturbed.plan.clone_from(&verdicts.plan);
        });
    }

    /// Changes an annotation of the object of a write that carries a `resourceVersion`, as another writer would.
    async fn touch(&self, target: &RequestTarget, uri: &Uri, seen: &Seen) {
        let carries =
            seen.body["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
        // Bodies in protobuf are those of typed clients, whose updates carry one.
        let is_opaque = seen.body.is_null() && target.verb == Verb::Update;
        let row = self.row(uri, target).filter(|_| carries || is_opaque);
        let Some((row, version)) = row else { return self.hub().faults.skipped("touch") };
        let gvr = Gvr::new(row.group.to_owned(), version, row.plural.to_owned());
        let api = objects::client(&self.bridge.running).dynamic(gvr);
        let annotations = json!({crate::fault::TOUCH: self.number.to_string()});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        if api.patch(&target.namespace, &target.name, "", &patch).await.is_err() {
            self.hub().faults.skipped("touch");
        }
    }

    /// The answer that replaces the server's.
    async fn refuse(&self, refused: &Refusal, is_call: bool) -> Response<Body> {
        match refused {
            Refusal::Status(status) if is_call => to_grpc(status).into_http(),
            Refusal::Status(status) => refusal(status),
            Refusal::Reset => {
                let mut response = Response::new(Body::empty());
                response.extensions_mut().insert(ResetAnswer);
                response
            }
            Refusal::Silence => {
                let _waits = self.active.wait();
                std::future::pending().await
            }
        }
    }

    /// Whether a read is one page, whose revision is exact.
    fn is_page(uri: &Uri, target: &RequestTarget) -> bool {
        let has = |name: &str| parameter(uri, name).is_some_and(|value| !value.is_empty());
        let is_limited = parameter(uri, "limit").is_some_and(|limit| limit != "0" && !limit.is_empty());
        has("continue")
            || is_limited && matches!(target.version, Version::Min(_)) && !has("resourceVersionMatch")
    }

    /// What the cache of a request answers, once it has waited for it. 504: the cache has not reached the revision in time.
    async fn cached(
        &self,
        uri: &Uri,
        target: &RequestTarget,
    ) -> Result<(Option<Routed>, Option<i64>), Status> {
        let Some(routed) = self.hub().caches.of(&self.identity(), target) else { return Ok((None, None)) };
        let (head, is_page) = (self.head(), Self::is_page(uri, target));
        self.bridge.log.change(self.number, |entry| entry.perturbed().cache.clone_from(&routed.cache));
        match answer(routed.stands_at, head, target, is_page) {
            CacheAnswer::Server => Ok((Some(routed), None)),
            CacheAnswer::At(revision) => {
                self.hub().caches.showed(&routed.cache, &target.resource, revision);
                Ok((Some(routed), Some(revision)))
            }
            CacheAnswer::WaitFor(revision) => {
                let caches = &self.hub().caches;
                let _waits = self.active.wait();
                tokio::select! {
                    biased;
                    () = caches.reached(&routed.cache, &target.resource, revision) => {}
                    () = self.pause(limits::CACHE_WAIT) => {}
                }
                let stands_at = caches.stands_at(&routed.cache, &target.resource);
                let current = stands_at.unwrap_or(i64::MAX);
                if current < revision {
                    let number = |revision: i64| u64::try_from(revision).unwrap_or(0);
                    return Err(Status::too_large_resource_version(number(revision), number(current)));
                }
                if let Some(at) = stands_at {
                    caches.showed(&routed.cache, &target.resource, at);
                }
                Ok((Some(routed), stands_at))
            }
        }
    }

    /// A read with the bound of its cache, or of a fault.
    async fn bounded(
        &self,
        mut request: Request<Body>,
        target: &RequestTarget,
        stale_by: u64,
    ) -> Result<Request<Body>, Status> {
        if target.verb != Verb::List && target.verb != Verb::Get {
            return Ok(request);
        }
        let (routed, mut state) = self.cached(request.uri(), target).await?;
        if stale_by > 0 && target.version == Version::Any {
            let store = self.bridge.running.store();
            let oldest = store.compacted().0.max(1);
            let stale = (self.head() - i64::try_from(stale_by).unwrap_or(i64::MAX)).max(oldest);
            state = Some(state.map_or(stale, |state| state.min(stale)));
        }
        let follows = |routed: &Routed| routed.stands_at.is_none() && target.version != Version::Unset;
        if let Some(routed) = routed.filter(follows) {
            self.hub().caches.showed(&routed.cache, &target.resource, self.head());
        }
        if state.is_some() {
            let begin = WatchBegin { state, ..WatchBegin::default() };
            request.extensions_mut().insert::<Arc<dyn ReadBound>>(self.control(target, begin));
        }
        Ok(request)
    }

    fn control(&self, target: &RequestTarget, begin: WatchBegin) -> Arc<WatchControl> {
        let identity = WatchIdentity {
            number: self.number,
            client: self.active.client().to_owned(),
            user: self.user().to_owned(),
            agent: self.agent.clone(),
            target: target.clone(),
            is_counted: self.active.is_counted(),
        };
        let clock = self.bridge.running.plane.nondet().clock;
        Arc::new(WatchControl::new(self.hub().clone(), identity, begin, clock))
    }

    /// Opens a watch under the control of caches, plans and a fault.
    async fn controlled(
        &self,
        request: Request<Body>,
        target: &RequestTarget,
        intervention: &Intervention,
    ) -> (Response<Body>, Option<Arc<WatchControl>>) {
        let (client, kind) = (self.active.client(), &target.resource);
        let refused = match (intervention.fault, intervention.ending, target.version) {
            ("silent-end", ..) => Some(WatchEnd::Closed),
            // A revision that is the newest is not too old: such a watch expires before its next event.
            ("expire", Some(_), Version::Min(from)) if from < self.head() => {
                self.hub().expire(client, kind, from);
                Some(expired(target, self.head()))
            }
            (_, _, Version::Min(from)) if self.hub().is_expired(client, kind, from) && from < self.head() => {
                Some(expired(target, self.head()))
            }
            _ => None,
        };
        let (state, refused) = match self.cached(request.uri(), target).await {
            Err(status) => (None, Some(WatchEnd::Refused(Box::new(status)))),
            Ok((routed, state)) => {
                let is_behind = self.is_behind_window(routed.as_ref(), target).await;
                (state, refused.or(is_behind.then(|| expired(target, self.head()))))
            }
        };
        let begin = WatchBegin { state, refusal: refused, ending: intervention.ending };
        self.begin(request, target, begin).await
    }

    /// Whether a watch begins further back than the window of its cache reaches.
    async fn is_behind_window(&self, routed: Option<&Routed>, target: &RequestTarget) -> bool {
        let (Some(routed), Version::Min(from)) = (routed, target.version) else { return false };
        let Some(window) = routed.window else { return false };
        let to = routed.stands_at.unwrap_or_else(|| self.head());
        let store = self.bridge.running.store();
        let changes = crate::writes::revisions_of(store, &target.resource, from + 1, to).await;
        changes.is_ok_and(|changes| changes.len() as u64 > window)
    }

    async fn begin(
        &self,
        mut request: Request<Body>,
        target: &RequestTarget,
        begin: WatchBegin,
    ) -> (Response<Body>, Option<Arc<WatchControl>>) {
        self.hub().watch_began(self.number, self.active.client(), &target.resource);
        let control = self.control(target, begin);
        request.extensions_mut().insert::<Arc<dyn ReadBound>>(control.clone());
        (self.bridge.running.api().answer(request).await, Some(control))
    }
}

/// The end of a watch whose beginning is too far back.
fn expired(target: &RequestTarget, head: i64) -> WatchEnd {
    let after = match target.version {
        Version::Min(after) | Version::Exact(after) => after,
        Version::Unset | Version::Any => 0,
    };
    WatchEnd::Expired { after, oldest: head.max(after + 1) }
}
