//! [`Server`]: the HTTP side of an extender. Each call has a connection of its own, so that no call depends on what a former one left
//! behind. Failures are worded as in Go, since people search for those texts.

use crate::extender::{Extender, ExtenderTls};
use crate::limits::EXTENDER_ANSWER_BYTES;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body as _;
use hyper_util::rt::TokioIo;
use kstore_tls_trust::{AnyServer, ListedServers};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How to reach an extender.
pub(super) struct Server {
    /// `None` for a plain URL.
    tls: Option<Arc<ClientConfig>>,
    server_name: Option<ServerName<'static>>,
}

impl Server {
    /// Reads the certificates and keys of an extender.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or holds no certificate or key.
    pub(super) fn of(extender: &Extender) -> Result<Self, String> {
        let none = ExtenderTls::default();
        let settings = extender.tls.as_ref().unwrap_or(&none);
        let server_name = (!settings.server_name.is_empty())
            .then(|| ServerName::try_from(settings.server_name.clone()))
            .transpose();
        Ok(Self {
            tls: match extender.url_prefix.starts_with("https:") {
                true => Some(Arc::new(tls(settings, extender.enable_https)?)),
                false => None,
            },
            server_name: server_name.map_err(|error| format!("serverName: {error}"))?,
        })
    }

    /// Posts a JSON document below the URL of an extender and returns the body of the answer, which must have status 200.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, does not answer in time, answers with another status, or with too much.
    pub(super) async fn post(&self, extender: &Extender, verb: &str, body: Vec<u8>) -> Result<Bytes, String> {
        let url = extender.url(verb);
        let failed = |why: String| format!("Post \"{url}\": {why}");
        let exchange = self.exchange(&url, body);
        let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        let answer = match tokio::time::timeout(extender.timeout, exchange).await {
            Ok(answer) => answer.map_err(failed)?,
            Err(_) => return Err(failed(late.to_owned())),
        };
        match answer {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => {
                let code = status.as_u16();
                Err(format!("failed {verb} with extender at URL {url}, code {code}"))
            }
        }
    }

    async fn exchange(&self, url: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), String> {
        let uri: Uri = url.parse().map_err(|error| format!("invalid URL: {error}"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let default_port = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            other => {
                return Err(format!("unsupported protocol scheme \"{}\"", other.unwrap_or_default()));
            }
        };
        if host.is_empty() {
            return Err("http: no Host in request URL".to_owned());
        }
        let address = (host, uri.port_u16().unwrap_or(default_port));
        let stream = TcpStream::connect(address).await.map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
                _ => error.to_string(),
            };
            format!("dial tcp {}:{}: {why}", address.0, address.1)
        })?;
        // Requests wait for their answer. If the option cannot be set, only latency suffers.
        let _ = stream.set_nodelay(true);
        let authority = uri.authority().map_or(host, |authority| authority.as_str());
        let request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(HOST, authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else { return send(stream, request).await };
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?,
        };
        let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
        send(stream.map_err(|error| format!("tls: {error}"))?, request).await
    }
}

/// Sends a request on a new connection and reads the whole answer.
async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| cause(&error))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|error| cause(&error))?;
        let (status, body) = (answer.status(), answer.into_body());
        let too_large = || format!("the answer has more than {EXTENDER_ANSWER_BYTES} bytes");
        if body.size_hint().lower() > EXTENDER_ANSWER_BYTES as u64 {
            return Err(too_large());
        }
        let body = Limited::new(body, EXTENDER_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => too_large(),
            false => error.to_string(),
        })?;
        Ok((status, body.to_bytes()))
    };
    // The connection moves the bytes. It may end before all that it has received is read.
    match select(pin!(exchange), pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, exchange)) => exchange.await,
    }
}

fn cause(error: &hyper::Error) -> String {
    if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() }
}

/// The TLS configuration for an extender. Like Kubernetes, `enableHTTPS` without authorities does not verify the server; without
/// `enableHTTPS` the machine's authorities vouch for it.
fn tls(settings: &ExtenderTls, enable_https: bool) -> Result<ClientConfig, String> {
    let bad = |what: &str, error: &dyn Display| format!("{what}: {error}");
    let authorities = pem("caFile", &settings.ca_file, &settings.ca_data)?;
    if settings.insecure && authorities.is_some() {
        return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| bad("TLS versions", &error))?;
    let builder = match &authorities {
        Some(pem) => {
            let listed = ListedServers::new(certificates("caFile", pem)?, provider);
            let listed = listed.map_err(|error| bad("caFile", &error))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(listed))
        }
        None if settings.insecure || enable_https => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer::new(provider)))
        }
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots)
        }
    };
    let certificate = pem("certFile", &settings.cert_file, &settings.cert_data)?;
    let key = pem("keyFile", &settings.key_file, &settings.key_data)?;
    match (certificate, key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let chain = certificates("certFile", &certificate)?;
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| bad("keyFile", &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| bad("certFile", &error))
        }
        _ => Err("a client certificate needs its key, and a key its certificate".to_owned()),
    }
}

/// The PEM text of a setting that is given as data or as a file; `None` if it is not given.
fn pem(what: &str, file: &str, data: &str) -> Result<Option<Vec<u8>>, String> {
    match (data.is_empty(), file.is_empty()) {
        (false, _) => STANDARD.decode(data).map(Some).map_err(|error| format!("{what}: {error}")),
        (true, false) => std::fs::read(file).map(Some).map_err(|error| format!("{what} {file}: {error}")),
        (true, true) => Ok(None),
    }
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match all.map_err(|error| format!("{what}: {error}"))? {
        all if all.is_empty() => Err(format!("{what}: holds no certificate")),
        all => Ok(all),
    }
}
