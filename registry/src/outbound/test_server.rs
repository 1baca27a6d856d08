//! A real HTTPS server on loopback for tests of webhooks: it records requests, and a function chooses the
//! answers.

use super::RemoteConfig;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// One received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request line and the headers, as they were sent.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Received {
    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The reaction of the server to a request.
pub enum Reply {
    /// Answers with this code and body.
    Answer(u16, String),
    /// Sends no answer and keeps the connection open.
    Silence,
    /// Closes the connection.
    Hangup,
}

impl Reply {
    /// Answers with 200 and this JSON.
    pub fn json(value: &Value) -> Self {
        Self::Answer(200, value.to_string())
    }
}

/// The server. It serves until the runtime ends.
pub struct TestServer {
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The authority that signed its certificate, as PEM.
    pub authority: String,
    /// All requests that were received so far.
    pub requests: Arc<Mutex<Vec<Received>>>,
}

type Handler = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

impl TestServer {
    /// A server with a certificate for 127.0.0.1.
    pub async fn start(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::named("127.0.0.1", reply).await
    }

    /// A server with a certificate for another name.
    pub async fn named(name: &str, reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, reply): (Arc<Mutex<Vec<Received>>>, Handler) = (Arc::default(), Arc::new(reply));
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn({
            let requests = requests.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, requests, reply) = (acceptor.clone(), requests.clone(), reply.clone());
                    tokio::spawn(async move {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            serve(stream, &requests, &reply).await;
                        }
                    });
                }
            }
        });
        Self { port, authority: authority.pem(), requests }
    }

    /// The path `/hook` of the server, as a configuration file would name it.
    pub fn config(&self) -> RemoteConfig {
        RemoteConfig {
            server: format!("https://127.0.0.1:{}/hook", self.port),
            authorities: self.authority.clone().into_bytes(),
            ..RemoteConfig::default()
        }
    }

    /// The number of requests received so far.
    pub fn count(&self) -> usize {
        self.requests.lock().len()
    }
}

async fn serve(
    mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    requests: &Mutex<Vec<Received>>,
    reply: &Handler,
) {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        let whole = end + length.unwrap_or(0);
        while buffer.len() < whole {
            if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let received = Received { head, body: String::from_utf8(buffer[end..whole].to_vec()).unwrap() };
        buffer.drain(..whole);
        requests.lock().push(received.clone());
        match reply(&received) {
            Reply::Answer(code, body) => {
                let head = format!(
                    "HTTP/1.1 {code} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                    return;
                }
            }
            Reply::Silence => tokio::time::sleep(Duration::from_secs(3600)).await,
            Reply::Hangup => return,
        }
    }
}
