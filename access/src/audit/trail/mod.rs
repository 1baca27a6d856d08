//! [`Trail`]: the state of one request from which its audit events are made. While a request is handled, its
//! trail is in a task-local variable, as a tracing span is: admission adds annotations there without a
//! reference to the front end.

use super::decide::{Attributes, Verdict, decide};
use super::event::{
    AuthenticationMetadata, Event, ObjectReference, ResponseStatus, User, micro_time, remove_managed_fields,
    source_ips,
};
use super::policy::{Level, Stage};
use super::{Audit, Encoded};
use crate::authz::{self, Authorizer, Decision, Target};
use crate::peer::Peer;
use crate::resource_location::ResourceLocation;
use http::{Extensions, HeaderMap};
use jiff::Timestamp;
use kstore_api::admission::review::AuditAnnotation;
use kstore_api::status::Status;
use kstore_nondet::Clock;
use kstore_registry::error::panicked;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// Annotations about authorization.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
/// Subresources whose requests are long-running: they end with their stream.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
/// The suffix of a user agent that was truncated.
const TRUNCATED_SUFFIX: &str = "...TRUNCATED";

tokio::task_local! {
    static TRAIL: Arc<Trail>;
}

/// The trail of the request that this task handles; `None` if the request is not recorded.
pub fn current() -> Option<Arc<Trail>> {
    TRAIL.try_with(Arc::clone).ok()
}

/// Whether this task handles a request that is recorded.
pub fn is_recording() -> bool {
    TRAIL.try_with(|_| ()).is_ok()
}

/// Handles a request with its trail as the task-local variable.
pub async fn scope<T>(trail: Arc<Trail>, handling: impl Future<Output = T>) -> T {
    TRAIL.scope(trail, handling).await
}

/// Records the authenticated caller of the request that this task handles, before impersonation.
pub fn authenticated(caller: &Arc<UserInfo>) {
    let _ = TRAIL.try_with(|trail| trail.state.lock().caller = Some(caller.clone()));
}

/// Records the verb by which a constrained mode allows the caller of this task's request to impersonate.
pub fn impersonation_allowed(constraint: Option<&'static str>) {
    let _ = TRAIL.try_with(|trail| trail.state.lock().impersonation_constraint = constraint);
}

/// Records the impersonated user of the request that this task serves.
pub fn record_impersonation(user: &Arc<UserInfo>) {
    let _ = TRAIL.try_with(|trail| {
        let mut state = trail.state.lock();
        if state.caller.as_ref().is_some_and(|caller| caller != user) {
            state.impersonated = Some(user.clone());
        }
    });
}

/// Returns a guard that delays the completion of this task's request until it is dropped. It matters for
/// long-running requests only.
pub fn stream_end() -> Option<StreamEnd> {
    TRAIL.try_with(|trail| trail.stream_end()).ok()
}

/// An operation of a request, as policies and events see it. A gRPC call may have several.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The API verb, or the lower-case HTTP method for a path outside the resource API.
    pub verb: String,
    /// The API version of the resource.
    pub version: String,
    /// The location in the resource tree; `None` for other paths.
    pub location: Option<ResourceLocation>,
    /// The URL path.
    pub path: String,
}

impl Operation {
    fn target(&self) -> Target<'_> {
        let Some(location) = &self.location else { return Target::Path(&self.path) };
        let is_namespace = location.group.is_empty() && location.resource == "namespaces";
        Target::Resource {
            group: &location.group,
            resource: &location.resource,
            subresource: &location.subresource,
            // A request about a namespace object is also a request in that namespace.
            namespace: if is_namespace { &location.name } else { &location.namespace },
            name: &location.name,
        }
    }

    fn is_long_running(&self) -> bool {
        let subresource = self.location.as_ref().map_or("", |location| location.subresource.as_str());
        let first = subresource.split('/').next().unwrap_or_default();
        self.location.is_some() && (self.verb == "watch" || LONG_RUNNING.contains(&first))
    }
}

/// The audit state of one request, from its arrival to its last event.
pub struct Trail {
    audit: Arc<Audit>,
    clock: Clock,
    id: String,
    uri: String,
    agent: String,
    source_ips: Vec<IpAddr>,
    received: Timestamp,
    /// Authentication methods for which the caller presented credentials.
    attempted: Vec<&'static str>,
    state: Mutex<TrailState>,
    end: Mutex<Weak<EndOnDrop>>,
}

