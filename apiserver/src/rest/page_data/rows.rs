//! `GET /kstore/v1/rows`: a line for each object at one revision, of all kinds that the caller may list. The first line says which kinds.

use super::limits;
use super::row::row;
use super::{Lines, is_shown, revision};
use crate::rest::query::Query;
use crate::rest::rights::{Rights, Visible, exists_since};
use async_stream::stream;
use bytes::Bytes;
use futures::Stream;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::Pipeline;
use kstore_registry::error;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::{Raw, ReadError, prefix_end};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

/// A kind and the ranges of its keys that the caller may read.
struct Listed {
    resource: &'static Resource,
    prefixes: Vec<String>,
}

/// The rows at the revision that the query names.
///
/// # Errors
/// 400: the query; 410: the revision is not retained; 504: it does not exist yet.
pub(super) async fn rows(
    pipeline: Arc<Pipeline>,
    query: &Query,
    user: &UserInfo,
) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + use<>, Status> {
    let newest = pipeline.cache().fresh().await.map_err(error::of_read)?;
    let at = match query.get("at") {
        "" | "now" => newest,
        text => revision("at", text)?,
    };
    if at > newest {
        return Err(error::of_read(ReadError::Future { current: newest }));
    }
    // The revision is checked before the answer begins.
    let storage = pipeline.cache().storage().clone();
    storage.list("/registry/", "/registry0", 1, at).await.map_err(error::of_read)?;
    let (kinds, listed) = listed(&pipeline, user, at).await;
    Ok(stream! {
        let mut lines = Lines::default();
        lines.push(&json!({"revision": at, "newest": newest, "kinds": kinds}));
        let mut count = 0;
        'all: for Listed { resource, prefixes } in listed {
            for prefix in prefixes {
                let (mut start, end) = (prefix.clone(), prefix_end(&prefix));
                loop {
                    let page = match storage.list(&start, &end, limits::PAGE_OBJECTS, at).await {
                        Ok(page) => page,
                        Err(read) => {
                            lines.push(&failure(read));
                            yield Ok(lines.take());
                            return;
                        }
                    };
                    for raw in &page.items {
                        if count == limits::ROWS {
                            break 'all;
                        }
                        if let Some(row) = of_raw(resource, raw) {
                            count += 1;
                            lines.push(&row);
                        }
                    }
                    if lines.is_full() {
                        yield Ok(lines.take());
                    }
                    match page.items.last().filter(|_| page.more).and_then(|raw| std::str::from_utf8(&raw.key).ok()) {
                        Some(last) => start = format!("{last}\0"),
                        None => break,
                    }
                }
            }
        }
        lines.push(&json!({"end": count, "cut": count == limits::ROWS}));
        yield Ok(lines.take());
    })
}

/// The last line of an answer that cannot be completed.
pub(super) fn failure(read: ReadError) -> Value {
    let status = error::of_read(read);
    json!({"error": {"code": status.code, "message": status.message}})
}

/// The row of stored bytes; `None` if they are no object.
pub(super) fn of_raw(resource: &Resource, raw: &Raw) -> Option<Value> {
    let (namespace, name) = resource.parse_key(std::str::from_utf8(&raw.key).ok()?)?;
    if raw.undecrypted.is_some() {
        return None;
    }
    let object: Value = serde_json::from_slice(&raw.value).ok()?;
    Some(Value::Object(row(resource, namespace, name, &object)))
}

/// The kinds as the first line names them, and what of them to read.
async fn listed(pipeline: &Pipeline, user: &UserInfo, at: i64) -> (Vec<Value>, Vec<Listed>) {
    let (cache, mut rights) = (pipeline.cache(), Rights::of(user));
    let (mut kinds, mut listed) = (Vec::new(), Vec::new());
    let rows = cache.kinds();
    for resource in rows.rows().stored().filter(|resource| is_shown(resource)) {
        let visible = rights.visible(pipeline.authorizer(), cache, resource).await;
        let (extent, prefixes) = match visible {
            Visible::Everything => ("all", vec![resource.storage_prefix("")]),
            Visible::Namespaces(found) => {
                let since = |name: &&String| exists_since(cache, name).is_some_and(|created| created <= at);
                let prefixes: Vec<_> =
                    found.iter().filter(since).map(|name| resource.storage_prefix(name)).collect();
                (if found.is_empty() { "none" } else { "some" }, prefixes)
            }
        };
        kinds.push(json!({"resource": resource.qualified(), "group": resource.group, "version": resource.version,
            "plural": resource.plural, "kind": resource.kind, "namespaced": resource.namespaced, "visible": extent}));
        listed.push(Listed { resource, prefixes });
        tokio::task::yield_now().await;
    }
    (kinds, listed)
}
