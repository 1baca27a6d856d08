//! Calls about lagging caches and the routes to them.

use super::{Call, Reply, parse};
use crate::cache::{CacheSpec, Caches, Freeze, Route, Thaw};
use crate::error::bad_request;
use crate::plan::execute::Executor;
use crate::values;
use bytes::Bytes;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;

/// The caches of the call's cluster, its newest revision, and the oldest one that is retained.
fn state(call: &Call) -> Result<(Executor, i64, i64), Status> {
    let bridge = call.cluster.current()?.bridge;
    let store = bridge.running.store();
    let (head, oldest) = (store.revision().0, store.compacted().0.max(1));
    Ok((
        Executor { running: bridge.running.clone(), perturbations: bridge.perturbations, log: bridge.log },
        head,
        oldest,
    ))
}

fn of(executor: &Executor) -> &Caches {
    &executor.perturbations.caches
}

/// `GET /caches`.
pub(super) fn list(call: &Call) -> Result<Reply, Status> {
    let (executor, head, _) = state(call)?;
    let names = of(&executor).names();
    let reports = names.iter().filter_map(|name| of(&executor).report(name, head).ok());
    Reply::ok(&json!({"caches": reports.collect::<Vec<_>>()}))
}

/// `PUT /caches/{name}`: makes a cache, which follows the newest state.
pub(super) fn put(call: &Call, name: &str) -> Result<Reply, Status> {
    values::name(name, "name")?;
    let spec: CacheSpec = parse::body(&call.body)?;
    let (executor, head, _) = state(call)?;
    of(&executor).put(name, spec)?;
    Reply::ok(&of(&executor).report(name, head)?)
}

/// `GET /caches/{name}`.
pub(super) fn get(call: &Call, name: &str) -> Result<Reply, Status> {
    let (executor, head, _) = state(call)?;
    Reply::ok(&of(&executor).report(name, head)?)
}

/// `DELETE /caches/{name}`: its clients see the newest state.
pub(super) fn delete(call: &Call, name: &str) -> Result<Reply, Status> {
    let (executor, ..) = state(call)?;
    of(&executor).delete(name);
    Reply::ok(&json!({"name": name, "deleted": true}))
}

/// `POST /caches/{name}/freeze`.
pub(super) fn freeze(call: &Call, name: &str) -> Result<Reply, Status> {
    let how: Freeze = parse::body(&call.body)?;
    let (executor, head, oldest) = state(call)?;
    of(&executor).freeze(name, &how, head, oldest)?;
    Reply::ok(&of(&executor).report(name, head)?)
}

/// `POST /caches/{name}/thaw`.
pub(super) async fn thaw(call: &Call, name: &str) -> Result<Reply, Status> {
    let how: Thaw = parse::body(&call.body)?;
    let (executor, head, _) = state(call)?;
    if how.step == Some(0) {
        return Err(bad_request("/step", "must be at least 1"));
    }
    of(&executor).report(name, head)?;
    executor.thaw(name, &how).await.map_err(|problem| bad_request("/step", problem))?;
    Reply::ok(&of(&executor).report(name, head)?)
}

/// `GET /routes`.
pub(super) fn routes(call: &Call) -> Result<Reply, Status> {
    Reply::ok(&of(&state(call)?.0).routes())
}

/// `PUT /routes`: replaces the routes, a list.
pub(super) fn set_routes(call: &Call) -> Result<Reply, Status> {
    let body = if call.body.is_empty() { Bytes::from_static(b"[]") } else { call.body.clone() };
    let list: Vec<Value> = parse::body(&body)?;
    let read = |(place, route): (usize, Value)| parse::part::<Route>(route, &format!("/{place}"));
    let routes = list.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let perturbations: Arc<_> = state(call)?.0.perturbations;
    perturbations.caches.route(routes)?;
    Reply::ok(&perturbations.caches.routes())
}
