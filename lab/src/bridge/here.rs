//! Requests of a cluster on the process's runtime: nothing has to be brought to another thread, so that the lab costs them as little as it
//! can.

use super::{BodyReader, Bridge, GuardedBytes, Stage, address, perturbed};
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
    pub(super) async fn serve_here(self, request: Request<Body>) -> Response<Body> {
        let waiting = self.clients.unidentified();
        let program = address(request.extensions())
            .and_then(|address| self.programs.of_peer(address, self.clients.port()));
        let (parts, body) = request.into_parts();
        let mut stage = self.arrive(&parts, program.as_deref()).await;
        drop(waiting);
        let (response, reader, control) = stage.answer(Request::from_parts(parts, body)).await;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        response.map(|body| {
            Body::new(ObservedBody { body, reader: Some(reader), stage, control, is_broken: false })
        })
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
