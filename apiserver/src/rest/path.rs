//! Paths outside the resource API: discovery, health, OpenAPI, version and metrics. `kstore` and `trace` have kstore's own.

use super::attempts::ATTEMPTS;
use super::content::Encoding;
use super::discovery::Discovery;
use super::document::compress;
use super::health::Health;
use super::kstore::WRITES;
use super::openapi::{self, OpenApi};
use super::ordered::Ordered;
use super::page_data::{self, PageData};
use super::query::Query;
use super::respond::{encode, plain, refusal, response};
use super::trace::TRACE;
use super::{accept, content, header, path_verb};
use crate::aggregator::{AggregatedApis, Aggregator};
use crate::answer_kind::AnswerKind;
use crate::attempt_source::AttemptSource;
use crate::view::View;
use crate::view::history::History;
use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Response, StatusCode};
use kstore_access::authz::{Attributes, More, Target};
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_metrics_text::{OPEN_METRICS, Page, TEXT, open_metrics};
use kstore_pipeline::fairness::{DUMPS, Dump};
use kstore_pipeline::pipeline::Pipeline;
use kstore_registry::kinds::{CustomVersion, Kinds};
use kstore_registry::user::{AUTHENTICATED, UserInfo};
use kstore_storage::{metrics, version};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Paths whose requests are counted in metrics.
const COUNTED: [&str; 7] =
    ["/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/readyz", "/version"];

/// How often building the documents is repeated when definitions change meanwhile. After that, a document may
/// be one change ahead of its tag until the next request.
const SNAPSHOT_TRIES: usize = 8;

/// The discovery and OpenAPI documents of the kinds that are served at one revision.
pub(crate) struct Documents {
    kinds: Arc<Kinds>,
    apis: Arc<AggregatedApis>,
    discovery: Arc<Discovery>,
    openapi: Arc<OpenApi>,
}

impl Documents {
    fn new(
        pipeline: &Pipeline,
        apis: Arc<AggregatedApis>,
        advertised: &str,
        previous: Option<&Self>,
    ) -> Self {
        let (cache, mut kinds) = (pipeline.cache(), pipeline.cache().kinds());
        let stored = |custom: &CustomVersion| openapi::stored_definition(cache, custom);
        let previous_openapi = previous.map(|documents| &*documents.openapi);
        let mut openapi = OpenApi::new(&kinds, &apis, previous_openapi, stored);
        // Definitions and kinds change together: if the kinds are still the newest, the definitions read
        // above belong to them.
        for _ in 0..SNAPSHOT_TRIES {
            let newest = cache.kinds();
            if Arc::ptr_eq(&kinds, &newest) {
                break;
            }
            kinds = newest;
            openapi = OpenApi::new(&kinds, &apis, previous_openapi, stored);
        }
        let known = previous.map(|documents| &documents.openapi).filter(|known| openapi.is_as(known));
        let openapi = known.cloned().unwrap_or_else(|| Arc::new(openapi));
        let previous = previous.map(|documents| &documents.discovery);
        let discovery = Discovery::new(advertised, &kinds, &apis, previous.map(Arc::as_ref));
        let known = previous.filter(|known| discovery.is_as(known));
        let discovery = known.cloned().unwrap_or_else(|| Arc::new(discovery));
        Self { discovery, openapi, kinds, apis }
    }

    /// The documents of a view: without the groups of aggregated API servers, which the view does not have.
    fn of_view(pipeline: &Pipeline, view: &View, apis: &AggregatedApis, advertised: &str) -> Self {
        let apis = Arc::new(AggregatedApis { services: apis.services.clone(), apis: Vec::new() });
        let cache = pipeline.cache();
        let stored = |custom: &CustomVersion| {
            view.definition(custom).or_else(|| openapi::stored_definition(cache, custom))
        };
        let openapi = Arc::new(OpenApi::new(&view.kinds, &apis, None, stored));
        let discovery = Arc::new(Discovery::new(advertised, &view.kinds, &apis, None));
        Self { discovery, openapi, kinds: view.kinds.clone(), apis }
    }
}

/// Views whose documents are kept for the next request.
const VIEWS: usize = 8;

/// The handler of these paths.
pub(super) struct Paths {
    pub(super) pipeline: Arc<Pipeline>,
    /// The times of revisions, for questions about the history.
    pub(super) revision_times: History,
    /// Those of the newest views.
    of_views: Mutex<VecDeque<Arc<Documents>>>,
    aggregator: Arc<Aggregator>,
    /// Those that were last built: `None` until a client asks for the first time.
    documents: Mutex<Option<Arc<Documents>>>,
    health: Health,
    page_data: PageData,
    /// The attempts of the scheduler in this process.
    pub(super) attempts: Option<Arc<dyn AttemptSource>>,
    stop: CancellationToken,
    advertised: String,
}

