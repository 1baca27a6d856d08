//! The claims of a service account token, with Kubernetes' names.

use super::Refused;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The claims of a service account token. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The audiences that the token is for.
    pub aud: Vec<String>,
    /// The time at which the token expires.
    pub exp: i64,
    /// The time at which the token was issued.
    pub iat: i64,
    /// The issuer.
    pub iss: String,
    /// The identifier of the token.
    pub jti: String,
    /// The account, and the objects that the token is bound to.
    #[serde(rename = "kubernetes.io")]
    pub cluster: Cluster,
    /// The time from which the token is valid.
    pub nbf: i64,
    /// The subject: `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
}

/// The account and the bound objects of a token. When one of them is deleted, the token becomes invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The namespace of account, pod and secret.
    pub namespace: String,
    /// The node that the token is bound to, or the node of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Bound>,
    /// The pod that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Bound>,
    /// The secret that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Bound>,
    /// The service account.
    pub serviceaccount: Bound,
    /// The time by which a client should have renewed the token: tokens of pods are valid for longer than
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// A reference to one object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The name of the object.
    pub name: String,
    /// The uid of the object: a new object of the same name is another one.
    pub uid: String,
}

impl Claims {
    /// Claims of an account in a namespace, bound to no other object.
    pub fn new(
        (namespace, account): (&str, &Bound),
        audiences: &[String],
        now: Timestamp,
        seconds: i64,
        id: String,
    ) -> Self {
        let now = now.as_second();
        Self {
            aud: audiences.to_vec(),
            exp: now.saturating_add(seconds),
            iat: now,
            iss: super::ISSUER.into(),
            jti: id,
            cluster: Cluster {
                namespace: namespace.into(),
                serviceaccount: account.clone(),
                ..Cluster::default()
            },
            nbf: now,
            sub: format!("system:serviceaccount:{namespace}:{}", account.name),
        }
    }

    /// Checks the times and audiences. Returns those of `audiences` that the token is for, in the token's
    /// order.
    ///
    /// # Errors
    /// `Expired`, `NotYet`, or `Audience` if the token is for none of them.
    pub fn accept(&self, audiences: &[&str], now: Timestamp) -> Result<Vec<String>, Refused> {
        if now.as_second() >= self.exp {
            return Err(Refused::Expired);
        }
        if now.as_second() < self.nbf {
            return Err(Refused::NotYet);
        }
        let good: Vec<String> =
            self.aud.iter().filter(|aud| audiences.contains(&aud.as_str())).cloned().collect();
        if good.is_empty() { Err(Refused::Audience) } else { Ok(good) }
    }
}
