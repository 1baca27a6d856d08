//! [`Connection`]: one TLS connection with the admin's certificate or a bearer token, for one HTTP/1.1
//! request with JSON at a time. A minimal client, so that the measurements are mostly of the server.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kstore_client::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const JSON: &str = "application/json";

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    authorization: Option<HeaderValue>,
}

impl Connection {
    /// Connects and completes the TLS handshake with the kubeconfig's certificate, or without one if it has none.
    pub(crate) async fn open(kubeconfig: &Kubeconfig) -> anyhow::Result<Self> {
        Self::connect(kubeconfig, None).await
    }

    /// Connects without a certificate; every request carries the token.
    pub(crate) async fn open_with_token(kubeconfig: &Kubeconfig, token: &str) -> anyhow::Result<Self> {
        Self::connect(kubeconfig, Some(HeaderValue::try_from(format!("Bearer {token}"))?)).await
    }

    async fn connect(kubeconfig: &Kubeconfig, authorization: Option<HeaderValue>) -> anyhow::Result<Self> {
        let host = kubeconfig.server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let tcp = TcpStream::connect(&host).await.context("cannot connect")?;
        tcp.set_nodelay(true)?;
        let name = host.rsplit_once(':').context("no port in the kubeconfig")?.0;
        let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned())?;
        let config = tls(kubeconfig, authorization.is_none())?;
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
        let (sender, driver) = handshake(TokioIo::new(tls)).await?;
        tokio::spawn(async move {
            // An error of the connection is also reported as the error of its request.
            let _ = driver.await;
        });
        Ok(Self { sender, host, authorization })
    }

    /// Sends a GET and returns the whole body.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        let (status, body) = self.send(Method::GET, path, Bytes::new()).await?;
        Ok((status, body.collect().await?.to_bytes()))
    }

    /// Sends a GET that accepts gzip, as Go's clients do; the body stays compressed.
    pub(crate) async fn get_compressed(&mut self, path: &str) -> anyhow::Result<Bytes> {
        let mut request = self.prepared(Method::GET, path, JSON, JSON, Bytes::new())?;
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let response = self.exchange(request).await?;
        let (status, encoding) = (response.status(), response.headers().get(CONTENT_ENCODING));
        ensure!(status == StatusCode::OK, "{path}: {status}");
        ensure!(encoding.is_some_and(|encoding| encoding == "gzip"), "{path}: not compressed");
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// Sends a GET and returns the number of bytes of the body.
    pub(crate) async fn count(&mut self, path: &str, accept: &str) -> anyhow::Result<usize> {
        let (status, mut body) = self.request(Method::GET, path, accept, JSON, Bytes::new()).await?;
        ensure!(status == StatusCode::OK, "{path}: {status}");
        let mut bytes = 0;
        while let Some(frame) = body.frame().await.transpose()? {
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    /// Sends a merge patch, which must succeed.
    pub(crate) async fn patch(&mut self, path: &str, patch: Bytes) -> anyhow::Result<()> {
        let merge = "application/merge-patch+json";
        let (status, body) = self.request(Method::PATCH, path, JSON, merge, patch).await?;
        let body = body.collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// Sends a POST, which must be answered with 200, and returns the answer.
    pub(crate) async fn post(&mut self, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::POST, path, body).await?;
        let body = body.collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Creates an object by POST, which must succeed, and returns the answer.
    pub(crate) async fn create(&mut self, path: &str, object: Bytes) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::POST, path, object).await?;
        let body = body.collect().await?.to_bytes();
        ensure!(status == StatusCode::CREATED, "{path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Sends a PUT, which must succeed, and returns the answer.
    pub(crate) async fn put(&mut self, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::PUT, path, body).await?;
        let body = body.collect().await?.to_bytes();
        ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Deletes an object or a collection, which must succeed.
    pub(crate) async fn delete(&mut self, path: &str) -> anyhow::Result<()> {
        let (status, body) = self.send(Method::DELETE, path, Bytes::new()).await?;
        let body = body.collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// Opens a stream, such as a watch, by GET. The connection serves no other request from then on.
    pub(crate) async fn stream(mut self, path: &str) -> anyhow::Result<Stream> {
        let (status, body) = self.send(Method::GET, path, Bytes::new()).await?;
        ensure!(status == StatusCode::OK, "{path}: {status}");
        Ok(Stream { body, buffer: Vec::new(), _sender: self.sender })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Incoming)> {
        self.request(method, path, JSON, JSON, body).await
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Incoming)> {
        let request = self.prepared(method, path, accept, content_type, body)?;
        let response = self.exchange(request).await?;
        Ok((response.status(), response.into_body()))
    }

    fn prepared(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("user-agent", "kstore-benches")
            .header("accept", accept)
            .header("content-type", content_type)
            .body(Full::new(body))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

/// Runs a single client on its own thread, together with the task of its connection. On several threads, the
/// two would wake each other, which costs more than the server's part of a small request.
pub(crate) async fn alone<T, F>(client: impl FnOnce() -> F + Send + 'static) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
{
    let run = move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(client());
    tokio::task::spawn_blocking(run).await?
}

/// The lines of an unending response.
pub(crate) struct Stream {
    body: Incoming,
    buffer: Vec<u8>,
    // Dropping the sender would close the connection.
    _sender: SendRequest<Full<Bytes>>,
}

impl Stream {
    /// The next bytes, as they arrive; `None` at the end of the response.
    pub(crate) async fn bytes(&mut self) -> anyhow::Result<Option<Bytes>> {
        Ok(self.body.frame().await.transpose()?.and_then(|frame| frame.into_data().ok()))
    }

    /// The next line, without its end; `None` at the end of the response.
    pub(crate) async fn line(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(line));
            }
            match self.body.frame().await.transpose()? {
                None => return Ok(None),
                Some(frame) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            }
        }
    }
}

fn tls(kubeconfig: &Kubeconfig, with_certificate: bool) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(kubeconfig.ca.as_deref().unwrap_or_default()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some(identity) = kubeconfig.identity.as_ref().filter(|_| with_certificate) else {
        return Ok(config.with_no_client_auth());
    };
    let chain = CertificateDer::pem_slice_iter(&identity.certificate).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key)?;
    Ok(config.with_client_auth_cert(chain, key)?)
}
