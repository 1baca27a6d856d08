//! The streaming server: HTTP/1.1 on the loopback interface, where a client with a token upgrades its connection to SPDY or a WebSocket.

use super::Endpoint;
use super::tokens::Ticket;
use super::websocket::{CHANNELS, PORTS};
use crate::limits::{STREAM_CONNECTIONS, STREAM_HEAD_BYTES, STREAM_HEAD_TIME, STREAM_MESSAGE};
use kstore_client::StreamKind;
use kstore_spdy::Connection;
use kstore_spdy::websocket::{accepted_key, server_socket};
use std::collections::BTreeMap;
use std::io::{Cursor, Error, ErrorKind, Result};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The protocols of commands and attached clients over SPDY, the newest first. Those of before version 4 end with a text and not with an
/// object.
const SPDY_CHANNELS: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
/// The protocol of forwarded ports over SPDY.
const SPDY_PORTS: [&str; 1] = ["portforward.k8s.io"];

/// The head of a request: method, path, and headers with names in lower case.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
}

impl Head {
    /// Reads a head without its empty line; `None` if it is none.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        if version != "HTTP/1.1" || words.next().is_some() {
            return None;
        }
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let all = headers.entry(name.to_ascii_lowercase()).or_default();
            if !all.is_empty() {
                all.push(',');
            }
            all.push_str(value.trim());
        }
        Some(Self { method: method.to_owned(), path: path.to_owned(), headers })
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The first protocol that the client offers in a header and that is served; the oldest if it offers none.
    fn protocol(&self, header: &str, served: &[&'static str]) -> Option<&'static str> {
        let offered = self.header(header);
        if offered.is_empty() {
            return served.last().copied();
        }
        let mut offered = offered.split(',').map(str::trim);
        offered.find_map(|name| served.iter().find(|served| **served == name).copied())
    }

    /// The stream and the token of a path `/STREAM/TOKEN`.
    fn target(&self) -> Option<(&str, &str)> {
        let path = self.path.split('?').next()?;
        path.strip_prefix('/')?.split_once('/').filter(|(_, token)| !token.contains('/'))
    }
}

impl Endpoint {
    /// Serves streams until the endpoint ends.
    pub(super) async fn serve_streams(&self, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(STREAM_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let accepted = tokio::select! {
                biased;
                () = self.tasks.stop().cancelled() => return,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            let Ok((socket, _)) = accepted else { continue };
            let endpoint = self.clone();
            connections.spawn(async move {
                if let Err(error) = Box::pin(endpoint.serve_stream(socket)).await {
                    tracing::debug!(%error, "a stream of a client of CRI");
                }
                drop(permit);
            });
        }
    }

    async fn serve_stream(&self, mut socket: TcpStream) -> Result<()> {
        socket.set_nodelay(true)?;
        let Ok(read) = timeout(STREAM_HEAD_TIME, read_head(&mut socket)).await else { return Ok(()) };
        let (head, rest) = read?;
        let Some(head) = Head::parse(&head) else {
            return refuse(socket, "400 Bad Request", "not a request of HTTP/1.1").await;
        };
        let upgrade = head.header("upgrade").to_ascii_lowercase();
        let is_websocket = upgrade == "websocket" && head.method == "GET";
        if !is_websocket && (upgrade != "spdy/3.1" || !matches!(head.method.as_str(), "GET" | "POST")) {
            return refuse(socket, "400 Bad Request", "upgrade the connection to SPDY/3.1 or to a WebSocket")
                .await;
        }
        let ticket = head.target().and_then(|(path, token)| self.tokens.redeem(path, token));
        let Some(ticket) = ticket else {
            return refuse(
                socket,
                "404 Not Found",
                "the token is unknown, used or older than a minute: ask for a new URL",
            )
            .await;
        };
        match is_websocket {
            true => self.upgrade_to_websocket(ticket, &head, (socket, rest)).await,
            false => self.upgrade_to_spdy(ticket, &head, (socket, rest)).await,
        }
    }

    async fn upgrade_to_spdy(
        &self,
        ticket: Ticket,
        head: &Head,
        (mut socket, rest): (TcpStream, Vec<u8>),
    ) -> Result<()> {
        let are_ports = matches!(ticket.request.kind, StreamKind::Port(_));
        let served: &[&str] = if are_ports { &SPDY_PORTS } else { &SPDY_CHANNELS };
        let Some(protocol) = head.protocol("x-stream-protocol-version", served) else {
            return refuse(
                socket,
                "403 Forbidden",
                &format!("the protocols that are served: {}", served.join(", ")),
            )
            .await;
        };
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\n\r\n"
        );
        socket.write_all(answer.as_bytes()).await?;
        let (reader, writer) = socket.into_split();
        let (connection, writing) = Connection::raw(tokio::io::join(Cursor::new(rest).chain(reader), writer));
        let is_json = protocol == SPDY_CHANNELS[0];
        let serving = async {
            match are_ports {
                true => self.serve_ports(ticket, connection).await,
                false => self.serve_spdy(ticket, connection, is_json).await,
            }
        };
        tokio::join!(writing, serving);
        Ok(())
    }

    async fn upgrade_to_websocket(
        &self,
        ticket: Ticket,
        head: &Head,
        (mut socket, rest): (TcpStream, Vec<u8>),
    ) -> Result<()> {
        let are_ports = matches!(ticket.request.kind, StreamKind::Port(_));
        let served: &[&str] = if are_ports { &PORTS } else { &CHANNELS };
        let key = head.header("sec-websocket-key");
        let Ok(accept) = accepted_key(key, head.header("sec-websocket-version")) else {
            return refuse(
                socket,
                "400 Bad Request",
                "the handshake of version 13 of WebSockets is incomplete",
            )
            .await;
        };
        let Some(protocol) = head.protocol("sec-websocket-protocol", served) else {
            return refuse(
                socket,
                "403 Forbidden",
                &format!("the protocols that are served: {}", served.join(", ")),
            )
            .await;
        };
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\
             Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        );
        socket.write_all(answer.as_bytes()).await?;
        let socket = server_socket(socket, rest, STREAM_MESSAGE).await;
        match are_ports {
            true => self.serve_websocket_ports(ticket, socket).await,
            false => self.serve_websocket(ticket, socket, protocol == CHANNELS[0]).await,
        }
        Ok(())
    }
}

