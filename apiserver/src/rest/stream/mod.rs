//! The streaming subresources of a pod: `log`, `exec`, `attach`, `portforward`. Authorizes requests, finds
//! the container and its node, and negotiates the protocol. The node interprets the data.

mod expiry;
mod log;
mod portforward;
mod protocol;
mod proxy;
mod remote;
mod remote_spdy;
mod upgrade;
mod watch;
mod websocket;

use super::query::Query;
use super::respond::refusal;
use super::router::ResourcePath;
use crate::tunnel::{OpenError, Reader, Tunnels, Writer};
use axum::body::Body;
pub(super) use expiry::Expiry;
use http::request::Parts;
use http::{Method, Response};
use kstore_api::status::{Reason, Status};
use kstore_pipeline::pipeline::Pipeline;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::of_read;
use kstore_registry::request::Target;
use kstore_registry::user::UserInfo;
use kstore_storage::{limits, metrics};
pub(super) use proxy::{escape, headers, is_proxy, peer};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use upgrade::Upgrade;
pub(super) use websocket::Handshake;

/// The kind of a stream: the streaming subresource that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// The log of a container.
    Log,
    /// A command in a container.
    Exec,
    /// The streams of a container's main process.
    Attach,
    /// Connections to ports of the pod.
    PortForward,
}

impl StreamKind {
    /// The kind of the stream that a path names; `None` for other paths.
    pub(super) fn of(path: &ResourcePath) -> Option<Self> {
        match (path.resource.group, path.resource.plural, path.subresource.as_str()) {
            ("", "pods", "log") => Some(Self::Log),
            ("", "pods", "exec") => Some(Self::Exec),
            ("", "pods", "attach") => Some(Self::Attach),
            ("", "pods", "portforward") => Some(Self::PortForward),
            _ => None,
        }
    }

    fn subresource(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }

    /// The kind of the options for admission; `None` for logs, which are not subject to admission.
    fn options_kind(self) -> Option<&'static str> {
        match self {
            Self::Log => None,
            Self::Exec => Some("PodExecOptions"),
            Self::Attach => Some("PodAttachOptions"),
            Self::PortForward => Some("PodPortForwardOptions"),
        }
    }

    /// The verb in metrics.
    fn measured(self) -> &'static str {
        match self {
            Self::Log => "GET",
            Self::Exec | Self::Attach | Self::PortForward => "CONNECT",
        }
    }
}

/// The handler of streaming subresources.
pub(super) struct Streams {
    pipeline: Arc<Pipeline>,
    tunnels: Arc<Tunnels>,
    stop: CancellationToken,
}

/// One authorized request for a stream.
struct StreamRequest<'a> {
    target: Target,
    query: &'a Query,
    user: &'a str,
    expiry: Expiry,
}

impl Streams {
    /// A handler for a pipeline and the tunnels to the nodes. `stop` ends open streams.
    pub(super) fn new(pipeline: Arc<Pipeline>, tunnels: Arc<Tunnels>, stop: CancellationToken) -> Self {
        Self { pipeline, tunnels, stop }
    }

    /// Serves one request. It does not count as a request in flight and has no timeout, but ends when its
    /// caller's credentials expire.
    pub(super) async fn serve(
        &self,
        which: StreamKind,
        parts: Parts,
        user: &UserInfo,
        path: ResourcePath,
    ) -> Response<Body> {
        let expiry = self.expiry(&parts);
        let target = Target {
            resource: path.resource,
            custom: path.custom,
            subresource: which.subresource(),
            namespace: path.namespace,
            name: path.name,
        };
        let kind =
            metrics::Kind::of(which.measured(), target.resource, which.subresource(), "", &target.name);
        let measured = self.pipeline.metrics().begin(kind, false);
        let response = self.allowed(which, parts, user, target, expiry).await.unwrap_or_else(|s| refusal(&s));
        measured.end(response.status().as_u16());
        response
    }

