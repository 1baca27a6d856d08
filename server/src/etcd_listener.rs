//! Opens the etcd API's listener: binds it, loads its certificates, and determines the URL that clients use.
//! The crate `etcd` serves on it.

use crate::args::{EtcdAddress, EtcdListen, EtcdTls, ListenAddress};
use crate::listen::{self, RebindableListener};
use crate::socket_file::SocketFile;
use crate::tls::ServingCertificate;
use anyhow::{Context, anyhow, bail};
use kstore_etcd::{Listener, Options};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};

const FLAG: &str = "--etcd-listen";

/// The bound listener of the etcd API, with its serving options. Connections wait until a server accepts
/// them.
#[derive(Debug)]
pub(crate) struct BoundEtcdListener {
    pub listener: BoundListener,
    pub options: Options,
}

/// A bound listener of the etcd API, which can be bound again.
#[derive(Debug)]
pub(crate) enum BoundListener {
    /// A TCP listener.
    Tcp(RebindableListener),
    /// A Unix socket, with the listener for the first generation of the server.
    Unix(Arc<SocketFile>, Option<UnixListener>),
}

impl BoundListener {
    /// The socket file, which is removed when the server stops.
    pub(crate) fn socket_file(&self) -> Option<Arc<SocketFile>> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(file, _) => Some(Arc::clone(file)),
        }
    }

    /// The listener for the next generation of the server. `None`, with an error in the log, if binding again
    /// failed.
    pub(crate) async fn next(&mut self) -> Option<Listener> {
        match self {
            Self::Tcp(listener) => listener.next().await.map(Listener::Tcp),
            Self::Unix(file, first) => {
                let next = first.take().map_or_else(|| bind_unix(file), Ok);
                next.inspect_err(|error| tracing::error!("cannot listen again: {error:#}"))
                    .ok()
                    .map(Listener::Unix)
            }
        }
    }
}

fn bind_unix(file: &SocketFile) -> anyhow::Result<UnixListener> {
    Ok(UnixListener::from_std(file.bind()?)?)
}

/// Binds the listener and reads its certificates. A listener that other machines can reach requires client
/// certificates, unless the flags waive them.
pub(crate) async fn open(config: &EtcdListen) -> anyhow::Result<BoundEtcdListener> {
    let mut open = match &config.listen {
        EtcdAddress::Tcp(address) => open_tcp(config, address).await?,
        EtcdAddress::Unix(path) => open_unix(config, path)?,
    };
    if let Some(name) = &config.name {
        open.options.name.clone_from(name);
    }
    Ok(open)
}

/// Warns of a TCP listener without client certificates beside an apiserver: its clients bypass the
/// apiserver's authorization.
pub(crate) fn warn_beside_apiserver(config: &EtcdListen) {
    let is_certified = config.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
    if let EtcdAddress::Tcp(address) = &config.listen
        && !is_certified
    {
        tracing::warn!(
            address = format!("{}:{}", address.host, address.port),
            "every user of this machine can read and write everything through {FLAG}, Secrets included: use {FLAG} \
             unix:///path/to.sock, or require client certificates with --etcd-trusted-ca-file"
        );
    }
}

fn open_unix(config: &EtcdListen, path: &Path) -> anyhow::Result<BoundEtcdListener> {
    if config.tls.is_some() {
        bail!("--etcd-cert-file is for TCP; access to the socket of {FLAG} is controlled by its file mode");
    }
    let file = SocketFile::new(path);
    let listener = bind_unix(&file).with_context(|| format!("see {FLAG}"))?;
    let advertised = config.advertise.clone().unwrap_or_else(|| format!("unix://{}", path.display()));
    let listener = BoundListener::Unix(Arc::new(file), Some(listener));
    Ok(BoundEtcdListener { listener, options: Options::plain(advertised) })
}

