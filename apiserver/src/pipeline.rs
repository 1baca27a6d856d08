//! The path of one authenticated request: authorize → decode → mutate → default → validate → store → answer. The REST and gRPC front
//! ends both call it, so that each verb is written once. Not the front ends, and not the rules: those are in `authz`, `admission`,
//! `kstore_api` and `registry`.

mod admit;
mod apply;
mod component_status;
mod create;
mod custom;
pub(crate) mod definition;
mod delete;
mod eviction;
mod flow_schema;
mod heavy;
mod in_flight;
mod read;
mod renewal;
mod signing;
mod subresource;
mod token;
mod transact;
mod unsupported;
mod update;
mod warnings;

pub use transact::Transacted;
pub use unsupported::LocalComponents;

use crate::admission::{Admission, PluginSwitches, RESOURCE_QUOTA, ROLE_CHECKS};
use crate::authn::service_account::TokenAuthenticator;
use crate::authn::{Bearers, UserInfo};
use crate::authz::{self, Attributes, Authorizer, More, Selects};
use crate::cache::{Cache, Entry, Watch};
use crate::conversion::Converter;
use crate::error;
use crate::metrics::{self, Metrics};
use crate::outbound::{Network, Outbound, ServiceBackends};
use crate::provenance::{Note, Provenance};
use crate::registry::{Listed, Mandate, Registry, View};
use crate::request::{Action, ManagedFieldsUpdate, Request, Target, WriteOptions};
use crate::service_ranges::ServiceRanges;
use crate::token::Tokens;
use futures::FutureExt as _;
use heavy::Heavy;
use in_flight::InFlight;
pub(crate) use in_flight::TOO_MANY;
use kstore_api::flowcontrol;
use kstore_api::kind::Resource;
use kstore_api::patch::PatchType;
use kstore_api::status::{Reason, Status};
use kstore_nondet::Nondet;
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a request led to. Encoding it is the door's business.
pub enum Answer {
    /// One object.
    Object(ObjectAnswer),
    /// An object that is no stored entry: a Scale, a review, a binding's result.
    Value {
        /// The object.
        value: Value,
        /// Whether it was made by this request (201).
        created: bool,
    },
    /// Success that has no object to show.
    Status {
        /// Says success.
        status: Status,
        /// The revision that did it.
        revision: i64,
    },
    /// Many objects.
    List(Listed),
    /// Changes, from now on.
    Watch(Box<Watch>),
}

/// A stored object, and what to say with it.
pub struct ObjectAnswer {
    /// The object in its stored version.
    pub entry: Arc<Entry>,
    /// Whether it was created by this request (201).
    pub created: bool,
    /// Whether it was removed by this request, so that this is its last state.
    pub removed: bool,
}

impl ObjectAnswer {
    /// An object that was there before and is still there.
    fn of(entry: Arc<Entry>) -> Self {
        Self { entry, created: false, removed: false }
    }
}

/// An answer with the warnings that go along.
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// `Warning` headers, in order.
    pub warnings: Vec<String>,
    /// What was asked for has only begun, and the caller wants to know (202).
    pub accepted: bool,
}

/// A refusal with the warnings that go along: what was odd about a request is said also where it failed for another reason.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Says why.
    pub status: Status,
    /// `Warning` headers, in order.
    pub warnings: Vec<String>,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, warnings: Vec::new() }
    }
}

/// The pipeline. One per apiserver; shared by `Arc`.
pub struct Pipeline {
    registry: Registry,
    authorizer: Arc<Authorizer>,
    admission: Admission,
    provenance: Arc<Provenance>,
    metrics: Arc<Metrics>,
    in_flight: InFlight,
    heavy: Heavy,
    nondet: Nondet,
    converter: Arc<Converter>,
    tokens: Option<TokenAuthenticator>,
    /// Bearer tokens of users.
    bearers: Bearers,
    local: LocalComponents,
    /// Held while a CustomResourceDefinition is written.
    definition_writes: tokio::sync::Mutex<()>,
    /// Whether requests without credentials are served.
    anonymous: bool,
}

