//! The story of one request, in the order in which it is told: authenticated at the door, then authorize → decode → mutate →
//! default → validate → store → answer. Both doors come through here; a verb is written once. Not the doors, and not the rules:
//! those are in `authz`, `admission`, `kstore_api` and `registry`.

mod apply;
mod create;
mod delete;
mod read;
mod subresource;
mod token;
mod update;

use crate::admission::Admission;
use crate::authn::UserInfo;
use crate::authz::{self, Attributes, Authorizer};
use crate::cache::{Cache, Entry, Watch};
use crate::error;
use crate::limits;
use crate::metrics::{self, Metrics};
use crate::provenance::{Note, Provenance};
use crate::registry::{Listed, Mandate, Registry};
use crate::request::{Action, Request, Target};
use crate::token::Tokens;
use kstore_api::kind::Resource;
use kstore_api::patch::PatchType;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};
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
}

/// An answer with the warnings that go along.
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// `Warning` headers, in order.
    pub warnings: Vec<String>,
}

/// The pipeline. One per apiserver; shared by `Arc`.
pub struct Pipeline {
    registry: Registry,
    authorizer: Authorizer,
    admission: Admission,
    provenance: Arc<Provenance>,
    metrics: Arc<Metrics>,
    reads: Semaphore,
    writes: Semaphore,
    nondet: Nondet,
    tokens: Option<Arc<Tokens>>,
}

impl Pipeline {
    /// Over a filled cache. Everything that the pipeline asks about the cluster it asks this cache.
    pub fn new(cache: Arc<Cache>, provenance: Arc<Provenance>, nondet: Nondet) -> Self {
        Self::counted(cache, provenance, nondet, Arc::default())
    }

    /// As [`Pipeline::new`], counting in `metrics`, where others count as well.
    pub fn counted(
        cache: Arc<Cache>,
        provenance: Arc<Provenance>,
        nondet: Nondet,
        metrics: Arc<Metrics>,
    ) -> Self {
        let admission = Admission::new(cache.clone());
        metrics.append(admission.figures());
        Self {
            authorizer: Authorizer::new(cache.clone()),
            admission,
            registry: Registry::new(cache, nondet.clone()),
            provenance,
            metrics,
            reads: Semaphore::new(limits::READS_IN_FLIGHT),
            writes: Semaphore::new(limits::WRITES_IN_FLIGHT),
            nondet,
            tokens: None,
        }
    }

    /// With a key for tokens of service accounts; without one there are none.
    #[must_use]
    pub fn with_tokens(self, tokens: Option<Arc<Tokens>>) -> Self {
        Self { tokens, ..self }
    }

    /// The key for tokens of service accounts.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_deref()
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

    /// What is counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The authorizer, for paths and reviews.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Serves a request. What it answers for a write is durable.
    pub async fn serve(&self, request: Request) -> Result<Answered, Status> {
        let span = tracing::debug_span!(
            "pipeline",
            verb = request.action.verb(),
            resource = request.target.resource.plural
        );
        let _place = self.place(&request.action).await;
        let measured = self.metrics.begin(measured_as(&request), request.action.is_dry_run());
        let answered = tracing::Instrument::instrument(self.run(request), span).await;
        measured.end(code_of(&answered));
        answered
    }

    /// Waits for a place among the requests in flight, first come first served. Watches take none: they are bounded by what
    /// they hold back.
    async fn place(&self, action: &Action) -> Option<SemaphorePermit<'_>> {
        let places = match action {
            Action::Watch(_) => return None,
            Action::Get(_) | Action::List(_) => &self.reads,
            Action::Create(..)
            | Action::Update(..)
            | Action::Patch(..)
            | Action::Delete(..)
            | Action::DeleteCollection(..) => &self.writes,
        };
        if let Ok(place) = places.try_acquire() {
            return Some(place);
        }
        let _queued = self.metrics.queue(action.is_write());
        places.acquire().await.ok()
    }

    async fn run(&self, request: Request) -> Result<Answered, Status> {
        // What a request is judged by (roles, namespaces, classes) includes everything that was answered before it came.
        let began = Instant::now();
        self.cache().fresh().await.map_err(error::of_read)?;
        self.metrics.waited(request.target.resource, began.elapsed());
        self.authorize(&request)?;
        check_method(&request)?;
        // The commit checks it again, at its own revision; here it also stops what would write nothing.
        if let Some(fence) = request.fence.as_ref().filter(|_| request.action.is_write()) {
            self.registry.check_fence(fence).await?;
        }
        let mut warnings = Vec::new();
        let answer = match &request.action {
            Action::Get(options) => self.get(&request, options).await,
            Action::List(options) => self.list(options).await,
            Action::Watch(options) => self.watch(options).await,
            Action::Create(body, options) if request.target.subresource.is_empty() => {
                self.create(&request, body, options, &mut warnings).await
            }
            Action::Create(body, options) => {
                self.post_subresource(&request, body, options, &mut warnings).await
            }
            Action::Update(body, options) => self.update(&request, body, options, &mut warnings).await,
            Action::Patch(kind, patch, options) => {
                self.patch(&request, *kind, patch, options, &mut warnings).await
            }
            Action::Delete(delete, options) => self.delete(&request, delete, options).await,
            Action::DeleteCollection(list, delete, options) => {
                self.delete_collection(&request, list, delete, options).await
            }
        }?;
        Ok(Answered { answer, warnings })
    }

    /// May the caller do this?
    fn authorize(&self, request: &Request) -> Result<(), Status> {
        let _span = tracing::debug_span!("authz").entered();
        let target = &request.target;
        let name = match &request.action {
            Action::List(options) => options.filter.name.as_str(),
            Action::Watch(options) => options.filter.name.as_str(),
            _ => target.name.as_str(),
        };
        let began = Instant::now();
        let verdict = self.check(&request.user, request.action.verb(), target, name);
        self.metrics.authorized(verdict.is_ok(), began.elapsed());
        verdict
    }

    /// May `user` do `verb` to this?
    pub(crate) fn check(
        &self,
        user: &UserInfo,
        verb: &str,
        target: &Target,
        name: &str,
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
        };
        self.authorizer.check(&attributes)
    }

    /// Who does this and why, in the form that is stored with the revision; and in which term of leadership.
    fn mandate(&self, request: &Request) -> Mandate {
        Mandate { note: Note::of(request, &self.nondet.clock).encode(), fence: request.fence.clone() }
    }
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

fn code_of(answered: &Result<Answered, Status>) -> u16 {
    match answered {
        Ok(Answered { answer: Answer::Object(ObjectAnswer { created: true, .. }), .. }) => 201,
        Ok(Answered { answer: Answer::Value { created: true, .. }, .. }) => 201,
        Ok(_) => 200,
        Err(status) => status.code,
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
    if verbs.contains(&verb) { Ok(()) } else { Err(Status::method_not_allowed(target.resource, verb)) }
}

/// A stored object in the version that the caller speaks.
pub(crate) fn in_version(resource: &'static Resource, mut stored: Value) -> Value {
    if !std::ptr::eq(resource.storage_row(), resource) {
        kstore_api::convert::from_storage(resource, &mut stored);
    }
    stored
}