impl Paths {
    /// A handler for a pipeline that has started. `advertised` is the `host:port` in discovery documents;
    /// those that equal documents of another server, `known`, are shared with it. Readiness ends with `stop`.
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        aggregator: Arc<Aggregator>,
        (advertised, known): (&str, Option<&Documents>),
        stop: CancellationToken,
    ) -> Self {
        let cache = pipeline.cache().clone();
        let keys = cache.clone();
        let health =
            Health::new(move || cache.is_healthy()).with_kms(move || keys.storage().has_healthy_keys());
        health.set_bootstrapped();
        Self {
            documents: Mutex::new(known.map(|known| {
                Arc::new(Documents::new(&pipeline, aggregator.apis(), advertised, Some(known)))
            })),
            health,
            page_data: PageData::new(pipeline.clone(), stop.clone()),
            attempts: None,
            pipeline,
            revision_times: History::default(),
            of_views: Mutex::default(),
            aggregator,
            stop,
            advertised: advertised.into(),
        }
    }

    /// Adds what the scheduler of this process says about its attempts.
    pub(super) fn with_attempts(self, attempts: Option<Arc<dyn AttemptSource>>) -> Self {
        Self { attempts, ..self }
    }

    /// Serves a path outside the resource API.
    pub(super) async fn serve(&self, parts: &Parts, user: &UserInfo) -> Response<Body> {
        let path = parts.uri.path();
        let Some(counted) = COUNTED.iter().find(|counted| **counted == path) else {
            return self.answer(parts, user).await;
        };
        let kind = metrics::Kind::of_path(counted);
        let measured = self.pipeline.metrics().begin(kind, false);
        let response = self.answer(parts, user).await;
        measured.end(response.status().as_u16());
        self.pipeline.metrics().sent(kind, response)
    }

    /// The documents that were last built; they may be outdated.
    pub(super) fn last_documents(&self) -> Arc<Documents> {
        let last = self.documents.lock().clone();
        last.unwrap_or_else(|| self.documents())
    }

    /// The documents of the present kinds. The first request of all builds them, so that a start does not wait for
    /// them; the first request after a change rebuilds those that differ.
    fn documents(&self) -> Arc<Documents> {
        let mut documents = self.documents.lock();
        let (kinds, apis) = (self.pipeline.cache().kinds(), self.aggregator.apis());
        let is_present =
            |last: &&Arc<Documents>| Arc::ptr_eq(&last.kinds, &kinds) && Arc::ptr_eq(&last.apis, &apis);
        if let Some(present) = documents.as_ref().filter(is_present) {
            return present.clone();
        }
        let last = documents.as_deref();
        let made = Arc::new(Documents::new(&self.pipeline, apis.clone(), &self.advertised, last));
        *documents = Some(made.clone());
        made
    }

    /// The documents of a view.
    fn documents_of(&self, view: &View) -> Arc<Documents> {
        let mut kept = self.of_views.lock();
        if let Some(known) = kept.iter().find(|known| Arc::ptr_eq(&known.kinds, &view.kinds)) {
            return known.clone();
        }
        let made = Documents::of_view(&self.pipeline, view, &self.aggregator.apis(), &self.advertised);
        let made = Arc::new(made);
        kept.truncate(VIEWS - 1);
        kept.push_front(made.clone());
        made
    }

    /// The version of Kubernetes that is served.
    fn minor(&self) -> Minor {
        self.pipeline.cache().kinds().rows().opt_in().minor()
    }

    async fn answer(&self, parts: &Parts, user: &UserInfo) -> Response<Body> {
        let path = parts.uri.path();
        let may_see_authors = match self.authorized(parts, user).await {
            Ok(()) => true,
            // Rights on the objects suffice for what is told of them without the notes of writes.
            Err(_) if path == WRITES && user.groups.iter().any(|group| group == AUTHENTICATED) => false,
            Err(status) => return refusal(&status),
        };
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return refusal(&not_allowed(&parts.method));
        }
        if self.stop.is_cancelled() {
            self.health.set_stopping();
        }
        if let Some(found) = self.health.answer(path, parts.uri.query()) {
            return found.map(Body::from);
        }
        let now = self.pipeline.nondet().clock.now();
        if is_documented(path) {
            // Documents include everything that was answered before this request, such as a new kind.
            if let Err(error) = self.pipeline.cache().fresh().await {
                return refusal(&kstore_registry::error::of_read(error));
            }
            let documents = match parts.extensions.get::<Arc<View>>() {
                None => self.documents(),
                Some(view) => self.documents_of(view),
            };
            let query = parts.uri.query();
            let found = documents.discovery.answer(path, &parts.headers);
            let found = found.or_else(|| documents.openapi.answer(path, query, &parts.headers, now));
            if let Some(found) = found {
                return finish(found);
            }
        }
        // Boxed because it is rare: otherwise the future of every request would be larger.
        if let Some(found) = Box::pin(self.history(parts, user, may_see_authors)).await {
            return found.map_or_else(|status| refusal(&status), |found| json(parts, &found));
        }
        match path {
            "/version" | "/version/" => json(parts, &version::document(self.minor())),
            "/metrics" => metrics_page(parts, self.metrics()),
            "/metrics/slis" => {
                let mut page = String::new();
                self.health.render(&mut Page::new(&mut page));
                metrics_page(parts, page)
            }
            ATTEMPTS => Box::pin(self.attempts(parts, user))
                .await
                .map_or_else(|status| refusal(&status), |found| json(parts, &found)),
            "/.well-known/openid-configuration" => match self.pipeline.tokens() {
                Some(tokens) => json(parts, &tokens.configuration(self.keys_address(parts))),
                None => not_found(),
            },
            "/openid/v1/jwks" => match self.pipeline.tokens() {
                Some(tokens) => json(parts, &tokens.key_set()),
                None => not_found(),
            },
            "/" => {
                let dumps = if self.pipeline.fairness().is_some() { &DUMPS[..] } else { &[] };
                json(parts, &index(self.pipeline.cache().kinds().rows(), &self.aggregator.apis(), dumps))
            }
            // Boxed because they are rare: otherwise the future of every request would be larger.
            _ => match Box::pin(self.page_data.answer(path, parts.uri.query(), user)).await {
                Some(answer) => answer.unwrap_or_else(|status| refusal(&status)),
                None => self.dump(parts).unwrap_or_else(not_found),
            },
        }
    }

    /// The `host:port` at which the client of a request finds the keys of tokens. A loopback address is another server to a client
    /// elsewhere, such as a pod: then it is the one that the client used.
    fn keys_address<'a>(&'a self, parts: &'a Parts) -> &'a str {
        let is_local = self.advertised.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        let used = parts.uri.authority().map(Authority::as_str);
        let used = used.unwrap_or_else(|| header(&parts.headers, HOST.as_str()));
        if is_local && !used.is_empty() { used } else { &self.advertised }
    }

    /// A document about the priority levels; `None` for other paths.
    fn dump(&self, parts: &Parts) -> Option<Response<Body>> {
        let has_details = Query::parse(parts.uri.query()).get("includeRequestDetails") == "1";
        let dump = Dump::at(parts.uri.path(), has_details)?;
        let text = self.pipeline.fairness()?.dump(dump);
        Some(response(StatusCode::OK, "text/plain; charset=utf-8", Body::from(text)))
    }

    fn metrics(&self) -> String {
        let cache = self.pipeline.cache();
        let kinds = cache.kinds();
        self.pipeline
            .metrics()
            .render(self.minor(), kinds.rows().stored().map(|resource| (resource, cache.count(resource))))
    }

    /// Authorizes the request. A refusal must include everything that was answered before this request, so it
    /// is checked again after waiting for that. Waiting first would make health checks depend on the storage.
    async fn authorized(&self, parts: &Parts, user: &UserInfo) -> Result<(), Status> {
        match self.authorize(parts, user).await {
            Err(_) if self.pipeline.cache().fresh().await.is_ok() => self.authorize(parts, user).await,
            verdict => verdict,
        }
    }

    async fn authorize(&self, parts: &Parts, user: &UserInfo) -> Result<(), Status> {
        let verb = path_verb(&parts.method);
        let attributes =
            Attributes { user, verb: &verb, target: Target::Path(parts.uri.path()), more: More::default() };
        let began = Instant::now();
        let verdict = self.pipeline.authorizer().check(&attributes).await;
        self.pipeline.metrics().authorized(verdict.is_ok(), began.elapsed());
        verdict
    }

    /// Whether the user may read every object, also of kinds that are not served.
    pub(super) async fn may_read_everything(&self, user: &UserInfo) -> bool {
        let all = Target::Resource { group: "*", resource: "*", subresource: "", namespace: "", name: "" };
        let attributes = Attributes { user, verb: "get", target: all, more: More::default() };
        self.pipeline.authorizer().check(&attributes).await.is_ok()
    }

    /// The stored resource that the parameter `resource` names: plural, optionally `.group`.
    pub(super) fn stored_resource(&self, query: &Query) -> Result<&'static Resource, Status> {
        let (plural, group) = query.get("resource").split_once('.').unwrap_or((query.get("resource"), ""));
        let kinds = self.pipeline.cache().kinds();
        let mut stored = kinds.rows().stored();
        let found = stored.find(|row| row.plural == plural && (group.is_empty() || row.group == group));
        found.ok_or_else(|| Status::bad_request(format!("unknown resource {:?}", query.get("resource"))))
    }
}

