//! Priority and fairness of REST requests: each is classified by its head, before its body is read, and runs on
//! the seats of its priority level. Requests of components in this process and streams to nodes need none.

use super::query::Query;
use super::respond::refusal_as;
use super::router::{self, ResourcePath, Route};
use super::{HttpBody, Rest, content, stream, timeout};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use http_body::{Body as _, Frame, SizeHint};
use kstore_access::peer::Peer;
use kstore_access::resource_location::ResourceLocation;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_pipeline::fairness::{
    Classified, DigestTarget, Entered, ListFacts, RequestDigest, RequestSummary, Seat, Waiting, Work,
    list_work, namespace_of, path_verb, write_work,
};
use kstore_pipeline::pipeline::TOO_MANY;
use kstore_registry::selectors;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use kstore_storage::observed_body::{ObservedBody, ignore};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// A request with the answer of its priority level.
pub(super) struct SeatRequest {
    pub(super) classified: Classified,
    /// `None` if its level rejects it.
    pub(super) entered: Option<Entered>,
}

/// What is known of a request for a resource before its body is read.
#[derive(Clone, Copy)]
pub(super) struct RequestHead<'r> {
    pub(super) parts: &'r Parts,
    pub(super) user: &'r Arc<UserInfo>,
    pub(super) path: &'r ResourcePath,
}

/// A request as its priority level sees it.
struct ResourceRequest<'a> {
    resource: Option<&'static Resource>,
    group: &'a str,
    plural: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    has_watch_path: bool,
}

impl<'a> ResourceRequest<'a> {
    /// The resource of a route; `None` for a path outside the resource API.
    fn of(route: &'a Route, is_aggregated: bool) -> Option<Self> {
        match route {
            Route::Path => None,
            Route::Resource(path) => {
                let resource_request = Self::of_path(path);
                Some(Self {
                    resource: resource_request.resource.filter(|_| !is_aggregated),
                    ..resource_request
                })
            }
            Route::UnknownGroup(location) | Route::UnknownResource(location) => Some(Self::unknown(location)),
        }
    }

    fn of_path(path: &'a ResourcePath) -> Self {
        Self {
            resource: Some(path.resource),
            group: path.resource.group,
            plural: path.resource.plural,
            subresource: &path.subresource,
            namespace: match path.resource.is("", "namespaces") {
                true => &path.name,
                false => &path.namespace,
            },
            name: &path.name,
            has_watch_path: path.watch,
        }
    }

    fn unknown(location: &'a ResourceLocation) -> Self {
        Self {
            resource: None,
            group: &location.group,
            plural: &location.resource,
            subresource: &location.subresource,
            namespace: namespace_of(location),
            name: &location.name,
            has_watch_path: location.watch,
        }
    }

    fn verb(&self, method: &Method, query: &Query) -> &'static str {
        match *method {
            Method::GET | Method::HEAD if self.subresource.is_empty() && self.watches(query) => "watch",
            Method::GET | Method::HEAD if self.name.is_empty() => "list",
            Method::GET | Method::HEAD => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            ref other => path_verb(other),
        }
    }

    fn watches(&self, query: &Query) -> bool {
        self.has_watch_path || query.flag("watch")
    }
}

impl Rest {
    /// Asks the priority level of a request for seats; `None` if the request needs none.
    pub(super) fn ask_for_seats(
        &self,
        parts: &Parts,
        user: &Arc<UserInfo>,
        route: &Route,
        is_aggregated: bool,
    ) -> Option<SeatRequest> {
        if matches!(parts.extensions.get(), Some(Peer::InProcess(_))) || is_stream(route) {
            return None;
        }
        self.ask(parts, user, ResourceRequest::of(route, is_aggregated))
    }

