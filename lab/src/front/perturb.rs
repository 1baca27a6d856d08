//! Which handler serves a call about faults, caches, routes and plans.

use super::{Call, Reply, caches, faults, plans, route};
use http::Method;
use kstore_api::status::Status;

/// Serves a call.
///
/// # Errors
/// What the handler refuses; 404 for unknown paths and methods.
pub(super) async fn dispatch(call: &Call, path: &[&str]) -> Result<Reply, Status> {
    match (&call.method, path) {
        (&Method::GET, ["faults"]) => faults::get(call),
        (&Method::PUT, ["faults"]) => faults::set(call),
        (&Method::DELETE, ["faults"]) => faults::clear(call),
        (&Method::GET, ["faults", "counts"]) => faults::counts(call),
        (&Method::GET, ["caches"]) => caches::list(call),
        (&Method::PUT, ["caches", name]) => caches::put(call, name),
        (&Method::GET, ["caches", name]) => caches::get(call, name),
        (&Method::DELETE, ["caches", name]) => caches::delete(call, name),
        (&Method::POST, ["caches", name, "freeze"]) => caches::freeze(call, name),
        (&Method::POST, ["caches", name, "thaw"]) => caches::thaw(call, name).await,
        (&Method::GET, ["routes"]) => caches::routes(call),
        (&Method::PUT, ["routes"]) => caches::set_routes(call),
        (&Method::GET, ["plans"]) => plans::list(call),
        (&Method::POST, ["plans"]) => plans::start(call),
        (&Method::GET, ["plans", id]) => plans::get(call, id),
        (&Method::DELETE, ["plans", id]) => plans::end(call, id),
        (&Method::GET, ["plans", id, "events"]) => plans::events(call, id).await,
        (&Method::POST, ["plans", id, "resume"]) => plans::resume(call, id),
        (&Method::POST, ["plans", id, "steps"]) => plans::step(call, id),
        (method, path) => Err(route::unknown(method, path)),
    }
}