/// The namespace that the parameter `namespace` names, or that objects of a kind with namespaces have without it.
pub(super) fn namespace_of<'q>(resource: &Resource, query: &'q Query) -> &'q str {
    match query.get("namespace") {
        "" if resource.namespaced => "default",
        namespace => namespace,
    }
}

/// A metrics page in the format and encoding that the caller accepts; the text format if it accepts neither.
fn metrics_page(parts: &Parts, text: String) -> Response<Body> {
    let open = |clause: &accept::Clause| clause.media == "application/openmetrics-text";
    let plain = |clause: &accept::Clause| clause.accepts("text/plain");
    let wanted = accept::clauses(&parts.headers).into_iter().find(|clause| open(clause) || plain(clause));
    let (media, text) = if wanted.is_some_and(|clause| open(&clause)) {
        (OPEN_METRICS, open_metrics(&text))
    } else {
        (TEXT, text)
    };
    if !content::takes_gzip(&parts.headers) {
        return response(StatusCode::OK, media, Body::from(text));
    }
    let mut response = response(StatusCode::OK, media, Body::from(compress(text.as_bytes())));
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response
}

fn finish(found: Result<Response<Bytes>, Status>) -> Response<Body> {
    match found {
        Ok(found) => {
            let mut response = found.map(Body::from);
            response.extensions_mut().insert(AnswerKind::Shared);
            response
        }
        Err(status) => refusal(&status),
    }
}

