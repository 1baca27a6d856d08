//! The pipeline that serves one authenticated request: authorize → decode → mutate → default → validate →
//! store → answer. The REST and gRPC front ends both call it, so that each verb is written once. The front
//! ends encode its answers; the rules it applies are in `authz`, `admission`, `kstore_api` and `registry`.

mod admit;
mod apply;
mod claim_status;
mod component_status;
mod config;
pub mod connect;
mod create;
mod created_fields;
mod custom;
pub mod definition;
mod delete;
mod each;
mod eviction;
pub mod fairness_upkeep;
mod flow_schema;
mod former_namespace;
mod heavy;
mod in_flight;
mod initialization;
mod legacy_token;
mod prepare;
mod read;
mod renewal;
mod review;
pub mod signing;
mod subresource;
mod token;
mod transact;
mod unsupported;
mod update;
mod warnings;

use crate::fairness::Fairness;
pub use config::{AccessConfig, AdmissionConfig, PipelineConfig, PipelineState, RegistryConfig};
use created_fields::CreatedFields;
pub use each::EachOperation;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use heavy::Heavy;
use in_flight::InFlight;
pub use in_flight::TOO_MANY;
use kstore_access::authn::impersonation::Impersonation;
use kstore_access::authn::service_account::TokenAuthenticator;
use kstore_access::authn::{AnonymousAccess, Bearers};
use kstore_access::authz::{self, Attributes, Authorizer, More, Selects};
use kstore_access::token::Tokens;
use kstore_admission::Admission;
use kstore_api::patch::PatchType;
use kstore_api::resource::Resource;
use kstore_api::status::{Reason, Status};
use kstore_api::strategy::Features;
use kstore_api::{flowcontrol, kind};
use kstore_nondet::Nondet;
use kstore_registry::cache::{Cache, Watch};
use kstore_registry::conversion::Converter;
use kstore_registry::entry::Entry;
use kstore_registry::error;
use kstore_registry::fence::Fence;
use kstore_registry::provenance::{Note, Provenance};
use kstore_registry::registry::{Listed, Registry, WriteContext};
use kstore_registry::request::{Action, Request, Target};
use kstore_registry::stage::View;
use kstore_registry::user::UserInfo;
use kstore_storage::metrics::{self, Metrics};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
pub use token::Identified;
use tokio::time::Instant;
pub use transact::Transacted;
pub use unsupported::{LocalComponents, SimulationCheck};

/// The result of a request that succeeded. The front end encodes it.
pub enum Answer {
    /// A stored object.
    Object(ObjectAnswer),
    /// An object that is not a cache entry: a Scale, a review, a TokenRequest.
    Value {
        /// The object.
        value: Value,
        /// Whether this request created the object (201).
        created: bool,
    },
    /// Success without an object to show.
    Status {
        /// The success to report.
        status: Status,
        /// Revision of the commit; 0 inside a transaction that is not committed yet.
        revision: i64,
    },
    /// A page of a list.
    List(Listed),
    /// A watch that has begun.
    Watch(Box<Watch>),
}

/// A stored object in an answer, and what the request did to it.
pub struct ObjectAnswer {
    /// The object in its stored version.
    pub entry: Arc<Entry>,
    /// Whether this request created the object (201).
    pub created: bool,
    /// Whether this request removed the object; `entry` is then its last state.
    pub removed: bool,
}

impl ObjectAnswer {
    /// The answer for an object that existed before and still exists.
    fn of(entry: Arc<Entry>) -> Self {
        Self { entry, created: false, removed: false }
    }
}

/// The answer of a request together with its warnings.
pub struct Answered {
    /// The result of the request.
    pub answer: Answer,
    /// Texts of the `Warning` headers, in order.
    pub warnings: Vec<String>,
    /// Whether the answer is 202: the deletion has only begun, and the client accepts that code.
    pub accepted: bool,
}

/// The refusal of a request together with its warnings: warnings are sent even if the request fails for
/// another reason.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Why the request was refused.
    pub status: Status,
    /// Texts of the `Warning` headers, in order.
    pub warnings: Vec<String>,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, warnings: Vec::new() }
    }
}

