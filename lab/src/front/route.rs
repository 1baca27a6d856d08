//! Which handler serves a call, by method and path.

use super::{Call, Reply, clock, clusters, files, nodes, observed, parse, perturb, programs};
use crate::cluster::PREFIX;
use crate::limits;
use http::Method;
use kstore_api::status::Status;
use serde_json::json;

/// Serves a call.
///
/// # Errors
/// What the handler refuses; 404 for unknown paths, 405 for other methods.
pub(super) async fn dispatch(mut call: Call) -> Result<Reply, Status> {
    // Calls for another cluster than that of the port. Its own calls follow its name.
    let is_other = matches!(call.path.get(2).map(String::as_str), Some(next) if next != "reset");
    if call.path.first().is_some_and(|first| first == "clusters") && is_other {
        call.cluster = call.lab.cluster(&call.path[1])?;
        call.path.drain(..2);
    }
    let path: Vec<String> = call.path.clone();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let method = call.method.clone();
    match (&method, path.as_slice()) {
        (&Method::GET, []) => info(&call),
        (&Method::GET, ["clock"]) => Reply::ok(&call.cluster.clock()?),
        (&Method::PUT, ["clock"]) => clock::set(&call).await,
        (&Method::POST, ["clock", "advance"]) => clock::advance(&call).await,
        (&Method::POST, ["clock", "leap"]) => clock::leap(&call).await,
        (&Method::GET, ["clock", "wait"]) => clock::wait(&call).await,
        (&Method::POST, ["settled"]) => clock::settled(&call).await,
        (&Method::POST, ["quiet"]) => clock::quiet(&call).await,
        (&Method::POST, ["wait"]) => clock::wait_for_object(&call).await,
        (&Method::GET, ["clusters"]) => clusters::list(&call),
        (&Method::POST, ["clusters"]) => clusters::start(&call).await,
        (&Method::GET, ["clusters", id]) => Reply::ok(&call.lab.cluster(id)?.report()?),
        (&Method::DELETE, ["clusters", id]) => clusters::end(&call, id).await,
        (&Method::POST, ["clusters", id, "reset"]) => clusters::reset(&call, id).await,
        (&Method::GET, ["images"]) => clusters::images(&call),
        (&Method::POST, ["images"]) => clusters::take_image(&call).await,
        (&Method::DELETE, ["images", name]) => clusters::delete_image(&call, name),
        (&Method::GET, ["images", name, "file"]) => files::save(&call, name).await,
        (&Method::PUT, ["images", name, "file"]) => files::load(&mut call, name).await,
        (&Method::POST, ["kubeconfigs"]) => clusters::kubeconfig(&call).await,
        (&Method::POST, ["nodes", name, action @ ("stop" | "start")]) => {
            nodes::set_power(&call, name, *action == "stop").await
        }
        (&Method::GET, ["nodes", name, "faults"]) => nodes::faults(&call, name).await,
        (&Method::POST, ["nodes", name, "faults"]) => nodes::add_fault(&call, name).await,
        (&Method::DELETE, ["nodes", name, "faults"]) => nodes::heal(&call, name).await,
        (&Method::GET, ["clients"]) => observed::clients(&call),
        (&Method::PUT, ["clients", name]) => observed::define(&call, name),
        (&Method::DELETE, ["clients", name]) => observed::forget(&call, name),
        (&Method::GET, ["clients", name, "view"]) => observed::view(&call, name),
        (&Method::GET, ["requests"]) => observed::requests(&call),
        (&Method::DELETE, ["requests"]) => observed::clear(&call),
        (&Method::GET, ["writes"]) => observed::writes(&call).await,
        (&Method::GET, ["writes", revision]) => observed::write(&call, revision).await,
        (_, ["faults" | "caches" | "routes" | "plans", ..]) => perturb::dispatch(&call, &path).await,
        (&Method::GET, ["programs"]) => programs::list(&call),
        (&Method::POST, ["programs"]) => programs::start(&call).await,
        (&Method::GET, ["programs", name]) => programs::get(&call, name),
        (&Method::DELETE, ["programs", name]) => programs::end(&call, name).await,
        (&Method::POST, ["programs", name, "signal"]) => programs::signal(&call, name),
        (&Method::POST, ["programs", name, "start"]) => programs::start_again(&call, name).await,
        (method, path) => Err(unknown(method, path)),
    }
}

/// The refusal of a path or method that no row has.
pub(super) fn unknown(method: &Method, path: &[&str]) -> Status {
    let text = format!("the lab has no call {method} {PREFIX}/{}", path.join("/"));
    Status::foreign(404, "NotFound".to_owned(), text)
}

/// `GET /`: what this lab is.
fn info(call: &Call) -> Result<Reply, Status> {
    parse::only(&call.query, &[])?;
    let mut features = vec![
        "clock",
        "advance",
        "leap",
        "wait",
        "settled",
        "quiet",
        "clusters",
        "images",
        "files",
        "reset",
        "clients",
        "views",
        "requests",
        "writes",
        "kubeconfigs",
        "nodes",
        "node-faults",
        "grpc",
        "faults",
        "caches",
        "routes",
        "plans",
    ];
    if call.lab.allows_programs() {
        features.push("programs");
    }
    Reply::ok(&json!({
        "version": "v1",
        "kstore": env!("CARGO_PKG_VERSION"),
        "features": features,
        "cluster": call.cluster.config.id,
        "clock": call.cluster.clock()?,
        "bounds": {
            "clusters": call.lab.most_clusters(),
            "images": limits::IMAGES,
            "clients": limits::CLIENTS,
            "bodyBytes": limits::BODY_BYTES,
            "fileBytes": limits::FILE_BYTES,
            "count": limits::COUNT,
            "timeWaits": limits::TIME_WAITS,
            "rules": limits::RULES,
            "routes": limits::ROUTES,
            "caches": limits::CACHES,
            "plans": limits::PLANS,
            "actions": limits::PLAN_ACTIONS,
            "heldRequests": limits::HELD,
            "programs": limits::PROGRAMS,
            "logBytes": call.cluster.config.log_bytes,
        },
    }))
}
