//! [`Keys`]: the public keys of an issuer, found by its configuration document and fetched again when a token names another key.

use super::IssuerError;
use crate::limits;
use crate::outbound::{Answer, NoAnswer, Remote, RemoteConfig};
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a document may take.
const CALL: Duration = Duration::from_secs(10);
/// Keys are not fetched more often, whatever tokens claim.
const REST: Duration = Duration::from_secs(5);
/// Where an issuer's configuration is.
const CONFIGURATION: &str = "/.well-known/openid-configuration";

/// A key of an issuer.
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) decoding: DecodingKey,
}

/// What came of fetching keys.
type Fetched = Result<Arc<Vec<Key>>, String>;

/// The keys of an issuer.
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
struct Set {
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

    /// The keys; the `newest` ones are fetched, unless that was done a moment ago.
    ///
    /// # Errors
    /// They cannot be fetched, or could not a moment ago.
    pub(super) async fn get(&self, newest: bool) -> Fetched {
        // Those who wait for the lock find what the first one has fetched.
        let mut fetched = self.fetched.lock().await;
        if let Some((at, keys)) = &*fetched
            && (at.elapsed() < REST || (keys.is_ok() && !newest))
        {
            return keys.clone();
        }
        let keys = self.fetch().await.map(Arc::new);
        if let Err(why) = &keys {
            tracing::warn!(why, issuer = self.issuer, "the keys of an issuer of tokens cannot be fetched");
            // Old keys are better than none.
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
            read(self.discovery.get(&self.path, CALL).await, self.discovery.url())?;
        if configuration.issuer != self.issuer {
            return Err(format!("the issuer calls itself {:?}", configuration.issuer));
        }
        let url = &configuration.jwks_uri;
        let (set, path) = remote(url, &self.authorities).map_err(|error| error.to_string())?;
        let set: Set = read(set.get(&path, CALL).await, url)?;
        let keys = set.keys.into_iter().take(limits::OIDC_KEYS).filter_map(|key| {
            // Keys for other uses, and of kinds that nothing here verifies, are left out.
            if key["use"] == "enc" {
                return None;
            }
            let key: Jwk = serde_json::from_value(key).ok()?;
            let id = key.common.key_id.clone();
            // A secret that is published signs nothing.
            let is_secret = matches!(key.algorithm, jsonwebtoken::jwk::AlgorithmParameters::OctetKey(_));
            let decoding = DecodingKey::from_jwk(&key).ok().filter(|_| !is_secret)?;
            Some(Key { id, decoding })
        });
        Ok(keys.collect())
    }
}

/// The way to the server of a URL, and the path there.
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
