//! [`FrontProxies`]: proxies that authenticate users themselves and name them in `X-Remote-*` headers. A
//! proxy identifies itself by a client certificate of its own authority; these headers of other clients are
//! ignored. The headers that this server sends as a proxy are in `aggregator::headers`.

use super::remote_headers::{EXTRA_PREFIX, GROUP, UID, USER};
use super::x509;
use crate::peer::{ClientCertificate, Peer, Proxy};
use crate::percent_encoding::decode;
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use kstore_registry::user::UserInfo;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The trust in client certificates: which ones identify front proxies, and which ones users.
///
/// The TLS handshake accepts certificates of all authorities. The authority that signed a certificate then
/// decides here whether it identifies a proxy or a user.
#[derive(Clone, Debug)]
pub struct FrontProxies {
    /// Verifies certificates of proxies.
    pub authorities: Arc<dyn ClientCertVerifier>,
    /// The PEM of the proxies' authorities, which is published to extension API servers.
    pub authorities_pem: String,
    /// Allowed common names of proxies. If empty, every certificate of the authorities is a proxy's.
    pub allowed_names: Vec<String>,
    /// Verifies certificates of users, if users can authenticate by certificate.
    pub users: Option<Arc<dyn ClientCertVerifier>>,
}

impl FrontProxies {
    /// The peer of a connection by the client certificates it presented, leaf first. They must be valid at
    /// `now`.
    pub fn peer(&self, chain: &[CertificateDer<'_>], address: SocketAddr, now: Timestamp) -> Peer {
        let now =
            UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap_or_default()));
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Peer::Tls { certificate: None, proxy: None, address };
        };
        let is_good = |verifier: &Arc<dyn ClientCertVerifier>| {
            verifier.verify_client_cert(leaf, intermediates, now).is_ok()
        };
        let certificate =
            self.users.as_ref().filter(|users| is_good(users)).and_then(|_| x509::identity(leaf));
        let proxy =
            x509::identity(leaf).filter(|_| is_good(&self.authorities)).map(|shown| self.proxy(&shown));
        // A certificate that neither verifies is refused like that of a proxy without an allowed name,
        // instead of counting as anonymous.
        let unknown = Proxy { is_allowed: false, expires: Timestamp::MAX };
        let proxy = proxy.or_else(|| certificate.is_none().then_some(unknown));
        Peer::Tls { certificate, proxy, address }
    }

    fn proxy(&self, shown: &ClientCertificate) -> Proxy {
        let is_allowed = self.allowed_names.is_empty() || self.allowed_names.contains(&shown.user.username);
        Proxy { is_allowed, expires: shown.expires }
    }
}

/// The user that a proxy names in the headers of a request; `None` if it names none.
pub(super) fn user(headers: &HeaderMap) -> Option<UserInfo> {
    let texts = |name: &str| headers.get_all(name).iter().filter_map(text);
    let mut user = UserInfo::new(texts(USER).next()?, texts(GROUP));
    user.uid = texts(UID).next().unwrap_or_default();
    for (name, value) in headers {
        if let (Some(key), Some(value)) = (name.as_str().strip_prefix(EXTRA_PREFIX), text(value)) {
            user.extra.entry(decode(key)).or_default().push(value);
        }
    }
    Some(user)
}

fn text(value: &HeaderValue) -> Option<String> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::{Terms, authenticate_by_headers};
    use kstore_registry::user::AUTHENTICATED;
    use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
    use rustls::RootCertStore;
    use rustls::server::WebPkiClientVerifier;

    struct Authority {
        certificate: rcgen::Certificate,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            Self { certificate, issuer: Issuer::new(params, key) }
        }

        fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap()
        }

        fn client(&self, name: &str) -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap().der().clone()
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// The authenticated user name, or the code of the refusal.
    fn caller(peer: &Peer, pairs: &[(&'static str, &'static str)], now: Timestamp) -> Result<String, i32> {
        let terms = Terms { now, anonymous: true };
        let user = authenticate_by_headers(peer, &headers(pairs), None, terms);
        user.map(|user| user.username.clone()).map_err(|status| status.code.into())
    }

    #[test]
    fn only_proxies_with_an_allowed_name_are_trusted() {
        let (proxies, users, others) = (Authority::new(), Authority::new(), Authority::new());
        let front = FrontProxies {
            authorities: proxies.verifier(),
            authorities_pem: String::new(),
            allowed_names: vec!["front".into()],
            users: Some(users.verifier()),
        };
        let (now, address) = ("2026-06-01T00:00:00Z".parse().unwrap(), "127.0.0.1:1".parse().unwrap());
        let peer = |shown: &[CertificateDer<'_>]| front.peer(shown, address, now);
        let ann = [("x-remote-user", "ann")];
        assert_eq!(caller(&peer(&[proxies.client("front")]), &ann, now), Ok("ann".into()));
        assert_eq!(caller(&peer(&[proxies.client("front")]), &[], now), Err(401), "it names no user");
        assert_eq!(caller(&peer(&[proxies.client("other")]), &ann, now), Err(401), "no allowed name");
        assert_eq!(
            caller(&peer(&[users.client("front")]), &ann, now),
            Ok("front".into()),
            "a user of that name"
        );
        assert_eq!(caller(&peer(&[others.client("front")]), &ann, now), Err(401), "of neither authority");
        assert_eq!(caller(&peer(&[]), &ann, now), Ok("system:anonymous".into()), "no certificate");
        let later = "9999-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(caller(&peer(&[proxies.client("front")]), &ann, later), Err(401), "expired since");
        let any = FrontProxies { allowed_names: Vec::new(), ..front };
        assert_eq!(caller(&any.peer(&[proxies.client("other")], address, now), &ann, now), Ok("ann".into()));
    }

    #[test]
    fn headers_carry_name_uid_groups_and_extra_values() {
        let sent = headers(&[
            ("x-remote-user", " ann "),
            ("x-remote-user", "bob"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-scopes.example.com%2fall", "a"),
            ("x-remote-extra-scopes.example.com%2fall", "b"),
        ]);
        let user = user(&sent).unwrap();
        assert_eq!((user.username.as_str(), user.uid.as_str()), ("ann", "7"));
        assert_eq!(user.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(user.extra["scopes.example.com/all"], ["a", "b"]);
        assert_eq!(super::user(&headers(&[("x-remote-user", " ")])), None);
    }
}
