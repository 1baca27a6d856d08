//! Calls about what the lab has seen: clients, views, requests.

use super::{Call, Reply, parse};
use crate::client::identity::{ClientDefinition, glob};
use crate::error::{bad_request, ended, gone, not_found};
use crate::limits;
use crate::log::LogFilter;
use crate::writes;
use kstore_api::status::Status;
use serde_json::json;

/// `GET /clients`.
pub(super) fn clients(call: &Call) -> Result<Reply, Status> {
    let reports = call.cluster.current()?.bridge.clients.reports(None);
    Reply::ok(&json!({"clients": reports}))
}

/// `PUT /clients/{name}`.
pub(super) fn define(call: &Call, name: &str) -> Result<Reply, Status> {
    let definition: ClientDefinition = parse::body(&call.body)?;
    if name.is_empty() || name.chars().count() > limits::NAME_CHARS {
        return Err(bad_request("name", format!("must have 1 to {} characters", limits::NAME_CHARS)));
    }
    let clients = call.cluster.current()?.bridge.clients;
    clients.define(name, definition)?;
    let report = clients.reports(Some(name)).pop();
    report.map_or_else(|| Err(not_found("client", name)), |report| Reply::ok(&report))
}

/// `DELETE /clients/{name}`.
pub(super) fn forget(call: &Call, name: &str) -> Result<Reply, Status> {
    call.cluster.current()?.bridge.clients.forget(name);
    Reply::ok(&json!({"name": name, "deleted": true}))
}

/// `GET /clients/{name}/view`.
pub(super) fn view(call: &Call, name: &str) -> Result<Reply, Status> {
    let view = call.cluster.current()?.bridge.clients.view(name);
    view.map_or_else(|| Err(not_found("client", name)), |view| Reply::ok(&view))
}

/// `GET /requests`.
pub(super) fn requests(call: &Call) -> Result<Reply, Status> {
    let known = [
        "client",
        "user",
        "agent",
        "verb",
        "resource",
        "namespace",
        "name",
        "code",
        "since",
        "limit",
        "follow",
    ];
    parse::only(&call.query, &known)?;
    let text = |name: &str| parse::text(&call.query, name).map(str::to_owned);
    let filter = LogFilter {
        client: text("client"),
        user: text("user"),
        agent: text("agent"),
        verb: text("verb"),
        resource: text("resource"),
        namespace: text("namespace"),
        name: text("name"),
        code: parse::parameter(&call.query, "code")?,
    };
    if parse::parameter(&call.query, "follow")?.unwrap_or(false) {
        return Err(crate::error::not_there_yet("following the request log"));
    }
    let limit = parse::parameter(&call.query, "limit")?.unwrap_or(limits::LOG_ANSWER).min(limits::LOG_ANSWER);
    let since = parse::parameter(&call.query, "since")?;
    let log = call.cluster.current()?.bridge.log;
    let (found, next) = log.read(&filter, since, limit).map_err(|forgotten| {
        gone(format!("the log begins with request {}: older ones were dropped", forgotten.oldest))
    })?;
    Reply::ok(&json!({"requests": found, "next": next}))
}

/// `DELETE /requests`.
pub(super) fn clear(call: &Call) -> Result<Reply, Status> {
    call.cluster.current()?.bridge.log.clear();
    Reply::ok(&json!({"cleared": true}))
}

/// `GET /writes`.
pub(super) async fn writes(call: &Call) -> Result<Reply, Status> {
    parse::only(&call.query, &["since", "limit", "client", "resource", "namespace", "name"])?;
    let limit = parse::parameter(&call.query, "limit")?.unwrap_or(limits::LOG_ANSWER).min(limits::LOG_ANSWER);
    let since: Option<i64> = parse::parameter(&call.query, "since")?;
    let text = |name: &str| parse::text(&call.query, name).map(str::to_owned);
    let [client, resource, namespace, name] = ["client", "resource", "namespace", "name"].map(text);
    let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| glob(wanted, text));
    let bridge = call.cluster.current()?.bridge;
    let asked = bridge.clone();
    let listing = bridge.running.call(async move {
        let since = since.unwrap_or_else(|| asked.running.store().compacted().0);
        let filter = |write: &writes::Write| {
            let is_object = write.objects.iter().any(|object| {
                is(&resource, &object.resource)
                    && is(&namespace, &object.namespace)
                    && is(&name, &object.name)
            });
            is_object && is(&client, &write.client)
        };
        writes::list(&asked.running, &asked.log, (since, limit), filter).await
    });
    let (found, next) = listing.await.map_err(|_| ended())??;
    Reply::ok(&json!({"writes": found, "next": next}))
}

/// `GET /writes/{revision}`.
pub(super) async fn write(call: &Call, revision: &str) -> Result<Reply, Status> {
    let revision = revision.parse().map_err(|_| bad_request("revision", "must be a number"))?;
    let bridge = call.cluster.current()?.bridge;
    let asked = bridge.clone();
    let reading = bridge.running.call(async move { writes::get(&asked.running, &asked.log, revision).await });
    Reply::ok(&reading.await.map_err(|_| ended())??)
}
