//! gRPC health checks (`grpc.health.v1.Health/Check`): answers of simulated servers, and the questions of probes. Their messages have one
//! field, so they are read and written here.

use super::network::{Connection, PodNetwork, served};
use super::runner::ContainerBudget;
use super::{Snapshot, Streams};
use crate::limits::{HEALTH_MESSAGE, REQUEST_WORK};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kstore_container_sim::time::go_duration;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

/// The path of the one method.
const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The media type of questions and answers.
const GRPC: &str = "application/grpc";
/// The number of the field in question and answer: the service, and its status.
const FIELD: u8 = 1;
/// How protobuf marks a number, and bytes with their length.
const NUMBER: u8 = 0;
const TEXT: u8 = 2;
/// The timeout of a probe without one.
const USUAL: Duration = Duration::from_secs(1);

/// The status codes of gRPC that an answer may have here, and their names in Go.
const OK: u16 = 0;
const NOT_FOUND: u16 = 5;
const UNIMPLEMENTED: u16 = 12;
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
/// The statuses of a service by their numbers.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;

/// Answers health checks on a connection until its client leaves, as work of the container that `budget` is of. `is_healthy` knows the
/// services; `None` is for others.
pub(super) async fn serve<S>(
    stream: S,
    budget: Arc<ContainerBudget>,
    is_healthy: impl Fn(&str) -> Option<bool> + Clone + Send + Sync + 'static,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (budget, is_healthy) = (Arc::clone(&budget), is_healthy.clone());
        async move {
            budget.pay(REQUEST_WORK).await;
            if request.uri().path() != CHECK {
                return Ok(failure(UNIMPLEMENTED, "unknown service or method"));
            }
            let body = Limited::new(request.into_body(), HEALTH_MESSAGE).collect().await;
            let message = body.map(|body| body.to_bytes()).unwrap_or_default();
            let healthy = service_of(&message).and_then(|service| is_healthy(&service));
            Ok::<_, Infallible>(match healthy {
                Some(healthy) => success(if healthy { SERVING } else { NOT_SERVING }),
                None => failure(NOT_FOUND, "unknown service"),
            })
        }
    });
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // A client that breaks the rules of HTTP/2 has ended its connection.
    let _ = http.auto_date_header(false).serve_connection(TokioIo::new(stream), service).await;
}

type Body = BoxBody<Bytes, Infallible>;

fn success(status: u8) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(OK));
    let body = Full::new(framed(&[FIELD << 3 | NUMBER, status])).with_trailers(ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    response
}

fn failure(code: u16, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-message", HeaderValue::from_static(text));
    response
}

/// A message as gRPC frames it: not compressed, and with its length.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

/// The message in a frame.
fn unframed(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(5)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    rest.get(..usize::try_from(length).ok()?).filter(|_| head[0] == 0)
}

/// The service of a question; `None` if it is none.
fn service_of(bytes: &[u8]) -> Option<String> {
    match unframed(bytes)? {
        [] => Some(String::new()),
        // A name has a length of one byte.
        [mark, length @ 0..128, name @ ..] if *mark == FIELD << 3 | TEXT => {
            let name = name.get(..usize::from(*length))?;
            Some(String::from_utf8_lossy(name).into_owned())
        }
        _ => None,
    }
}

/// The question for a service; `None` if its name is too long.
fn question(service: &str) -> Option<Bytes> {
    let length = u8::try_from(service.len()).ok().filter(|length| *length < 128)?;
    Some(match length {
        0 => framed(&[]),
        _ => framed(&[&[FIELD << 3 | TEXT, length], service.as_bytes()].concat()),
    })
}

/// The number of the status in an answer.
fn status_of(bytes: &[u8]) -> Option<u8> {
    match unframed(bytes)? {
        [] => Some(0),
        [mark, status @ 0..128, ..] if *mark == FIELD << 3 | NUMBER => Some(*status),
        _ => None,
    }
}

/// The result of a health check that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Health {
    /// The number of the service's status.
    Status(u8),
    /// Code and text of the refusal.
    Refused(u16, String),
}

impl Health {
    /// Exit code of the probe, and the kubelet's text if it failed.
    fn judged(&self) -> (u8, String) {
        match self {
            Self::Status(SERVING) => (0, String::new()),
            Self::Status(status) => {
                let status = STATUSES.get(usize::from(*status)).copied().unwrap_or("UNKNOWN");
                (1, format!("service unhealthy (responded with \"{status}\")"))
            }
            Self::Refused(UNIMPLEMENTED, text) => {
                let text = error_of(UNIMPLEMENTED, text);
                let known = "this server does not implement the grpc health protocol (grpc.health.v1.Health)";
                (1, format!("error: {known}: {text}"))
            }
            Self::Refused(code, text) => {
                (1, format!("error: health rpc probe failed: {}", error_of(*code, text)))
            }
        }
    }
}

