//! What the page reads besides the Kubernetes API and `/kstore/v1/revisions`: `/kstore/v1/rows` and `/kstore/v1/changes`. Each object is
//! shown only to callers who may list its kind in its namespace.

mod changes;
mod limits;
mod row;
mod rows;
mod state;

use super::query::Query;
use super::respond::response;
use crate::answer_kind::AnswerKind;
use crate::memory_shares::MemoryBudget;
use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::Pipeline;
use kstore_registry::user::UserInfo;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The path of rows, for the document that lists all paths. `changes` is not in it, since it needs a parameter.
pub(super) const ROWS: &str = "/kstore/v1/rows";

/// The handler of these paths.
pub(super) struct PageData {
    pipeline: Arc<Pipeline>,
    stop: CancellationToken,
    /// Places for streams of changes; the units of the budget are streams and not bytes.
    streams: MemoryBudget,
}

impl PageData {
    /// A handler over a pipeline. `stop` ends open streams.
    pub(super) fn new(pipeline: Arc<Pipeline>, stop: CancellationToken) -> Self {
        let streams = MemoryBudget::new(limits::STREAMS, limits::STREAMS_OF_USER, 0);
        Self { pipeline, stop, streams }
    }

    /// The answer to a path; `None` for paths that are not the page's.
    pub(super) async fn answer(
        &self,
        path: &str,
        query: Option<&str>,
        user: &UserInfo,
    ) -> Option<Result<Response<Body>, Status>> {
        let query = Query::parse(query);
        Some(match path {
            ROWS => rows::rows(self.pipeline.clone(), &query, user)
                .await
                .map(|lines| stream(Body::from_stream(lines))),
            "/kstore/v1/changes" => self.changes(&query, user).await,
            _ => return None,
        })
    }

    async fn changes(&self, query: &Query, user: &UserInfo) -> Result<Response<Body>, Status> {
        let place = self.streams.share(&user.username).try_reserve(1).ok_or_else(|| {
            let text = format!(
                "{} streams of changes are open, or {} of this user, which is the most: close a page",
                limits::STREAMS,
                limits::STREAMS_OF_USER
            );
            Status::too_many_requests(text, 5)
        })?;
        let held = changes::Held { place, stop: self.stop.clone() };
        let lines = changes::changes(self.pipeline.clone(), query, user, held).await?;
        Ok(stream(Body::from_stream(lines)))
    }
}

/// The first revision from which changes are told, of a history from `oldest` to `newest`.
pub(super) fn first_of_changes(oldest: i64, newest: i64) -> i64 {
    oldest.max(newest - limits::PAST_REVISIONS)
}

/// A revision in a parameter.
fn revision(parameter: &str, text: &str) -> Result<i64, Status> {
    text.parse()
        .ok()
        .filter(|revision| *revision > 0)
        .ok_or_else(|| Status::bad_request(format!("the parameter {parameter} is not a revision: {text:?}")))
}

/// Whether objects of a kind have rows. Leases are heartbeats, which explain nothing.
fn is_shown(resource: &Resource) -> bool {
    !resource.is("coordination.k8s.io", "leases")
}

fn stream(body: Body) -> Response<Body> {
    let mut response = response(StatusCode::OK, "application/jsonl", body);
    response.extensions_mut().insert(AnswerKind::Streamed);
    response
}

/// Lines of JSON that are not sent yet.
#[derive(Default)]
struct Lines(BytesMut);

impl Lines {
    fn push(&mut self, line: &Value) {
        self.0.put_slice(line.to_string().as_bytes());
        self.0.put_u8(b'\n');
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_full(&self) -> bool {
        self.0.len() >= limits::CHUNK_BYTES
    }

    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.0).freeze()
    }
}
