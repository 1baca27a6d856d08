//! [`Authority`]: the certificate authority of all clusters of a process, the TLS of their ports, and kubeconfig files. Its certificates
//! are valid from 1975 to 4096, so that no clock refuses them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_access::token::Tokens;
use kstore_registry::outbound::FrontProxy;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

/// Host names and addresses in the serving certificate.
const SERVING_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "kubernetes.default.svc"];

/// The name in the certificate of the front proxy, which API servers publish for those behind APIServices.
const FRONT_PROXY: &str = "front-proxy-client";

/// Keys or certificates cannot be created or used.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the certificates of the lab: {0}")]
pub struct AuthorityError(String);

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<rustls::Error> for AuthorityError {
    fn from(error: rustls::Error) -> Self {
        Self(error.to_string())
    }
}

/// The keys of clusters: of their certificates and of their service account tokens. All clusters of a process share them, but for those
/// from a snapshot file with keys.
pub struct ClusterKeys {
    /// The certificate authority.
    pub authority: Authority,
    /// Signs and checks tokens.
    pub tokens: Arc<Tokens>,
    token_key: Vec<u8>,
}

/// Keys in the forms in which files have them.
pub(crate) struct KeyParts {
    /// The authority's certificate as PEM.
    pub(crate) authority: String,
    /// The authority's private key as PEM.
    pub(crate) authority_key: String,
    /// The private key of tokens (PKCS #8).
    pub(crate) token_key: Vec<u8>,
}

impl std::fmt::Debug for ClusterKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterKeys").finish_non_exhaustive()
    }
}

impl ClusterKeys {
    /// New keys. `names` are those of [`Authority::new`].
    ///
    /// # Errors
    /// The system has no randomness, or TLS refuses the certificates.
    pub fn new(names: &[String]) -> Result<Self, AuthorityError> {
        let token_key = KeyPair::generate()?.serialize_der();
        Self::with(Authority::new(names)?, token_key)
    }

    /// Keys from a file. `names` are those of [`Authority::new`].
    ///
    /// # Errors
    /// They are malformed.
    pub(crate) fn of(parts: KeyParts, names: &[String]) -> Result<Self, AuthorityError> {
        let KeyParts { authority, authority_key, token_key } = parts;
        Self::with(Authority::of(&authority, &authority_key, names)?, token_key)
    }

    fn with(authority: Authority, token_key: Vec<u8>) -> Result<Self, AuthorityError> {
        let tokens = Tokens::new(&token_key);
        let tokens = tokens.map_err(|_| AuthorityError("the key of tokens is malformed".to_owned()))?;
        Ok(Self { authority, tokens: Arc::new(tokens), token_key })
    }

    /// The keys in the forms of a file.
    pub(crate) fn parts(&self) -> KeyParts {
        KeyParts {
            authority: self.authority.pem.clone(),
            authority_key: self.authority.issuer.key().serialize_pem(),
            token_key: self.token_key.clone(),
        }
    }
}

/// The certificate with which clusters authenticate to the API servers behind APIServices as their front proxy, and its authority, which is
/// the authority of nothing else.
#[derive(Debug)]
pub struct FrontProxyKeys {
    authority: Authority,
    certificate: String,
    key: String,
}

impl FrontProxyKeys {
    /// New keys.
    ///
    /// # Errors
    /// The system has no randomness, or TLS refuses the certificates.
    pub fn new() -> Result<Self, AuthorityError> {
        let authority = Authority::new(&[])?;
        let (certificate, key) = authority.client(FRONT_PROXY, &[])?;
        Ok(Self { authority, certificate, key })
    }

    /// PEM of the authority.
    pub fn authority(&self) -> &str {
        self.authority.pem()
    }

    /// The certificate in the form of the client of API servers.
    pub(crate) fn front_proxy(&self) -> Result<FrontProxy, String> {
        FrontProxy::from_pem(&self.certificate, &self.key).map_err(|error| error.to_string())
    }
}