async fn open_tcp(config: &EtcdListen, listen: &ListenAddress) -> anyhow::Result<BoundEtcdListener> {
    let tls = config.tls.as_ref().map(tls).transpose()?;
    let listener = listen::bind(listen, FLAG).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let is_certified = config.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
    if !address.ip().is_loopback() && !is_certified && !config.allow_anyone {
        bail!(
            "{FLAG} {address} would be reachable from other machines, and every client could read and write everything: \
             listen on a loopback address (127.0.0.1:{}), require client certificates (--etcd-cert-file, \
             --etcd-key-file, --etcd-trusted-ca-file), or add --etcd-allow-anyone",
            address.port()
        );
    }
    let advertised = match &config.advertise {
        Some(url) => url.clone(),
        None => advertised(listen, config.tls.is_some(), &listener)?,
    };
    let listener = BoundListener::Tcp(RebindableListener::new(listener)?);
    Ok(BoundEtcdListener { listener, options: Options { tls, ..Options::plain(advertised) } })
}

/// The URL of the listener: with the host name of the flag, since certificates are issued for names; with
/// loopback for a wildcard address.
fn advertised(listen: &ListenAddress, is_tls: bool, listener: &TcpListener) -> anyhow::Result<String> {
    let scheme = if is_tls { "https" } else { "http" };
    let address = listen::reachable(listener)?;
    let is_name = !listen.host.is_empty() && listen.host.parse::<std::net::IpAddr>().is_err();
    if is_name {
        return Ok(format!("{scheme}://{}:{}", listen.host, address.port()));
    }
    Ok(format!("{scheme}://{address}"))
}

fn tls(files: &EtcdTls) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    certificates(&files.certificate, "--etcd-cert-file")?;
    PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| anyhow!("cannot read --etcd-key-file {}: {error}", files.key.display()))?;
    let serving = ServingCertificate::of_files(files.certificate.clone(), files.key.clone())
        .context("--etcd-cert-file and --etcd-key-file do not match")?;
    let config =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let config = match &files.clients {
        None => config.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(file, "--etcd-trusted-ca-file")? {
                roots
                    .add(authority)
                    .with_context(|| format!("{} is not a certificate authority", file.display()))?;
            }
            let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build()?;
            config.with_client_cert_verifier(clients)
        }
    };
    let mut config = config.with_cert_resolver(Arc::new(serving));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}