/// Serves requests with the registry, the authorizer and the admission plugins of one apiserver. Shared by
/// `Arc`.
pub struct Pipeline {
    registry: Registry,
    authorizer: Arc<Authorizer>,
    admission: Admission,
    provenance: Arc<Provenance>,
    metrics: Arc<Metrics>,
    in_flight: InFlight,
    /// Priority levels of requests from the network; `None`: they are bounded by `in_flight`.
    fairness: Option<Arc<Fairness>>,
    heavy: Heavy,
    nondet: Nondet,
    converter: Arc<Converter>,
    created_fields: CreatedFields,
    tokens: Option<TokenAuthenticator>,
    /// Authenticators of bearer tokens other than this server's own service account tokens.
    bearers: Bearers,
    local: LocalComponents,
    /// Locked while a CustomResourceDefinition is written.
    definition_writes: tokio::sync::Mutex<()>,
    /// Whether requests without credentials are served.
    anonymous: AnonymousAccess,
    impersonation: Arc<Impersonation>,
    /// Whether all writes are refused.
    is_frozen: AtomicBool,
}

impl Pipeline {
    /// The priority levels, if they are enforced.
    pub fn fairness(&self) -> Option<&Arc<Fairness>> {
        self.fairness.as_ref()
    }

    /// Applies the stored flow schemas and priority levels.
    pub fn configure_fairness(&self) {
        if let Some(fairness) = &self.fairness {
            fairness_upkeep::configure(fairness, self.cache());
        }
    }

