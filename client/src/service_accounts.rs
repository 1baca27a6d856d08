//! [`ServiceAccounts`]: clients that act as service accounts of one namespace. A client with more rights
//! requests their tokens.

use crate::limits::ACCOUNT_TOKEN_LIFETIME;
use crate::{ApiError, Client, ConnectError, Gvr, Kubeconfig};
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::ServiceExt;

/// gRPC's code for a request with invalid credentials, as in the header `grpc-status`.
const UNAUTHENTICATED: &[u8] = b"16";

/// Makes clients that act as service accounts of one namespace. They share one connection, whose only
/// credentials are the tokens.
#[derive(Clone)]
pub struct ServiceAccounts {
    /// The client that creates service accounts and requests their tokens.
    issuer: Client,
    /// A connection without credentials.
    anonymous: Client,
    namespace: String,
}

impl ServiceAccounts {
    /// Accounts of `namespace` at the server of a kubeconfig, without the kubeconfig's credentials. `issuer`
    /// requests the tokens: it needs `create` on `serviceaccounts` and on `serviceaccounts/token`. The first
    /// call connects.
    ///
    /// # Errors
    ///
    /// The kubeconfig is invalid.
    pub fn connect_lazy(
        kubeconfig: &Kubeconfig,
        issuer: &Client,
        namespace: &str,
    ) -> Result<Self, ConnectError> {
        let without = Kubeconfig { identity: None, token: None, ..kubeconfig.clone() };
        let anonymous = Client::connect_lazy(&without, namespace)?;
        Ok(Self { issuer: issuer.clone(), anonymous, namespace: namespace.to_owned() })
    }

    /// A client that acts as the account of this name. Its first call requests a token, and creates the
    /// account if it does not exist. The client renews a token after four fifths of its lifetime, or when the
    /// server refuses it.
    pub fn client(&self, account: &str) -> Client {
        let tokens = Arc::new(Tokens {
            issuer: self.issuer.clone(),
            namespace: self.namespace.clone(),
            account: account.to_owned(),
            current: Mutex::new(None),
        });
        let client = self.anonymous.agent(account);
        let transport = client.transport.clone();
        client.with_transport(tower::service_fn(move |request| {
            let (tokens, transport) = (Arc::clone(&tokens), transport.clone());
            tokens.serve(request, transport)
        }))
    }
}

/// The tokens of one account.
struct Tokens {
    issuer: Client,
    namespace: String,
    account: String,
    /// The current token. The lock is held during a request for a token, so that concurrent calls wait for
    /// the same token.
    current: Mutex<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    bearer: HeaderValue,
    renew_at: Instant,
}

impl Tokens {
    /// Sends a call with a valid token in its header. The client does not use a refused token again.
    pub(crate) async fn serve<E>(
        self: Arc<Self>,
        mut request: http::Request<tonic::body::Body>,
        service: impl tower::Service<
            http::Request<tonic::body::Body>,
            Response = http::Response<tonic::body::Body>,
            Error = E,
        >,
    ) -> Result<http::Response<tonic::body::Body>, TokenError<E>> {
        let bearer = self.bearer().await.map_err(TokenError::Refused)?;
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        let response = service.oneshot(request).await.map_err(TokenError::Call)?;
        let code = response.headers().get("grpc-status").map(HeaderValue::as_bytes);
        if response.status() == StatusCode::UNAUTHORIZED || code == Some(UNAUTHENTICATED) {
            let mut current = self.current.lock().await;
            // Another call may have requested a new token already.
            if current.as_ref().is_some_and(|token| token.bearer == bearer) {
                *current = None;
            }
        }
        Ok(response)
    }

    async fn bearer(&self) -> Result<HeaderValue, ApiError> {
        let mut current = self.current.lock().await;
        if let Some(token) = current.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(token.bearer.clone());
        }
        let token = self.request().await?;
        let bearer = token.bearer.clone();
        *current = Some(token);
        Ok(bearer)
    }

    /// Requests a token, and creates the account if it does not exist.
    async fn request(&self) -> Result<Token, ApiError> {
        match self.request_for_existing().await {
            Err(error) if error.is_not_found() => {}
            answer => return answer,
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": self.account, "namespace": self.namespace },
        });
        match self.accounts().create(&self.namespace, &account).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => {}
        }
        self.request_for_existing().await
    }

    async fn request_for_existing(&self) -> Result<Token, ApiError> {
        let wanted = ACCOUNT_TOKEN_LIFETIME.as_secs();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": wanted },
        });
        let requested_at = Instant::now();
        let answer =
            self.accounts().create_subresource(&self.namespace, &self.account, "token", &request).await?;
        token(&answer, requested_at)
    }

    fn accounts(&self) -> crate::DynamicApi {
        self.issuer.dynamic(Gvr::of::<ServiceAccount>())
    }
}

/// The token in the response `answer` to a request made at `requested_at`.
fn token(answer: &Value, requested_at: Instant) -> Result<Token, ApiError> {
    let bearer = answer["status"]["token"].as_str().and_then(|token| format!("Bearer {token}").parse().ok());
    let mut bearer: HeaderValue =
        bearer.ok_or_else(|| ApiError::Json("the answer to a TokenRequest holds no token".to_owned()))?;
    bearer.set_sensitive(true);
    // A server may grant a shorter lifetime than requested.
    let granted = answer["spec"]["expirationSeconds"].as_u64().map(Duration::from_secs);
    let lifetime = granted.unwrap_or(ACCOUNT_TOKEN_LIFETIME).min(ACCOUNT_TOKEN_LIFETIME);
    Ok(Token { bearer, renew_at: requested_at + lifetime * 4 / 5 })
}

/// The reason why a call as a service account got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError<E> {
    /// The server issued no token for the account.
    #[error("failed to request a token for the service account: {0}")]
    Refused(ApiError),
    /// The call itself failed.
    #[error(transparent)]
    Call(E),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_after_four_fifths_of_its_lifetime() {
        let now = Instant::now();
        let life = |granted: Value| {
            let answer = json!({ "spec": { "expirationSeconds": granted }, "status": { "token": "t" } });
            token(&answer, now).unwrap().renew_at - now
        };
        assert_eq!(life(json!(3600)), Duration::from_secs(2880));
        assert_eq!(life(json!(600)), Duration::from_secs(480), "a server may grant less");
        assert_eq!(life(json!(31_536_000)), Duration::from_secs(2880), "and more is not used");
        assert_eq!(life(Value::Null), Duration::from_secs(2880));
        assert!(token(&json!({ "status": {} }), now).is_err());
    }
}
