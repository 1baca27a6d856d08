//! Service account tokens in the volumes of a pod: requested when a command may read them, bound to the pod, and renewed after four fifths
//! of their lifetime.

use super::{Snapshot, Streams};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use kstore_client::Gvr;
use serde_json::{Value, json};

/// Lifetime of a token if its volume does not state one.
const DEFAULT_SECONDS: i64 = 3600;
/// Age at which a token is renewed even if its lifetime is longer.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

/// A token in a volume of a pod.
#[derive(Clone, Debug)]
pub(super) struct MountedToken {
    text: String,
    renew_at: Timestamp,
}

impl MountedToken {
    /// The token in the response to a request that was sent at `requested_at`; `None` if the response has none.
    fn of(answer: &Value, requested_at: Timestamp) -> Option<Self> {
        let status = &answer["status"];
        let text = status["token"].as_str()?.to_owned();
        let expires: Timestamp = status["expirationTimestamp"].as_str()?.parse().ok()?;
        let age = (expires.duration_since(requested_at) * 4 / 5).min(MAX_AGE);
        Some(Self { text, renew_at: requested_at.checked_add(age).unwrap_or(requested_at) })
    }

    /// When it is renewed.
    pub(super) fn renew_at(&self) -> Timestamp {
        self.renew_at
    }

    /// The token, unless it is time to renew it.
    pub(super) fn at(&self, now: Timestamp) -> Option<&str> {
        (now < self.renew_at).then_some(&self.text)
    }
}

/// Key of a pod's tokens: the audience ("" for the API server), and the lifetime in seconds.
pub(super) type TokenKey = (String, i64);

impl Streams {
    /// The token for a volume of the pod; `None` if the server issues none.
    pub(super) async fn mounted_token(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        projection: &ServiceAccountTokenProjection,
    ) -> Option<String> {
        let audience = projection.audience.clone().unwrap_or_default();
        let key: TokenKey = (audience, projection.expiration_seconds.unwrap_or(DEFAULT_SECONDS));
        let now = self.clock.now();
        if let Some(token) = snapshot.disks.token(&key, now) {
            return Some(token);
        }
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let account = account.filter(|name| !name.is_empty()).unwrap_or("default");
        let meta = &pod.metadata;
        let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
        let request = request(&key, name, meta.uid.as_deref()?);
        let accounts = self.client.dynamic(Gvr::of::<ServiceAccount>());
        match accounts.create_subresource(namespace, account, "token", &request).await {
            Ok(answer) => {
                let token = MountedToken::of(&answer, now)?;
                let text = token.text.clone();
                snapshot.disks.keep_token(key, token);
                Some(text)
            }
            Err(error) => {
                tracing::debug!(%error, namespace, account, "no token for a volume");
                None
            }
        }
    }
}

/// The request for a token that is bound to a pod.
fn request((audience, seconds): &TokenKey, pod: &str, uid: &str) -> Value {
    let audiences: &[&str] = if audience.is_empty() { &[] } else { &[audience] };
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": audiences, "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn token(seconds: i64) -> MountedToken {
        let status = json!({"token": "t", "expirationTimestamp": at(seconds).to_string()});
        MountedToken::of(&json!({"status": status}), at(0)).unwrap()
    }

    #[test]
    fn a_token_is_renewed_after_four_fifths_of_its_life_and_each_day() {
        for (life, last) in [(600, 479), (3607, 2885), (7 * 86_400, 86_399)] {
            let token = token(life);
            assert_eq!(token.at(at(0)), Some("t"), "{life}");
            assert_eq!(token.at(at(last)), Some("t"), "{life}");
            assert_eq!(token.at(at(last + 1)), None, "{life}");
        }
        assert!(MountedToken::of(&json!({"status": {}}), at(0)).is_none());
    }

    #[test]
    fn a_request_names_an_audience_only_if_the_volume_does() {
        let spec = |audience: &str| request(&(audience.to_owned(), 600), "p", "u")["spec"].clone();
        assert_eq!(spec("")["audiences"], json!([]));
        assert_eq!(spec("vault")["audiences"], json!(["vault"]));
        assert_eq!(spec("")["boundObjectRef"]["uid"], "u");
    }
}
