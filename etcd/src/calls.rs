//! Handling common to all gRPC calls: the table of methods, counters of started and finished calls, and refusals before
//! a service is called. Also the access log: one INFO line for each unary call when it ends, and for each stream when
//! it starts. `pages` has the HTTP pages.

use crate::error;
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;
use tonic::{Code, Status};
use tracing::Level;

/// Header with the client's API version.
const CLIENT_VERSION: &str = "client-api-version";
/// Number of gRPC status codes.
const CODES: usize = 17;

/// The gRPC kind of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MethodKind {
    Unary,
    ServerStream,
    BidiStream,
}

/// Method paths with their kinds; sorted, because they are searched.
const METHODS: &[(&str, MethodKind)] = &[
    ("/etcdserverpb.Auth/AuthDisable", MethodKind::Unary),
    ("/etcdserverpb.Auth/AuthEnable", MethodKind::Unary),
    ("/etcdserverpb.Auth/AuthStatus", MethodKind::Unary),
    ("/etcdserverpb.Auth/Authenticate", MethodKind::Unary),
    ("/etcdserverpb.Auth/RoleAdd", MethodKind::Unary),
    ("/etcdserverpb.Auth/RoleDelete", MethodKind::Unary),
    ("/etcdserverpb.Auth/RoleGet", MethodKind::Unary),
    ("/etcdserverpb.Auth/RoleGrantPermission", MethodKind::Unary),
    ("/etcdserverpb.Auth/RoleList", MethodKind::Unary),
    ("/etcdserverpb.Auth/RoleRevokePermission", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserAdd", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserChangePassword", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserDelete", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserGet", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserGrantRole", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserList", MethodKind::Unary),
    ("/etcdserverpb.Auth/UserRevokeRole", MethodKind::Unary),
    ("/etcdserverpb.Cluster/MemberAdd", MethodKind::Unary),
    ("/etcdserverpb.Cluster/MemberList", MethodKind::Unary),
    ("/etcdserverpb.Cluster/MemberPromote", MethodKind::Unary),
    ("/etcdserverpb.Cluster/MemberRemove", MethodKind::Unary),
    ("/etcdserverpb.Cluster/MemberUpdate", MethodKind::Unary),
    ("/etcdserverpb.KV/Compact", MethodKind::Unary),
    ("/etcdserverpb.KV/DeleteRange", MethodKind::Unary),
    ("/etcdserverpb.KV/Put", MethodKind::Unary),
    ("/etcdserverpb.KV/Range", MethodKind::Unary),
    ("/etcdserverpb.KV/RangeStream", MethodKind::ServerStream),
    ("/etcdserverpb.KV/Txn", MethodKind::Unary),
    ("/etcdserverpb.Lease/LeaseGrant", MethodKind::Unary),
    ("/etcdserverpb.Lease/LeaseKeepAlive", MethodKind::BidiStream),
    ("/etcdserverpb.Lease/LeaseLeases", MethodKind::Unary),
    ("/etcdserverpb.Lease/LeaseRevoke", MethodKind::Unary),
    ("/etcdserverpb.Lease/LeaseTimeToLive", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/Alarm", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/Defragment", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/Downgrade", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/Hash", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/HashKV", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/MoveLeader", MethodKind::Unary),
    ("/etcdserverpb.Maintenance/Snapshot", MethodKind::ServerStream),
    ("/etcdserverpb.Maintenance/Status", MethodKind::Unary),
    ("/etcdserverpb.Watch/Watch", MethodKind::BidiStream),
    ("/grpc.health.v1.Health/Check", MethodKind::Unary),
    ("/grpc.health.v1.Health/Watch", MethodKind::ServerStream),
];

/// Counters of one method.
#[derive(Debug, Default)]
struct MethodCounters {
    started: AtomicU64,
    /// Finished calls by code. Streams do not count here, because their end is not visible at this level.
    handled: [AtomicU64; CODES],
}

/// Counters of all calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<[MethodCounters]>);

/// When a call started, if its end is to be logged. While the access log is off, a call pays one comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallStart(Option<Instant>);

/// One counter of [`Calls::counts`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallCount {
    pub(crate) service: &'static str,
    pub(crate) method: &'static str,
    pub(crate) kind: &'static str,
    /// The code of finished calls; none for the counter of started calls.
    pub(crate) ended: Option<Code>,
    pub(crate) count: u64,
}

/// Index of a method in the table of methods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodIndex(usize);

impl MethodIndex {
    /// The method at `path`.
    pub(crate) fn of(path: &str) -> Option<Self> {
        METHODS.binary_search_by_key(&path, |(path, _)| path).ok().map(Self)
    }

    /// Whether a call of the method has one request message.
    pub(crate) fn has_one_request(self) -> bool {
        METHODS[self.0].1 != MethodKind::BidiStream
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self(METHODS.iter().map(|_| MethodCounters::default()).collect())
    }
}