fn certificates(file: &Path, flag: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| anyhow!("cannot read {flag} {}: {error}", file.display()))?;
    if found.is_empty() {
        bail!("{flag} {} has no certificate", file.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Pki;
    use kstore_nondet::Nondet;
    use kstore_store::Store;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_util::sync::CancellationToken;

    fn config(listen: &str) -> EtcdListen {
        EtcdListen {
            listen: listen.parse().unwrap(),
            name: None,
            advertise: None,
            tls: None,
            allow_anyone: false,
        }
    }

    async fn tcp(open: &mut BoundEtcdListener) -> TcpListener {
        match open.listener.next().await {
            Some(Listener::Tcp(listener)) => listener,
            other => panic!("not on TCP: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_unix_socket_is_advertised_by_its_url_and_bound_again_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.sock");
        let mut open = super::open(&config(&format!("unix://{}", path.display()))).await.unwrap();
        assert_eq!(open.options.advertised, format!("unix://{}", path.display()));
        for _ in 0..2 {
            let listener = open.listener.next().await;
            assert!(matches!(listener, Some(Listener::Unix(_))), "{listener:?}");
            std::os::unix::net::UnixStream::connect(&path).unwrap();
        }
        let files = TlsFiles::make();
        let with_tls =
            EtcdListen { tls: Some(files.tls(false)), ..config(&format!("unix://{}", path.display())) };
        assert!(
            super::open(&with_tls).await.unwrap_err().to_string().contains("--etcd-cert-file is for TCP")
        );
    }

    #[tokio::test]
    async fn listening_beyond_loopback_without_client_certificates_needs_a_flag() {
        assert!(open(&config("127.0.0.1:0")).await.is_ok());
        let refused = open(&config(":0")).await.unwrap_err().to_string();
        assert!(
            refused.contains("every client could") && refused.contains("--etcd-allow-anyone"),
            "{refused}"
        );
        assert!(open(&EtcdListen { allow_anyone: true, ..config(":0") }).await.is_ok());
    }

    #[tokio::test]
    async fn the_advertised_url_reaches_the_listener() {
        for (listen, expected) in [
            ("127.0.0.1:0", "http://127.0.0.1:"),
            (":0", "http://127.0.0.1:"),
            ("localhost:0", "http://localhost:"),
        ] {
            let mut open = open(&EtcdListen { allow_anyone: true, ..config(listen) }).await.unwrap();
            let port = tcp(&mut open).await.local_addr().unwrap().port();
            assert_eq!(open.options.advertised, format!("{expected}{port}"));
        }
        let url = Some("http://db.example:2379".to_owned());
        let advertised = open(&EtcdListen { advertise: url.clone(), ..config("127.0.0.1:0") }).await.unwrap();
        assert_eq!(Some(advertised.options.advertised), url);
    }

    /// TLS files of a server and a client, signed by one authority.
    struct TlsFiles {
        dir: tempfile::TempDir,
        pki: Pki,
    }

    impl TlsFiles {
        fn make() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let pki = Pki::in_memory(Nondet::real().clock.now()).unwrap();
            let serving = pki.serving("127.0.0.1", std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
            for (name, text) in [
                ("crt", &serving.certificate_pem),
                ("key", &serving.key_pem),
                ("ca", &pki.ca_pem().to_owned()),
            ] {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            Self { dir, pki }
        }

        fn tls(&self, clients: bool) -> EtcdTls {
            let file = |name: &str| self.dir.path().join(name);
            EtcdTls { certificate: file("crt"), key: file("key"), clients: clients.then(|| file("ca")) }
        }

        /// The answer of the server to a client with or without a certificate.
        async fn version(&self, open: &std::net::SocketAddr, certified: bool) -> std::io::Result<String> {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(self.pki.ca_pem().as_bytes()).unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
            let config = if certified {
                let client = self.pki.client(&crate::pki::ADMIN).unwrap();
                let chain = vec![CertificateDer::from_pem_slice(client.certificate_pem.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(client.key_pem.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            } else {
                config.with_no_client_auth()
            };
            let socket = tokio::net::TcpStream::connect(open).await?;
            let name = rustls::pki_types::ServerName::from(open.ip());
            let mut tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
            tls.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
            let mut answer = String::new();
            tls.read_to_string(&mut answer).await?;
            Ok(answer)
        }
    }

    #[tokio::test]
    async fn client_certificates_are_required_if_a_client_authority_is_configured() {
        let files = TlsFiles::make();
        for clients in [false, true] {
            let config = EtcdListen { tls: Some(files.tls(clients)), ..config("127.0.0.1:0") };
            let mut open = open(&config).await.unwrap();
            assert!(open.options.advertised.starts_with("https://127.0.0.1:"));
            let listener = tcp(&mut open).await;
            let address = listener.local_addr().unwrap();
            let store = Store::open(kstore_store::Config::memory(), Nondet::real()).await.unwrap();
            let stop = CancellationToken::new();
            tokio::spawn(kstore_etcd::serve(store, listener, open.options, stop.clone()));
            let known = files.version(&address, true).await.unwrap();
            assert!(known.starts_with("HTTP/1.1 200") && known.contains("etcdserver"), "{known}");
            assert_eq!(files.version(&address, false).await.is_ok(), !clients, "without a certificate");
            stop.cancel();
        }
    }

    #[tokio::test]
    async fn listening_beyond_loopback_is_allowed_with_client_certificates() {
        let files = TlsFiles::make();
        let with = |clients| EtcdListen { tls: Some(files.tls(clients)), ..config(":0") };
        assert!(open(&with(true)).await.is_ok());
        assert!(open(&with(false)).await.is_err());
        let key = files.dir.path().join("none");
        let broken = EtcdListen { tls: Some(EtcdTls { key, ..files.tls(true) }), ..config(":0") };
        assert!(open(&broken).await.unwrap_err().to_string().contains("--etcd-key-file"));
    }
}
