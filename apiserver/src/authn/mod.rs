//! Authentication: turns the credentials of a connection or a request into a [`UserInfo`]. One mechanism per
//! file. Permissions are in `authz`.

mod anonymous;
pub mod authentication_file;
pub mod basic_auth;
mod bearers;
mod bootstrap_token;
mod front_proxy;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod hostile_tokens;
pub mod impersonation;
pub(crate) mod legacy_token;
pub mod oidc;
pub mod service_account;
mod token_file;
pub(crate) mod token_uses;
mod token_webhook;
mod verified;
pub mod x509;

pub use anonymous::AnonymousAccess;
pub use authentication_file::AuthenticationFile;
pub use basic_auth::{BasicAuth, BasicAuthLine};
pub(crate) use bearers::BearerUser;
pub use bearers::Bearers;
pub use front_proxy::{FrontProxies, Proxy};
pub use token_file::{TokenFile, TokenFileError};
pub use token_webhook::{ReviewVersion, TokenWebhook};

use crate::audit;
use crate::authz::Authorizer;
use http::HeaderMap;
use jiff::Timestamp;
use kstore_api::status::Status;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Group of all users that presented valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// User of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Group that may do everything; the authorizer is not asked.
pub const MASTERS: &str = "system:masters";

/// An authenticated caller, with the fields of `authentication.k8s.io/v1 UserInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// The unique name, for example `kubernetes-admin` or `system:serviceaccount:default:builder`.
    pub username: String,
    /// An identifier that outlives renames; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups, `system:authenticated` included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Additional fields of the authentication mechanism.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with this name and these groups; `system:authenticated` is added.
    pub fn new(username: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|g| g == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        Self { username: username.into(), groups, ..Self::default() }
    }

    /// The user of a node's kubelet.
    pub fn node(name: &str) -> Self {
        Self::new(format!("system:node:{name}"), ["system:nodes"])
    }

    /// The user of a service account, as in its token.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self::new(format!("system:serviceaccount:{namespace}:{name}"), groups)
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self { username: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether the request presented no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.username == ANONYMOUS
    }

    /// Whether the user is a member of `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// The peer of a connection, which is an extension of each of its requests. A component in this process has
/// no connection: its embedder states the identity, and it is then treated like a network client.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A TLS client.
    Tls {
        /// The user of its client certificate, if it presented one; parsed once per connection, not per
        /// request.
        certificate: Option<ClientCertificate>,
        /// The front proxy of the client certificate; `None` if the certificate is not a front proxy's, or if no
        /// front proxies are configured.
        proxy: Option<Proxy>,
        /// The address it connected from.
        address: std::net::SocketAddr,
    },
    /// A component in this process.
    InProcess(Arc<UserInfo>),
}

/// The identity in a client certificate. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The user that the certificate authenticates.
    pub user: Arc<UserInfo>,
    /// The end of its validity (notAfter). TLS checks it when a connection begins, but not when a session is
    /// resumed.
    pub expires: Timestamp,
}

impl Peer {
    /// A TLS client with its leaf certificate (DER), if it presented one. The handshake has verified it
    /// against the server's CA.
    pub fn tls(certificate: Option<&[u8]>, address: std::net::SocketAddr) -> Self {
        Self::Tls { certificate: certificate.and_then(x509::identity), proxy: None, address }
    }

    /// Whether the connection itself authenticates its requests: it is of this process, or has a client certificate
    /// that is valid at this time.
    pub(crate) fn has_valid_certificate(&self, now: Timestamp) -> bool {
        match self {
            Self::InProcess(_) => true,
            Self::Tls { certificate, .. } => certificate.as_ref().is_some_and(|shown| now < shown.expires),
        }
    }
}

/// Conditions of authentication beside the request's credentials.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The time at which credentials must be valid.
    pub now: Timestamp,
    /// Whether this request is served as the user `system:anonymous` if it has no credentials.
    pub anonymous: bool,
}

