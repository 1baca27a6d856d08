//! Connections to etcd members: over TCP, with or without TLS, or over a Unix socket. Tests provide their own
//! [`Dial`].

use crate::limits::ETCD_CONNECT;
use async_trait::async_trait;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// A byte stream to a member.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Opens connections to members.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Opens a connection to a member.
    async fn dial(&self, member: &Url) -> io::Result<Box<dyn Wire>>;
}

/// The address of a member: `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the member uses TLS.
    pub secure: bool,
    /// A host name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path of a Unix socket. If it is set, connections do not use host and port.
    pub socket: Option<PathBuf>,
}

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an etcd URL: expected http://HOST:PORT, https://HOST:PORT or unix:///PATH"
            )
        };
        if let Some(path) = text.strip_prefix("unix://") {
            let is_file = path.starts_with('/') && !path.ends_with('/');
            let socket = is_file.then(|| path.into()).ok_or_else(wrong)?;
            return Ok(Self { secure: false, host: "localhost".to_owned(), port: 0, socket: Some(socket) });
        }
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let port = uri.port_u16().ok_or_else(wrong)?;
        let bare = uri.path().trim_matches('/').is_empty() && uri.query().is_none();
        let named = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        match bare && named {
            true => Ok(Self { secure, host: host.trim_matches(['[', ']']).to_owned(), port, socket: None }),
            false => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(socket) = &self.socket {
            return write!(f, "unix://{}", socket.display());
        }
        let scheme = if self.secure { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// Connections over the network.
#[derive(Clone)]
pub struct Network {
    tls: Option<TlsConnector>,
}

/// Why the TLS configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The content of a file is invalid.
    #[error("invalid {what}: {why}")]
    Unusable {
        /// The kind of the file.
        what: &'static str,
        /// Why the file cannot be used.
        why: String,
    },
    /// Certificate and key do not belong together, or TLS cannot be configured.
    #[error("the client certificate and key do not match: {0}")]
    Mismatch(#[from] rustls::Error),
}

impl Network {
    /// Connections without TLS, to `http` members only.
    pub fn plain() -> Self {
        Self { tls: None }
    }

    /// Connections with TLS. Members must present a certificate signed by `authorities`. `ours` (chain and
    /// key) is the client certificate, if any. All PEM.
    ///
    /// # Errors
    /// If a PEM text is invalid, or certificate and key do not belong together.
    pub fn tls(authorities: &[u8], ours: Option<(&[u8], &[u8])>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates("certificate authority", authorities)? {
            roots.add(authority).map_err(|error| unusable("certificate authority", &error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match ours {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates("client certificate", chain)?;
                let key =
                    PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("client key", &error))?;
                builder.with_client_auth_cert(chain, key)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    async fn connect(&self, member: &Url) -> io::Result<Box<dyn Wire>> {
        if let Some(socket) = &member.socket {
            return Ok(Box::new(UnixStream::connect(socket).await?));
        }
        let tcp = TcpStream::connect((member.host.as_str(), member.port)).await?;
        tcp.set_nodelay(true)?;
        if !member.secure {
            return Ok(Box::new(tcp));
        }
        let tls = self
            .tls
            .as_ref()
            .ok_or_else(|| io::Error::other("no certificate authority is configured for an https member"))?;
        let name = ServerName::try_from(member.host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(tls.connect(name, tcp).await?))
    }
}

#[async_trait]
impl Dial for Network {
    async fn dial(&self, member: &Url) -> io::Result<Box<dyn Wire>> {
        match tokio::time::timeout(ETCD_CONNECT, self.connect(member)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the connection timed out")),
        }
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unusable(what, &error))?;
    match found.is_empty() {
        true => Err(unusable(what, &"it contains no certificate")),
        false => Ok(found),
    }
}

fn unusable(what: &'static str, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::Unusable { what, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port_or_a_socket_and_nothing_else() {
        for good in
            ["http://127.0.0.1:2379", "https://db.example:2379", "http://[::1]:2379", "unix:///run/etcd.sock"]
        {
            assert_eq!(good.parse::<Url>().unwrap().to_string(), good);
        }
        assert_eq!("http://a:1/".parse::<Url>().unwrap().to_string(), "http://a:1");
        for bad in [
            "127.0.0.1:2379",
            "http://a",
            "ftp://a:1",
            "unix://etcd.sock",
            "http://a:1/x",
            "http://u:p@a:1",
            "",
            "http://:1",
        ] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_the_invalid_certificate_file() {
        let error = Network::tls(b"nothing", None).err().unwrap().to_string();
        assert_eq!(error, "invalid certificate authority: it contains no certificate");
    }
}
