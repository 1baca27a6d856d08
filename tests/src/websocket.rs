//! WebSockets to an apiserver in this process: HTTP/1.1 over a pipe in memory, so that connections can become something else
//! under virtual time.

use crate::Cluster;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use kstore_apiserver::InProcess;
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Bytes that the pipe holds in each direction.
const PIPE: usize = 16 * 1024;

/// A connection that became a WebSocket.
pub struct WebSocket(WebSocketStream<DuplexStream>);

impl Cluster {
    /// An HTTP/1.1 connection to the administrator's doors.
    pub fn connection(&self) -> DuplexStream {
        connection(self.doors())
    }

    /// Opens a WebSocket as the administrator.
    ///
    /// # Errors
    /// The code and body of the answer that refused it.
    pub async fn websocket(&self, path: &str, protocols: &str) -> Result<WebSocket, (u16, String)> {
        open(self.doors(), path, protocols).await
    }
}

/// An HTTP/1.1 connection to any doors.
pub fn connection(doors: InProcess) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    tokio::spawn(async move {
        let http = Builder::new(TokioExecutor::new());
        let serving =
            http.serve_connection_with_upgrades(TokioIo::new(theirs), TowerToHyperService::new(doors));
        // A client that goes away in the middle is no failure of the test.
        let _ = serving.await;
    });
    ours
}

/// Opens a WebSocket at any doors. See [`Cluster::websocket`].
pub async fn open(doors: InProcess, path: &str, protocols: &str) -> Result<WebSocket, (u16, String)> {
    let mut request =
        format!("ws://kstore.invalid{path}").into_client_request().expect("the path is well formed");
    if !protocols.is_empty() {
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().expect("a header"));
    }
    match tokio_tungstenite::client_async(request, connection(doors)).await {
        Ok((socket, response)) => {
            let chosen =
                response.headers().get("sec-websocket-protocol").map(|name| name.to_str().unwrap_or(""));
            assert!(chosen.is_none_or(|name| protocols.contains(name)), "{chosen:?} was not offered");
            Ok(WebSocket(socket))
        }
        Err(Error::Http(response)) => {
            let code = response.status().as_u16();
            let body = response.into_body().unwrap_or_default();
            Err((code, String::from_utf8_lossy(&body).into_owned()))
        }
        Err(error) => panic!("the handshake failed: {error}"),
    }
}

impl WebSocket {
    /// Sends a binary message.
    pub async fn send(&mut self, message: impl Into<Bytes>) {
        self.0.send(Message::Binary(message.into())).await.expect("the server reads");
    }

    /// The next message; `None` when the server has closed the connection.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Binary(data) => return Some(data),
                Message::Text(text) => return Some(text.into()),
                Message::Close(_) => return None,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Everything until the end, by channel.
    pub async fn channels(&mut self) -> [String; 4] {
        let mut all: [Vec<u8>; 4] = Default::default();
        while let Some(message) = self.next().await {
            let (channel, data) = message.split_first().expect("a message names its channel");
            all[usize::from(*channel)].extend_from_slice(data);
        }
        all.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