impl Pipeline {
    /// Over a filled cache. Everything that the pipeline asks about the cluster it asks this cache.
    pub fn new(cache: Arc<Cache>, provenance: Arc<Provenance>, nondet: Nondet) -> Self {
        let outbound = Arc::new(Network::new(ServiceBackends::default()));
        let authorizer = Authorizer::new(cache.clone());
        Self::counted(cache, provenance, nondet, Arc::default(), outbound, authorizer)
    }

    /// As [`Pipeline::new`], counting in `metrics`, where others count as well, calling webhooks through `outbound`, and
    /// authorizing by `authorizer`.
    pub fn counted(
        cache: Arc<Cache>,
        provenance: Arc<Provenance>,
        nondet: Nondet,
        metrics: Arc<Metrics>,
        outbound: Arc<dyn Outbound>,
        authorizer: Authorizer,
    ) -> Self {
        let authorizer = Arc::new(authorizer);
        let admission = Admission::new(cache.clone(), authorizer.clone(), outbound.clone(), nondet.clone());
        metrics.append(admission.figures());
        let converter = Arc::new(Converter::new(outbound, nondet.clone()));
        metrics.append(converter.render_metrics());
        Self {
            authorizer,
            admission,
            registry: Registry::new(cache, nondet.clone()),
            provenance,
            metrics,
            in_flight: InFlight::default(),
            heavy: Heavy::default(),
            converter,
            nondet,
            tokens: None,
            bearers: Bearers::default(),
            local: LocalComponents::default(),
            definition_writes: tokio::sync::Mutex::default(),
            anonymous: true,
        }
    }

    /// With a key for tokens of service accounts; without one there are none.
    #[must_use]
    pub fn with_tokens(self, tokens: Option<Arc<Tokens>>) -> Self {
        Self { tokens: tokens.map(TokenAuthenticator::new), ..self }
    }

    /// With further authenticators of bearer tokens.
    #[must_use]
    pub fn with_bearers(self, bearers: Bearers) -> Self {
        Self { bearers, ..self }
    }

    /// With these admission plugins. Where everything is allowed, roles are not asked either.
    #[must_use]
    pub fn with_plugins(self, mut switches: PluginSwitches) -> Self {
        if self.authorizer.modes().allow_everything() {
            switches.disabled.extend(ROLE_CHECKS);
        }
        let registry = match switches.runs(RESOURCE_QUOTA) {
            true => self.registry,
            false => self.registry.without_quotas(),
        };
        Self { admission: self.admission.with(&switches), registry, ..self }
    }

    /// Beside these components in its process; without them it warns of nothing that they do not do.
    #[must_use]
    pub fn with_local_components(self, local: LocalComponents) -> Self {
        Self { local, ..self }
    }

    /// Whether requests without credentials are served as the user `system:anonymous`, or refused with 401.
    #[must_use]
    pub fn with_anonymous(self, anonymous: bool) -> Self {
        Self { anonymous, ..self }
    }

    /// With networks of the server's own for addresses of services.
    #[must_use]
    pub fn with_service_ranges(self, ranges: ServiceRanges) -> Self {
        Self { registry: self.registry.with_service_ranges(ranges), ..self }
    }