    fn ask(
        &self,
        parts: &Parts,
        user: &Arc<UserInfo>,
        resource_request: Option<ResourceRequest<'_>>,
    ) -> Option<SeatRequest> {
        let fairness = self.pipeline.fairness()?;
        let query = Query::parse(parts.uri.query());
        let (verb, target) = match &resource_request {
            None => (path_verb(&parts.method), DigestTarget::Path(parts.uri.path())),
            Some(resource_request) => (
                resource_request.verb(&parts.method, &query),
                DigestTarget::Resource {
                    group: resource_request.group,
                    resource: resource_request.plural,
                    subresource: resource_request.subresource,
                    namespace: resource_request.namespace,
                },
            ),
        };
        let classified = fairness.classify(&RequestDigest { user, verb, target });
        let work = resource_request
            .map_or(Work::of(1), |resource_request| self.work(&classified, &resource_request, verb, &query));
        let entered = classified.enter(work, verb == "watch", RequestSummary::new(user, verb, &parts.uri));
        Some(SeatRequest { classified, entered })
    }

    /// The work of a request about a resource.
    fn work(
        &self,
        classified: &Classified,
        resource_request: &ResourceRequest<'_>,
        verb: &str,
        query: &Query,
    ) -> Work {
        let Some(resource) = resource_request.resource else { return Work::of(1) };
        let (cache, nominal) = (self.pipeline.cache(), classified.nominal_seats());
        match verb {
            "list" => list_work(list_facts(cache.count(resource), query), nominal),
            "watch" if begins_with_state(query) => {
                list_work(list_facts(cache.count(resource), query), nominal)
            }
            // A token is no stored object.
            "create" if resource_request.subresource == "token" => Work::of(1),
            "create" | "update" | "patch" | "delete" | "deletecollection" => {
                let watchers =
                    cache.watchers(resource, resource_request.namespace, resource_request.name) as u64;
                classified.count_watchers(watchers);
                write_work(watchers, nominal)
            }
            _ => Work::of(1),
        }
    }

    /// Waits for seats, for at most a quarter of the request's timeout.
    pub(super) async fn wait_for_seats(&self, waiting: Waiting, parts: &Parts) -> Option<Seat> {
        let _queued = self.pipeline.metrics().queue(!matches!(parts.method, Method::GET | Method::HEAD));
        let query = Query::parse(parts.uri.query());
        let timeout = timeout::parse(query.get("timeout")).ok().flatten();
        let limit =
            timeout.unwrap_or(limits::REQUEST_TIMEOUT).min(limits::REQUEST_TIMEOUT) / limits::WAIT_PARTS;
        waiting.granted(limit.max(Duration::from_millis(1))).await
    }

    /// Reads and decodes a request that has a seat. If its body does not arrive within [`limits::SEAT_WAITS_FOR_BODY`], others get the
    /// seat, and the request asks for one again when its body is there: who sends no body keeps no one from being served.
    ///
    /// # Errors
    /// The request cannot be decoded; 429 if its user sends too many bodies slowly, or there is no seat for it afterwards.
    pub(super) async fn decode_on_seat<T>(
        &self,
        mut decoding: Pin<&mut impl Future<Output = Result<T, Status>>>,
        seat: &mut Option<Seat>,
        RequestHead { parts, user, path }: RequestHead<'_>,
    ) -> Result<T, Status> {
        if seat.as_ref().is_none_or(Seat::is_exempt) {
            return decoding.await;
        }
        if let Ok(decoded) = tokio::time::timeout(limits::SEAT_WAITS_FOR_BODY, decoding.as_mut()).await {
            return decoded;
        }
        *seat = None;
        let slow = self.bodies.slow_share(&user.username).try_reserve(limits::SLOW_BODY_BYTES);
        let Some(_slow) = slow else { return Err(Status::too_many_requests(TOO_MANY, 1)) };
        let decoded = decoding.await?;
        let entered = self
            .ask(parts, user, Some(ResourceRequest::of_path(path)))
            .and_then(|resource_request| resource_request.entered);
        *seat = match entered {
            Some(Entered::Running(seat)) => Some(seat),
            Some(Entered::Waiting(waiting)) => self.wait_for_seats(waiting, parts).await,
            None => None,
        };
        match seat {
            Some(_) => Ok(decoded),
            None => Err(Status::too_many_requests(TOO_MANY, 1)),
        }
    }

