//! [`Issuers`]: OpenID Connect issuers whose tokens (JWTs) are accepted. `mapping` maps claims to a user;
//! `keys` fetches the keys that sign tokens. Tokens of service accounts are in `service_account`.

#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod keys;
mod mapping;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use keys::{Key, Keys};
use kstore_metrics_text::Page;
use kstore_registry::outbound::RemoteError;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use kstore_storage::series::{Counter, Family};
use mapping::Mapping;
pub use mapping::{ClaimRule, MappingConfig, MappingError, Source, UserRule};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Seconds by which a token is accepted before its `nbf`, for clock skew.
const EARLY: i64 = 300;

/// The configuration of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerConfig {
    /// The `iss` of its tokens: a URL that begins with `https://`.
    pub url: String,
    /// The URL of its configuration document, if it is not below the issuer's URL.
    pub discovery_url: Option<String>,
    /// Authorities of its server certificate (PEM); empty: those of the system.
    pub authorities: Vec<u8>,
    /// Accepted audiences: a token must be for one of them.
    pub audiences: Vec<String>,
    /// Accepted signing algorithms, by their names in tokens.
    pub algorithms: Vec<String>,
    /// Maps claims to a user.
    pub mapping: MappingConfig,
}

/// The signing algorithms that are accepted by default.
pub const ALGORITHMS: [&str; 8] = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "PS384", "PS512"];

/// Why the configuration of an issuer is invalid.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The issuer's URL or certificate authorities are invalid.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// An algorithm that is unknown or symmetric.
    #[error(
        "the signing algorithm {0:?} is not one of RS256, RS384, RS512, ES256, ES384, PS256, PS384, PS512"
    )]
    Algorithm(String),
    /// An expression is invalid.
    #[error(transparent)]
    Mapping(#[from] MappingError),
}

/// The accepted issuers, with distinct URLs.
pub struct Issuers {
    issuers: Vec<Arc<Issuer>>,
    /// Shared with the issuers that replace these, so that counters do not begin anew.
    results: Arc<Family<(String, &'static str), Counter>>,
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
    /// Issuers from their configurations. Keys are fetched only when a token needs them.
    ///
    /// # Errors
    /// The first invalid configuration.
    pub fn new(configs: Vec<IssuerConfig>) -> Result<Self, IssuerError> {
        let none = Self { issuers: Vec::new(), results: Arc::new(Family::new(Counter::default)) };
        none.replaced(configs)
    }

    /// The issuers of a changed configuration. An issuer whose configuration is the same keeps its keys.
    ///
    /// # Errors
    /// The first invalid configuration.
    pub fn replaced(&self, configs: Vec<IssuerConfig>) -> Result<Self, IssuerError> {
        let issuer = |config: IssuerConfig| {
            let same = self.issuers.iter().find(|issuer| issuer.config == config);
            same.map_or_else(|| Issuer::new(config).map(Arc::new), |same| Ok(same.clone()))
        };
        let issuers = configs.into_iter().map(issuer).collect::<Result<_, _>>()?;
        Ok(Self { issuers, results: self.results.clone() })
    }

    /// Authenticates a token; `None` if none of the issuers issued it.
    ///
    /// # Errors
    /// Why the token is invalid, or could not be verified.
    pub async fn identity(&self, token: &str, now: Timestamp) -> Result<Option<Arc<UserInfo>>, String> {
        let Some(url) = issuer_of(token) else { return Ok(None) };
        let Some(issuer) = self.issuers.iter().find(|issuer| issuer.config.url == url) else {
            return Ok(None);
        };
        let user = issuer.identity(token, now).await;
        self.results.get(&(url, if user.is_ok() { "success" } else { "failure" })).add(1);
        user.map(|user| Some(Arc::new(user)))
    }

    /// The expiry of a token that was accepted before.
    pub fn expires(&self, token: &str) -> Option<Timestamp> {
        let claims = unverified(token)?;
        let is_ours = self.issuers.iter().any(|issuer| claims["iss"] == issuer.config.url.as_str());
        is_ours.then(|| Timestamp::from_second(seconds(&claims["exp"])?).ok()).flatten()
    }

    /// Writes the metrics.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        let name = "kstore_oidc_tokens_total";
        page.head(name, "counter", "Tokens of OpenID Connect issuers that were checked.");
        for ((issuer, result), counter) in self.results.sorted() {
            page.line(name, &[("issuer", &issuer), ("result", result)], counter.get());
        }
    }
}

/// The claims of a token without verification; `None` if the token is too long or not a JWT.
fn unverified(token: &str) -> Option<Value> {
    if token.len() > limits::OIDC_TOKEN_BYTES {
        return None;
    }
    let has_three_parts = token.split('.').count() == 3;
    has_three_parts.then(|| part(token, 1)).flatten()
}

/// The JSON of a part of a token: 0 is the header, 1 the claims.
fn part(token: &str, index: usize) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(index)?).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn issuer_of(token: &str) -> Option<String> {
    unverified(token)?["iss"].as_str().map(str::to_owned)
}

/// A time in seconds, which may have a fraction.
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
        let header = self.header(token)?;
        let mut tried = None;
        for newest in [false, true] {
            let keys = self.keys.get(newest).await?;
            if tried.as_ref().is_some_and(|tried| Arc::ptr_eq(tried, &keys)) {
                break;
            }
            if let Some(claims) = verified_by(token, &header, &keys) {
                return self.accept(&claims, now);
            }
            // The issuer may have rotated its keys.
            tried = Some(keys);
        }
        Err("no key of the issuer verifies the signature".to_owned())
    }

    /// The header of a token, if its algorithm is allowed and all its extensions are known.
    fn header(&self, token: &str) -> Result<Header, String> {
        let header =
            jsonwebtoken::decode_header(token).map_err(|error| format!("invalid header: {error}"))?;
        if !self.algorithms.contains(&header.alg) {
            return Err(format!("signed with {:?}, which is not allowed", header.alg));
        }
        // Extensions that a recipient must understand (RFC 7515, 4.1.11). None is understood.
        match part(token, 0).is_some_and(|members| members.get("crit").is_some()) {
            true => Err("unsupported crit header".to_owned()),
            false => Ok(header),
        }
    }

    /// Checks the claims of a token with a valid signature, and maps them to a user.
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
            None => return Err("the token has no expiry".to_owned()),
        }
        if seconds(&claims["nbf"]).is_some_and(|begin| now + EARLY < begin) {
            return Err("the token is not valid yet".to_owned());
        }
        self.mapping.user(claims)
    }
}

/// The claims of a token if one of the keys that its header may name verifies its signature.
fn verified_by(token: &str, header: &Header, keys: &[Key]) -> Option<Value> {
    let fits = |key: &&Key| header.kid.is_none() || key.id.is_none() || key.id == header.kid;
    keys.iter().filter(fits).find_map(|key| verified(token, header.alg, &key.decoding))
}

/// The claims of a token if the key verifies its signature. A key of another kind than the algorithm's
/// verifies nothing.
fn verified(token: &str, algorithm: Algorithm, key: &DecodingKey) -> Option<Value> {
    let mut validation = Validation::new(algorithm);
    // `accept` checks times and audiences, with the server's clock.
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation.required_spec_claims.clear();
    jsonwebtoken::decode::<Value>(token, key, &validation).ok().map(|decoded| decoded.claims)
}

#[cfg(test)]
mod tests;