    /// The key for tokens of service accounts.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref().map(TokenAuthenticator::tokens)
    }

    /// The watch cache that serves all reads.
    pub fn cache(&self) -> &Arc<Cache> {
        self.registry.cache()
    }

    /// The optional features of the server.
    fn features(&self) -> Features {
        self.cache().kinds().rows().opt_in().features()
    }

    /// The registry that stores objects.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The clock and the source of randomness.
    pub fn nondet(&self) -> &Nondet {
        &self.nondet
    }

    /// Provenance records: the author of each revision, and its causes.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The client of conversion webhooks.
    pub fn converter(&self) -> &Arc<Converter> {
        &self.converter
    }

    /// The metrics of this apiserver.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The authorizer, for non-resource paths and access reviews.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Refuses all writes from now on, those of the server's own tasks included. Reviews, which store nothing, are answered.
    pub fn freeze(&self) {
        self.is_frozen.store(true, Ordering::Release);
    }

    /// Whether writes are refused since [`Self::freeze`]. The server's own tasks then have nothing to write.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::Acquire)
    }

    /// 405 for a write to a frozen server.
    fn check_not_frozen(&self, is_write: bool) -> Result<(), Status> {
        if !is_write || !self.is_frozen() {
            return Ok(());
        }
        let text = "the server shows imported data, which cannot be changed (--read-only)";
        let mut status = Status::bad_request(text);
        (status.code, status.reason) = (405, Reason::MethodNotAllowed);
        Err(status)
    }

    /// Serves a request. A write that is answered with success is durable.
    ///
    /// # Errors
    /// Any refusal; 429 if too many requests are in flight; 504 if it took longer than [`Request::time_limit`]; 500 if serving
    /// it panicked.
    pub async fn serve(&self, request: Request) -> Result<Answered, Refused> {
        self.serve_with(request, false).await
    }

    /// Serves a request like [`Pipeline::serve`]. With `has_seat` it runs on seats of a priority level, and
    /// needs no further permit. Boxed here, so that no crate above generates the code of all requests again.
    pub fn serve_with(&self, request: Request, has_seat: bool) -> BoxFuture<'_, Result<Answered, Refused>> {
        Box::pin(self.serve_measured(request, has_seat))
    }

    async fn serve_measured(&self, request: Request, has_seat: bool) -> Result<Answered, Refused> {
        let span = tracing::debug_span!(
            "pipeline",
            verb = request.action.verb(),
            resource = request.target.resource.plural
        );
        let kind = measured_as(&request);
        let limit = request.time_limit();
        let measured = self.metrics.begin(kind, request.action.is_dry_run());
        let awaited = self.awaited(&request, limit, kind);
        let served =
            in_time(limit, self.serve_with_permit(request, has_seat), || self.metrics.terminated(kind));
        let mut answered = tracing::Instrument::instrument(served, span).await;
        if let Some(awaited) = awaited {
            answered = Box::pin(self.when_initialized(&awaited, answered)).await;
        }
        measured.end(code_of(&answered));
        answered
    }

    async fn serve_with_permit(&self, request: Request, has_seat: bool) -> Result<Answered, Refused> {
        heavy::check(&request)?;
        let _permit = match has_seat {
            true => None,
            false => self.in_flight.permit(&request.action, &self.metrics).await?,
        };
        // The operations of a group were judged together.
        if request.group.is_some() || !heavy::is_heavy(self.cache(), &self.admission, &request) {
            return self.run(request).await;
        }
        // Boxed because it is rare: otherwise the future of every request would be twice as large.
        let permits = heavy::permits(self.cache(), &request);
        Box::pin(self.heavy.run(permits, self.run(request))).await
    }

    async fn run(&self, mut request: Request) -> Result<Answered, Refused> {
        // Roles, namespaces and classes that judge a request include every write that was answered before the
        // request came.
        let began = Instant::now();
        self.cache().fresh().await.map_err(error::of_read)?;
        self.metrics.waited(request.target.resource, began.elapsed());
        self.authorize(&request).await?;
        check_method(&request)?;
        self.check_not_frozen(request.action.is_write() && request.target.resource.is_stored())?;
        let mut texts = warnings::of_deprecated_kind(request.target.resource);
        // The commit checks the fence again at its own revision; this check also covers requests that write
        // nothing.
        if let Some(fence) = request.fence.as_ref().filter(|_| request.action.is_write()) {
            self.check_may_fence(&request.user, fence).await?;
            self.registry.check_fence(fence).await?;
        }
        let acted = match request.target.custom {
            None => self.act(&request, &mut texts).await,
            // Boxed, so that the futures of requests to built-in kinds stay small.
            Some(_) => Box::pin(self.act_on_custom(&mut request, &mut texts)).await,
        };
        let warnings = warnings::bounded(texts);
        let answer = match acted {
            Ok(answer) => answer,
            Err(status) => return Err(Refused { status, warnings }),
        };
        if request.target.resource.group == flowcontrol::GROUP {
            // Boxed because it is rare: otherwise the future of every request would be twice as large.
            Box::pin(self.update_flow_schemas_after(&request)).await;
        }
        if definition::is_definition(request.target.resource) && is_stored_by(&request.action) {
            let group = definition::group_of(&request.target.name).to_owned();
            Box::pin(self.grant_waiting_names(&group)).await;
        }
        let accepted = match (&request.action, &answer) {
            (Action::Delete(options, _), Answer::Object(object)) => options.accepts && !object.removed,
            _ => false,
        };
        Ok(Answered { answer, warnings, accepted })
    }

    /// Executes an authorized request. If managed fields make an object too large for the store, the request
    /// is executed once more without them.
    async fn act(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Answer, Status> {
        // Names are granted by comparing all definitions of a group, so definitions are written one after the
        // other.
        let _guard = match definition::is_definition(request.target.resource) && is_stored_by(&request.action)
        {
            true => Some(self.definition_writes.lock().await),
            false => None,
        };
        let done = self.act_once(request, warnings).await;
        let done = match &done {
            Err(status) if status.reason == Reason::RequestEntityTooLarge => {
                match request.without_managed_fields() {
                    // Boxed because it is rare: otherwise the future of every request would be twice as large.
                    Some(slimmer) => Box::pin(self.act_once(&slimmer, warnings)).await,
                    None => done,
                }
            }
            _ => done,
        };
        if let Ok(answer) = &done {
            let Request { user, target, action, .. } = request;
            let unsupported = unsupported::warning(self.local, user, target, action);
            warnings.extend(unsupported.map(str::to_owned));
            warnings.extend(unsupported::simulation_warnings(self.local, user, target, action, answer));
        }
        done
    }

    async fn act_once(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Answer, Status> {
        match &request.action {
            Action::Get(options) => self.get(request, options).await,
            Action::List(options) => self.list(request, options, warnings).await,
            Action::Watch(options) => self.watch(request, options).await,
            Action::Create(body, options) if request.target.subresource.is_empty() => {
                self.create(request, body, options, warnings).await
            }
            Action::Create(body, options) => self.post_subresource(request, body, options, warnings).await,
            Action::Update(body, options) => self.update(request, body, options, warnings).await,
            Action::Patch(kind, patch, options) => self.patch(request, *kind, patch, options, warnings).await,
            Action::Delete(delete, options) => self.delete(request, delete, options, warnings).await,
            Action::DeleteCollection(list, delete, options) => {
                self.delete_collection(request, list, delete, options, warnings).await
            }
        }
    }

    /// Checks that the caller may do what the request asks.
    async fn authorize(&self, request: &Request) -> Result<(), Status> {
        let target = &request.target;
        let filter = match &request.action {
            Action::List(options) | Action::DeleteCollection(options, ..) => Some(&options.filter),
            Action::Watch(options) => Some(&options.filter),
            _ => None,
        };
        let is_collection = matches!(request.action, Action::DeleteCollection(..));
        let name = filter.filter(|_| !is_collection).map_or(&target.name, |filter| &filter.name);
        let selects = filter.map(|filter| Selects { fields: &filter.fields, labels: &filter.labels });
        let more = More { version: target.resource.version, selects };
        let verb = request.action.verb();
        let began = Instant::now();
        let checked = self.check_with_details(&request.user, verb, target, name, more);
        let verdict = tracing::Instrument::instrument(checked, tracing::debug_span!("authz")).await;
        self.metrics.authorized(verdict.is_ok(), began.elapsed());
        verdict?;
        let revision = former_namespace::revision_of(&request.action, request.bound.as_deref());
        self.check_past(&request.user, verb, target, name, revision).await
    }

    /// Checks that `user` may do `verb` to an object.
    pub async fn check(
        &self,
        user: &UserInfo,
        verb: &str,
        target: &Target,
        name: &str,
    ) -> Result<(), Status> {
        let more = More { version: target.resource.version, selects: None };
        self.check_with_details(user, verb, target, name, more).await
    }

    async fn check_with_details(
        &self,
        user: &UserInfo,
        verb: &str,
        target: &Target,
        name: &str,
        more: More<'_>,
    ) -> Result<(), Status> {
        let resource = target.resource;
        let own = resource.is("", "namespaces");
        let attributes = Attributes {
            user,
            verb,
            target: authz::Target::Resource {
                group: resource.group,
                resource: resource.plural,
                subresource: target.subresource,
                // A request about a Namespace object is also a request in that namespace.
                namespace: if own { &target.name } else { &target.namespace },
                name,
            },
            more,
        };
        self.authorizer.check(&attributes).await
    }

    /// Checks that a user may read the Lease of its fence: the answer to a fenced write tells whether the fence names the
    /// Lease's holder.
    async fn check_may_fence(&self, user: &UserInfo, fence: &Fence) -> Result<(), Status> {
        let lease = Target::lease_of(fence);
        self.check(user, "get", &lease, &lease.name).await
    }

    /// The context that is stored with the write: its provenance note, the lease term it is fenced by, and
    /// its transaction's stage.
    fn write_context(&self, request: &Request) -> WriteContext {
        WriteContext {
            note: Note::of(request, &self.nondet.clock).encode(),
            fence: request.fence.clone(),
            stage: request.stage.clone(),
            group: request.group.clone(),
        }
    }

    /// The cluster as this request sees it: with the uncommitted writes of its transaction.
    pub fn view(&self, request: &Request) -> View {
        View::new(self.cache().clone(), request.stage.clone())
    }

    /// The admission chain over the cluster as this request sees it.
    fn admission(&self, request: &Request) -> Admission {
        match request.stage {
            None => self.admission.clone(),
            Some(_) => self.admission.over(Arc::new(self.view(request))),
        }
    }
}

/// Runs `serving` within a time limit. A panic is answered with 500 and does not affect other requests. Calls
/// `terminated` if the time limit passes.
async fn in_time<T, E: From<Status>>(
    limit: Duration,
    serving: impl Future<Output = Result<T, E>>,
    terminated: impl FnOnce(),
) -> Result<T, E> {
    let served = AssertUnwindSafe(tokio::time::timeout(limit, serving)).catch_unwind().await;
    match served {
        Ok(Ok(answered)) => answered,
        Ok(Err(_)) => {
            terminated();
            Err(error::timed_out().into())
        }
        Err(_) => Err(error::panicked().into()),
    }
}

/// The metric labels under which a request is counted.
pub fn measured_as(request: &Request) -> metrics::Kind {
    let verb = match &request.action {
        Action::Patch(PatchType::Apply, ..) => "APPLY",
        action => metrics::verb(action.verb()),
    };
    let target = &request.target;
    metrics::Kind::of(verb, target.resource, target.subresource, &target.namespace, &target.name)
}

fn code_of(answered: &Result<Answered, Refused>) -> u16 {
    match answered {
        Ok(Answered { answer: Answer::Object(ObjectAnswer { created: true, .. }), .. }) => 201,
        Ok(Answered { answer: Answer::Value { created: true, .. }, .. }) => 201,
        Ok(_) => 200,
        Err(refused) => refused.status.code,
    }
}

/// Checks that the resource or subresource has the verb.
fn check_method(request: &Request) -> Result<(), Status> {
    let target = &request.target;
    let verb = request.action.verb();
    let verbs = match target.subresource {
        "" => target.resource.verbs,
        name => target.resource.subresource(name).map_or(&[][..], |sub| sub.verbs),
    };
    if verbs.contains(&verb) { Ok(()) } else { Err(error::no_such_method()) }
}

/// The row of a built-in object.
pub(crate) fn row_of(object: &Value) -> &'static Resource {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    kind::lookup_api_version(text("apiVersion"), text("kind"))
        .expect("objects of the server are of kinds in the table")
}

/// Whether an action, if it succeeds, stores or removes something.
fn is_stored_by(action: &Action) -> bool {
    action.is_write() && !action.is_dry_run()
}

#[cfg(test)]
mod tests;
