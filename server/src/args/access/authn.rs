//! What the flags of authentication ask for.

use super::{FlagError, Given};
use kstore_apiserver::authn::ReviewVersion;
use std::path::PathBuf;
use std::time::Duration;

/// How long answers of the token webhook are kept, as in Kubernetes.
const TTL: Duration = Duration::from_secs(120);

/// Who knows bearer tokens, beside the keys of service accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Whether bootstrap tokens are good.
    pub bootstrap_tokens: bool,
    /// A server that knows tokens.
    pub webhook: Option<TokenWebhookFile>,
}

/// A server that knows tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWebhookFile {
    /// The kubeconfig that says where it is.
    pub kubeconfig: PathBuf,
    /// The version of reviews.
    pub version: ReviewVersion,
    /// How long answers are kept.
    pub ttl: Duration,
}

/// # Errors
/// The first value that cannot be used.
pub(crate) fn authentication(flags: &impl Given) -> Result<Authentication, FlagError> {
    let ttl = flags.time("authentication-token-webhook-cache-ttl", TTL)?;
    let version = version(flags, "authentication-token-webhook-version")?;
    let kubeconfig = flags.file("authentication-token-webhook-config-file");
    Ok(Authentication {
        bootstrap_tokens: flags.is_on("enable-bootstrap-token-auth", false)?,
        webhook: kubeconfig.map(|kubeconfig| TokenWebhookFile { kubeconfig, version, ttl }),
    })
}

/// The version of reviews that a flag names.
pub(super) fn version(flags: &impl Given, name: &'static str) -> Result<ReviewVersion, FlagError> {
    let Some(value) = flags.text(name) else { return Ok(ReviewVersion::default()) };
    ReviewVersion::parse(value).ok_or_else(|| FlagError::new(name, value, "expected v1 or v1beta1"))
}