    async fn allowed(
        &self,
        which: StreamKind,
        mut parts: Parts,
        user: &UserInfo,
        target: Target,
        expiry: Expiry,
    ) -> Result<Response<Body>, Status> {
        let verb = match parts.method {
            Method::GET | Method::HEAD => "get",
            Method::POST if which != StreamKind::Log => "create",
            ref other => {
                let verb = other.as_str().to_ascii_lowercase();
                return Err(Status::method_not_allowed(target.resource, &verb));
            }
        };
        self.pipeline.cache().fresh().await.map_err(of_read)?;
        self.pipeline.check(user, verb, &target, &target.name).await?;
        if which != StreamKind::Log && verb != "create" {
            // A WebSocket handshake is a GET, and other upgrades may use one too. The stream itself requires
            // the permission to create.
            self.pipeline.check(user, "create", &target, &target.name).await?;
        }
        let query = Query::parse(parts.uri.query());
        if which != StreamKind::Log && !query.get("dryRun").is_empty() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        if let Some(kind) = which.options_kind() {
            let options = || connect_options(kind, &query);
            self.pipeline.admit_stream(user, &target, options).await?;
        }
        let upgrade = Upgrade::of(&mut parts)?;
        let request = StreamRequest { target, query: &query, user: &user.username, expiry };
        match (which, upgrade) {
            (StreamKind::Log, Some(Upgrade::WebSocket(handshake))) => {
                self.log_socket(&request, handshake).await
            }
            (StreamKind::Log, Some(Upgrade::Spdy(_)) | None) => self.log(&request).await,
            (StreamKind::PortForward, upgrade) => self.port_forward(&request, upgrade),
            (StreamKind::Exec | StreamKind::Attach, Some(Upgrade::WebSocket(handshake))) => {
                self.remote(which, &request, handshake).await
            }
            (StreamKind::Exec | StreamKind::Attach, Some(Upgrade::Spdy(handshake))) => {
                self.remote_spdy(which, &request, handshake).await
            }
            (StreamKind::Exec | StreamKind::Attach, None) => {
                self.remote_request(which, &request)?;
                Err(no_upgrade())
            }
        }
    }

    /// The expiry of a request's credentials.
    pub(super) fn expiry(&self, parts: &Parts) -> Expiry {
        Expiry::after(self.pipeline.credentials_last(parts.extensions.get(), &parts.headers))
    }

    /// Opens a stream of a user to a node and waits until the node has accepted it. `url` is the kubelet's URL of the
    /// stream, for error texts.
    async fn open(&self, user: &str, open: pb::StreamOpen, url: &str) -> Result<(Reader, Writer), Status> {
        let unreachable = |why: &dyn std::fmt::Display, node: &str| unreachable(url, node, why);
        let node = open.node.clone();
        let stream = match self.tunnels.open(user, open) {
            Ok(stream) => stream,
            Err(error @ OpenError::NoTunnel) => return Err(unreachable(&error, &node)),
            Err(busy) => return Err(Status::service_unavailable(busy.to_string())),
        };
        match tokio::time::timeout(limits::STREAM_BEGIN, stream.begun()).await {
            Ok(Ok(halves)) => Ok(halves),
            Ok(Err(Some(status))) => Err(*status),
            Ok(Err(None)) => Err(unreachable(&"the tunnel ended", &node)),
            Err(_) => Err(unreachable(&"the node does not answer", &node)),
        }
    }
}

/// The query of a stream as an options object for admission.
fn connect_options(kind: &str, query: &Query) -> Value {
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for flag in ["stdin", "stdout", "stderr", "tty"].into_iter().filter(|flag| query.flag(flag)) {
        options[flag] = json!(true);
    }
    let container = query.get("container");
    if !container.is_empty() {
        options["container"] = json!(container);
    }
    let command: Vec<&str> = query.all("command").collect();
    if !command.is_empty() {
        options["command"] = json!(command);
    }
    let ports: Vec<u16> = query.all("ports").filter_map(|port| port.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = json!(ports);
    }
    options
}

/// 500 with the text of a real server that cannot reach a kubelet.
fn unreachable(url: &str, node: &str, why: &dyn std::fmt::Display) -> Status {
    let mut status = Status::internal("");
    status.message = format!("Get \"https://{node}:10250/{url}\": dial {node}: {why}");
    status.reason = Reason::Unknown;
    status.details = None;
    status
}

/// 400 with Kubernetes' text: the request lacks an upgrade to a streaming protocol.
fn no_upgrade() -> Status {
    Status::bad_request("Upgrade request required")
}
