//! Authentication: turns the credentials of a connection or a request into a [`UserInfo`]. One mechanism per
//! file. Permissions are in `authz`.

mod anonymous;
pub mod authentication_file;
pub mod basic_auth;
mod bearers;
mod bootstrap_token;
mod front_proxy;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod hostile_tokens;
pub mod impersonation;
pub mod legacy_token;
pub mod oidc;
pub mod remote_headers;
pub mod service_account;
mod token_file;
pub mod token_uses;
mod token_webhook;
mod verified;
pub mod x509;

use crate::audit;
use crate::authz::Authorizer;
use crate::peer::Peer;
pub use anonymous::AnonymousAccess;
pub use authentication_file::AuthenticationFile;
pub use basic_auth::{BasicAuth, BasicAuthLine};
pub use bearers::{BearerUser, Bearers};
pub use front_proxy::FrontProxies;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use impersonation::Impersonation;
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_registry::user::UserInfo;
use std::sync::Arc;
pub use token_file::{TokenFile, TokenFileError};
pub use token_webhook::TokenWebhook;

/// The head of a request whose caller is to be authenticated.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The path; empty if it is not known.
    pub path: &'a str,
    /// Method and URL of an HTTP request. A gRPC call has none: its operations are known after its message was read, so its caller can
    /// impersonate by the verb `impersonate` alone.
    pub http: Option<(&'a Method, &'a Uri)>,
}

impl<'a> RequestHead<'a> {
    /// The head of an HTTP request.
    pub fn of(parts: &'a Parts) -> Self {
        Self { http: Some((&parts.method, &parts.uri)), ..Self::of_call(&parts.headers, parts.uri.path()) }
    }

    /// The head of a gRPC call.
    pub fn of_call(headers: &'a HeaderMap, path: &'a str) -> Self {
        Self { headers, path, http: None }
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
    head: RequestHead<'_>,
    bearer: Option<Result<Arc<UserInfo>, Status>>,
    authorizer: &Authorizer,
    impersonation: &Impersonation,
    terms: Terms,
) -> Result<Arc<UserInfo>, Status> {
    let peer = peer.ok_or_else(|| Status::internal("the connection has no peer"))?;
    let caller = authenticate_by_headers(peer, head.headers, bearer, terms)?;
    audit::authenticated(&caller);
    let other = impersonation.identity(&caller, head.headers, head.http, authorizer).await?;
    let Some(other) = other else { return Ok(caller) };
    audit::impersonation_allowed(other.mode.constraint());
    Ok(Arc::new(other.user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::ClientCertificate;

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
