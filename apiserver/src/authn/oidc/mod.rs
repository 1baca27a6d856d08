//! [`Issuers`]: servers of OpenID Connect whose tokens (JWTs) are good here. `mapping` makes a user of what a token claims, pure; `keys`
//! fetches the keys that tokens are signed with. Not the tokens of service accounts.

mod keys;
mod mapping;

pub use mapping::{ClaimRule, MappingConfig, MappingError, Source, UserRule};

use super::UserInfo;
use crate::limits;
use crate::metrics::{Counter, Family, Page};
use crate::outbound::RemoteError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use keys::Keys;
use mapping::Mapping;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A token is taken this long before its `nbf`, for clocks that differ.
const EARLY: i64 = 300;

/// One issuer, and whom its tokens speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerConfig {
    /// The `iss` of its tokens: a URL that begins with `https://`.
    pub url: String,
    /// Where its configuration is, if not below its URL.
    pub discovery_url: Option<String>,
    /// Authorities of its certificate (PEM); empty: those of the machine.
    pub authorities: Vec<u8>,
    /// A token must be for one of them.
    pub audiences: Vec<String>,
    /// Algorithms that tokens may be signed with, by their names in tokens.
    pub algorithms: Vec<String>,
    /// Whom a token speaks for.
    pub mapping: MappingConfig,
}

/// The algorithms that tokens may be signed with where nothing else is said.
pub const ALGORITHMS: [&str; 8] = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "PS384", "PS512"];

/// An issuer that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// Its address or authorities.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// An algorithm that does not exist, or whose signatures need no private key.
    #[error(
        "the signing algorithm {0:?} is not one of RS256, RS384, RS512, ES256, ES384, PS256, PS384, PS512"
    )]
    Algorithm(String),
    /// An expression that is none.
    #[error(transparent)]
    Mapping(#[from] MappingError),
}

/// The issuers whose tokens are good. Each has another URL.
pub struct Issuers {
    issuers: Vec<Issuer>,
    results: Family<(String, &'static str), Counter>,
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.issuers.iter().map(|issuer| &issuer.config.url)).finish()
    }
}

struct Issuer {
    config: IssuerConfig,
    algorithms: Vec<Algorithm>,
    mapping: Mapping,
    keys: Keys,
}

impl Issuers {
    /// These issuers. Nothing is fetched before the first token comes.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub fn new(configs: Vec<IssuerConfig>) -> Result<Self, IssuerError> {
        let issuers = configs.into_iter().map(Issuer::new).collect::<Result<_, _>>()?;
        Ok(Self { issuers, results: Family::new(Counter::default) })
    }

    /// The user that a token speaks for; `None` if none of the issuers is the token's.
    ///
    /// # Errors
    /// Why the token is not good, or could not be checked.
    pub(crate) async fn identity(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<UserInfo>>, String> {
        let Some(url) = issuer_of(token) else { return Ok(None) };
        let Some(issuer) = self.issuers.iter().find(|issuer| issuer.config.url == url) else {
            return Ok(None);
        };
        let user = issuer.identity(token, now).await;
        self.results.get(&(url, if user.is_ok() { "success" } else { "failure" })).add(1);
        user.map(|user| Some(Arc::new(user)))
    }

    /// When a token that was found good expires.
    pub(crate) fn expires(&self, token: &str) -> Option<Timestamp> {
        let claims = unverified(token)?;
        let is_ours = self.issuers.iter().any(|issuer| claims["iss"] == issuer.config.url.as_str());
        is_ours.then(|| Timestamp::from_second(seconds(&claims["exp"])?).ok()).flatten()
    }

    /// Writes the counters.
    pub(crate) fn render_metrics(&self, page: &mut Page<'_>) {
        let name = "kstore_oidc_tokens_total";
        page.head(name, "counter", "Tokens of OpenID Connect issuers that were checked.");
        for ((issuer, result), counter) in self.results.sorted() {
            page.line(name, &[("issuer", &issuer), ("result", result)], counter.get());
        }
    }
}

/// The claims of a token, unverified; `None` if the token is too long or no JWT.
fn unverified(token: &str) -> Option<Value> {
    if token.len() > limits::OIDC_TOKEN_BYTES {
        return None;
    }
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = URL_SAFE_NO_PAD.decode(claims).ok().filter(|_| parts.next().is_none())?;
    serde_json::from_slice(&bytes).ok()
}

fn issuer_of(token: &str) -> Option<String> {
    unverified(token)?["iss"].as_str().map(str::to_owned)
}

/// A time in a token, which may have a fraction.
fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

impl Issuer {
    fn new(config: IssuerConfig) -> Result<Self, IssuerError> {
        let algorithm = |name: &String| {
            let known = ALGORITHMS.contains(&name.as_str()).then(|| name.parse().ok()).flatten();
            known.ok_or_else(|| IssuerError::Algorithm(name.clone()))
        };
        let algorithms = config.algorithms.iter().map(algorithm).collect::<Result<_, _>>()?;
        let keys = Keys::new(&config.url, config.discovery_url.as_deref(), &config.authorities)?;
        Ok(Self { algorithms, mapping: Mapping::compile(&config.mapping)?, keys, config })
    }

    async fn identity(&self, token: &str, now: Timestamp) -> Result<UserInfo, String> {
        let header =
            jsonwebtoken::decode_header(token).map_err(|error| format!("no good header: {error}"))?;
        if !self.algorithms.contains(&header.alg) {
            return Err(format!("signed with {:?}, which is not allowed", header.alg));
        }
        let mut tried = None;
        for newest in [false, true] {
            let keys = self.keys.get(newest).await?;
            if tried.as_ref().is_some_and(|tried| Arc::ptr_eq(tried, &keys)) {
                break;
            }
            let fitting =
                keys.iter().filter(|key| header.kid.is_none() || key.id.is_none() || key.id == header.kid);
            for key in fitting {
                if let Some(claims) = verified(token, header.alg, &key.decoding) {
                    return self.accept(&claims, now);
                }
            }
            // The issuer may have new keys.
            tried = Some(keys);
        }
        Err("no key of the issuer verifies the signature".to_owned())
    }

    /// The user of claims with a good signature.
    fn accept(&self, claims: &Value, now: Timestamp) -> Result<UserInfo, String> {
        if claims["iss"] != self.config.url.as_str() {
            return Err("the token is another issuer's".to_owned());
        }
        let audiences: Vec<&str> = match &claims["aud"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !audiences.iter().any(|audience| self.config.audiences.iter().any(|own| own == audience)) {
            return Err(format!("expected an audience in {:?} got {audiences:?}", self.config.audiences));
        }
        let now = now.as_second();
        match seconds(&claims["exp"]) {
            Some(end) if now < end => {}
            Some(_) => return Err("token is expired".to_owned()),
            None => return Err("the token has no end".to_owned()),
        }
        if seconds(&claims["nbf"]).is_some_and(|begin| now + EARLY < begin) {
            return Err("the token is not valid yet".to_owned());
        }
        self.mapping.user(claims)
    }
}

/// The claims of a token if this key signed it. A key of another kind than the algorithm's signs nothing.
fn verified(token: &str, algorithm: Algorithm, key: &DecodingKey) -> Option<Value> {
    let mut validation = Validation::new(algorithm);
    // Times and audiences are judged by the server's clock and rules.
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation.required_spec_claims.clear();
    jsonwebtoken::decode::<Value>(token, key, &validation).ok().map(|decoded| decoded.claims)
}

#[cfg(test)]
mod tests;