    /// Refuses a request for which its level has no seats.
    pub(super) fn refuse_without_seats(&self, parts: &Parts, route: &Route) -> Response<HttpBody> {
        let status = Status::too_many_requests(TOO_MANY, 1);
        if let Route::Resource(path) = route {
            self.count(operation(parts, path), path, status.code);
        }
        refusal_as(&status, content::of_status(&parts.headers))
    }
}

fn operation(parts: &Parts, path: &ResourcePath) -> Option<router::Operation> {
    router::operation(&parts.method, path, Query::parse(parts.uri.query()).flag("watch"))
}

/// Whether the request opens a stream to a node or to a backend, which lasts as long as its client wants.
fn is_stream(route: &Route) -> bool {
    match route {
        Route::Resource(path) => stream::StreamKind::of(path).is_some() || stream::is_proxy(path),
        _ => false,
    }
}

/// Whether a watch begins with all objects.
fn begins_with_state(query: &Query) -> bool {
    query.flag("sendInitialEvents") || matches!(query.get("resourceVersion"), "" | "0")
}

fn list_facts(stored: usize, query: &Query) -> ListFacts {
    let fields = query.get("fieldSelector");
    ListFacts {
        stored: stored as u64,
        limit: query.get("limit").parse().unwrap_or(0),
        is_single: fields.split(',').any(|field| field.trim().starts_with("metadata.name=")),
        has_selector: !fields.is_empty() || !query.get("labelSelector").is_empty(),
        requirements: selectors::estimate([fields, query.get("labelSelector")]),
        reads_history: query.get("resourceVersionMatch") == "Exact",
    }
}

/// The response to a list, whose seats are free once its body has been sent. In a level with a limit, each
/// chunk gives way to other requests.
pub(super) fn until_sent(response: Response<HttpBody>, seat: Seat) -> Response<HttpBody> {
    response.map(|body| match seat.is_exempt() {
        true => HttpBody::new(ObservedBody::new(body, seat, ignore)),
        false => HttpBody::new(YieldingBody { inner: body, must_yield: false, _seat: seat }),
    })
}

/// A body that lets other tasks run between two of its chunks. Lists are encoded as they are sent: without a
/// pause, a few of them would occupy all threads for longer than small requests take altogether.
struct YieldingBody {
    inner: HttpBody,
    must_yield: bool,
    _seat: Seat,
}

