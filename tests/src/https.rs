//! [`Https`]: requests to the REST API of a real server. One HTTP/1.1 request per TLS connection, written and
//! parsed by hand, so that tests can send what no client library would; or many requests on one HTTP/2
//! connection.

use crate::Reply;
use hyper_util::rt::TokioIo;
use kstore_client::Kubeconfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// The address of a server, with the administrator's certificate.
#[derive(Clone)]
pub struct Https {
    address: String,
    tls: TlsConnector,
    anonymous: TlsConnector,
}

impl Https {
    /// Reads the kubeconfig that a server wrote.
    pub fn new(kubeconfig: &Kubeconfig) -> Self {
        let mut roots = RootCertStore::empty();
        let ca = kubeconfig.ca.as_deref().expect("the kubeconfig names the authority");
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate.expect("the authority is PEM")).expect("the authority is a certificate");
        }
        let admin = kubeconfig.identity.as_ref().expect("the kubeconfig has a client certificate");
        let chain = CertificateDer::pem_slice_iter(&admin.certificate).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(&admin.key).expect("the key is PEM");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusting = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has the default versions")
            .with_root_certificates(roots);
        let anonymous = TlsConnector::from(Arc::new(trusting.clone().with_no_client_auth()));
        let config = trusting
            .with_client_auth_cert(chain.expect("the certificate is PEM"), key)
            .expect("certificate and key fit");
        let address = kubeconfig.server.strip_prefix("https://").expect("the server speaks https").to_owned();
        Self { address, tls: TlsConnector::from(Arc::new(config)), anonymous }
    }

    /// The same server for a client without a certificate.
    #[must_use]
    pub fn without_certificate(&self) -> Self {
        Self { tls: self.anonymous.clone(), ..self.clone() }
    }

    /// An HTTP/2 connection, made once: a second attempt to connect panics.
    pub async fn http2(&self) -> Channel {
        let (https, connected) = (self.clone(), AtomicBool::new(false));
        let connect = tower::service_fn(move |_: http::Uri| {
            assert!(!connected.swap(true, Ordering::Relaxed), "the connection was lost");
            let https = https.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(https.connect().await)) }
        });
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address)).expect("it is an address");
        endpoint.connect_with_connector(connect).await.expect("the server speaks HTTP/2")
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        self.try_connect().await.expect("the server listens, and the handshake succeeds")
    }

    /// A new connection without any request.
    ///
    /// # Errors
    ///
    /// The server does not accept it, or ends it before the handshake is finished.
    ///
    /// # Panics
    ///
    /// The server's address is invalid.
    pub async fn try_connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(&self.address).await?;
        let host = self.address.rsplit_once(':').expect("the address has a port").0.to_owned();
        let name = ServerName::try_from(host).expect("the host is a name or an address");
        self.tls.connect(name, socket).await
    }

    /// Sends a request with a JSON body and returns the answer.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> Reply {
        self.call_with(method, path, "", body).await
    }

    /// Sends a request with these header lines, each with its line break, and returns the answer.
    pub async fn call_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nUser-Agent: https-test/1.0\r\n\
             Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut tls = self.connect().await;
        // A server may answer and close before it has read the whole request.
        let _ = tls.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tls.read_to_end(&mut answer).await;
        parse_reply(&answer)
    }
}

/// Parses a complete HTTP/1.1 answer.
///
/// # Panics
///
/// The answer is malformed.
pub fn parse_reply(answer: &[u8]) -> Reply {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut lines = head.lines();
    let code =
        lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status line has a code");
    let mut headers = http::HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name: http::HeaderName = name.parse().expect("a header has a name");
        headers.append(name, value.parse().expect("a header has a value"));
    }
    assert!(!headers.contains_key("transfer-encoding"), "answers of one piece have a length");
    Reply { code, headers, body: answer[end + 4..].to_vec().into() }
}
