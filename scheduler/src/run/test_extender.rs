//! An extender for tests: an HTTP server on threads of its own, in real time.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with a request.
pub(super) enum Reply {
    /// Answers with status 200 and this document.
    Json(Value),
    /// Answers with this status and text.
    Text(u16, &'static str),
    /// Does not answer, and waits until the client leaves.
    Silence,
    /// Sends bytes until the client leaves.
    Flood,
    /// Closes the connection.
    Close,
}

type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A running server. Its threads end with the process.
pub(super) struct TestExtender {
    address: SocketAddr,
    requests: Requests,
}

impl TestExtender {
    /// Starts a server that answers a verb with a document as `reply` says.
    pub(super) fn start(reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(reply, |stream| Box::new(stream))
    }

    /// The same over TLS.
    pub(super) fn start_tls(
        config: ServerConfig,
        reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let config = Arc::new(config);
        Self::serve(reply, move |stream| {
            let connection = ServerConnection::new(config.clone()).unwrap();
            Box::new(StreamOwned::new(connection, stream))
        })
    }

    fn serve(
        reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
        wrap: impl Fn(TcpStream) -> Box<dyn Duplex> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, reply) = (listener.local_addr().unwrap(), Arc::new(reply));
        let requests = Requests::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, reply, kept) = (wrap(stream.unwrap()), Arc::clone(&reply), Arc::clone(&kept));
                // A client that leaves early, or mistrusts the certificate, is no failure of the server.
                std::thread::spawn(move || drop(answer(stream, &*reply, &kept)));
            }
        });
        Self { address, requests }
    }

    /// `host:port`.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The verbs and documents of all requests.
    pub(super) fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }

    /// The documents that were sent to a verb.
    pub(super) fn sent(&self, verb: &str) -> Vec<Value> {
        let all = self.requests().into_iter();
        all.filter(|(other, _)| other == verb).map(|(_, document)| document).collect()
    }
}

trait Duplex: Read + Write + Send {}

impl<T: Read + Write + Send> Duplex for T {}

fn answer(
    mut stream: Box<dyn Duplex>,
    reply: &dyn Fn(&str, &Value) -> Reply,
    requests: &Requests,
) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let verb = head.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap()];
    stream.read_exact(&mut body)?;
    let document: Value = serde_json::from_slice(&body).unwrap();
    requests.lock().unwrap().push((verb.clone(), document.clone()));
    let mut respond = |status: u16, text: &str| {
        let length = text.len();
        write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{text}")?;
        stream.flush()
    };
    match reply(&verb, &document) {
        Reply::Json(answer) => respond(200, &answer.to_string()),
        Reply::Text(status, text) => respond(status, text),
        Reply::Silence => stream.read_exact(&mut byte),
        Reply::Flood => {
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b' '; 1 << 16])?;
            }
        }
        Reply::Close => Ok(()),
    }
}
