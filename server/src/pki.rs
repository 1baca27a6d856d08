//! Certificates: the cluster's certificate authority, the server's certificate and the clients'. They are
//! created at the first start and kept under `pki/`, or only in memory without a data directory. A
//! certificate carries a user name and a group; authorization is elsewhere.
//!
//! Keys are ECDSA P-256 from the system's generator. Cryptography is the only randomness that does not come
//! from `nondet`: a key from a seed would be a known key.

use crate::files::write_private;
use anyhow::{Context, anyhow};
use jiff::{SignedDuration, Timestamp};
use kstore_access::token::Tokens;
use kstore_controllers::{Signing, SigningAuthority};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;

/// Validity of certificates. Long, so that a development cluster does not stop working by its age.
const VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Remaining validity below which a certificate is replaced at the next start.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How far certificates are valid before their creation, for clients whose clock is behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(1);
/// Names under which clients reach the API inside a cluster and on this machine.
const SERVING_NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Stem of the file names of a server's certificate.
pub(crate) const SERVING: &str = "apiserver";

/// Stems of all certificates of a data directory: the authorities first.
pub(crate) const ALL: [&str; 8] = [
    CLIENTS_AND_SERVERS.file,
    FRONT_PROXIES.file,
    SERVING,
    ADMIN.file,
    CONTROLLERS.file,
    SCHEDULER.file,
    KUBELET_SIM.file,
    FRONT_PROXY.file,
];

/// A user with a client certificate of this cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Stem of file names: `admin` for `pki/admin.crt` and `admin.kubeconfig`.
    pub file: &'static str,
    /// The user name (common name).
    pub user: &'static str,
    /// The group (organization), if any.
    pub group: Option<&'static str>,
}

/// The cluster's administrator.
pub(crate) const ADMIN: Identity =
    Identity { file: "admin", user: "kubernetes-admin", group: Some("system:masters") };
/// The controllers.
pub(crate) const CONTROLLERS: Identity =
    Identity { file: "controllers", user: "system:kube-controller-manager", group: None };
/// The scheduler.
pub(crate) const SCHEDULER: Identity =
    Identity { file: "scheduler", user: "system:kube-scheduler", group: None };
/// The simulated nodes.
pub(crate) const KUBELET_SIM: Identity =
    Identity { file: "kubelet-sim", user: "system:kstore:kubelet-sim", group: Some("system:nodes") };
/// The metrics server. It has no certificate, since it never runs in another process.
pub(crate) const METRICS_SERVER: Identity =
    Identity { file: "metrics-server", user: "system:kstore:metrics-server", group: None };

/// The cloud of a Cluster Autoscaler. It has no certificate, as the metrics server.
pub(crate) const AUTOSCALER: Identity =
    Identity { file: "autoscaler", user: "system:kstore:autoscaler", group: None };

/// The apiserver as a front proxy of aggregated API servers. A separate authority signs its certificate, so
/// that no other client certificate of this cluster is accepted as a front proxy.
const FRONT_PROXY: Identity =
    Identity { file: "front-proxy-client", user: kstore_pipeline::bootstrap::FRONT_PROXY, group: None };

/// File and common names of a certificate authority.
struct AuthorityNames {
    /// Stem of file names.
    file: &'static str,
    name: &'static str,
}

const CLIENTS_AND_SERVERS: AuthorityNames = AuthorityNames { file: "ca", name: "kstore-ca" };
const FRONT_PROXIES: AuthorityNames =
    AuthorityNames { file: "front-proxy-ca", name: "kstore-front-proxy-ca" };

/// A certificate and its private key in PEM.
#[derive(Clone)]
pub(crate) struct Credential {
    pub certificate_pem: String,
    /// PKCS#8.
    pub key_pem: String,
}

/// Prints no key: debug output may end up in logs.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").finish_non_exhaustive()
    }
}

/// A certificate authority, and the files of its certificates.
pub(crate) struct Pki {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    ca_key_pem: String,
    directory: Option<PathBuf>,
    now: Timestamp,
}

impl Pki {
    /// Creates an authority that is never written to disk.
    pub(crate) fn in_memory(now: Timestamp) -> anyhow::Result<Self> {
        Self::over(new_authority(&CLIENTS_AND_SERVERS, now)?, None, now)
    }

    /// Loads the authority in `directory`, or creates it.
    pub(crate) fn open(directory: &Path, now: Timestamp) -> anyhow::Result<Self> {
        Self::kept(&CLIENTS_AND_SERVERS, directory, now)
    }

