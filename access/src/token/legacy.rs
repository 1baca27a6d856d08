//! The claims of a service account token that is stored in a Secret of type
//! `kubernetes.io/service-account-token`. Such a token never expires and names no audience: it is valid while
//! its Secret holds it.

use super::claims::{Bound, Claims, Cluster};
use serde::{Deserialize, Serialize};

/// The issuer of tokens that are stored in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The claims of a token that is stored in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyClaims {
    /// The issuer: [`LEGACY_ISSUER`].
    pub iss: String,
    /// The namespace of account and Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    /// The name of the Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    /// The name of the service account.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    /// The uid of the service account.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub account_uid: String,
    /// The subject: `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
}

impl LegacyClaims {
    /// Claims of an account whose token the Secret of this name in the account's namespace holds.
    pub fn new(namespace: &str, secret: &str, account: &Bound) -> Self {
        Self {
            iss: LEGACY_ISSUER.into(),
            namespace: namespace.into(),
            secret: secret.into(),
            account: account.name.clone(),
            account_uid: account.uid.clone(),
            sub: subject(namespace, &account.name),
        }
    }

    /// Whether every claim has a value, and the subject is the account.
    pub(super) fn is_complete(&self) -> bool {
        let parts = [&self.namespace, &self.secret, &self.account, &self.account_uid];
        parts.iter().all(|part| !part.is_empty()) && self.sub == subject(&self.namespace, &self.account)
    }

    /// The same account in the claims of other tokens: without limits in time, for these audiences. They have
    /// no token identifier.
    pub(crate) fn unlimited(&self, audiences: &[String]) -> Claims {
        let account = Bound { name: self.account.clone(), uid: self.account_uid.clone() };
        Claims {
            aud: audiences.to_vec(),
            exp: i64::MAX,
            iat: 0,
            iss: self.iss.clone(),
            jti: String::new(),
            cluster: Cluster {
                namespace: self.namespace.clone(),
                serviceaccount: account,
                ..Cluster::default()
            },
            nbf: i64::MIN,
            sub: self.sub.clone(),
        }
    }
}

fn subject(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}