#[derive(Default)]
struct TrailState {
    caller: Option<Arc<UserInfo>>,
    impersonated: Option<Arc<UserInfo>>,
    /// The verb of the constrained mode by which the caller impersonates.
    impersonation_constraint: Option<&'static str>,
    operations: Vec<RecordedOperation>,
    annotations: BTreeMap<String, String>,
    status: Option<ResponseStatus>,
    is_long_running: bool,
    is_complete: bool,
}

/// An operation that the policy records.
struct RecordedOperation {
    /// The index among all operations of the request.
    index: usize,
    operation: Operation,
    verdict: Verdict,
    reference: Option<ObjectReference>,
    request: Option<Value>,
    response: Option<Value>,
    /// The decision of authorization and its reason.
    authorization: Option<(&'static str, String)>,
}

impl Trail {
    /// Begins the trail of a request that has just arrived, from its head.
    pub fn begin(
        audit: &Arc<Audit>,
        clock: Clock,
        id: &str,
        uri: String,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Arc<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let peer = extensions.get::<Peer>();
        let remote = match peer {
            Some(Peer::Tls { address, .. }) => Some(address.ip()),
            Some(Peer::InProcess(_)) | None => None,
        };
        let caller = match peer {
            Some(Peer::InProcess(user)) => Some(user.clone()),
            Some(Peer::Tls { .. }) | None => None,
        };
        let has_certificate = matches!(peer, Some(Peer::Tls { certificate: Some(_), .. }));
        let authorization = text("authorization").trim().to_ascii_lowercase();
        let attempts = [
            ("basic", authorization.starts_with("basic ")),
            ("bearer", authorization.starts_with("bearer ")),
            ("x509", has_certificate),
        ];
        Arc::new(Self {
            audit: audit.clone(),
            received: clock.now(),
            clock,
            id: id.to_owned(),
            uri,
            agent: truncated_user_agent(text("user-agent")),
            source_ips: source_ips(text("x-forwarded-for"), text("x-real-ip"), remote),
            attempted: attempts.into_iter().filter(|(_, tried)| *tried).map(|(name, _)| name).collect(),
            state: Mutex::new(TrailState { caller, ..TrailState::default() }),
            end: Mutex::default(),
        })
    }

    /// A trail of one operation of this call, for an operation that succeeds, fails and is annotated on its own. It has the call's head and
    /// caller.
    pub fn of_operation(&self, id: String) -> Arc<Self> {
        let state = self.state.lock();
        Arc::new(Self {
            audit: self.audit.clone(),
            clock: self.clock,
            id,
            uri: self.uri.clone(),
            agent: self.agent.clone(),
            source_ips: self.source_ips.clone(),
            received: self.received,
            attempted: self.attempted.clone(),
            state: Mutex::new(TrailState {
                caller: state.caller.clone(),
                impersonated: state.impersonated.clone(),
                impersonation_constraint: state.impersonation_constraint,
                ..TrailState::default()
            }),
            end: Mutex::default(),
        })
    }

    /// The audit ID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the caller is authenticated.
    pub fn has_caller(&self) -> bool {
        self.state.lock().caller.is_some()
    }

    /// Applies the policy to the operations of the request.
    fn decide(&self, operations: Vec<Operation>) {
        let mut state = self.state.lock();
        state.is_long_running = operations.iter().any(Operation::is_long_running);
        for (index, operation) in operations.into_iter().enumerate() {
            let target = operation.target();
            let attributes = Attributes { user: state.caller.as_deref(), verb: &operation.verb, target };
            let verdict = decide(&self.audit.policy, &attributes);
            self.audit.metrics.decided(verdict.level);
            if verdict.level != Level::None {
                let reference = ObjectReference::of(&target, &operation.version);
                state.operations.push(RecordedOperation {
                    index,
                    operation,
                    verdict,
                    reference,
                    request: None,
                    response: None,
                    authorization: None,
                });
            }
        }
    }

    /// Records that the request has arrived.
    ///
    /// # Errors
    /// 500 if the event cannot be recorded and the mode requires that the request fails.
    pub async fn received(&self, operations: Vec<Operation>) -> Result<(), Status> {
        self.decide(operations);
        for event in self.events(Stage::RequestReceived) {
            if !self.audit.record(event).await {
                self.audit.metrics.rejected();
                return Err(Status::internal("failed to store audit event"));
            }
        }
        Ok(())
    }