/// Reads the head of a request; returns it and what follows it.
async fn read_head(socket: &mut TcpStream) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut buffer = Vec::new();
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = buffer.split_off(end + 4);
            return Ok((buffer, rest));
        }
        if buffer.len() > STREAM_HEAD_BYTES || socket.read_buf(&mut buffer).await? == 0 {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
    }
}

/// Refuses a request.
async fn refuse(mut socket: TcpStream, status: &str, text: &str) -> Result<()> {
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}\n"
    );
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_and_others_are_refused() {
        let head = Head::parse(
            b"POST /exec/abc?x=1 HTTP/1.1\r\nHost: a\r\nX-Stream-Protocol-Version: v9\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n\r\n",
        )
        .unwrap();
        assert_eq!(head.target(), Some(("exec", "abc")));
        assert_eq!(head.protocol("x-stream-protocol-version", &SPDY_CHANNELS), Some("v4.channel.k8s.io"));
        assert_eq!(head.protocol("x-stream-protocol-version", &SPDY_PORTS), None);
        assert_eq!(head.protocol("other", &SPDY_CHANNELS), Some("channel.k8s.io"));
        for other in [
            "",
            "GET /\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / a HTTP/1.1\r\n",
        ] {
            assert_eq!(Head::parse(other.as_bytes()), None, "{other}");
        }
        let target = |path: &str| {
            let head = Head { path: path.to_owned(), ..Head::default() };
            head.target().map(|(path, token)| format!("{path} {token}"))
        };
        assert_eq!(target("/exec/a/b"), None);
        assert_eq!(target("exec"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_a_head_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = Head::parse(&bytes).map(|head| head.target().is_some());
        }
    }
}
