//! `pods/log`: the log of a container as text, and its continuation if the caller follows it.

use super::websocket::{self, Handshake};
use super::{Expiry, StreamRequest, Streams, protocol};
use crate::rest::query::Query;
use crate::rest::respond::response;
use crate::tunnel::{FromNode, Reader};
use axum::body::Body;
use futures::StreamExt as _;
use http::{Response, StatusCode};
use kstore_api::field::{ErrorList, Path};
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use pb::stream_open::What;
use tokio_util::sync::CancellationToken;

impl Streams {
    pub(super) async fn log(&self, request: &StreamRequest<'_>) -> Result<Response<Body>, Status> {
        let Some((reader, _)) = self.open_log(request).await? else {
            return Ok(response(StatusCode::NO_CONTENT, "text/plain", Body::empty()));
        };
        let body = Body::from_stream(text(reader, self.stop.clone(), request.expiry));
        Ok(response(StatusCode::OK, "text/plain", body))
    }

    /// Serves the log on a WebSocket: each chunk is a message.
    pub(super) async fn log_socket(
        &self,
        request: &StreamRequest<'_>,
        handshake: Handshake,
    ) -> Result<Response<Body>, Status> {
        let protocol =
            protocol::plain(&handshake.offered).ok_or_else(|| websocket::no_protocol(&handshake.offered))?;
        let stream = self.open_log(request).await?;
        let (response, opening) = handshake.accept(protocol.name);
        self.spawn_stream(request.expiry, async move {
            let Some(socket) = opening.socket().await else { return };
            let (mut outgoing, mut incoming) = socket.split();
            let sending = async {
                let Some((mut reader, _)) = stream else { return true };
                while let Some(FromNode::Data { data, .. }) = reader.next().await {
                    if websocket::send(&mut outgoing, protocol.encode_plain(data)).await.is_err() {
                        return false;
                    }
                }
                true
            };
            let gone = async { while let Some(Ok(_)) = incoming.next().await {} };
            let read = tokio::select! {
                biased;
                read = sending => read,
                () = gone => false,
            };
            if read {
                websocket::close(outgoing, incoming).await;
            }
        });
        Ok(response)
    }

    /// Opens the stream of the log; `None` for a pod without a node, which has no log.
    pub(super) async fn open_log(
        &self,
        request: &StreamRequest<'_>,
    ) -> Result<Option<(Reader, crate::tunnel::Writer)>, Status> {
        let options = options(request.query)?;
        let errors = validate(&options);
        if !errors.is_empty() {
            return Err(Status::invalid("", "PodLogOptions", &request.target.name, &errors));
        }
        let location = self.pipeline.connected_pod(&request.target)?;
        let container = location.container(request.query.get("container"))?;
        if location.node.is_empty() {
            return Ok(None);
        }
        self.pipeline.check_connected_node(&location.node)?;
        let (namespace, pod) = (request.target.namespace.clone(), request.target.name.clone());
        let url = format!("containerLogs/{namespace}/{pod}/{container}");
        let uid = location.uid().to_owned();
        let what = Some(What::Log(options));
        let open = pb::StreamOpen { id: 0, node: location.node, namespace, pod, uid, container, what };
        self.open(request.user, open, &url).await.map(Some)
    }
}

/// The data from the node until it closes the stream or the caller's credentials expire. If the tunnel ends
/// first, the log ends with an error.
fn text(
    mut reader: Reader,
    stop: CancellationToken,
    expiry: Expiry,
) -> impl futures::Stream<Item = std::io::Result<bytes::Bytes>> + Send {
    async_stream::stream! {
        let mut expired = std::pin::pin!(expiry.reached());
        loop {
            let came = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = expired.as_mut() => break,
                came = reader.next() => came,
            };
            match came {
                Some(FromNode::Data { data, .. }) => yield Ok(data),
                Some(FromNode::Begun) => {}
                Some(FromNode::Closed(_)) => break,
                None => {
                    yield Err(std::io::Error::other("the tunnel to the node ended"));
                    break;
                }
            }
        }
    }
}

/// Parses the log options of a query.
///
/// # Errors
/// 400 for an invalid number or time.
fn options(query: &Query) -> Result<pb::LogStream, Status> {
    let text = |key: &str| Some(query.get(key).to_owned()).filter(|text| !text.is_empty());
    let number = |key: &str| match text(key) {
        None => Ok(None),
        Some(text) => text.parse::<i64>().map(Some).map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
        }),
    };
    let since_time = text("sinceTime");
    if let Some(time) = since_time.as_ref().filter(|time| time.parse::<jiff::Timestamp>().is_err()) {
        return Err(Status::bad_request(format!(
            "parsing time \"{time}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{time}\" as \"2006\""
        )));
    }
    Ok(pb::LogStream {
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        since_seconds: number("sinceSeconds")?,
        since_time,
        tail_lines: number("tailLines")?,
        limit_bytes: number("limitBytes")?,
        stream: query.get("stream").to_owned(),
    })
}

/// Validates the options with Kubernetes' rules.
fn validate(options: &pb::LogStream) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(lines) = options.tail_lines.filter(|lines| *lines < 0) {
        errors.invalid(&Path::new("tailLines"), &lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = options.limit_bytes.filter(|bytes| *bytes < 1) {
        errors.invalid(&Path::new("limitBytes"), &bytes, "must be greater than 0");
    }
    match (options.since_seconds, &options.since_time) {
        (Some(_), Some(_)) => {
            let both = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.forbidden(&Path::new(""), both);
        }
        (Some(seconds), None) if seconds < 1 => {
            errors.invalid(&Path::new("sinceSeconds"), &seconds, "must be greater than 0");
        }
        (Some(_) | None, _) => {}
    }
    let stream = options.stream.as_str();
    if !matches!(stream, "" | "All" | "Stdout" | "Stderr") {
        errors.not_supported(&Path::new("stream"), stream, &["All", "Stderr", "Stdout"]);
    }
    if options.tail_lines.is_some() && !matches!(stream, "" | "All") {
        let both = "`tailLines` and specific `stream` are mutually exclusive for now";
        errors.forbidden(&Path::new(""), both);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str) -> Vec<String> {
        match options(&Query::parse(Some(query))) {
            Ok(options) => validate(&options).iter().map(ToString::to_string).collect(),
            Err(status) => vec![status.message],
        }
    }

    #[test]
    fn invalid_log_options_are_refused_with_kubernetes_messages() {
        let cases: [(&str, &[&str]); 8] = [
            ("tailLines=0&limitBytes=1&sinceSeconds=1&stream=All&follow=true", &[]),
            ("tailLines=-1", &["tailLines: Invalid value: -1: must be greater than or equal to 0"]),
            ("limitBytes=0", &["limitBytes: Invalid value: 0: must be greater than 0"]),
            ("sinceSeconds=0", &["sinceSeconds: Invalid value: 0: must be greater than 0"]),
            (
                "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
                &[": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"],
            ),
            (
                "stream=Both",
                &["stream: Unsupported value: \"Both\": supported values: \"All\", \"Stderr\", \"Stdout\""],
            ),
            ("tailLines=x", &["strconv.ParseInt: parsing \"x\": invalid syntax"]),
            (
                "tailLines=1&stream=Stderr",
                &[": Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"],
            ),
        ];
        for (query, expected) in cases {
            assert_eq!(refused(query), expected, "{query}");
        }
    }
}
