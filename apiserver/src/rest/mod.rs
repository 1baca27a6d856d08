//! The REST front end: HTTP → [`Request`] → pipeline → HTTP. It decides about encoding and form only.

mod accept;
mod aggregated;
mod attempts;
mod audited;
mod authorize;
mod chunk;
mod content;
mod document;
mod field_writer;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod hashed_version;
mod kstore;
mod list_query;
mod listing;
mod object_history;
mod ordered;
mod page_data;
mod path;
mod query;
pub mod respond;
mod rights;
pub mod router;
mod seats;
mod stream;
mod table;
pub(crate) mod text;
mod timeout;
mod trace;
mod viewed;
mod watch;

pub mod discovery;
pub mod health;
pub mod openapi;

use crate::access;
use crate::agent::user_agent;
use crate::aggregator::Aggregator;
use crate::anonymous_slots::{AnonymousSlot, AnonymousSlots};
use crate::answer_kind::AnswerKind;
use crate::attempt_source::AttemptSource;
use crate::body_budget::BodyBudget;
use crate::tunnel::Tunnels;
use crate::view::{View, ViewRange, Views};
use axum::body::Body as HttpBody;
use futures::FutureExt as _;
use futures::future::Either;
use http::header::{WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body::Body as _;
use kstore_access::audit::{self, Audit};
use kstore_access::authn;
use kstore_api::patch::PatchType;
use kstore_api::status::Status;
use kstore_pipeline::fairness::{Entered, Seat};
use kstore_pipeline::pipeline::{Pipeline, measured_as};
use kstore_registry::cache::ReadBound;
use kstore_registry::decode::delete_options;
use kstore_registry::fence::Fence;
use kstore_registry::request::{Action, Body, DeleteOptions, Request, Target, WriteOptions};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
pub(crate) use path::Documents;
use query::Query;
use respond::{Reply, refusal, refusal_as};
use router::{Operation, ResourcePath, Route};
use seats::RequestHead;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use table::Include;
use tokio_util::sync::CancellationToken;

/// The header in which a client names the revisions that led it to write. `fence` parses the other header of
/// our own, `kstore-fence`.
const CAUSE: &str = "kstore-cause";

/// The header with the audit ID of a request.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Bytes of the longest audit ID accepted from a client; a longer one is replaced.
const AUDIT_ID_BYTES: usize = 64;

/// The feature gate of watches that begin with the state.
const WATCH_LIST: &str = "WatchList";

/// The REST front end. One per apiserver; shared by `Arc`.
pub struct Rest {
    pipeline: Arc<Pipeline>,
    aggregator: Arc<Aggregator>,
    paths: path::Paths,
    streams: stream::Streams,
    bodies: BodyBudget,
    audit: Option<Arc<Audit>>,
    views: Views,
    /// Whether watches that begin with the state are compressed.
    gzips_watches: bool,
    stop: CancellationToken,
}

impl Rest {
    /// A front end of a pipeline. Nodes are reached through `tunnels`, and aggregated API servers through
    /// `aggregator`. `advertised` is the `host:port` in discovery documents, which are shared with those of
    /// another server as far as they are equal; `stop` ends open watches and streams.
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        aggregator: Arc<Aggregator>,
        tunnels: Arc<Tunnels>,
        (advertised, known): (String, Option<&Documents>),
        stop: CancellationToken,
    ) -> Self {
        let streams = stream::Streams::new(pipeline.clone(), tunnels, stop.clone());
        let advertised = (&*advertised, known);
        let paths = path::Paths::new(pipeline.clone(), aggregator.clone(), advertised, stop.clone());
        let bodies = BodyBudget::default();
        let views = Views::default();
        Self { paths, pipeline, aggregator, streams, bodies, audit: None, views, gzips_watches: false, stop }
    }

    /// The discovery and OpenAPI documents that were last built; they may be outdated.
    pub(crate) fn documents(&self) -> Arc<Documents> {
        self.paths.last_documents()
    }

    /// Replaces the budget for request bodies by a budget that gRPC shares.
    pub(crate) fn with_body_budget(self, bodies: BodyBudget) -> Self {
        Self { bodies, ..self }
    }

    /// Adds what the scheduler of this process says about its attempts.
    pub(crate) fn with_attempts(self, attempts: Option<Arc<dyn AttemptSource>>) -> Self {
        Self { paths: self.paths.with_attempts(attempts), ..self }
    }

    /// Adds an audit log.
    pub(crate) fn with_audit(self, audit: Option<Arc<Audit>>) -> Self {
        Self { audit, ..self }
    }

    /// Compresses watches that begin with the state, for clients that accept it.
    pub(crate) fn with_compressed_watches(self, gzips_watches: bool) -> Self {
        Self { gzips_watches, ..self }
    }

    /// Serves one HTTP request. The connection must have added its [`Peer`](kstore_access::peer::Peer) to the
    /// extensions. A panic is answered with 500 and does not affect other requests.
    // `serve` and `handle` are not async functions: their futures would hold the request in addition to the
    // future that serves it.
    pub fn serve(
        &self,
        request: http::Request<HttpBody>,
    ) -> impl Future<Output = Response<HttpBody>> + Send + '_ {
        let head = request.method() == Method::HEAD;
        let audit_id = self.audit_id(request.headers());
        let handled = match &self.audit {
            None => Either::Left(self.handle(request)),
            Some(audit) => Either::Right(Box::pin(self.serve_recorded(audit, audit_id.clone(), request))),
        };
        handled.map(move |mut response| {
            let forbidden = response.status() == StatusCode::FORBIDDEN;
            let headers = response.headers_mut();
            headers.insert(AUDIT_ID, audit_id);
            if forbidden {
                // The message repeats input of the client; browsers must not interpret it as a page.
                headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            }
            if head { respond::without_body(response) } else { response }
        })
    }

    fn handle(&self, request: http::Request<HttpBody>) -> impl Future<Output = Response<HttpBody>> + Send {
        let span = tracing::debug_span!("router", method = %request.method(), path = request.uri().path());
        let served = AssertUnwindSafe(self.dispatch(request)).catch_unwind();
        let served = tracing::Instrument::instrument(served, span);
        served.map(|served| served.unwrap_or_else(|_| refusal(&kstore_registry::error::panicked())))
    }

    /// The audit ID of the request: the client's, or a new one.
    fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= AUDIT_ID_BYTES);
        given.cloned().unwrap_or_else(|| {
            let id = self.pipeline.nondet().rng.uuid();
            HeaderValue::from_str(&id).expect("a uuid is plain ASCII")
        })
    }

    async fn dispatch(&self, request: http::Request<HttpBody>) -> Response<HttpBody> {
        let (mut parts, body) = request.into_parts();
        let range = ViewRange::take(&mut parts);
        let identified = self.authenticate(&parts).await;
        let identified = match self.trail() {
            None => identified,
            Some(trail) => Box::pin(audited::record_arrival(trail, &parts, identified)).await,
        };
        let user = match identified {
            Ok(user) => {
                access::authenticated(&parts.extensions, &user);
                audit::record_impersonation(&user);
                user
            }
            Err(status) => return self.refuse_caller(&status, &parts.headers),
        };
        let slot = match AnonymousSlots::enter(&parts.extensions, &user) {
            Ok(slot) => slot,
            Err(status) => return refusal_as(&status, content::of_status(&parts.headers)),
        };
        let view = match range {
            Ok(None) => None,
            // Boxed because it is rare.
            range => match Box::pin(self.open_view(range, &mut parts, &user)).await {
                Ok(view) => Some(view),
                Err(status) => return Box::pin(self.refuse_view(&parts, &user, status)).await,
            },
        };
        // An APIService with a Service takes precedence over kinds of this server with the same group and version.
        let remote = self.aggregator.remote(parts.uri.path());
        let kinds = view.as_ref().map_or_else(|| self.pipeline.cache().kinds(), |view| view.kinds.clone());
        let route = router::route(&kinds, parts.uri.path());
        let seats = self.ask_for_seats(&parts, &user, &route, remote.is_some());
        let (classified, entered) = seats.map(|seats| (seats.classified, seats.entered)).unzip();
        let seat = match entered.flatten() {
            Some(Entered::Running(seat)) => Some(seat),
            // Boxed because it is rare: otherwise the future of every request would be larger.
            Some(Entered::Waiting(waiting)) => Box::pin(self.wait_for_seats(waiting, &parts)).await,
            None => None,
        };
        // Not a function of its own: its future would hold the request a second time.
        let mut response = match route {
            route if classified.is_some() && seat.is_none() => self.refuse_without_seats(&parts, &route),
            route if viewed::is_refused(view.as_deref(), &parts, &route, remote.is_some()) => {
                let status = view.as_ref().expect("only views refuse").read_only();
                Box::pin(self.refuse_view(&parts, &user, status)).await
            }
            _ if remote.is_some() => {
                let api = remote.expect("the guard has seen it");
                let (body, _seat) = seats::given_back_if_slow(body, seat);
                self.proxy_aggregated(&api, parts, body, &user).await
            }
            Route::Path => self.paths.serve(&parts, &user).await,
            Route::UnknownGroup(location) => self.refuse_group(&parts, &user, &location).await,
            Route::UnknownResource(location) => {
                self.refuse(&parts, &user, &location, Status::no_such_route()).await
            }
            Route::Resource(path) => match stream::StreamKind::of(&path) {
                Some(which) => patient(self.streams.serve(which, parts, &user, path).await),
                None if stream::is_proxy(&path) => {
                    patient(self.streams.proxy(parts, body, &user, path).await)
                }
                None => self.resource(parts, body, user, path, seat).await,
            },
        };
        if let Some(classified) = classified {
            classified.add_headers(response.headers_mut());
        }
        self.finished(response, view.as_deref(), slot)
    }

    /// The answer with what its view says of it, and with the slot of an anonymous caller until it has been sent.
    fn finished(
        &self,
        mut response: Response<HttpBody>,
        view: Option<&View>,
        slot: Option<AnonymousSlot>,
    ) -> Response<HttpBody> {
        if let Some(view) = view {
            self.mark_view(view, response.headers_mut());
        }
        match slot {
            None => response,
            Some(slot) => slot.until_sent(response),
        }
    }

    /// Refuses a request whose caller is unknown, or may not act as the user that it names.
    fn refuse_caller(&self, status: &Status, headers: &HeaderMap) -> Response<HttpBody> {
        let mut refusal = refusal_as(status, content::of_status(headers));
        if let Some(challenge) = self.pipeline.challenge().filter(|_| status.code == 401) {
            refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        refusal
    }

    async fn authenticate(&self, parts: &Parts) -> Result<Arc<UserInfo>, Status> {
        if let Some(identified) = parts.extensions.get() {
            return Ok(self.pipeline.take_over(identified));
        }
        let authentication =
            self.pipeline.authenticate(parts.extensions.get(), authn::RequestHead::of(parts));
        tracing::Instrument::instrument(authentication, tracing::debug_span!("authn")).await
    }

    async fn resource(
        &self,
        mut parts: Parts,
        body: HttpBody,
        user: Arc<UserInfo>,
        path: ResourcePath,
        mut seat: Option<Seat>,
    ) -> Response<HttpBody> {
        let query = Query::parse(parts.uri.query());
        let resource = path.resource;
        let operation = router::operation(&parts.method, &path, query.flag("watch"));
        let watches = matches!(operation, Some(Operation::Watch));
        let offer = content::Offer::of(resource, &path.subresource, watches);
        let agreed = content::accepted(&parts.headers, query.pretty(), offer)
            .and_then(|accepted| Ok((accepted, include(accepted, &query)?)));
        // Authorization failures take precedence: a caller that may not write is refused before the body is
        // read.
        if !body.is_end_stream() && self.authorize_write(&parts, &user, &path.location()).await.is_err() {
            let response = self.refuse(&parts, &user, &path.location(), Status::no_such_route()).await;
            self.count(operation, &path, response.status().as_u16());
            return response;
        }
        let decoded = match agreed {
            Ok(agreed) => {
                let head = RequestHead { parts: &parts, user: &user, path: &path };
                self.read(head, body, operation, &query, &mut seat).await.and_then(|decoded| {
                    let socket = watches.then(|| stream::Handshake::of(&mut parts)).transpose()?.flatten();
                    Ok((agreed, decoded, socket))
                })
            }
            Err(status) => Err(status),
        };
        let ((accepted, include), decoded, socket) = match decoded {
            Ok(decoded) => decoded,
            Err(status) => {
                let response = self.refuse(&parts, &user, &path.location(), status).await;
                self.count(operation, &path, response.status().as_u16());
                return response;
            }
        };
        let credentials =
            watches.then(|| self.pipeline.credentials_last(parts.extensions.get(), &parts.headers)).flatten();
        let custom = path.custom.clone();
        let has_seat = seat.is_some();
        let request = decoded.into_request(user, path);
        let watch_seat = if watches { seat.take() } else { None };
        let reply = Reply {
            resource,
            custom,
            accepted,
            include,
            gzip: content::takes_gzip(&parts.headers),
            gzips_watches: self.gzips_watches && socket.is_none(),
            watch: self.watch_lifetime(&request, credentials, watch_seat),
            converter: self.pipeline.converter().clone(),
            nondet: viewed::clock(&parts, self.pipeline.nondet()),
        };
        let kind = measured_as(&request);
        if let Some(bytes) = request.action.body_size() {
            self.pipeline.metrics().received(kind, bytes);
        }
        self.record_request(&request);
        let lists = matches!(request.action, Action::List(_));
        let answered = self.pipeline.serve_with(request, has_seat).await;
        self.record_answer(&reply, &answered);
        let accepted = answered.as_ref().is_ok_and(|answered| answered.accepted);
        let response = marked(reply.response(answered), accepted, lists || watches);
        let response = self.pipeline.metrics().sent(kind, response);
        let response = match seat.filter(|_| lists) {
            Some(seat) => seats::until_sent(response, seat),
            None => response,
        };
        match socket {
            Some(handshake) => self.streams.watch(handshake, response),
            None => response,
        }
    }

    /// The conditions that end a watch; of no use for other actions.
    fn watch_lifetime(
        &self,
        request: &Request,
        credentials: Option<Duration>,
        seat: Option<Seat>,
    ) -> watch::WatchLifetime {
        let (timeout_seconds, bookmarks, mark_initial_end) = match &request.action {
            Action::Watch(options) => (options.timeout_seconds, options.bookmarks, options.mark_initial_end),
            _ => (0, false, None),
        };
        let (seat, stop) = (seat.map(Arc::new), self.stop.clone());
        let is_past = request.bound.as_ref().is_some_and(|bound| bound.is_final());
        let definition = request.target.custom.clone().filter(|_| is_past);
        watch::WatchLifetime {
            timeout_seconds,
            credentials,
            bookmarks,
            mark_initial_end,
            definition,
            seat,
            stop,
        }
    }

    /// Reads and decodes a request for a resource, on its seat if the body arrives at once.
    async fn read(
        &self,
        head: RequestHead<'_>,
        body: HttpBody,
        operation: Option<Operation>,
        query: &Query,
        seat: &mut Option<Seat>,
    ) -> Result<DecodedRequest, Status> {
        let has_body = !body.is_end_stream();
        let decoding = pin!(self.decode(head, body, operation, query));
        match has_body {
            true => self.decode_on_seat(decoding, seat, head).await,
            false => decoding.await,
        }
    }

    /// Decodes the query, the headers and the body of a request for a resource.
    async fn decode(
        &self,
        RequestHead { parts, user, path }: RequestHead<'_>,
        body: HttpBody,
        operation: Option<Operation>,
        query: &Query,
    ) -> Result<DecodedRequest, Status> {
        let headers = &parts.headers;
        let agent = user_agent(headers);
        let fence = Fence::of(headers)?;
        let resource = path.resource;
        let operation = operation.ok_or_else(kstore_registry::error::no_such_method)?;
        let timeout = timeout::parse(query.get("timeout"))?;
        let subresource = match path.subresource.as_str() {
            "" => "",
            name => resource.subresource(name).map(|sub| sub.name).ok_or_else(|| match path.custom {
                Some(_) => Status::not_found(resource, &path.name),
                None => Status::no_such_route(),
            })?,
        };
        let filter = || query.filter(resource, &path.namespace, &path.name);
        let shown = |filter| self.pipeline.shown(filter, query.flag(query::UNINITIALIZED));
        let options = query.write_options(operation.options(), &agent)?;
        let action = match operation {
            Operation::Get => Action::Get(query.get_options()?),
            Operation::List => Action::List(query.list_options(shown(filter()?))?),
            Operation::Watch => {
                let begins_with_state = self.pipeline.cache().kinds().rows().opt_in().has_gate(WATCH_LIST);
                Action::Watch(query.watch_options(shown(filter()?), begins_with_state)?)
            }
            Operation::Create => Action::Create(self.read_body(headers, body, user).await?, options),
            Operation::Update => Action::Update(self.read_body(headers, body, user).await?, options),
            Operation::Patch => {
                let patch = content::patch_type(headers)?;
                check_apply(patch, query)?;
                Action::Patch(patch, self.bodies.read(&user.username, body).await?, options)
            }
            Operation::Delete => {
                let (delete, options) = self.delete_options(headers, body, user, query, options).await?;
                Action::Delete(delete, options)
            }
            Operation::DeleteCollection => {
                let list = query.list_options(filter()?)?;
                let (delete, options) = self.delete_options(headers, body, user, query, options).await?;
                Action::DeleteCollection(list, delete, options)
            }
        };
        let causes = kstore_registry::request::causes(header(headers, CAUSE));
        let (action, bound) = match parts.extensions.get::<Arc<View>>() {
            None => (action, parts.extensions.get().cloned()),
            Some(view) => view.bounded(action)?,
        };
        Ok(DecodedRequest { agent, causes, fence, timeout, bound, subresource, action })
    }

    /// Reads delete options from the body, or from the query if there is no body.
    async fn delete_options(
        &self,
        headers: &HeaderMap,
        body: HttpBody,
        user: &UserInfo,
        query: &Query,
        options: WriteOptions,
    ) -> Result<(DeleteOptions, WriteOptions), Status> {
        let bytes = self.bodies.read(&user.username, body).await?;
        if bytes.is_empty() {
            return Ok((query.delete_options()?, options));
        }
        if bytes.len() > limits::DELETE_OPTIONS_BYTES {
            return Err(Status::too_large(&format!("limit is {}", limits::DELETE_OPTIONS_BYTES)));
        }
        let format = content::body_format(headers)?;
        let tree = kstore_registry::decode::tree(&Body { format, bytes })?;
        delete_options::check(&tree)?;
        let dry_run = options.dry_run || delete_options::is_dry_run(&tree)?;
        Ok((delete_options::parse(&tree)?, WriteOptions { dry_run, ..options }))
    }

    async fn read_body(&self, headers: &HeaderMap, body: HttpBody, user: &UserInfo) -> Result<Body, Status> {
        let format = content::body_format(headers)?;
        Ok(Body { format, bytes: self.bodies.read(&user.username, body).await? })
    }
}

