//! Authentication of gRPC calls from the network before tonic reads the message. The message is read within
//! the same budget and time limit as a REST body. The pipeline authorizes the call after the message was
//! decoded.

use super::Grpc;
use super::audited;
use crate::anonymous_slots::AnonymousSlots;
use crate::audit::{self, Operation, Trail};
use crate::authn::UserInfo;
use crate::body_budget::BodyBudget;
use crate::error::to_grpc;
use crate::limits;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kstore_api::status::Status;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tower::ServiceExt as _;

/// The path of the call whose message stream lasts as long as a node is connected.
const TUNNEL: &str = "/kstore.v1.Kstore/Tunnel";

/// Whether a request is a gRPC call.
pub(crate) fn is_call<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
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
        let (peer, path) = (parts.extensions.get(), parts.uri.path());
        let finding = self.grpc.pipeline.authenticate(peer, &parts.headers, path);
        let found = match &trail {
            None => finding.await,
            Some(trail) => audit::scope(trail.clone(), finding).await,
        };
        let entered = found.and_then(|user| Ok((AnonymousSlots::enter(&parts.extensions, &user)?, user)));
        let (_slot, user) = match entered {
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
        let limit = match user.is_anonymous() {
            true => limits::ANONYMOUS_MESSAGE_BYTES,
            false => limits::BODY_BYTES + limits::GRPC_OVERHEAD_BYTES,
        };
        let is_endless = parts.uri.path() == TUNNEL;
        parts.extensions.insert(Authenticated(user));
        if is_endless {
            return router.oneshot(Request::from_parts(parts, body)).await;
        }
        let body = CallBody {
            inner: body,
            budget: self.budget,
            limit,
            read: 0,
            reserved: None,
            deadline: Box::pin(sleep(limits::BODY_TIME)),
        };
        router.oneshot(Request::from_parts(parts, body)).await
    }
}

impl CallAuthenticator {
    fn begin_trail(&self, parts: &Parts) -> Option<Arc<Trail>> {
        let audit = self.grpc.audit.as_ref()?;
        // Calls to other gRPC services of the port are not recorded.
        let path = parts.uri.path();
        path.starts_with(&audited::uri_of("")).then_some(())?;
        let nondet = self.grpc.pipeline.nondet();
        let (id, head) = (nondet.rng.uuid(), (&parts.headers, &parts.extensions));
        Some(Trail::begin(audit, nondet.clock, &id, path.to_owned(), head))
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

fn refusal(status: &Status) -> Response<Body> {
    to_grpc(status).into_http::<Body>()
}

/// The message of a unary call. Its bytes are reserved from the budget as they arrive, until tonic has
/// decoded them.
struct CallBody<B> {
    inner: B,
    budget: BodyBudget,
    /// Bytes of the longest permitted message.
    limit: usize,
    read: usize,
    reserved: Option<OwnedSemaphorePermit>,
    deadline: Pin<Box<Sleep>>,
}

impl<B> http_body::Body for CallBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            ready!(this.deadline.as_mut().poll(context));
            let text = format!("the message did not arrive within {} s", limits::BODY_TIME.as_secs());
            return Poll::Ready(Some(Err(tonic::Status::deadline_exceeded(text).into())));
        };
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            this.read += bytes;
            if this.read > this.limit {
                let text = format!("a message of this caller has at most {} bytes", this.limit);
                return Poll::Ready(Some(Err(tonic::Status::resource_exhausted(text).into())));
            }
            match this.budget.try_reserve(bytes) {
                Ok(more) => match &mut this.reserved {
                    Some(reserved) => reserved.merge(more),
                    None => this.reserved = Some(more),
                },
                Err(busy) => {
                    let status = tonic::Status::resource_exhausted(busy.to_string());
                    return Poll::Ready(Some(Err(status.into())));
                }
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
