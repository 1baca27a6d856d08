//! A client over TLS for tests, with the credentials of a kubeconfig.

use crate::cluster::PREFIX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A client with a new connection for each request.
#[derive(Clone)]
pub(super) struct TestClient {
    pub(super) host: String,
    roots: RootCertStore,
    tls: Arc<ClientConfig>,
    pub(super) token: Option<String>,
    agent: String,
    /// Media type and coding of answers; empty: the server chooses.
    accept: [&'static str; 2],
}

/// An answer.
#[derive(Debug)]
pub(super) struct TestAnswer {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl TestClient {
    pub(super) fn of(kubeconfig: &str, agent: &str) -> Self {
        let config: Value = serde_yaml_ng::from_str(kubeconfig).unwrap();
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let pem = |value: &Value| value.as_str().map(|text| STANDARD.decode(text).unwrap());
        let mut roots = RootCertStore::empty();
        let ca = pem(&cluster["certificate-authority-data"]).unwrap();
        roots.add(CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
        let certificate = pem(&user["client-certificate-data"]).map(|certificate| {
            let key = pem(&user["client-key-data"]).unwrap();
            let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
            (certificate.into_owned(), PrivateKeyDer::from_pem_slice(&key).unwrap())
        });
        Self {
            host: cluster["server"].as_str().unwrap().trim_start_matches("https://").to_owned(),
            tls: tls(roots.clone(), certificate),
            roots,
            token: user["token"].as_str().map(str::to_owned),
            agent: agent.to_owned(),
            accept: [""; 2],
        }
    }

    /// The same with answers of a media type and a coding.
    pub(super) fn accepting(&self, accept: [&'static str; 2]) -> Self {
        Self { accept, ..self.clone() }
    }

    /// The same without credentials.
    pub(super) fn anonymous(&self) -> Self {
        Self { tls: tls(self.roots.clone(), None), token: None, ..self.clone() }
    }

    /// The same with a token instead of credentials.
    pub(super) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.anonymous() }
    }

    /// The same credentials at another cluster, with another agent.
    pub(super) fn at(&self, url: &str, agent: &str) -> Self {
        let host = url.trim_start_matches("https://").to_owned();
        Self { host, agent: agent.to_owned(), ..self.clone() }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> TlsStream<TcpStream> {
        let socket = TcpStream::connect(&self.host).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(self.tls.clone()).connect(name, socket).await.unwrap()
    }

    /// Whether both clients trust the same authorities.
    pub(super) fn trusts(&self, other: &Self) -> bool {
        self.roots.roots == other.roots.roots
    }

    /// Sends a request of the Kubernetes API.
    pub(super) async fn api(&self, method: Method, path: &str, body: Option<Value>) -> TestAnswer {
        self.send(method, path, body, None).await
    }

    /// Sends a call of the lab.
    pub(super) async fn lab(&self, method: Method, path: &str, body: Option<Value>) -> TestAnswer {
        self.send(method, &format!("{PREFIX}{path}"), body, None).await
    }

    /// Sends a call of the lab with an idempotency key.
    pub(super) async fn keyed(&self, path: &str, body: Value, key: &str) -> TestAnswer {
        self.send(Method::POST, &format!("{PREFIX}{path}"), Some(body), Some(key)).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>, key: Option<&str>) -> TestAnswer {
        let body = patient(path, body);
        let (code, body) = self.open(method, path, body, key).await;
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
        TestAnswer { code, body }
    }

    /// Begins a request, and returns its answer's body unread.
    pub(super) async fn open(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> (u16, Incoming) {
        self.try_open(method, path, body, key).await.unwrap()
    }

    /// Begins a request like [`TestClient::open`]; an error if no answer comes.
    pub(super) async fn try_open(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Result<(u16, Incoming), hyper::Error> {
        let body = body.filter(|body| !body.is_null()).map(|body| body.to_string()).unwrap_or_default();
        self.open_with(method, path, Bytes::from(body), key).await
    }

    /// Sends a call of the lab whose body or answer is no JSON.
    pub(super) async fn lab_bytes(&self, method: Method, path: &str, body: Bytes) -> (u16, Bytes) {
        let (code, body) = self.open_with(method, &format!("{PREFIX}{path}"), body, None).await.unwrap();
        (code, body.collect().await.unwrap().to_bytes())
    }

    /// Sends a POST and, before its answer, another request on the same connection, so that the server does not read whether the connection
    /// has ended. Returns the code of the first answer.
    pub(super) async fn post_in_pipeline(&self, path: &str, body: &Value) -> u16 {
        let authorization = self.token.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let (host, agent, body) = (&self.host, &self.agent, body.to_string());
        let headers = format!("Host: {host}\r\nUser-Agent: {agent}\r\n{}", authorization.collect::<String>());
        let sent = format!(
            "POST {path} HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}\
             GET /version HTTP/1.1\r\n{headers}\r\n",
            body.len()
        );
        let mut connection = self.connect().await;
        connection.write_all(sent.as_bytes()).await.unwrap();
        let mut start = [0; "HTTP/1.1 201".len()];
        connection.read_exact(&mut start).await.unwrap();
        std::str::from_utf8(&start[9..]).unwrap().parse().unwrap()
    }

    async fn open_with(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        key: Option<&str>,
    ) -> Result<(u16, Incoming), hyper::Error> {
        let socket = TcpStream::connect(&self.host).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let socket = TlsConnector::from(self.tls.clone()).connect(name, socket).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        request = request.header(USER_AGENT, &self.agent).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        for (name, value) in [ACCEPT, ACCEPT_ENCODING].into_iter().zip(self.accept) {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        let response = sender.send_request(request.body(Full::new(body)).unwrap()).await?;
        Ok((response.status().as_u16(), response.into_body()))
    }
}

fn tls(
    roots: RootCertStore,
    certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    Arc::new(match certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
    })
}

/// The body of a call that waits for clients, which does so until the busiest machine is done unless it says otherwise: the ten seconds of
/// such calls are of real time.
fn patient(path: &str, body: Option<Value>) -> Option<Value> {
    if !["/settled", "/quiet", "/advance"].iter().any(|end| path.ends_with(end)) {
        return body;
    }
    let mut body = body.unwrap_or_else(|| json!({}));
    body.as_object_mut().map(|body| body.entry("patience").or_insert(json!("10m")));
    Some(body)
}