impl Calls {
    /// Routes a request to its service, unless it is refused before.
    pub(crate) async fn route<B>(self, router: Router, request: Request<B>) -> Response
    where
        Router: tower::Service<Request<B>, Response = Response, Error = std::convert::Infallible>,
    {
        let Some(at) = MethodIndex::of(request.uri().path()) else {
            return infallible(tower::ServiceExt::oneshot(router, request).await);
        };
        let started = self.count_started(at);
        let response = match refusal(request.headers()) {
            Some(status) => status.into_http::<Body>(),
            None => recode_oversized(infallible(tower::ServiceExt::oneshot(router, request).await)),
        };
        match response.headers().get("grpc-status") {
            Some(code) => self.count_finished(at, Code::from_bytes(code.as_bytes()), started),
            None if METHODS[at.0].1 == MethodKind::Unary => self.count_finished(at, Code::Ok, started),
            None => {}
        }
        response
    }

    /// Counts the start of a call.
    pub(crate) fn count_started(&self, MethodIndex(at): MethodIndex) -> CallStart {
        self.0[at].started.fetch_add(1, Ordering::Relaxed);
        let (path, kind) = METHODS[at];
        if kind != MethodKind::Unary {
            tracing::info!(path, "stream");
        }
        CallStart(tracing::enabled!(Level::INFO).then(Instant::now))
    }

    /// Counts and logs the end of a call.
    pub(crate) fn count_finished(
        &self,
        MethodIndex(at): MethodIndex,
        code: Code,
        CallStart(began): CallStart,
    ) {
        self.0[at].handled[code as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(began) = began {
            let (path, grpc_code, ms) =
                (METHODS[at].0, code as i32, began.elapsed().as_micros() as f64 / 1e3);
            tracing::info!(path, grpc_code, ms, "request");
        }
    }

    /// All counters except those that are zero.
    pub(crate) fn counts(&self) -> Vec<CallCount> {
        let mut lines = Vec::new();
        for ((path, kind), count) in METHODS.iter().zip(self.0.iter()) {
            let (service, method) = path[1..].split_once('/').expect("a path is service and method");
            let kind = match kind {
                MethodKind::Unary => "unary",
                MethodKind::ServerStream => "server_stream",
                MethodKind::BidiStream => "bidi_stream",
            };
            let mut line = |ended, count: &AtomicU64| match count.load(Ordering::Relaxed) {
                0 => {}
                count => lines.push(CallCount { service, method, kind, ended, count }),
            };
            line(None, &count.started);
            for (code, handled) in (0..).zip(&count.handled) {
                line(Some(Code::from_i32(code)), handled);
            }
        }
        lines
    }
}

fn infallible<T>(result: Result<T, std::convert::Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

fn refusal(headers: &HeaderMap) -> Option<Status> {
    let version = headers.get(CLIENT_VERSION)?;
    std::str::from_utf8(version.as_bytes()).is_err().then(|| error::INVALID_CLIENT_VERSION.into())
}

/// Replaces tonic's error for an oversized message; see [`error::oversized`].
fn recode_oversized(mut response: Response) -> Response {
    if response.headers().get("grpc-status").is_none_or(|status| status != "11") {
        return response;
    }
    let status = Status::from_header_map(response.headers());
    if let Some(status) = status.as_ref().and_then(error::oversized)
        && status.add_header(response.headers_mut()).is_err()
    {
        tracing::debug!("cannot encode the replaced status; sending the original one");
    }
    response
}

/// The response to an unknown path: a gRPC status for a gRPC call, otherwise HTTP 404.
pub(crate) async fn unknown(request: Request<Body>) -> Response {
    let is_grpc = |value: &http::HeaderValue| value.as_bytes().starts_with(b"application/grpc");
    if !request.headers().get(http::header::CONTENT_TYPE).is_some_and(is_grpc) {
        return (http::StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    let path = request.uri().path().trim_start_matches('/');
    let text = match path.rsplit_once('/') {
        Some((service, method))
            if METHODS.iter().any(|(known, _)| known[1..].starts_with(&format!("{service}/"))) =>
        {
            format!("unknown method {method} for service {service}")
        }
        Some((service, _)) => format!("unknown service {service}"),
        None => format!("malformed method name: {path:?}"),
    };
    Status::unimplemented(text).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_table_is_sorted() {
        assert!(METHODS.is_sorted_by_key(|(path, _)| path));
    }

    #[test]
    fn a_client_version_that_is_not_text_is_refused() {
        let mut headers = HeaderMap::new();
        assert!(refusal(&headers).is_none());
        headers.insert(CLIENT_VERSION, "3.5".parse().unwrap());
        assert!(refusal(&headers).is_none());
        headers.insert(CLIENT_VERSION, http::HeaderValue::from_bytes(b"\xff\xfe").unwrap());
        let status = refusal(&headers).unwrap();
        assert_eq!(
            (status.code(), status.message()),
            (Code::InvalidArgument, "etcdserver: invalid client api version")
        );
    }
}