/// An error as gRPC for Go prints it.
fn error_of(code: u16, text: &str) -> String {
    let name = CODES.get(usize::from(code)).copied().unwrap_or("Unknown");
    format!("rpc error: code = {name} desc = {text}")
}

impl Streams {
    /// Asks a port of a pod for the health of a service: 0 if it is well, else 1 with the reason in `output`.
    pub(super) async fn probe_health(
        &self,
        snapshot: &Snapshot,
        (port, service): (u16, &str),
        limit: Option<Duration>,
        output: &mut Vec<u8>,
    ) -> u8 {
        let limit = limit.unwrap_or(USUAL);
        let Some((address, network)) = self.kubelet_network(snapshot) else { return 1 };
        let at = SocketAddr::new(address, port);
        let mut is_asked = false;
        let asking = network.health(at, service, &mut is_asked);
        let answered = timeout_at(Instant::now() + limit, asking).await.ok();
        let (code, text) = match answered {
            Some(health) => health.judged(),
            None if is_asked => {
                (1, format!("timeout: health rpc did not complete within {}", go_duration(limit)))
            }
            None => {
                let why = format!("within {}: context deadline exceeded", go_duration(limit));
                (1, format!("timeout: failed to connect service \"{at}\" {why}"))
            }
        };
        output.extend_from_slice(text.as_bytes());
        code
    }
}

impl PodNetwork {
    /// The health of a service. Like the client of kubelets it does not return before it has reached a server that speaks HTTP/2; it sets
    /// `is_asked` once it has.
    async fn health(&self, at: SocketAddr, service: &str, is_asked: &mut bool) -> Health {
        let Ok(host) = self.attach() else { return pending().await };
        let Ok(Connection { stream, serving }) = Box::pin(self.connect(&host, at)).await else {
            return pending().await;
        };
        let asking = async {
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
            let Ok((mut sender, connection)) = handshake.await else { return pending().await };
            let request = question(service).and_then(|question| {
                let request = Request::post(format!("http://{at}{CHECK}")).header(CONTENT_TYPE, GRPC);
                let request = request.header(TE, "trailers").header(USER_AGENT, "kube-probe");
                request.body(Full::new(question)).ok()
            });
            let Some(request) = request else {
                return Health::Refused(NOT_FOUND, "unknown service".to_owned());
            };
            let answer = async {
                let response = sender.send_request(request).await.ok()?;
                *is_asked = true;
                answered(response).await
            };
            tokio::select! {
                biased;
                answer = answer => match answer {
                    Some(health) => health,
                    None => pending().await,
                },
                _ = connection => pending().await,
            }
        };
        tokio::select! {
            biased;
            health = asking => health,
            () = served(serving) => unreachable!("it does not return"),
        }
    }
}

/// The result in a response; `None` if the connection ends before it is complete.
async fn answered(response: Response<Incoming>) -> Option<Health> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, HEALTH_MESSAGE).collect().await.ok()?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let header = |name: &str| {
        let value = trailers.get(name).or_else(|| parts.headers.get(name))?;
        Some(value.to_str().ok()?.to_owned())
    };
    let code = header("grpc-status").and_then(|code| code.parse().ok());
    Some(match (code, status_of(&body.to_bytes())) {
        (Some(OK), Some(status)) => Health::Status(status),
        (Some(code), _) => Health::Refused(code, header("grpc-message").unwrap_or_default()),
        (None, _) => Health::Refused(
            UNIMPLEMENTED,
            format!("unexpected HTTP status code received from server: {}", parts.status),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written_and_broken_ones_refused() {
        for service in ["", "a", "my.Service"] {
            let question = question(service).unwrap();
            assert_eq!(service_of(&question).as_deref(), Some(service));
        }
        assert_eq!(question(&"x".repeat(128)), None);
        let answer = framed(&[FIELD << 3 | NUMBER, NOT_SERVING]);
        assert_eq!((status_of(&answer), status_of(&framed(&[]))), (Some(NOT_SERVING), Some(0)));
        for broken in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 0, 9, 8], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 2, 10, 9]]
        {
            assert_eq!((service_of(broken), status_of(broken)), (None, None), "{broken:?}");
        }
    }

    #[test]
    fn results_have_the_texts_of_kubelets() {
        let refused = |code, text: &str| Health::Refused(code, text.to_owned()).judged().1;
        assert_eq!(Health::Status(SERVING).judged(), (0, String::new()));
        assert_eq!(
            Health::Status(NOT_SERVING).judged(),
            (1, "service unhealthy (responded with \"NOT_SERVING\")".to_owned())
        );
        assert_eq!(
            refused(NOT_FOUND, "unknown service"),
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
        );
        assert!(
            refused(UNIMPLEMENTED, "x").starts_with("error: this server does not implement the grpc health")
        );
        assert!(refused(99, "x").ends_with("code = Unknown desc = x"));
    }
}