    /// Records a request that failed authentication.
    pub async fn unauthenticated(&self, operations: Vec<Operation>, refused: &Status) {
        self.decide(operations);
        let mut status = refused.clone();
        status.message = match &self.attempted[..] {
            [] => "Authentication failed, no credentials provided".to_owned(),
            attempted => format!("Authentication failed, attempted: {}", attempted.join(", ")),
        };
        {
            let mut state = self.state.lock();
            state.status = Some(ResponseStatus::of(&status, status.code));
            state.is_complete = true;
        }
        self.record(Stage::ResponseStarted).await;
    }

    /// Adds the object of a request, if the policy records the operation. `object` returns it, and whether it
    /// is a whole object and not a patch or options.
    pub fn request_object(&self, index: usize, object: impl FnOnce() -> Option<(Value, bool)>) {
        if !self.has(index, Level::Metadata) {
            return;
        }
        // The object is read without the lock, since it can be large.
        let Some((mut object, is_whole)) = object() else { return };
        self.with(index, |recorded| {
            if let Some(reference) = recorded.reference.as_mut().filter(|_| is_whole) {
                reference.complete(&object);
            }
            if recorded.verdict.level >= Level::Request {
                if recorded.verdict.omit_managed_fields {
                    remove_managed_fields(&mut object);
                }
                recorded.request = Some(object);
            }
        });
    }

    /// Adds the object of the response, if the policy records it.
    pub fn response_object(&self, index: usize, object: impl FnOnce() -> Option<Value>) {
        if !self.has(index, Level::RequestResponse) {
            return;
        }
        let Some(mut object) = object() else { return };
        self.with(index, |recorded| {
            if recorded.verdict.omit_managed_fields {
                remove_managed_fields(&mut object);
            }
            recorded.response = Some(object);
        });
    }

    /// Whether the operation with this index is recorded at this level or above.
    fn has(&self, index: usize, level: Level) -> bool {
        let state = self.state.lock();
        state.operations.iter().any(|recorded| recorded.index == index && recorded.verdict.level >= level)
    }

    fn with(&self, index: usize, change: impl FnOnce(&mut RecordedOperation)) {
        let mut state = self.state.lock();
        if let Some(recorded) = state.operations.iter_mut().find(|recorded| recorded.index == index) {
            change(recorded);
        }
    }

    /// Whether the policy records any operation of the request.
    pub fn is_recorded(&self) -> bool {
        !self.state.lock().operations.is_empty()
    }

    /// Adds annotations to all later events. The first of several annotations with one key is kept.
    pub fn annotate(&self, annotations: Vec<AuditAnnotation>) {
        let mut state = self.state.lock();
        for AuditAnnotation { key, value } in annotations {
            state.annotations.entry(key).or_insert(value);
        }
    }

    /// Records the response: that it is complete, or for a long-running request that it has begun. Returns
    /// true for the latter.
    pub async fn answered(&self, authorizer: &Authorizer, code: u16, refused: Option<&Status>) -> bool {
        let is_panic = refused.is_some_and(|status| *status == panicked());
        let is_long_running = {
            let mut state = self.state.lock();
            if state.is_complete {
                return false;
            }
            state.status = Some(match refused {
                Some(status) => ResponseStatus::of(status, code),
                None => ResponseStatus::of_code(code),
            });
            state.add_authorization(authorizer, code);
            if let Some(status) = refused {
                state.set_refusal(status);
            }
            state.is_complete = is_panic || !state.is_long_running;
            !state.is_complete
        };
        self.record(match (is_panic, is_long_running) {
            (true, _) => Stage::Panic,
            (false, true) => Stage::ResponseStarted,
            (false, false) => Stage::ResponseComplete,
        })
        .await;
        is_long_running
    }

    async fn record(&self, stage: Stage) {
        for event in self.events(stage) {
            self.audit.record(event).await;
        }
    }

    /// Returns a guard: the request is complete when its last clone is dropped.
    pub fn stream_end(self: &Arc<Self>) -> StreamEnd {
        let mut end = self.end.lock();
        StreamEnd(end.upgrade().unwrap_or_else(|| {
            let new = Arc::new(EndOnDrop(self.clone()));
            *end = Arc::downgrade(&new);
            new
        }))
    }