    /// The key for tokens of service accounts.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref().map(TokenAuthenticator::tokens)
    }

    /// The cache behind it.
    pub fn cache(&self) -> &Arc<Cache> {
        self.registry.cache()
    }

    /// The registry behind it.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The source of time and chance.
    pub fn nondet(&self) -> &Nondet {
        &self.nondet
    }

    /// Who wrote what.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The way to conversion webhooks.
    pub(crate) fn converter(&self) -> &Arc<Converter> {
        &self.converter
    }

    /// What is counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The authorizer, for paths and reviews.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Serves a request. What it answers for a write is durable.
    ///
    /// # Errors
    /// Any refusal; 429 if too many requests are in flight; 504 if it took longer than [`Request::time_limit`]; 500 if serving
    /// it panicked.
    pub async fn serve(&self, request: Request) -> Result<Answered, Refused> {
        let span = tracing::debug_span!(
            "pipeline",
            verb = request.action.verb(),
            resource = request.target.resource.plural
        );
        let kind = measured_as(&request);
        let limit = request.time_limit();
        let measured = self.metrics.begin(kind, request.action.is_dry_run());
        let served = in_time(limit, self.placed(request), || self.metrics.terminated(kind));
        let answered = tracing::Instrument::instrument(served, span).await;
        measured.end(code_of(&answered));
        answered
    }

    async fn placed(&self, request: Request) -> Result<Answered, Refused> {
        let _place = self.in_flight.place(&request.action, &self.metrics).await?;
        if !heavy::is_heavy(self.cache(), &self.admission, &request) {
            return self.run(request).await;
        }
        // Boxed, for it is rare, and every request would be as large as two.
        Box::pin(self.heavy.run(self.run(request))).await
    }

    async fn run(&self, mut request: Request) -> Result<Answered, Refused> {
        // What a request is judged by (roles, namespaces, classes) includes everything that was answered before it came.
        let began = Instant::now();
        self.cache().fresh().await.map_err(error::of_read)?;
        self.metrics.waited(request.target.resource, began.elapsed());
        self.authorize(&request).await?;
        check_method(&request)?;
        // The commit checks it again, at its own revision; here it also stops what would write nothing.
        if let Some(fence) = request.fence.as_ref().filter(|_| request.action.is_write()) {
            self.registry.check_fence(fence).await?;
        }
        let mut texts = Vec::new();
        let acted = match request.target.custom {
            None => self.act(&request, &mut texts).await,
            // Boxed, so that requests to built-in kinds are not larger for it.
            Some(_) => Box::pin(self.act_on_custom(&mut request, &mut texts)).await,
        };
        let warnings = warnings::bounded(texts);
        let answer = match acted {
            Ok(answer) => answer,
            Err(status) => return Err(Refused { status, warnings }),
        };
        if request.target.resource.group == flowcontrol::GROUP {
            // Boxed, for it is rare, and every request would be as large as two.
            Box::pin(self.settle_flow_schemas_after(&request)).await;
        }
        if definition::is_definition(request.target.resource) && is_stored_by(&request.action) {
            let group = definition::group_of(&request.target.name).to_owned();
            Box::pin(self.settle_definitions(&group)).await;
        }
        let accepted = match (&request.action, &answer) {
            (Action::Delete(options, _), Answer::Object(object)) => options.accepts && !object.removed,
            _ => false,
        };
        Ok(Answered { answer, warnings, accepted })
    }

    /// Does what an authorized request asks. What makes an object too large for the store is tried once more without its field ownership, which
    /// can be large.
    async fn act(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Answer, Status> {
        // Names are granted by looking at all definitions of a group, so that one is written after the other.
        let _turn = match definition::is_definition(request.target.resource) && is_stored_by(&request.action)
        {
            true => Some(self.definition_writes.lock().await),
            false => None,
        };
        let done = self.act_once(request, warnings).await;
        let done = match &done {
            Err(status) if status.reason == Reason::RequestEntityTooLarge => match without_books(request) {
                // Boxed, for it is rare, and every request would be as large as two.
                Some(slimmer) => Box::pin(self.act_once(&slimmer, warnings)).await,
                None => done,
            },
            _ => done,
        };
        if done.is_ok() {
            let what = (&request.target, &request.action);
            let unsupported = unsupported::warning(self.local, &request.user, what);
            warnings.extend(unsupported.map(str::to_owned));
        }
        done
    }

    async fn act_once(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Answer, Status> {
        match &request.action {
            Action::Get(options) => self.get(request, options).await,
            Action::List(options) => self.list(request, options, warnings).await,
            Action::Watch(options) => self.watch(&request.target, options).await,
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

    /// May the caller do this?
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
        let asked = (request.action.verb(), target, name.as_str());
        let began = Instant::now();
        let checked = self.check_more(&request.user, asked, more);
        let verdict = tracing::Instrument::instrument(checked, tracing::debug_span!("authz")).await;
        self.metrics.authorized(verdict.is_ok(), began.elapsed());
        verdict
    }

    /// May `user` do `verb` to this?
    pub(crate) async fn check(
        &self,
        user: &UserInfo,
        verb: &str,
        target: &Target,
        name: &str,
    ) -> Result<(), Status> {
        let more = More { version: target.resource.version, selects: None };
        self.check_more(user, (verb, target, name), more).await
    }

    async fn check_more(
        &self,
        user: &UserInfo,
        (verb, target, name): (&str, &Target, &str),
        more: More<'_>,
    ) -> Result<(), Status> {
        let resource = target.resource;
        let own = resource.plural == "namespaces" && resource.group.is_empty();
        let attributes = Attributes {
            user,
            verb,
            target: authz::Target::Resource {
                group: resource.group,
                resource: resource.plural,
                subresource: target.subresource,
                // A request about a namespace object is also a request in that namespace.
                namespace: if own { &target.name } else { &target.namespace },
                name,
            },
            more,
        };
        self.authorizer.check(&attributes).await
    }

    /// Who does this and why, in the form that is stored with the revision; and in which term of leadership.
    fn mandate(&self, request: &Request) -> Mandate {
        Mandate {
            note: Note::of(request, &self.nondet.clock).encode(),
            fence: request.fence.clone(),
            stage: request.stage.clone(),
        }
    }

    /// The cluster as the request sees it.
    fn view(&self, request: &Request) -> View {
        View::new(self.cache().clone(), request.stage.clone())
    }

    /// The admission chain over the cluster as the request sees it.
    fn admission(&self, request: &Request) -> Admission {
        match request.stage {
            None => self.admission.clone(),
            Some(_) => self.admission.over(Arc::new(self.view(request))),
        }
    }
}

/// Runs what serves a request within its time limit. A panic answers that request with 500 and leaves others alone.
/// `terminated` is called when its time is over.
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

/// The same request without field ownership, if it can do without: not an apply, which is about what it owns, and not a scale, which is
/// no object of its own.
fn without_books(request: &Request) -> Option<Request> {
    let dropped = |options: &WriteOptions| WriteOptions {
        managed_fields: ManagedFieldsUpdate::Dropped,
        ..options.clone()
    };
    let action = match (&request.action, request.target.subresource) {
        (Action::Create(body, options), "") => Action::Create(body.clone(), dropped(options)),
        (Action::Update(body, options), below) if below != "scale" => {
            Action::Update(body.clone(), dropped(options))
        }
        (Action::Patch(kind, patch, options), below) if *kind != PatchType::Apply && below != "scale" => {
            Action::Patch(*kind, patch.clone(), dropped(options))
        }
        _ => return None,
    };
    Some(Request { action, ..request.clone() })
}

/// What a request counts as.
pub(crate) fn measured_as(request: &Request) -> metrics::Kind {
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

/// Is the verb one of the resource's (or subresource's)?
fn check_method(request: &Request) -> Result<(), Status> {
    let target = &request.target;
    let verb = request.action.verb();
    let verbs = match target.subresource {
        "" => target.resource.verbs,
        name => target.resource.subresource(name).map_or(&[][..], |sub| sub.verbs),
    };
    if verbs.contains(&verb) { Ok(()) } else { Err(error::no_such_method()) }
}

/// A stored object in the version that the caller speaks.
pub(crate) fn in_version(resource: &'static Resource, mut stored: Value) -> Value {
    if !resource.is_same_version(resource.storage_row()) {
        kstore_api::convert::from_storage(resource, &mut stored);
    }
    stored
}

/// Whether an action that succeeded has stored or removed something.
fn is_stored_by(action: &Action) -> bool {
    action.is_write() && !action.is_dry_run()
}
