//! [`Keys`]: the public keys of an issuer, discovered through its configuration document and fetched again if
//! a token names another key.

use super::IssuerError;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::Jwk;
use kstore_registry::outbound::{Answer, NoAnswer, Remote, RemoteConfig};
use kstore_storage::limits;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Timeout of fetching a document.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum time between fetches, even if tokens name unknown keys.
const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// Path of an issuer's configuration document below its URL.
const CONFIGURATION: &str = "/.well-known/openid-configuration";

/// A public key of an issuer.
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) decoding: DecodingKey,
}

/// The result of fetching keys.
type Fetched = Result<Arc<Vec<Key>>, String>;

/// The cached public keys of an issuer.
pub(super) struct Keys {
    issuer: String,
    discovery: Remote,
    path: String,
    authorities: Vec<u8>,
    fetched: Mutex<Option<(Instant, Fetched)>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl Keys {
    pub(super) fn new(
        issuer: &str,
        discovery_url: Option<&str>,
        authorities: &[u8],
    ) -> Result<Self, IssuerError> {
        let url = discovery_url
            .map_or_else(|| format!("{}{CONFIGURATION}", issuer.trim_end_matches('/')), str::to_owned);
        let (discovery, path) = remote(&url, authorities)?;
        Ok(Self {
            issuer: issuer.to_owned(),
            discovery,
            path,
            authorities: authorities.to_vec(),
            fetched: Mutex::default(),
        })
    }

    /// The keys. Fetches them if there are none yet or `newest` is set, but not if they were just fetched.
    ///
    /// # Errors
    /// The keys cannot be fetched, or could not a moment ago.
    pub(super) async fn get(&self, newest: bool) -> Fetched {
        // Callers that waited for the lock use the keys that its first holder fetched.
        let mut fetched = self.fetched.lock().await;
        if let Some((at, keys)) = &*fetched
            && (at.elapsed() < FETCH_INTERVAL_MIN || (keys.is_ok() && !newest))
        {
            return keys.clone();
        }
        let keys = self.fetch().await.map(Arc::new);
        if let Err(why) = &keys {
            tracing::warn!(why, issuer = self.issuer, "cannot fetch the keys of an OpenID Connect issuer");
            // Old keys are still valid for most tokens.
            if let Some((at, Ok(known))) = &mut *fetched {
                *at = Instant::now();
                return Ok(known.clone());
            }
        }
        *fetched = Some((Instant::now(), keys.clone()));
        keys
    }

    async fn fetch(&self) -> Result<Vec<Key>, String> {
        let configuration: Configuration =
            read(self.discovery.get(&self.path, FETCH_TIMEOUT).await, self.discovery.url())?;
        if configuration.issuer != self.issuer {
            return Err(format!("the configuration document names the issuer {:?}", configuration.issuer));
        }
        let url = &configuration.jwks_uri;
        let (set, path) = remote(url, &self.authorities).map_err(|error| error.to_string())?;
        let set: KeySet = read(set.get(&path, FETCH_TIMEOUT).await, url)?;
        let keys = set.keys.into_iter().take(limits::OIDC_KEYS).filter_map(|key| {
            // Keys for encryption, and of unsupported kinds, are skipped.
            if key["use"] == "enc" {
                return None;
            }
            let key: Jwk = serde_json::from_value(key).ok()?;
            let id = key.common.key_id.clone();
            // A published symmetric key must not verify anything.
            let is_secret = matches!(key.algorithm, jsonwebtoken::jwk::AlgorithmParameters::OctetKey(_));
            let decoding = DecodingKey::from_jwk(&key).ok().filter(|_| !is_secret)?;
            Some(Key { id, decoding })
        });
        Ok(keys.collect())
    }
}

/// A client of the URL's server, and the path of the URL.
fn remote(url: &str, authorities: &[u8]) -> Result<(Remote, String), IssuerError> {
    let config =
        RemoteConfig { server: url.to_owned(), authorities: authorities.to_vec(), ..RemoteConfig::default() };
    let remote = Remote::new(&config)?;
    let uri: Option<http::Uri> = url.parse().ok();
    let path = uri.and_then(|uri| uri.path_and_query().map(|path| path.as_str().to_owned()));
    Ok((remote, path.unwrap_or_else(|| "/".to_owned())))
}

fn read<T: for<'de> Deserialize<'de>>(answer: Result<Answer, NoAnswer>, url: &str) -> Result<T, String> {
    let answer = answer.map_err(|error| format!("Get {url:?}: {error}"))?;
    if answer.status != 200 {
        return Err(format!("Get {url:?}: the server answered {}", answer.status));
    }
    serde_json::from_slice(&answer.body).map_err(|error| format!("Get {url:?}: {error}"))
}