    /// Records the end of a stream, or of a request whose client left before the response.
    fn ended(&self) {
        {
            let mut state = self.state.lock();
            if state.is_complete {
                return;
            }
            state.is_complete = true;
            state.status.get_or_insert_with(ResponseStatus::client_left);
        }
        for event in self.events(Stage::ResponseComplete) {
            self.audit.record_detached(event);
        }
    }

    /// The events of a stage, one for each recorded operation.
    fn events(&self, stage: Stage) -> Vec<Encoded> {
        let now = self.clock.now();
        let state = self.state.lock();
        let wanted = |recorded: &&RecordedOperation| !recorded.verdict.omit_stages.contains(stage);
        state
            .operations
            .iter()
            .filter(wanted)
            .map(|recorded| self.event(stage, now, &state, recorded))
            .collect()
    }

    fn event(
        &self,
        stage: Stage,
        now: Timestamp,
        state: &TrailState,
        recorded: &RecordedOperation,
    ) -> Encoded {
        self.audit.metrics.event();
        let mut annotations = state.annotations.clone();
        if let Some((decision, reason)) = &recorded.authorization {
            annotations.insert(DECISION.to_owned(), (*decision).to_owned());
            annotations.insert(REASON.to_owned(), reason.clone());
        }
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: recorded.verdict.level,
            audit_id: &self.id,
            stage,
            request_uri: &self.uri,
            verb: &recorded.operation.verb,
            user: state.caller.as_deref().map(User::from).unwrap_or_default(),
            impersonated_user: state.impersonated.as_deref().map(User::from),
            authentication_metadata: state.authentication_metadata(),
            source_ips: &self.source_ips,
            user_agent: &self.agent,
            object_ref: recorded.reference.as_ref(),
            response_status: state.status.as_ref(),
            request_object: recorded.request.as_ref(),
            response_object: recorded.response.as_ref(),
            request_received_timestamp: micro_time(self.received),
            stage_timestamp: micro_time(now),
            annotations: &annotations,
        };
        self.audit.encode(&event)
    }
}

impl TrailState {
    /// How the request was authenticated. It is known with the impersonated user, after the first stage.
    fn authentication_metadata(&self) -> Option<AuthenticationMetadata> {
        let impersonation_constraint =
            self.impersonation_constraint.filter(|_| self.impersonated.is_some())?;
        Some(AuthenticationMetadata { impersonation_constraint })
    }

    /// Adds the decision of authorization to each operation. The request was authorized before; permissions
    /// may have changed since. The response code then tells how authorization decided for the request.
    fn add_authorization(&mut self, authorizer: &Authorizer, code: u16) {
        let user = self.impersonated.as_ref().or(self.caller.as_ref());
        let Some(user) = user.cloned() else { return };
        for recorded in &mut self.operations {
            let operation = &recorded.operation;
            let target = operation.target();
            let attributes = authz::Attributes {
                user: &user,
                verb: &operation.verb,
                target,
                more: authz::More::default(),
            };
            recorded.authorization = Some(match authorizer.decide_now(&attributes) {
                Decision::Allow(reason) => ("allow", reason),
                Decision::NoOpinion(reason) | Decision::Deny(reason) if code == 403 => ("forbid", reason),
                Decision::NoOpinion(_) | Decision::Deny(_) => ("allow", String::new()),
            });
        }
    }

    /// Makes a refusal the object of the response.
    fn set_refusal(&mut self, status: &Status) {
        let wants = |recorded: &&mut RecordedOperation| recorded.verdict.level == Level::RequestResponse;
        for recorded in self.operations.iter_mut().filter(wants) {
            recorded.response = serde_json::to_value(status).ok();
        }
    }
}

/// A guard of a stream: the request is complete when its last clone is dropped.
#[derive(Clone)]
pub struct StreamEnd(#[expect(dead_code, reason = "it is kept to be dropped")] Arc<EndOnDrop>);

impl std::fmt::Debug for StreamEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamEnd")
    }
}

struct EndOnDrop(Arc<Trail>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Truncates a user agent to 1024 bytes, as Kubernetes does.
fn truncated_user_agent(agent: &str) -> String {
    match agent.len() > limits::AUDIT_AGENT_BYTES {
        true => {
            format!("{}{TRUNCATED_SUFFIX}", &agent[..agent.floor_char_boundary(limits::AUDIT_AGENT_BYTES)])
        }
        false => agent.to_owned(),
    }
}

#[cfg(test)]
mod tests;
