//! `GET /kstore/v1/changes`: a line for each revision after another one: when, by whom, because of what, and the new row of each object.
//! With `follow=1` the answer goes on with new revisions.

use super::limits;
use super::rows::{failure, of_raw};
use super::{Lines, first_of_changes, is_shown, revision};
use crate::memory_shares::Reserved;
use crate::rest::query::Query;
use crate::rest::rights::Rights;
use crate::view::history::oldest;
use async_stream::stream;
use bytes::Bytes;
use futures::Stream;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::Pipeline;
use kstore_registry::error;
use kstore_registry::provenance::Note;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::{RawBatch, RawEvent, ReadError};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a stream of changes holds until it ends.
pub(super) struct Held {
    /// Its place among the open ones.
    pub place: Reserved,
    /// The end of the server.
    pub stop: CancellationToken,
}

/// The changes after the revision that the query names.
///
/// # Errors
/// 400: the query, or too many past revisions; 410: the revision is not retained; 504: it does not exist yet.
pub(super) async fn changes(
    pipeline: Arc<Pipeline>,
    query: &Query,
    user: &UserInfo,
    held: Held,
) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + use<>, Status> {
    let newest = pipeline.cache().fresh().await.map_err(error::of_read)?;
    let (after, follows) = (revision("after", query.get("after"))?, query.flag("follow"));
    if after > newest {
        return Err(error::of_read(ReadError::Future { current: newest }));
    }
    let storage = pipeline.cache().storage().clone();
    let from = first_of_changes(oldest(&storage).await?, newest);
    if after < newest - limits::PAST_REVISIONS {
        let text =
            format!("there are too many revisions after {after}: the oldest revision to ask from is {from}");
        return Err(Status::bad_request(text));
    }
    let mut watch = storage.watch("", after).await.map_err(error::of_read)?;
    let mut rights = Rights::of(user);
    let deadline = Instant::now() + limits::STREAM_TIME;
    Ok(stream! {
        let Held { place: _place, stop } = held;
        let (mut lines, mut reached, mut is_current) = (Lines::default(), after, false);
        loop {
            if reached >= newest && !is_current {
                is_current = true;
                lines.push(&json!({"now": newest}));
            }
            // Past revisions are sent in large chunks, new ones at once.
            if lines.is_full() || (is_current && !lines.is_empty()) {
                yield Ok(lines.take());
            }
            if is_current && !follows {
                break;
            }
            let batch = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(deadline) => break,
                batch = watch.next() => batch,
            };
            match batch {
                Some(Ok(batch)) => {
                    reached = batch.revision;
                    if let Some(line) = line(&pipeline, &mut rights, &batch).await {
                        lines.push(&line);
                    }
                }
                Some(Err(read)) => {
                    lines.push(&failure(read));
                    break;
                }
                None => break,
            }
        }
        if !lines.is_empty() {
            yield Ok(lines.take());
        }
    })
}

/// The line of a commit; `None` if the caller may see none of its objects.
async fn line(pipeline: &Pipeline, rights: &mut Rights, batch: &RawBatch) -> Option<Value> {
    let mut objects = Vec::new();
    for event in &batch.events {
        objects.extend(object(pipeline, rights, batch.revision, event).await);
    }
    if objects.is_empty() {
        return None;
    }
    let note = batch.note.as_deref().and_then(Note::decode);
    let mut line = json!({"r": batch.revision, "o": objects});
    if let Some(note) = note {
        line["t"] = json!(note.time_us);
        line["w"] = json!([note.user, note.agent, note.verb]);
        if !note.causes.is_empty() {
            line["c"] = json!(note.causes);
        }
    }
    Some(line)
}

/// An object of a commit: resource, namespace, name, effect and the new row, `null` if it was deleted.
async fn object(pipeline: &Pipeline, rights: &mut Rights, revision: i64, event: &RawEvent) -> Option<Value> {
    let cache = pipeline.cache();
    let resource = cache.kinds().of_key(&event.key).filter(|resource| is_shown(resource))?;
    let (namespace, name) = resource.parse_key(std::str::from_utf8(&event.key).ok()?)?;
    if !rights.may_see(pipeline.authorizer(), cache, resource, (namespace, revision)).await {
        return None;
    }
    let (effect, row) = match &event.current {
        None => ("deleted", Value::Null),
        Some(raw) => {
            let effect = if raw.created == raw.revision { "created" } else { "updated" };
            (effect, of_raw(resource, raw).unwrap_or(Value::Null))
        }
    };
    Some(json!([resource.qualified(), namespace, name, effect, row]))
}