/// Encodes a value that is not an API object, indented for people.
fn json(parts: &Parts, value: &Value) -> Response<Body> {
    let offer = content::Offer { tables: false, protobuf: false, stream: false };
    let made = content::accepted(&parts.headers, Some(true), offer).and_then(|accepted| {
        let body = match accepted.encoding {
            Encoding::PrettyJson => {
                serde_json::to_vec_pretty(&Ordered(value)).map_err(Status::internal)?.into()
            }
            other => encode(value, other).map_err(Status::internal)?,
        };
        Ok(response(StatusCode::OK, accepted.encoding.content_type(), Body::from(body)))
    });
    made.unwrap_or_else(|status| refusal(&status))
}

/// Whether discovery or OpenAPI may have a document for the path.
fn is_documented(path: &str) -> bool {
    ["/api", "/openapi"].iter().any(|prefix| path.starts_with(prefix))
}

fn index(rows: &kind::Kinds, apis: &AggregatedApis, dumps: &[&str]) -> Value {
    let others = ["/api", "/api/v1", "/apis", "/metrics", "/metrics/slis"];
    let own =
        ["/kstore/v1/history", "/kstore/v1/resolve", "/kstore/v1/revisions", page_data::ROWS, TRACE, WRITES];
    let documents = ["/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"];
    let tokens = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
    let mut paths: Vec<String> = others
        .iter()
        .chain(&own)
        .chain(&documents)
        .chain(&tokens)
        .chain(dumps)
        .map(|path| (*path).to_owned())
        .collect();
    paths.extend(Health::paths());
    for group in rows.groups().filter(|group| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(rows.versions(group).map(|version| format!("/apis/{group}/{version}")));
    }
    for api in &apis.apis {
        paths.extend([format!("/apis/{}", api.service.group), api.service.path()]);
    }
    paths.sort();
    paths.dedup();
    json!({ "paths": paths })
}

fn not_allowed(method: &Method) -> Status {
    let mut status = Status::bad_request(format!("the method {method} is not allowed on this path"));
    status.code = 405;
    status.reason = kstore_api::status::Reason::MethodNotAllowed;
    status
}

/// Kubernetes' answer for unknown paths.
pub(super) fn not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found")
}
