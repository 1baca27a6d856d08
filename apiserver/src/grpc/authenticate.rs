//! Authentication of gRPC calls from the network before tonic reads their messages. Messages are read within the same
//! budget as REST bodies, and within the same time limit except those of a tunnel. The pipeline authorizes the call after
//! the message was decoded.

use super::call_body::CallBody;
use super::item_bounds::ItemBound;
use super::{Grpc, audited};
use crate::anonymous_slots::AnonymousSlots;
use crate::body_budget::BodyBudget;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Request, Response};
use kstore_access::audit::{self, Operation, Trail};
use kstore_access::authn::RequestHead;
use kstore_api::status::Status;
use kstore_registry::error::to_grpc;
use kstore_registry::user::{MASTERS, UserInfo};
use std::convert::Infallible;
use std::sync::Arc;
use tower::ServiceExt as _;

/// The path of the call whose message stream lasts as long as a node is connected.
const TUNNEL: &str = "/kstore.v1.Kstore/Tunnel";

/// The beginnings of the paths of all services.
const SERVICES: [&str; 3] = ["/kstore.v1.Kstore/", "/grpc.health.v1.Health/", "/grpc.reflection."];

/// Whether a request is a gRPC call. The router decides by the path alone, so a call without gRPC's content type is one
/// as well: it must not be served without the bounds on its messages.
pub(crate) fn is_call<B>(request: &Request<B>) -> bool {
    has_grpc_type(request) || SERVICES.iter().any(|service| request.uri().path().starts_with(service))
}

fn has_grpc_type<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a request that no gRPC service has matched is a call nevertheless. Resources and aggregated API servers may have any body: a
/// proxied pod may speak gRPC.
pub(crate) fn is_call_of_unknown_service<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    // In this order, as nearly every request that comes here is about a resource.
    !path.starts_with("/api/") && !path.starts_with("/apis/") && has_grpc_type(request)
}

/// The authenticated caller of a gRPC call, stored as an extension of the request before its message is read.
#[derive(Clone, Debug)]
pub(super) struct Authenticated(pub(super) Arc<UserInfo>);

/// The audit trail of a call, stored as an extension of the request before its message is read.
#[derive(Clone)]
pub(super) struct CallTrail(pub(super) Arc<Trail>);

/// Authenticates gRPC calls from the network, and limits their messages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CallAuthenticator {
    grpc: Grpc,
    budget: BodyBudget,
}

impl CallAuthenticator {
    /// An authenticator for the calls of a front end; `budget` is shared with REST bodies.
    pub(crate) fn new(grpc: Grpc, budget: BodyBudget) -> Self {
        Self { grpc, budget }
    }

    /// Whether a request, which need not be a call, is one of an administrator.
    pub(crate) async fn is_administrator(&self, parts: &Parts) -> bool {
        let found = self.grpc.pipeline.authenticate(parts.extensions.get(), RequestHead::of(parts)).await;
        found.is_ok_and(|user| user.groups.iter().any(|group| group == MASTERS))
    }

    /// Serves a call, or refuses it if its caller cannot be authenticated.
    pub(crate) async fn serve<B>(
        self,
        request: Request<B>,
        router: Router,
    ) -> Result<Response<Body>, Infallible>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let trail = self.begin_trail(&parts);
        let head = RequestHead::of_call(&parts.headers, parts.uri.path());
        let finding = self.grpc.pipeline.authenticate(parts.extensions.get(), head);
        let found = match &trail {
            None => finding.await,
            Some(trail) => audit::scope(trail.clone(), finding).await,
        };
        let entered = found.and_then(|user| Ok((AnonymousSlots::enter(&parts.extensions, &user)?, user)));
        let (slot, user) = match entered {
            Ok(entered) => entered,
            Err(status) => {
                if let Some(trail) = trail {
                    self.record_refusal(&trail, parts.uri.path(), &status).await;
                }
                return Ok(refusal(&status));
            }
        };
        if let Some(trail) = trail {
            parts.extensions.insert(CallTrail(trail));
        }
        // Every call is read through this body: without it nothing bounds the bytes that a caller sends.
        let (share, slow_share) = (self.budget.share(&user.username), self.budget.slow_share(&user.username));
        let body = match parts.uri.path() {
            TUNNEL => CallBody::of_messages(body, share, user.is_anonymous()),
            _ => CallBody::of_one_message(body, share, user.is_anonymous()).with_slow_share(slow_share),
        };
        parts.extensions.insert(Authenticated(user));
        let response = match ItemBound::of(parts.uri.path()) {
            None => router.oneshot(Request::from_parts(parts, body)).await?,
            Some(bound) => match bound.read(body).await {
                Ok(body) => router.oneshot(Request::from_parts(parts, body)).await?,
                Err(status) => status.into_http::<Body>(),
            },
        };
        Ok(match slot {
            None => response,
            Some(slot) => slot.until_sent(response),
        })
    }
}

impl CallAuthenticator {
    fn begin_trail(&self, parts: &Parts) -> Option<Arc<Trail>> {
        let audit = self.grpc.audit.as_ref()?;
        // Calls to other gRPC services of the port are not recorded.
        let path = parts.uri.path();
        path.starts_with(&audited::uri_of("")).then_some(())?;
        let nondet = self.grpc.pipeline.nondet();
        let id = nondet.rng.uuid();
        Some(Trail::begin(audit, nondet.clock, &id, path.to_owned(), &parts.headers, &parts.extensions))
    }

    /// Records a call that was refused before its message was read.
    async fn record_refusal(&self, trail: &Trail, path: &str, refused: &Status) {
        let (verb, version, path) = ("post".to_owned(), String::new(), path.to_owned());
        let operations = vec![Operation { verb, version, location: None, path }];
        if !trail.has_caller() {
            return trail.unauthenticated(operations, refused).await;
        }
        // The result does not matter, since the call is refused anyway.
        if trail.received(operations).await.is_ok() {
            trail.answered(self.grpc.pipeline.authorizer(), refused.code, Some(refused)).await;
        }
    }
}

impl Grpc {
    /// Refuses a call of a service that this server has not, with UNAUTHENTICATED if its caller has no valid credentials, as the services
    /// that it has.
    pub(crate) async fn refuse_unknown(&self, request: Request<Body>) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let path = parts.uri.path();
        if parts.extensions.get::<Authenticated>().is_none()
            && let Err(status) = self
                .pipeline
                .authenticate(parts.extensions.get(), RequestHead::of_call(&parts.headers, path))
                .await
        {
            return refusal(&status);
        }
        tonic::Status::unimplemented(format!("the server has no gRPC method {path}")).into_http::<Body>()
    }
}

fn refusal(status: &Status) -> Response<Body> {
    to_grpc(status).into_http::<Body>()
}