impl http_body::Body for YieldingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if std::mem::take(&mut self.must_yield) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        self.must_yield = matches!(polled, Poll::Ready(Some(Ok(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The seat of a request that is passed on to another server, until its body has turned out to be slow.
pub(super) type SharedSeat = Arc<Mutex<Option<Seat>>>;

/// The body of a request that is passed on: others get the request's seat if it does not arrive within
/// [`limits::SEAT_WAITS_FOR_BODY`]. The request has its seat at most until what is returned with the body is dropped.
pub(super) fn given_back_if_slow(body: HttpBody, seat: Option<Seat>) -> (HttpBody, SharedSeat) {
    let shared = Arc::new(Mutex::new(seat));
    if body.is_end_stream() {
        return (body, shared);
    }
    let patience = Box::pin(sleep(limits::SEAT_WAITS_FOR_BODY));
    (HttpBody::new(ForwardedBody { inner: body, patience, seat: Some(shared.clone()) }), shared)
}

struct ForwardedBody {
    inner: HttpBody,
    patience: Pin<Box<Sleep>>,
    /// `None` after it was given back.
    seat: Option<SharedSeat>,
}

impl http_body::Body for ForwardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if polled.is_pending() && self.seat.is_some() && self.patience.as_mut().poll(context).is_ready() {
            let given_back = self.seat.take().and_then(|seat| seat.lock().take());
            drop(given_back);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[test]
    fn facts_of_a_list_are_read_from_its_query() {
        let facts = |query: &str| list_facts(700, &Query::parse(Some(query)));
        assert_eq!((facts("limit=50").limit, facts("limit=x").limit, facts("").limit), (50, 0, 0));
        assert!(facts("fieldSelector=metadata.name%3Da").is_single);
        assert!(!facts("fieldSelector=spec.nodeName%3Da").is_single);
        assert_eq!(facts("labelSelector=a,b,c&fieldSelector=metadata.name%3Da").requirements, 4);
        assert!(facts("labelSelector=a%3Db").has_selector && !facts("limit=5").has_selector);
        assert!(facts("resourceVersion=5&resourceVersionMatch=Exact").reads_history);
        let begins = |query: &str| begins_with_state(&Query::parse(Some(query)));
        let table = [
            ("watch=1", true),
            ("watch=1&resourceVersion=0", true),
            ("watch=1&resourceVersion=7", false),
            ("watch=1&resourceVersion=7&sendInitialEvents=true", true),
        ];
        assert!(table.iter().all(|(query, expected)| begins(query) == *expected));
    }

    #[test]
    fn every_method_has_its_verb() {
        let location = |name: &str, subresource: &str| ResourceLocation {
            resource: "pods".into(),
            name: name.into(),
            subresource: subresource.into(),
            ..ResourceLocation::default()
        };
        let verb = |method: &Method, name: &str, subresource: &str, query: &str| {
            ResourceRequest::unknown(&location(name, subresource)).verb(method, &Query::parse(Some(query)))
        };
        assert_eq!(verb(&Method::GET, "", "", ""), "list");
        assert_eq!(verb(&Method::GET, "a", "", ""), "get");
        assert_eq!(verb(&Method::HEAD, "", "", "watch=true"), "watch");
        assert_eq!(verb(&Method::GET, "a", "status", "watch=true"), "get");
        assert_eq!(verb(&Method::POST, "", "", ""), "create");
        assert_eq!(verb(&Method::PUT, "a", "", ""), "update");
        assert_eq!(verb(&Method::PATCH, "a", "", ""), "patch");
        assert_eq!(verb(&Method::DELETE, "a", "", ""), "delete");
        assert_eq!(verb(&Method::DELETE, "", "", ""), "deletecollection");
    }

    fn seat() -> Seat {
        let fairness = kstore_pipeline::fairness::Fairness::new(600, kstore_nondet::Nondet::simulated(1));
        let user = Arc::new(UserInfo::new("ann", [""; 0]));
        let digest = RequestDigest { user: &user, verb: "get", target: DigestTarget::Path("/") };
        let summary = RequestSummary::new(&user, "get", &http::Uri::from_static("/"));
        match fairness.classify(&digest).enter(Work::of(1), false, summary) {
            Some(Entered::Running(seat)) => seat,
            other => panic!("seats are free: {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_passed_on_gives_back_its_seat_if_its_body_does_not_arrive() {
        let silent = HttpBody::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>());
        let (mut body, seat_slot) = given_back_if_slow(silent, Some(seat()));
        let reading = tokio::time::timeout(limits::SEAT_WAITS_FOR_BODY / 2, body.frame()).await;
        assert!(reading.is_err() && seat_slot.lock().is_some());
        let reading = tokio::time::timeout(limits::SEAT_WAITS_FOR_BODY, body.frame()).await;
        assert!(reading.is_err() && seat_slot.lock().is_none());
        let (body, seat_slot) = given_back_if_slow(HttpBody::from("{}"), Some(seat()));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
        assert!(seat_slot.lock().is_some(), "the other server works on it");
    }

    #[tokio::test]
    async fn a_list_gives_way_after_each_chunk_and_is_complete() {
        let seat = seat();
        let chunks = ["a", "b"].map(|chunk| Ok::<_, axum::Error>(Bytes::from_static(chunk.as_bytes())));
        let body = HttpBody::from_stream(futures::stream::iter(chunks));
        let mut body = until_sent(Response::new(body), seat).into_body();
        let mut others = 0;
        let mut whole = Vec::new();
        loop {
            tokio::select! {
                biased;
                frame = body.frame() => match frame {
                    Some(frame) => whole.extend(frame.unwrap().into_data().unwrap()),
                    None => break,
                },
                () = std::future::ready(()) => others += 1,
            }
        }
        assert_eq!((whole.as_slice(), others), (&b"ab"[..], 2));
    }
}
