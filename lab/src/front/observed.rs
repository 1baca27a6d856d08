//! Calls about what the lab has seen: clients, views, requests.

use super::{Call, Reply, parse};
use crate::client::identity::{ClientDefinition, glob};
use crate::error::{bad_request, ended, gone, not_found, too_many};
use crate::limits;
use crate::log::{Forgotten, LogFilter, LoggedRequest, RequestLog};
use crate::writes;
use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use kstore_api::status::Status;
use kstore_nondet::Clock;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

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

/// Parameters of `GET /requests`.
struct LogQuery {
    filter: LogFilter,
    since: Option<u64>,
    limit: Option<u64>,
    follows: bool,
}

impl LogQuery {
    fn of(call: &Call) -> Result<Self, Status> {
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
        // No log has as many requests, and there is a number after it.
        let since: Option<u64> = parse::parameter(&call.query, "since")?;
        let since = since.map(|since| since.min(u64::MAX - 1));
        let limit = parse::parameter(&call.query, "limit")?;
        let follows = parse::parameter(&call.query, "follow")?.unwrap_or(false);
        Ok(Self { filter, since, limit, follows })
    }
}

/// `GET /requests`.
pub(super) fn requests(call: &Call) -> Result<Reply, Status> {
    let query = LogQuery::of(call)?;
    if query.follows {
        return lines(Follower::begin(call, query)?);
    }
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(limits::LOG_ANSWER);
    let log = call.cluster.current()?.bridge.log;
    let (found, next) =
        log.read(&query.filter, query.since, limit.min(limits::LOG_ANSWER)).map_err(dropped)?;
    Reply::ok(&json!({"requests": found, "next": next}))
}

/// The follower that a call about requests asks for, if it does.
pub(super) fn follower(call: &Call) -> Result<Option<Follower>, Status> {
    let query = LogQuery::of(call)?;
    query.follows.then(|| Follower::begin(call, query)).transpose()
}

/// A follower of a request log.
pub(super) struct Follower {
    log: Arc<RequestLog>,
    filter: LogFilter,
    next: u64,
    /// Requests that it may still get.
    left: u64,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    fn begin(call: &Call, query: LogQuery) -> Result<Self, Status> {
        let log = call.cluster.current()?.bridge.log;
        let permit = log.followers.clone().try_acquire_owned();
        let permit =
            permit.map_err(|_| too_many("followers", limits::FOLLOWERS, "too many followers of logs"))?;
        let next = query.since.unwrap_or_else(|| log.begin());
        // A position that the log no longer has is refused, and not only shown in the first line.
        log.follow(&query.filter, next, Clock::real().now()).map_err(dropped)?;
        let left = query.limit.unwrap_or(u64::MAX);
        Ok(Self { log, filter: query.filter, next, left, _permit: permit })
    }

    /// The next requests with the position after them, at most [`limits::FOLLOW_PIECE`]; `None` at the end.
    ///
    /// # Errors
    /// The log has dropped what comes next. The end follows.
    pub(super) async fn requests(&mut self) -> Result<Option<(Vec<LoggedRequest>, u64)>, Forgotten> {
        let log = self.log.clone();
        while self.left > 0 {
            let (added, answered) = log.next();
            tokio::pin!(added, answered);
            // Registered before the look, so that no request is missed.
            added.as_mut().enable();
            answered.as_mut().enable();
            let followed = match log.follow(&self.filter, self.next, Clock::real().now()) {
                Ok(None) => return Ok(None),
                Ok(Some(followed)) => followed,
                Err(forgotten) => {
                    self.left = 0;
                    return Err(forgotten);
                }
            };
            self.next = followed.next;
            let mut requests = followed.entries;
            requests.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            if let Some(last) = requests.last() {
                self.left -= requests.len() as u64;
                let next = if self.left == 0 { last.n } else { self.next };
                return Ok(Some((requests, next)));
            }
            let patience =
                if followed.is_held_back { limits::FOLLOW_PATIENCE } else { limits::PATIENCE_MOST };
            tokio::select! {
                biased;
                () = added => {}
                () = answered => {}
                () = tokio::time::sleep(patience) => {}
            }
        }
        Ok(None)
    }

    /// The next lines of JSON; `None` at the end.
    async fn lines(&mut self) -> Option<Bytes> {
        let requests = match self.requests().await {
            Ok(requests) => requests?.0,
            Err(forgotten) => return Some([&dropped(forgotten).to_json()[..], b"\n"].concat().into()),
        };
        let mut lines = Vec::new();
        for request in requests {
            serde_json::to_writer(&mut lines, &request).ok()?;
            lines.push(b'\n');
        }
        Some(lines.into())
    }
}

/// `GET /requests?follow=true`: a line of JSON for each request. A reader that falls behind the log gets a last line with a `Status`.
fn lines(follower: Follower) -> Result<Reply, Status> {
    let lines = stream::unfold(follower, |mut follower| async {
        let lines = follower.lines().await?;
        Some((Ok::<_, Infallible>(lines), follower))
    });
    Reply::stream("application/x-ndjson", None, Body::from_stream(lines))
}

/// The refusal of a position that the log no longer has.
fn dropped(forgotten: Forgotten) -> Status {
    gone(format!("the log begins with request {}: older ones were dropped", forgotten.oldest))
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
    let since = since.map(|since| since.clamp(0, i64::MAX - 1));
    let text = |name: &str| parse::text(&call.query, name).map(str::to_owned);
    let [client, resource, namespace, name] = ["client", "resource", "namespace", "name"].map(text);
    let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| glob(wanted, text));
    let bridge = call.cluster.current()?.bridge;
    let cluster = bridge.clone();
    let listing = bridge.running.call(async move {
        let since = since.unwrap_or_else(|| cluster.running.store().compacted().0);
        let filter = |write: &writes::Write| {
            let is_object = write.objects.iter().any(|object| {
                is(&resource, &object.resource)
                    && is(&namespace, &object.namespace)
                    && is(&name, &object.name)
            });
            is_object && is(&client, &write.client)
        };
        writes::list(&cluster.running, &cluster.log, (since, limit), filter).await
    });
    let (found, next) = listing.await.map_err(|_| ended())??;
    Reply::ok(&json!({"writes": found, "next": next}))
}

/// `GET /writes/{revision}`.
pub(super) async fn write(call: &Call, revision: &str) -> Result<Reply, Status> {
    let revision = revision.parse().map_err(|_| bad_request("revision", "must be a number"))?;
    let bridge = call.cluster.current()?.bridge;
    let cluster = bridge.clone();
    let reading =
        bridge.running.call(async move { writes::get(&cluster.running, &cluster.log, revision).await });
    Reply::ok(&reading.await.map_err(|_| ended())??)
}
