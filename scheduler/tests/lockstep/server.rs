//! The API server as a child process, and a client of its REST API.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kstore_client::Kubeconfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A running kstore-server without a scheduler, killed on drop.
pub(crate) struct Server {
    child: Child,
    kubeconfig: PathBuf,
}

impl Server {
    /// Starts the program and waits until it is ready.
    pub(crate) fn start(program: &str, dir: &Path) -> Self {
        let log = std::fs::File::create(dir.join("kstore-server.log")).unwrap();
        let mut child = Command::new(program)
            .args(["--in-memory", "--listen", "127.0.0.1:0", "--components", "apiserver"])
            .args(["--kubernetes-version", "1.36"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let kubeconfig = lines.find_map(|line| {
            let (name, value) = line.trim().split_once("  ")?;
            (name == "kubeconfig").then(|| PathBuf::from(value.trim()))
        });
        let kubeconfig = kubeconfig.expect("the server says where its kubeconfig is");
        // Reads to the end: a full pipe must not block the server.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, kubeconfig }
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
pub(crate) struct Reply {
    /// The status code.
    pub(crate) code: u16,
    /// The body; null if it is no JSON.
    pub(crate) body: Value,
}

impl Reply {
    /// The message of a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A client on one connection.
pub(crate) struct Rest {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Rest {
    /// Connects as the administrator.
    pub(crate) async fn connect(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read(kubeconfig).unwrap();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(kubeconfig.ca.as_deref().unwrap()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let admin = kubeconfig.identity.as_ref().unwrap();
        let chain = CertificateDer::pem_slice_iter(&admin.certificate).collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(&admin.key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let authority = kubeconfig.server.strip_prefix("https://").unwrap().to_owned();
        let host = authority.rsplit_once(':').unwrap().0.to_owned();
        let stream = TcpStream::connect(&authority).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(ServerName::try_from(host).unwrap(), stream).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { authority, sender }
    }

    /// Sends a request with a JSON body.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: &str) -> Reply {
        self.call_as(method, path, "application/json", body).await
    }

    /// Sends a request with a body of this content type.
    pub(crate) async fn call_as(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Reply {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, content_type)
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Reply { code, body: serde_json::from_slice(&body).unwrap_or_default() }
    }
}