/// Marks an answer as accepted (202), and as one that is made while it is sent.
fn marked(mut response: Response<HttpBody>, is_accepted: bool, is_streamed: bool) -> Response<HttpBody> {
    if is_accepted {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    if is_streamed {
        response.extensions_mut().insert(AnswerKind::Streamed);
    }
    response
}

/// Marks the answer of a stream to a node or to a backend.
fn patient(mut response: Response<HttpBody>) -> Response<HttpBody> {
    response.extensions_mut().insert(AnswerKind::Patient);
    response
}

/// The `includeObject` parameter; it matters for tables only.
fn include(accepted: content::Accepted, query: &Query) -> Result<Include, Status> {
    match accepted.transform {
        content::Transform::Table(_) => Include::parse(query.get("includeObject")),
        content::Transform::None | content::Transform::Partial(_) => Ok(Include::Metadata),
    }
}

/// The decoded query, headers and body of a request.
struct DecodedRequest {
    agent: String,
    causes: Vec<i64>,
    fence: Option<Arc<Fence>>,
    timeout: Option<Duration>,
    bound: Option<Arc<dyn ReadBound>>,
    subresource: &'static str,
    action: Action,
}

impl DecodedRequest {
    /// Completes the request with its user and path.
    fn into_request(self, user: Arc<UserInfo>, path: ResourcePath) -> Request {
        let Self { agent, causes, fence, timeout, bound, subresource, action } = self;
        let ResourcePath { resource, custom, namespace, name, .. } = path;
        let target = Target { resource, custom, subresource, namespace, name };
        Request { user, agent, causes, fence, stage: None, group: None, timeout, bound, target, action }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Checks the query of a patch: an apply must name its field manager, and only an apply may be forced.
fn check_apply(patch: PatchType, query: &Query) -> Result<(), Status> {
    match (patch, query.get("fieldManager"), query.get("force")) {
        (PatchType::Apply, "", _) => {
            let problem = "Required value: is required for apply patch";
            Err(kstore_registry::error::invalid_option_of("PatchOptions", "fieldManager", problem))
        }
        (PatchType::Apply, _, _) | (_, _, "") => Ok(()),
        (_, _, _) => {
            let problem = "Forbidden: may not be specified for non-apply patch";
            Err(kstore_registry::error::invalid_option_of("PatchOptions", "force", problem))
        }
    }
}

/// The verb of a request outside the resource API: its HTTP method in lower case.
fn path_verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}