/// Authenticates a request. The first mechanism that applies decides: in-process identity, client
/// certificate, bearer token or password (`bearer` is the result of its check, if the request has one), anonymous.
/// [`impersonation`] follows later, because it needs authorization.
///
/// # Errors
/// 401 if a credential is invalid, or if credentials are required and missing.
pub fn authenticate(
    peer: &Peer,
    bearer: Option<Result<Arc<UserInfo>, Status>>,
    terms: Terms,
) -> Result<Arc<UserInfo>, Status> {
    match peer {
        Peer::InProcess(user) => Ok(user.clone()),
        Peer::Tls { certificate: Some(certificate), .. } if terms.now < certificate.expires => {
            Ok(certificate.user.clone())
        }
        Peer::Tls { certificate, proxy, .. } => match bearer {
            Some(verdict) => verdict,
            None if certificate.is_none() && proxy.is_none() && terms.anonymous => {
                Ok(Arc::new(UserInfo::anonymous()))
            }
            None => Err(Status::unauthorized()),
        },
    }
}

/// Authenticates like [`authenticate`], but the user that an allowed front proxy names takes precedence.
fn authenticate_by_headers(
    peer: &Peer,
    headers: &HeaderMap,
    bearer: Option<Result<Arc<UserInfo>, Status>>,
    terms: Terms,
) -> Result<Arc<UserInfo>, Status> {
    let named = match peer {
        Peer::Tls { proxy: Some(proxy), .. } if proxy.is_allowed && terms.now < proxy.expires => {
            front_proxy::user(headers)
        }
        Peer::Tls { .. } | Peer::InProcess(_) => None,
    };
    named.map_or_else(|| authenticate(peer, bearer, terms), |user| Ok(Arc::new(user)))
}

/// Authenticates a request and applies impersonation: the user that a front proxy names, or that of
/// [`authenticate`]; then the user that impersonation headers name. `peer` is what the connection put into
/// the request's extensions.
///
/// # Errors
/// The errors of authentication and impersonation; 500 if the connection has no peer.
pub async fn authenticate_peer(
    peer: Option<&Peer>,
    headers: &HeaderMap,
    bearer: Option<Result<Arc<UserInfo>, Status>>,
    authorizer: &Authorizer,
    terms: Terms,
) -> Result<Arc<UserInfo>, Status> {
    let peer = peer.ok_or_else(|| Status::internal("the connection has no peer"))?;
    let caller = authenticate_by_headers(peer, headers, bearer, terms)?;
    audit::authenticated(&caller);
    let other = impersonation::identity(&caller, headers, authorizer).await?;
    Ok(other.map_or(caller, Arc::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Terms = Terms { now: Timestamp::UNIX_EPOCH, anonymous: true };

    fn peer(expires: Option<i64>) -> Peer {
        let certificate = expires.map(|seconds| ClientCertificate {
            user: UserInfo::new("ann", [""; 0]).into(),
            expires: Timestamp::from_second(seconds).unwrap(),
        });
        Peer::Tls { certificate, proxy: None, address: "127.0.0.1:1".parse().unwrap() }
    }

    #[test]
    fn requests_without_credentials_are_anonymous_and_unknown_tokens_are_refused() {
        assert_eq!(authenticate(&peer(None), None, NOW), Ok(UserInfo::anonymous().into()));
        let unknown = Some(Err(Status::unauthorized()));
        assert_eq!(authenticate(&peer(None), unknown.clone(), NOW).unwrap_err().code, 401);
        let local = UserInfo::new("system:kube-scheduler", [""; 0]);
        let inside = Peer::InProcess(local.clone().into());
        assert_eq!(authenticate(&inside, unknown, NOW), Ok(local.into()));
    }

    #[test]
    fn without_anonymous_access_requests_without_credentials_are_refused() {
        let terms = Terms { anonymous: false, ..NOW };
        assert_eq!(authenticate(&peer(None), None, terms).unwrap_err().code, 401);
        assert_eq!(authenticate(&peer(Some(1)), None, terms).unwrap().username, "ann");
    }

    #[test]
    fn an_expired_certificate_is_refused_on_an_open_connection() {
        assert_eq!(authenticate(&peer(Some(1)), None, NOW).unwrap().username, "ann");
        assert_eq!(authenticate(&peer(Some(0)), None, NOW).unwrap_err().code, 401);
        let token = Some(Ok(Arc::new(UserInfo::new("bob", [""; 0]))));
        assert_eq!(authenticate(&peer(Some(0)), token, NOW).unwrap().username, "bob");
    }
}
