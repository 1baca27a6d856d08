//! [`parse`]: the file of authorization modes and webhooks, in order (`AuthorizationConfiguration`). Parsed
//! strictly: an unknown field or an invalid entry is an error before any connection is opened. [`KeptModes`]
//! says which changes of a file in use are allowed. Pure.

use super::webhook::{AuthorizationWebhookOptions, FailurePolicy};
use crate::access_file::{self, Result, check, invalid};
use crate::authz::ReviewVersion;
use kstore_go_duration::parse_non_negative;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

const KIND: &str = "AuthorizationConfiguration";
/// Longest timeout of an authorization webhook, as in Kubernetes.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest number of match conditions of one webhook, as in Kubernetes.
const MAX_CONDITIONS: usize = 64;

/// One authorizer of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizerConfig {
    /// The mode Node.
    Node,
    /// The mode RBAC.
    Rbac,
    /// The mode AlwaysAllow.
    AlwaysAllow,
    /// The mode AlwaysDeny.
    AlwaysDeny,
    /// A webhook.
    Webhook {
        /// The file with the address and credentials of its server.
        kubeconfig: PathBuf,
        /// Its name, times and failure policy.
        options: AuthorizationWebhookOptions,
        /// CEL expressions that are all true for the requests that it decides.
        conditions: Vec<String>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    authorizers: Vec<AuthorizerEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuthorizerEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<WebhookEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WebhookEntry {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    #[serde(default = "yes")]
    cache_authorized_requests: bool,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    #[serde(default = "yes")]
    cache_unauthorized_requests: bool,
    timeout: Option<String>,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    connection_info: ConnectionInfo,
    #[serde(default)]
    match_conditions: Vec<MatchCondition>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectionInfo {
    #[serde(rename = "type", default)]
    kind: String,
    kube_config_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchCondition {
    expression: String,
}

/// Parses a file in YAML or JSON. Returns its authorizers in their order.
///
/// # Errors
/// The first problem, with the field that has it.
pub fn parse(text: &[u8]) -> Result<Vec<AuthorizerConfig>> {
    let file = access_file::read(text, KIND, |file: &ConfigFile| (&file.api_version, &file.kind))?;
    check(!file.authorizers.is_empty(), "authorizers", || {
        "at least one authorization mode must be defined".to_owned()
    })?;
    let (mut kinds, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut authorizers = Vec::new();
    for (index, entry) in file.authorizers.into_iter().enumerate() {
        let at = format!("authorizers[{index}]");
        let (kind, name) = (entry.kind.clone(), entry.name.clone());
        let is_new = kind == "Webhook" || kinds.insert(kind);
        check(is_new, &format!("{at}.type"), || format!("Duplicate value: {:?}", entry.kind))?;
        let at_name = format!("{at}.name");
        check(is_name(&name), &at_name, || format!("must be a DNS subdomain, found {name:?}"))?;
        check(names.insert(name), &at_name, || format!("Duplicate value: {:?}", entry.name))?;
        authorizers.push(authorizer(&at, entry)?);
    }
    Ok(authorizers)
}

/// The modes of a file that a change of it must keep, as in kube-apiserver: webhooks may come and go, and of the
/// modes that allow or deny everything more may come. Node and RBAC are on from the start or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptModes(BTreeSet<&'static str>);

impl KeptModes {
    /// The modes that changes of a file with these authorizers must keep.
    pub fn of(authorizers: &[AuthorizerConfig]) -> Self {
        Self(authorizers.iter().filter_map(AuthorizerConfig::kept_mode).collect())
    }

    /// Checks the authorizers of the changed file.
    ///
    /// # Errors
    /// The modes that are missing, or a mode that was not on at the start.
    pub fn check(&self, changed: &[AuthorizerConfig]) -> Result<()> {
        let Self(changed) = Self::of(changed);
        let missing: Vec<&str> = self.0.difference(&changed).copied().collect();
        check(missing.is_empty(), "authorizers", || {
            format!("the types {} of the initial configuration must remain", missing.join(", "))
        })?;
        let added =
            ["Node", "RBAC"].into_iter().find(|mode| changed.contains(mode) && !self.0.contains(mode));
        match added {
            None => Ok(()),
            Some(mode) => {
                let reason = "is not allowed if it was not enabled at initial server startup";
                Err(invalid("authorizers", format!("authorizer type {mode} {reason}")))
            }
        }
    }
}

impl AuthorizerConfig {
    /// The mode, if a change of the file must keep it.
    fn kept_mode(&self) -> Option<&'static str> {
        match self {
            Self::Node => Some("Node"),
            Self::Rbac => Some("RBAC"),
            Self::AlwaysAllow => Some("AlwaysAllow"),
            Self::AlwaysDeny => Some("AlwaysDeny"),
            Self::Webhook { .. } => None,
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_letter)
            && label.ends_with(is_letter)
            && label.chars().all(|c| is_letter(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn authorizer(at: &str, entry: AuthorizerEntry) -> Result<AuthorizerConfig> {
    let at_webhook = format!("{at}.webhook");
    match (entry.kind.as_str(), entry.webhook) {
        ("Webhook", Some(webhook)) => webhook_config(&at_webhook, webhook, entry.name),
        ("Webhook", None) => Err(invalid(&at_webhook, "Required value: required when type=Webhook")),
        (_, Some(_)) => Err(invalid(&at_webhook, "may only be specified when type=Webhook")),
        ("Node", None) => Ok(AuthorizerConfig::Node),
        ("RBAC", None) => Ok(AuthorizerConfig::Rbac),
        ("AlwaysAllow", None) => Ok(AuthorizerConfig::AlwaysAllow),
        ("AlwaysDeny", None) => Ok(AuthorizerConfig::AlwaysDeny),
        ("ABAC", None) => Err(invalid(
            &format!("{at}.type"),
            "ABAC cannot be configured in this file; use --authorization-mode and --authorization-policy-file",
        )),
        (other, None) => Err(invalid(&format!("{at}.type"), format!("{other:?} is not a valid mode"))),
    }
}

/// A duration above zero; `default` if the field is absent.
fn time(field: &str, text: Option<&str>, default: Option<Duration>) -> Result<Duration> {
    let Some(text) = text else { return default.ok_or_else(|| invalid(field, "Required value")) };
    let time = parse_non_negative(text).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| invalid(field, format!("expected a time above 0, found {text:?}")))
}

fn webhook_config(at: &str, webhook: WebhookEntry, name: String) -> Result<AuthorizerConfig> {
    let field = |name: &str| format!("{at}.{name}");
    let known = AuthorizationWebhookOptions::default();
    let authorized =
        time(&field("authorizedTTL"), webhook.authorized_ttl.as_deref(), Some(known.authorized_ttl))?;
    let unauthorized =
        time(&field("unauthorizedTTL"), webhook.unauthorized_ttl.as_deref(), Some(known.unauthorized_ttl))?;
    let timeout = time(&field("timeout"), webhook.timeout.as_deref(), None)?;
    check(timeout <= MAX_TIMEOUT, &field("timeout"), || "must be <= 30s".to_owned())?;
    let version = ReviewVersion::parse(&webhook.subject_access_review_version)
        .ok_or_else(|| invalid(&field("subjectAccessReviewVersion"), "expected v1 or v1beta1"))?;
    check(webhook.match_conditions.len() <= MAX_CONDITIONS, &field("matchConditions"), || {
        format!("must have at most {MAX_CONDITIONS} items")
    })?;
    let seen = webhook.match_condition_subject_access_review_version.as_str();
    let is_known = seen == "v1" || (seen.is_empty() && webhook.match_conditions.is_empty());
    check(is_known, &field("matchConditionSubjectAccessReviewVersion"), || {
        format!("expected v1, found {seen:?}")
    })?;
    let failure_policy = match webhook.failure_policy.as_str() {
        "NoOpinion" => FailurePolicy::NoOpinion,
        "Deny" => FailurePolicy::Deny,
        other => {
            let reason = format!("expected NoOpinion or Deny, found {other:?}");
            return Err(invalid(&field("failurePolicy"), reason));
        }
    };
    let kubeconfig = kubeconfig(&field("connectionInfo"), webhook.connection_info)?;
    let kept = |time, is_kept| if is_kept { time } else { Duration::ZERO };
    let options = AuthorizationWebhookOptions {
        name,
        authorized_ttl: kept(authorized, webhook.cache_authorized_requests),
        unauthorized_ttl: kept(unauthorized, webhook.cache_unauthorized_requests),
        timeout,
        version,
        failure_policy,
    };
    let conditions = webhook.match_conditions.into_iter().map(|condition| condition.expression).collect();
    Ok(AuthorizerConfig::Webhook { kubeconfig, options, conditions })
}

fn kubeconfig(at: &str, of: ConnectionInfo) -> Result<PathBuf> {
    let kind = format!("{at}.type");
    match (of.kind.as_str(), of.kube_config_file) {
        ("KubeConfigFile", Some(file)) => Ok(file),
        ("KubeConfigFile", None) => Err(invalid(&format!("{at}.kubeConfigFile"), "Required value")),
        ("InClusterConfig", _) => {
            Err(invalid(&kind, "kstore does not run inside a cluster; use KubeConfigFile"))
        }
        (other, _) => Err(invalid(&kind, format!("expected KubeConfigFile, found {other:?}"))),
    }
}

#[cfg(test)]
mod tests;
