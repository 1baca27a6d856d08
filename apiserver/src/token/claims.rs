//! What a token says, under the names that Kubernetes gives it.

use super::Refused;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The claims of a token of a service account. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom it is meant for.
    pub aud: Vec<String>,
    /// From here on it is not good any more.
    pub exp: i64,
    /// When it was made.
    pub iat: i64,
    /// Who made it.
    pub iss: String,
    /// Its own name.
    pub jti: String,
    /// The cluster's part.
    #[serde(rename = "kubernetes.io")]
    pub cluster: Cluster,
    /// Before this it is not good yet.
    pub nbf: i64,
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
}

/// The objects that a token speaks of. When one of them is gone, the token is no longer good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The namespace of account, pod and secret.
    pub namespace: String,
    /// The node: bound to, or that of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Bound>,
    /// The pod it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Bound>,
    /// The secret it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Bound>,
    /// The account.
    pub serviceaccount: Bound,
    /// After this a client should have got a new one: tokens of pods are good for longer than they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// One object, this very one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Claims {
    /// Of an account in a namespace, bound to nothing else.
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

    /// Those of `audiences` that the token is meant for, in the token's order, if its time has come and is not over.
    ///
    /// # Errors
    /// `Expired`, `NotYet`, or `Audience` if it is meant for none of them.
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
