//! The configuration of ImagePolicyWebhook: an object with the member `imagePolicy`. Pure.

use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

const DEFAULT_ALLOW_TTL: Duration = Duration::from_secs(5 * 60);
const DEFAULT_DENY_TTL: Duration = Duration::from_secs(30);
const DEFAULT_BACKOFF: Duration = Duration::from_millis(500);
/// Longest time that answers are cached, in seconds.
const MAX_TTL: u64 = 30 * 60;
/// Longest first pause between two calls, in milliseconds.
const MAX_BACKOFF: u64 = 5 * 60 * 1000;

/// Options of the image policy webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImagePolicyOptions {
    /// Kubeconfig of the server.
    pub(super) kubeconfig: PathBuf,
    /// How long allowing answers are cached; zero disables it.
    pub(super) allow_ttl: Duration,
    /// How long denying answers are cached; zero disables it.
    pub(super) deny_ttl: Duration,
    /// The pause after the first failed call.
    pub(super) retry_backoff: Duration,
    /// Whether pods are admitted if the server gives no usable answer.
    pub(super) default_allow: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    image_policy: Option<ImagePolicy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImagePolicy {
    #[serde(default)]
    kube_config_file: PathBuf,
    #[serde(rename = "allowTTL", default)]
    allow_ttl: i64,
    #[serde(rename = "denyTTL", default)]
    deny_ttl: i64,
    #[serde(default)]
    retry_backoff: i64,
    #[serde(default)]
    default_allow: bool,
}

impl ImagePolicyOptions {
    /// Reads the plugin's part of an AdmissionConfiguration.
    ///
    /// # Errors
    /// The field that cannot be used.
    pub(super) fn parse(document: Value) -> Result<Self, String> {
        let Configuration { image_policy } =
            serde_json::from_value(document).map_err(|error| error.to_string())?;
        let policy = image_policy.ok_or("imagePolicy: required")?;
        if policy.kube_config_file.as_os_str().is_empty() {
            return Err("imagePolicy.kubeConfigFile: required".to_owned());
        }
        let ttl = |field, value, default| {
            let seconds = number((field, "seconds"), value, (1, MAX_TTL))?;
            Ok::<_, String>(seconds.map_or(default, Duration::from_secs))
        };
        let backoff = number(("retryBackoff", "milliseconds"), policy.retry_backoff, (0, MAX_BACKOFF))?;
        Ok(Self {
            kubeconfig: policy.kube_config_file,
            allow_ttl: ttl("allowTTL", policy.allow_ttl, DEFAULT_ALLOW_TTL)?,
            deny_ttl: ttl("denyTTL", policy.deny_ttl, DEFAULT_DENY_TTL)?,
            retry_backoff: backoff.map_or(DEFAULT_BACKOFF, Duration::from_millis),
            default_allow: policy.default_allow,
        })
    }
}

/// Reads a time: `None` for 0, the default, and zero for -1. Others are above the first bound, and at most the
/// second, as in Kubernetes.
fn number((field, unit): (&str, &str), value: i64, (above, most): (u64, u64)) -> Result<Option<u64>, String> {
    match u64::try_from(value) {
        Ok(0) => Ok(None),
        Err(_) if value == -1 => Ok(Some(0)),
        Ok(value) if value > above && value <= most => Ok(Some(value)),
        _ => Err(format!(
            "imagePolicy.{field}: expected more than {above} and at most {most} {unit}, 0 for the default or -1 for none, found {value}"
        )),
    }
}
