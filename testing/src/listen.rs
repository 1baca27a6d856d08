//! [`Endpoint`]: serves a cluster on a TLS port of the loopback interface for clients in other processes, and creates kubeconfig files for
//! them. Clients in this process need no port.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Host names and addresses in the serving certificate.
const SERVING_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "kubernetes.default.svc"];

/// Why a cluster cannot be served over the network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// No port of the loopback interface could be bound.
    #[error("cannot listen on the loopback interface: {0}")]
    Bind(#[from] std::io::Error),
    /// Keys or certificates cannot be created.
    #[error("cannot make certificates: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS does not accept the certificates.
    #[error("cannot use the certificates for TLS: {0}")]
    Tls(String),
}

/// Address of a cluster's TLS listener, and the certificate authority of its clients. Returned by [`crate::Cluster::listen`]. The cluster
/// listens until it ends, even if the endpoint is dropped.
pub struct Endpoint {
    address: SocketAddr,
    authority: Authority,
    admin: String,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Binds a free port. Returns the endpoint, and the listener and TLS configuration for [`kstore_apiserver::ApiServer::serve`];
    /// connections wait until that runs.
    pub(crate) async fn bind() -> Result<(Self, TcpListener, Arc<ServerConfig>), ListenError> {
        let authority = Authority::new()?;
        let tls = authority.server()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let admin = authority.kubeconfig(address, "kubernetes-admin", Some("system:masters"))?;
        Ok((Self { address, authority, admin }, listener, tls))
    }

    /// The address on the loopback interface.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate of the authority that signed the server's certificate, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.authority.pem
    }

    /// The text of a kubeconfig file (YAML) for `kubernetes-admin` in the group `system:masters`, with its certificate and key.
    pub fn kubeconfig(&self) -> &str {
        &self.admin
    }

    /// The text of a kubeconfig file (YAML) with a new certificate for another user, who is a member of `group` and is authorized as on a
    /// real cluster.
    ///
    /// # Errors
    /// The key or certificate cannot be created.
    pub fn kubeconfig_as(&self, user: &str, group: Option<&str>) -> Result<String, ListenError> {
        Ok(self.authority.kubeconfig(self.address, user, group)?)
    }
}

/// An in-memory certificate authority. Its certificates have rcgen's default validity, which includes the time of every simulated clock.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
}

impl Authority {
    fn new() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject("kstore-testing-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self { issuer: Issuer::new(params, key), pem, der })
    }

    /// TLS configuration of the server. Client certificates are optional: clients may use tokens or be anonymous.
    fn server(&self) -> Result<Arc<ServerConfig>, ListenError> {
        let mut params = CertificateParams::new(SERVING_NAMES.map(str::to_owned))?;
        params.distinguished_name = subject("kube-apiserver", None);
        let (certificate, key) = self.leaf(params, ExtendedKeyUsagePurpose::ServerAuth)?;
        let refused = |error: &dyn fmt::Display| ListenError::Tls(error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).map_err(|error| refused(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| refused(&error))?;
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config
            .map_err(|error| refused(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .map_err(|error| refused(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config.into())
    }

    fn leaf(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }

    fn kubeconfig(
        &self,
        server: SocketAddr,
        user: &str,
        group: Option<&str>,
    ) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(user, group);
        let (certificate, key) = self.leaf(params, ExtendedKeyUsagePurpose::ClientAuth)?;
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kstore",
            "clusters": [{"name": "kstore", "cluster": {
                "server": format!("https://{server}"),
                "certificate-authority-data": STANDARD.encode(&self.pem),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate-data": STANDARD.encode(certificate.pem()),
                "client-key-data": STANDARD.encode(key.serialize_pem()),
            }}],
            "contexts": [{"name": "kstore", "context": {"cluster": "kstore", "user": user}}],
        });
        Ok(serde_yaml_ng::to_string(&config).expect("a JSON value can be written as YAML"))
    }
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    subject
}
