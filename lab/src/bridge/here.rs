//! Requests of a cluster on the process's runtime: nothing has to be brought to another thread, so that the lab costs them as little as it
//! can.

use super::{BodyReader, Bridge, GuardedBytes, Stage, certified, perturbed};
use crate::request::CutForm;
use crate::watch::WatchControl;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

impl Bridge {
    /// Answers a request on the current runtime.
    pub(super) async fn serve_here(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        // Who sent a request of a connection with a certificate is known at once, unless programs run: then the system is asked.
        let known = certified(request.extensions()).filter(|_| !self.programs.has_any()).cloned();
        let (request, mut stage) = match known {
            Some(user) => {
                let (parts, body) = request.into_parts();
                let stage = self.arrive(&parts, Some(&user), None);
                (Request::from_parts(parts, body), stage)
            }
            // Boxed: otherwise the future of every request would be as large as that of an authentication.
            None => Box::pin(self.identified(request)).await,
        };
        let (response, reader, control) = stage.answer(request).await;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        response.map(|body| {
            Body::new(ObservedBody { body, reader: Some(reader), stage, control, is_broken: false })
        })
    }

    /// Finds out who sent a request, and notes it.
    async fn identified(self: Arc<Self>, request: Request<Body>) -> (Request<Body>, Stage) {
        let waiting = self.clients.unidentified();
        let program = self.program(&request);
        let (mut parts, body) = request.into_parts();
        let (user, identified) = match certified(&parts.extensions) {
            Some(user) => (Some(user.clone()), None),
            None => {
                let identified = self.running.api().identify_ahead(&parts).await.ok();
                (identified.as_ref().map(|identified| identified.user().clone()), identified)
            }
        };
        let stage = self.arrive(&parts, user.as_deref(), program.as_deref());
        // What may be held is authenticated when it is performed.
        if let Some(identified) = identified.filter(|_| stage.is_at_once()) {
            parts.extensions.insert(identified);
        }
        drop(waiting);
        (Request::from_parts(parts, body), stage)
    }
}

/// The body of an answer. The lab sees each frame when the connection takes it.
struct ObservedBody {
    body: Body,
    /// `None` after the end.
    reader: Option<BodyReader>,
    stage: Stage,
    /// Of a watch.
    control: Option<Arc<WatchControl>>,
    /// Whether a fault broke the body within a frame, which was its last.
    is_broken: bool,
}

impl http_body::Body for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_broken {
            self.finish();
            return Poll::Ready(Some(Err(perturbed::broken())));
        }
        let next = ready!(Pin::new(&mut self.body).poll_frame(context));
        let cut = self.control.as_deref().and_then(WatchControl::cut);
        self.is_broken = next.is_some() && cut == Some(CutForm::Frame);
        let Some(frame) = perturbed::cut(next, cut) else {
            self.finish();
            return Poll::Ready(None);
        };
        Poll::Ready(Some(frame.map(|frame| self.observed(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl ObservedBody {
    /// The frame, with a guard that notes when the connection drops its bytes.
    fn observed(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let Some(reader) = &mut self.reader else { return frame };
        let events = self.stage.read(&frame, reader);
        self.stage.bridge.perturbations.note_traffic();
        let guard = self.stage.active.frame(events);
        self.stage.note_traffic();
        frame.map_data(|bytes| Bytes::from_owner(GuardedBytes { bytes, _guard: guard }))
    }

    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.stage.ended(reader);
        }
    }
}

impl Drop for ObservedBody {
    /// A connection does not ask for more than the length of a body, and a client may leave.
    fn drop(&mut self) {
        self.finish();
    }
}