    /// The apiserver's certificate as a front proxy, and the PEM of the authority that signed it. Both are
    /// kept in this authority's directory.
    pub(crate) fn front_proxy(&self) -> anyhow::Result<(Credential, String)> {
        let authority = match &self.directory {
            Some(directory) => Self::kept(&FRONT_PROXIES, directory, self.now)?,
            None => Self::over(new_authority(&FRONT_PROXIES, self.now)?, None, self.now)?,
        };
        Ok((authority.client(&FRONT_PROXY)?, authority.ca_pem))
    }

    fn kept(authority: &AuthorityNames, directory: &Path, now: Timestamp) -> anyhow::Result<Self> {
        let kept = match load(directory, authority.file)? {
            Some(credential) => credential,
            None => {
                let credential = new_authority(authority, now)?;
                save(directory, authority.file, &credential)?;
                credential
            }
        };
        Self::over(kept, Some(directory.into()), now)
            .with_context(|| format!("cannot use the certificate authority in {}", directory.display()))
    }

    fn over(ca: Credential, directory: Option<PathBuf>, now: Timestamp) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(&ca.key_pem)?;
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate_pem, key)?;
        Ok(Self { issuer, ca_pem: ca.certificate_pem, ca_key_pem: ca.key_pem, directory, now })
    }

    /// The authority's certificate in PEM.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The authority as the signer of approved CertificateSigningRequests; the server accepts the
    /// certificates from clients.
    pub(crate) fn signing(&self) -> anyhow::Result<Signing> {
        let authority = SigningAuthority::from_pem(&self.ca_pem, &self.ca_key_pem)?;
        Ok(Signing { authority, longest: Signing::LONGEST })
    }

    /// The server's certificate for the names of this machine, `host` (an address or a name), in-cluster
    /// names, and the address of the Service `default/kubernetes`.
    pub(crate) fn serving(&self, host: &str, service: IpAddr) -> anyhow::Result<Credential> {
        let names = serving_names(host, service);
        self.leaf(SERVING, |kept| covers(kept, &names), || self.serving_params(&names))
    }

    fn serving_params(&self, names: &[String]) -> Result<CertificateParams, rcgen::Error> {
        let mut params = self.leaf_params("kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth);
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        Ok(params)
    }

    /// The files of the server's certificate and its key; `None` if they are only in memory.
    pub(crate) fn serving_files(&self) -> Option<(PathBuf, PathBuf)> {
        self.directory.as_deref().map(serving_files)
    }

    /// The client certificate of a user.
    pub(crate) fn client(&self, identity: &Identity) -> anyhow::Result<Credential> {
        self.leaf(identity.file, |_| true, || self.client_params(identity))
    }

    fn client_params(&self, identity: &Identity) -> Result<CertificateParams, rcgen::Error> {
        Ok(self.leaf_params(identity.user, identity.group, ExtendedKeyUsagePurpose::ClientAuth))
    }

    /// A new serving certificate for these host names and addresses, which is not kept.
    pub(crate) fn issue_serving(&self, names: &[String]) -> anyhow::Result<Credential> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let common_name = names.first().map(String::as_str).unwrap_or_default();
        let mut params = self.leaf_params(common_name, None, ExtendedKeyUsagePurpose::ServerAuth);
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        let certificate_pem = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Credential { certificate_pem, key_pem: key.serialize_pem() })
    }

    /// Replaces the server's certificate by one for the same names.
    ///
    /// # Errors
    /// There is none yet, or the files cannot be written.
    pub(crate) fn renew_serving(&self) -> anyhow::Result<()> {
        let kept = self.directory.as_ref().map(|directory| load(directory, SERVING)).transpose()?.flatten();
        let kept = kept.context("there is no certificate of a server; a start creates it")?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(kept.certificate_pem.as_bytes())?;
        let names = names_in(&pem.parse_x509()?);
        self.issue(SERVING, || self.serving_params(&names)).map(drop)
    }

    /// Replaces the client certificate of a user.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn renew_client(&self, identity: &Identity) -> anyhow::Result<Credential> {
        self.issue(identity.file, || self.client_params(identity))
    }

    /// Replaces the apiserver's certificate as a front proxy; a running server uses the last one until it ends.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub(crate) fn renew_front_proxy(&self) -> anyhow::Result<()> {
        let directory = self.directory.as_ref().context("the certificates are only in memory")?;
        let authority = Self::kept(&FRONT_PROXIES, directory, self.now)?;
        authority.renew_client(&FRONT_PROXY).map(drop)
    }

    /// The signing key of service account tokens: `sa.key`, created once. It is not renewed with
    /// certificates, because that would invalidate all issued tokens.
    pub(crate) fn service_account_key(&self) -> anyhow::Result<Tokens> {
        let path = self.directory.as_ref().map(|directory| directory.join("sa.key"));
        let kept = match &path {
            Some(path) if path.exists() => Some(std::fs::read_to_string(path)),
            _ => None,
        };
        let key = match kept {
            Some(text) => KeyPair::from_pem(&text?),
            None => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        };
        let key = key.context("cannot use sa.key, the key of service accounts")?;
        if let Some(path) = path.filter(|path| !path.exists()) {
            write_private(&path, key.serialize_pem().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Tokens::new(&key.serialize_der()).context("sa.key, the key of service accounts, is not a P-256 key")
    }

    /// The kept certificate if it is still valid and fits, else a new one.
    fn leaf(
        &self,
        file: &str,
        still_fits: impl Fn(&x509_parser::certificate::X509Certificate<'_>) -> bool,
        params: impl Fn() -> Result<CertificateParams, rcgen::Error>,
    ) -> anyhow::Result<Credential> {
        if let Some(directory) = &self.directory
            && let Some(kept) = load(directory, file)?
            && self.is_good(&kept, still_fits)
        {
            return Ok(kept);
        }
        self.issue(file, params)
    }

    /// A new certificate and key, which replace those under this name.
    fn issue(
        &self,
        file: &str,
        params: impl Fn() -> Result<CertificateParams, rcgen::Error>,
    ) -> anyhow::Result<Credential> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate_pem = params()?.signed_by(&key, &self.issuer)?.pem();
        let credential = Credential { certificate_pem, key_pem: key.serialize_pem() };
        if let Some(directory) = &self.directory {
            save(directory, file, &credential)?;
        }
        Ok(credential)
    }

    fn leaf_params(
        &self,
        user: &str,
        group: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> CertificateParams {
        let mut params = validity(self.now);
        params.distinguished_name = name(user, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        params
    }

    /// Whether this authority signed the certificate, its validity is long enough, and it fits.
    fn is_good(
        &self,
        kept: &Credential,
        still_fits: impl Fn(&x509_parser::certificate::X509Certificate<'_>) -> bool,
    ) -> bool {
        let (Ok((_, ca)), Ok((_, leaf))) = (
            x509_parser::pem::parse_x509_pem(self.ca_pem.as_bytes()),
            x509_parser::pem::parse_x509_pem(kept.certificate_pem.as_bytes()),
        ) else {
            return false;
        };
        let (Ok(ca), Ok(leaf)) = (ca.parse_x509(), leaf.parse_x509()) else { return false };
        let enough = self.now.as_second() + RENEW_BEFORE.as_secs();
        // The key identifier is derived from the authority's key: equal identifiers mean the same authority.
        issuer_key_id(&leaf) == subject_key_id(&ca)
            && leaf.issuer() == ca.subject()
            && leaf.validity().not_after.timestamp() > enough
            && KeyPair::from_pem(&kept.key_pem)
                .is_ok_and(|key| key.public_key_raw() == leaf.public_key().subject_public_key.data.as_ref())
            && still_fits(&leaf)
    }
}

/// A self-signed server certificate for these names. With a directory it is loaded from `apiserver.crt` and
/// `apiserver.key`, unchanged; if one is missing, both are created. Without a directory it is only in memory.
pub(crate) fn self_signed(
    directory: Option<&Path>,
    names: &[String],
    now: Timestamp,
) -> anyhow::Result<Credential> {
    if let Some(directory) = directory
        && let Some(kept) = load(directory, SERVING)?
    {
        return Ok(kept);
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = validity(now);
    params.distinguished_name = name("kube-apiserver", None);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    let credential =
        Credential { certificate_pem: params.self_signed(&key)?.pem(), key_pem: key.serialize_pem() };
    if let Some(directory) = directory {
        save(directory, SERVING, &credential)?;
    }
    Ok(credential)
}

/// The files of a server's certificate and its key in a directory.
pub(crate) fn serving_files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join(format!("{SERVING}.crt")), directory.join(format!("{SERVING}.key")))
}

/// Names of the server's certificate: this machine's, `host` (an address or a name), in-cluster names, and
/// the address of the Service `default/kubernetes`.
pub(crate) fn serving_names(host: &str, service: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = SERVING_NAMES.map(String::from).into();
    names.push(service.to_string());
    let wildcard = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    if !host.is_empty() && !wildcard && !names.iter().any(|n| n == host) {
        names.push(host.into());
    }
    names
}

fn new_authority(authority: &AuthorityNames, now: Timestamp) -> anyhow::Result<Credential> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = validity(now);
    params.distinguished_name = name(authority.name, None);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(Credential { certificate_pem: params.self_signed(&key)?.pem(), key_pem: key.serialize_pem() })
}

fn validity(now: Timestamp) -> CertificateParams {
    let at = |t: Timestamp| {
        OffsetDateTime::from_unix_timestamp(t.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    };
    let mut params = CertificateParams::default();
    params.not_before = at(now.saturating_sub(CLOCK_SKEW).unwrap_or(now));
    params.not_after = at(now.saturating_add(VALIDITY).unwrap_or(now));
    params
}

fn name(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name.push(DnType::CommonName, user);
    name
}

/// The addresses and host names that the certificate is valid for.
fn names_in(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Vec<String> {
    use x509_parser::extensions::GeneralName;
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(IpAddr::from([a, b, c, d]).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
        },
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

/// Whether the certificate is valid for all of these names.
fn covers(certificate: &x509_parser::certificate::X509Certificate<'_>, names: &[String]) -> bool {
    let has = names_in(certificate);
    let is_same = |name: &str, other: &str| match (name.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(name), Ok(other)) => name == other,
        _ => name == other,
    };
    names.iter().all(|name| has.iter().any(|other| is_same(name, other)))
}

fn subject_key_id(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Option<Vec<u8>> {
    use x509_parser::extensions::ParsedExtension;
    certificate.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

fn issuer_key_id(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Option<Vec<u8>> {
    use x509_parser::extensions::ParsedExtension;
    certificate.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    })
}

/// Loads the certificate and key under this name. `None` if one of the files is missing, as after a crash
/// between the two writes.
fn load(directory: &Path, file: &str) -> anyhow::Result<Option<Credential>> {
    let read = |extension: &str| {
        let path = directory.join(format!("{file}.{extension}"));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(anyhow!(error).context(format!("cannot read {}", path.display()))),
        }
    };
    let (certificate, key) = (read("crt")?, read("key")?);
    Ok(certificate.zip(key).map(|(certificate_pem, key_pem)| Credential { certificate_pem, key_pem }))
}

/// Writes the key, then the certificate: a certificate on disk always has its key.
fn save(directory: &Path, file: &str, credential: &Credential) -> anyhow::Result<()> {
    let write = |extension: &str, text: &str| {
        let path = directory.join(format!("{file}.{extension}"));
        write_private(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    };
    write("key", &credential.key_pem)?;
    write("crt", &credential.certificate_pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1));
    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    #[test]
    fn certificates_are_created_once_and_reused() {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::open(dir.path(), NOW).unwrap();
        let (admin, serving) = (first.client(&ADMIN).unwrap(), first.serving("127.0.0.1", SERVICE).unwrap());
        let second = Pki::open(dir.path(), NOW).unwrap();
        assert_eq!(second.ca_pem(), first.ca_pem());
        assert_eq!(second.client(&ADMIN).unwrap().key_pem, admin.key_pem);
        assert_eq!(second.serving("0.0.0.0", SERVICE).unwrap().key_pem, serving.key_pem);
        let wider = second.serving("api.example.com", SERVICE).unwrap();
        assert_ne!(wider.key_pem, serving.key_pem, "a new name needs a new certificate");
    }

    #[test]
    fn a_certificate_near_its_end_or_of_another_authority_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let old = Pki::open(dir.path(), NOW).unwrap().client(&SCHEDULER).unwrap();
        let later = NOW.saturating_add(VALIDITY - SignedDuration::from_hours(24 * 300)).unwrap();
        let renewed = Pki::open(dir.path(), later).unwrap().client(&SCHEDULER).unwrap();
        assert_ne!(renewed.key_pem, old.key_pem);
        std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
        let foreign = Pki::open(dir.path(), later).unwrap().client(&SCHEDULER).unwrap();
        assert_ne!(foreign.key_pem, renewed.key_pem);
    }

    #[test]
    fn the_front_proxy_has_its_own_persistent_authority() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open(dir.path(), NOW).unwrap();
        let (credential, ca) = pki.front_proxy().unwrap();
        assert_ne!(ca, pki.ca_pem());
        let (again, kept) = Pki::open(dir.path(), NOW).unwrap().front_proxy().unwrap();
        assert_eq!((again.key_pem, kept), (credential.key_pem, ca));
    }

    #[test]
    fn a_client_certificate_names_user_and_group() {
        let pki = Pki::in_memory(NOW).unwrap();
        let pem = pki.client(&KUBELET_SIM).unwrap().certificate_pem;
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        let subject = pem.parse_x509().unwrap().subject().to_string();
        assert_eq!(subject, "O=system:nodes, CN=system:kstore:kubelet-sim");
    }
}
