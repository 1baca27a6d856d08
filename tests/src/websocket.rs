//! [`WebSocket`]: WebSockets to an apiserver in this process, over HTTP/1.1 through a pipe in memory, so that
//! upgraded connections work under virtual time.

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

/// Buffer size of one direction of the pipe, in bytes.
const PIPE: usize = 16 * 1024;

/// A connection that was upgraded to a WebSocket.
pub struct WebSocket(WebSocketStream<DuplexStream>);

impl Cluster {
    /// An HTTP/1.1 connection to the API, as the administrator.
    pub fn connection(&self) -> DuplexStream {
        connection(self.in_process())
    }

    /// Opens a WebSocket as the administrator.
    ///
    /// # Errors
    ///
    /// Code and body of a refusal.
    pub async fn websocket(&self, path: &str, protocols: &str) -> Result<WebSocket, (u16, String)> {
        open(self.in_process(), path, protocols).await
    }
}

/// An HTTP/1.1 connection to an in-process apiserver.
pub fn connection(in_process: InProcess) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    tokio::spawn(async move {
        let http = Builder::new(TokioExecutor::new());
        let serving =
            http.serve_connection_with_upgrades(TokioIo::new(theirs), TowerToHyperService::new(in_process));
        // A client that disconnects early is not a failure of the test.
        let _ = serving.await;
    });
    ours
}

/// Opens a WebSocket to an in-process apiserver, see [`Cluster::websocket`].
pub async fn open(in_process: InProcess, path: &str, protocols: &str) -> Result<WebSocket, (u16, String)> {
    let mut request =
        format!("ws://kstore.invalid{path}").into_client_request().expect("the path is well formed");
    if !protocols.is_empty() {
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().expect("a header"));
    }
    match tokio_tungstenite::client_async(request, connection(in_process)).await {
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

    /// All output until the end, by channel.
    pub async fn channels(&mut self) -> [String; 4] {
        let mut all: [Vec<u8>; 4] = Default::default();
        while let Some(message) = self.next().await {
            let (channel, data) = message.split_first().expect("a message names its channel");
            all[usize::from(*channel)].extend_from_slice(data);
        }
        all.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
