//! [`Remote`]: client of one HTTPS server outside the cluster that a configuration file names: webhooks of
//! authentication, authorization and audit, and OpenID Connect issuers. [`super::Outbound`] reaches servers
//! that objects of the cluster name.

use super::connect::Connector;
use super::tls::{self, TlsError};
use super::trust::Trust;
use super::{Answer, NoAnswer, exchange};
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Idle connections that stay open.
const IDLE_CONNECTIONS: usize = 16;

/// Configuration of a client: URL, trusted authorities and credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The URL: `https://host[:port][/path]`.
    pub server: String,
    /// Trusted authorities (PEM); empty: those that the machine trusts.
    pub authorities: Vec<u8>,
    /// The name in the server's certificate, if it differs from the host of the URL.
    pub server_name: Option<String>,
    /// Whether the server's certificate is accepted without verification.
    pub insecure: bool,
    /// Client certificate chain and key (PEM).
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Bearer token for the `Authorization` header.
    pub token: Option<String>,
}

/// Omits keys and tokens, which must not appear in logs.
impl fmt::Debug for RemoteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteConfig").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The configuration of a client is unusable: the reason.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL cannot be used.
    #[error("the server {0:?} must be a URL that begins with https://")]
    Url(String),
    /// The server name cannot be in a certificate.
    #[error("the server name {0:?} is not a host name")]
    Name(String),
    /// The client certificate or its key cannot be read.
    #[error("the client certificate or its key cannot be read: {0}")]
    Identity(rustls::pki_types::pem::Error),
    /// TLS cannot be set up.
    #[error("{0}")]
    Tls(String),
    /// The token cannot be in a header.
    #[error("the token has characters that a header cannot contain")]
    Token,
}

/// An HTTPS client of one server. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Remote {
    url: Arc<str>,
    uri: Uri,
    token: Option<HeaderValue>,
    pool: Client<Connector, Body>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Remote {
    /// Creates a client; does not connect yet.
    ///
    /// # Errors
    /// The part of the configuration that cannot be used.
    pub fn new(config: &RemoteConfig) -> Result<Self, RemoteError> {
        let bad = || RemoteError::Url(config.server.clone());
        let uri: Uri = config.server.parse().map_err(|_| bad())?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(bad)?;
        let address = format!("{host}:{}", uri.port_u16().unwrap_or(443));
        let name = config.server_name.as_deref().unwrap_or(host).trim_matches(['[', ']']).to_owned();
        let server_name = ServerName::try_from(name.clone()).map_err(|_| RemoteError::Name(name))?;
        let trust = match config.insecure {
            true => Trust::Insecure,
            false => Trust::Authorities(config.authorities.clone().into()),
        };
        let identity = config.identity.as_ref().map(identity).transpose()?;
        let presented = identity.as_ref().map(|(certificates, key)| (&certificates[..], key));
        let tls = tls::client_config(&trust, || Arc::new(tls::system_roots()), presented);
        let tls = Arc::new(tls.map_err(|error: TlsError| RemoteError::Tls(error.to_string()))?);
        let token = config.token.as_ref().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let token = token.transpose().map_err(|_: http::header::InvalidHeaderValue| RemoteError::Token)?;
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(Connector { address: address.into(), server_name, tls, pod: None });
        Ok(Self { url: config.server.as_str().into(), uri, token, pool })
    }

    /// The configured URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Posts a JSON document and returns the answer, with any status code. The whole exchange takes at most
    /// `timeout`.
    ///
    /// # Errors
    /// [`NoAnswer`] with Go's wording.
    pub async fn post(&self, body: Bytes, timeout: Duration) -> Result<Answer, NoAnswer> {
        let request = self.request(Method::POST, self.uri.clone());
        let request = request.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, body.len());
        self.send(request, Body::from(body), timeout).await
    }

    /// Gets a document of the same server. `path`, with an optional query, replaces the path of the URL.
    ///
    /// # Errors
    /// [`NoAnswer`] with Go's wording.
    pub async fn get(&self, path: &str, timeout: Duration) -> Result<Answer, NoAnswer> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query =
            Some(path.parse().map_err(|error: http::uri::InvalidUri| NoAnswer(error.to_string()))?);
        let uri = Uri::from_parts(parts).map_err(|error| NoAnswer(error.to_string()))?;
        self.send(self.request(Method::GET, uri), Body::empty(), timeout).await
    }

    fn request(&self, method: Method, uri: Uri) -> http::request::Builder {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(ACCEPT, "application/json, */*").header(USER_AGENT, "kstore-apiserver");
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    /// Boxed here, so that no crate above generates the code of an HTTP client again.
    fn send(
        &self,
        request: http::request::Builder,
        body: Body,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        match request.body(body) {
            Ok(request) => Box::pin(exchange::answer(self.pool.request(request), timeout, false)),
            Err(error) => Box::pin(std::future::ready(Err(NoAnswer(error.to_string())))),
        }
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity((certificate, key): &(Vec<u8>, Vec<u8>)) -> Result<Identity, RemoteError> {
    let certificates = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(RemoteError::Identity)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(RemoteError::Identity)?;
    Ok((certificates, key))
}