/// The credentials in a kubeconfig.
#[derive(Clone, Debug)]
pub enum Credentials<'a> {
    /// A new client certificate of this user and these groups.
    Certificate(&'a str, &'a [String]),
    /// A token, with the name of its user.
    Token(&'a str, &'a str),
}

/// A certificate authority in memory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key_pem: String,
    names: Vec<String>,
    tls: Arc<ServerConfig>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority with a new key. `names` are host names and addresses of the listeners, beside those of this machine.
    ///
    /// # Errors
    /// The system has no randomness, TLS refuses the certificates, or a name cannot be in one.
    pub fn new(names: &[String]) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let certificate = params().self_signed(&key)?;
        Self::with(certificate.pem(), certificate.der().clone(), key, names)
    }

    /// An authority with this certificate and key, as PEM.
    ///
    /// # Errors
    /// They are malformed, or TLS refuses them.
    fn of(pem: &str, key: &str, names: &[String]) -> Result<Self, AuthorityError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|error| AuthorityError(error.to_string()))?.into_owned();
        Self::with(pem.to_owned(), der, KeyPair::from_pem(key)?, names)
    }

    fn with(
        pem: String,
        der: CertificateDer<'static>,
        key: KeyPair,
        names: &[String],
    ) -> Result<Self, AuthorityError> {
        let key_pem = key.serialize_pem();
        let issuer = Issuer::new(params(), key);
        let mut all_names: Vec<String> = SERVING_NAMES.map(str::to_owned).into();
        all_names.extend(names.iter().filter(|name| !SERVING_NAMES.contains(&name.as_str())).cloned());
        let mut serving = CertificateParams::new(all_names)?;
        serving.distinguished_name = subject("kube-apiserver", &[]);
        let (certificate, key) = leaf(&issuer, serving, ExtendedKeyUsagePurpose::ServerAuth)?;
        let mut roots = RootCertStore::empty();
        roots.add(der)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| AuthorityError(error.to_string()))?;
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key.into())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { issuer, pem, key_pem, names: names.to_owned(), tls: tls.into() })
    }

    /// TLS of all ports. Client certificates are optional: clients may use tokens or be anonymous.
    pub fn tls(&self) -> Arc<ServerConfig> {
        self.tls.clone()
    }

    /// The authority's certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The further names of its listeners.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The authority's key as PEM (PKCS#8), for signers of certificates.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// A new client certificate of a user in these groups, and its key, both as PEM.
    ///
    /// # Errors
    /// The key or certificate cannot be created.
    pub fn client(&self, user: &str, groups: &[String]) -> Result<(String, String), AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(user, groups);
        let (certificate, key) = leaf(&self.issuer, params, ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// A kubeconfig file (YAML) for the cluster at `url`.
    ///
    /// # Errors
    /// The key or certificate cannot be created.
    pub fn kubeconfig(&self, url: &str, credentials: &Credentials<'_>) -> Result<String, AuthorityError> {
        let (name, user) = match credentials {
            Credentials::Token(name, token) => (*name, serde_json::json!({"token": token})),
            Credentials::Certificate(name, groups) => {
                let (certificate, key) = self.client(name, groups)?;
                let [certificate, key] = [certificate, key].map(|pem| STANDARD.encode(pem));
                (*name, serde_json::json!({"client-certificate-data": certificate, "client-key-data": key}))
            }
        };
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kstore",
            "clusters": [{"name": "kstore", "cluster": {
                "server": url,
                "certificate-authority-data": STANDARD.encode(&self.pem),
            }}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "kstore", "context": {"cluster": "kstore", "user": name}}],
        });
        serde_yaml_ng::to_string(&config).map_err(|error| AuthorityError(error.to_string()))
    }
}

/// The authority's certificate, but for its key.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("kstore-lab-ca", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(
    issuer: &Issuer<'static, KeyPair>,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    let key = KeyPair::generate()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    Ok((params.signed_by(&key, issuer)?, key))
}

fn subject(name: &str, groups: &[String]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    for group in groups {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    subject
}
