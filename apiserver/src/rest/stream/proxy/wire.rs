//! HTTP/1.1 exchange with a backend: hyper's client over a stream of the tunnel.

use crate::rest::stream::{Expiry, Streams};
use crate::tunnel::{FromNode, Reader, Writer};
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::connect::backend::{Backend, unreachable};
use kstore_storage::limits::{PROXY_HEAD, PROXY_LINGER, STREAM_BEGIN, STREAM_FRAME_BYTES};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// The node's reason for refusing the connection, once it is received.
type Refused = Arc<OnceLock<String>>;

impl Streams {
    /// Sends a user's request to the backend on a connection of its own, and waits for the head of the answer.
    ///
    /// # Errors
    /// 503 with the reason.
    pub(super) async fn exchange(
        &self,
        user: &str,
        backend: &Backend,
        request: Request<Body>,
        expiry: Expiry,
    ) -> Result<Response<Incoming>, Status> {
        let refused = Refused::default();
        let connection = self.connect(user, backend, &refused, expiry).await?;
        let mut http = http1::Builder::new();
        http.title_case_headers(true);
        let handshake = http.handshake(TokioIo::new(connection)).await;
        let (mut sender, serving) = handshake.map_err(|error| unreachable(&error))?;
        self.spawn_stream(expiry, async move { drop(serving.with_upgrades().await) });
        match tokio::time::timeout(PROXY_HEAD, sender.send_request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => match refused.get() {
                Some(text) => Err(backend.refused(text)),
                None => Err(closed(&error)),
            },
            Err(_) => Err(unreachable(&"net/http: timeout awaiting response headers")),
        }
    }

    /// Opens a connection to the backend.
    async fn connect(
        &self,
        user: &str,
        backend: &Backend,
        refused: &Refused,
        expiry: Expiry,
    ) -> Result<DuplexStream, Status> {
        let host = &backend.host;
        let stream = self.tunnels.open(user, backend.open.clone());
        let stream = stream.map_err(|error| unreachable(&format_args!("dial tcp {host}: {error}")))?;
        let (reader, writer) = match tokio::time::timeout(STREAM_BEGIN, stream.begun()).await {
            Ok(Ok(halves)) => halves,
            Ok(Err(Some(status))) => {
                return Err(unreachable(&format_args!("dial tcp {host}: {}", status.message)));
            }
            Ok(Err(None)) => return Err(unreachable(&format_args!("dial tcp {host}: the tunnel ended"))),
            Err(_) => return Err(unreachable(&format_args!("dial tcp {host}: i/o timeout"))),
        };
        let (near, far) = tokio::io::duplex(STREAM_FRAME_BYTES);
        self.spawn_stream(expiry, copy_both_ways(far, reader, writer, refused.clone()));
        Ok(near)
    }
}

/// Copies bytes in both directions until the node ends the stream or the receiver of its data is dropped.
async fn copy_both_ways(far: DuplexStream, mut reader: Reader, writer: Writer, refused: Refused) {
    let (mut from_client, mut to_client) = tokio::io::split(far);
    let to_node = async {
        let mut buffer = vec![0; STREAM_FRAME_BYTES];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if !writer.send(0, Bytes::copy_from_slice(&buffer[..length])).await {
                break;
            }
        }
        writer.end(0).await;
        tokio::time::sleep(PROXY_LINGER).await;
    };
    let from_node = async {
        while let Some(FromNode::Data { channel, data, .. }) = reader.next().await {
            if channel == 2 {
                let _ = refused.set(String::from_utf8_lossy(&data).into_owned());
                return;
            }
            if to_client.write_all(&data).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = from_node => {}
        () = to_node => {}
    }
}

/// 503: the backend closed the connection, or does not speak HTTP.
pub(super) fn closed(error: &hyper::Error) -> Status {
    if error.is_incomplete_message() || error.is_canceled() {
        unreachable(&"EOF")
    } else {
        unreachable(error)
    }
}
