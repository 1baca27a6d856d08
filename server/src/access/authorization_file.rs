//! `AuthorizationConfiguration`: the file of authorization modes and webhooks, in order. Parsed strictly: an
//! unknown field or an invalid entry is an error before any connection is opened.

use super::{remote, webhook};
use anyhow::{Context, bail, ensure};
use kstore_apiserver::authn::ReviewVersion;
use kstore_apiserver::authz::webhook::{AuthorizationWebhookOptions, FailurePolicy};
use kstore_apiserver::authz::{Mode, Modes};
use kstore_nondet::Rng;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AuthorizationConfiguration";
/// Longest timeout of an authorization webhook, as in Kubernetes.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest number of match conditions of one webhook, as in Kubernetes.
const MAX_CONDITIONS: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    api_version: String,
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

/// One configured authorizer.
#[derive(Debug, PartialEq, Eq)]
enum Authorizer {
    Node,
    Rbac,
    AlwaysAllow,
    AlwaysDeny,
    Webhook { kubeconfig: PathBuf, options: AuthorizationWebhookOptions, conditions: Vec<String> },
}

/// Reads the file and builds its authorization modes.
pub(super) fn open(file: &Path, rng: &Rng) -> anyhow::Result<Modes> {
    let text = std::fs::read_to_string(file).context("cannot read it")?;
    let open = |choice| {
        Ok(match choice {
            Authorizer::Node => Mode::Node,
            Authorizer::Rbac => Mode::Rbac,
            Authorizer::AlwaysAllow => Mode::AlwaysAllow,
            Authorizer::AlwaysDeny => Mode::AlwaysDeny,
            Authorizer::Webhook { kubeconfig, options, conditions } => {
                let name = options.name.clone();
                let remote = remote("connectionInfo.kubeConfigFile", &kubeconfig)?;
                webhook(remote, options, &conditions, rng).with_context(|| format!("webhook {name:?}"))?
            }
        })
    };
    let modes: anyhow::Result<Vec<Mode>> = parse(&text)?.into_iter().map(open).collect();
    Ok(Modes::new(modes?))
}

fn parse(text: &str) -> anyhow::Result<Vec<Authorizer>> {
    let file: ConfigFile = serde_yaml_ng::from_str(text)?;
    ensure!(
        VERSIONS.contains(&file.api_version.as_str()) && file.kind == KIND,
        "expected {} {KIND}, found {} {}",
        VERSIONS[0],
        file.api_version,
        file.kind
    );
    ensure!(!file.authorizers.is_empty(), "authorizers: at least one authorization mode must be defined");
    let (mut kinds, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut choices = Vec::new();
    for (index, entry) in file.authorizers.into_iter().enumerate() {
        ensure!(
            entry.kind == "Webhook" || kinds.insert(entry.kind.clone()),
            "authorizers[{index}].type: Duplicate value: {:?}",
            entry.kind
        );
        ensure!(
            is_name(&entry.name),
            "authorizers[{index}].name: must be a DNS subdomain, found {:?}",
            entry.name
        );
        ensure!(
            names.insert(entry.name.clone()),
            "authorizers[{index}].name: Duplicate value: {:?}",
            entry.name
        );
        choices.push(choice(entry).with_context(|| format!("authorizers[{index}]"))?);
    }
    Ok(choices)
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

fn choice(entry: AuthorizerEntry) -> anyhow::Result<Authorizer> {
    let choice = match (entry.kind.as_str(), entry.webhook) {
        ("Webhook", Some(webhook)) => return read(webhook, entry.name),
        ("Webhook", None) => bail!("webhook: Required value: required when type=Webhook"),
        (_, Some(_)) => bail!("webhook: may only be specified when type=Webhook"),
        ("Node", None) => Authorizer::Node,
        ("RBAC", None) => Authorizer::Rbac,
        ("AlwaysAllow", None) => Authorizer::AlwaysAllow,
        ("AlwaysDeny", None) => Authorizer::AlwaysDeny,
        ("ABAC", None) => {
            bail!(
                "type: ABAC cannot be configured in this file; use --authorization-mode and --authorization-policy-file"
            )
        }
        (other, None) => bail!("type: {other:?} is not a valid mode"),
    };
    Ok(choice)
}

fn read(webhook: WebhookEntry, name: String) -> anyhow::Result<Authorizer> {
    let time = |field: &str, text: Option<&String>, default: Option<Duration>| match (text, default) {
        (Some(text), _) => {
            let time = crate::args::duration(text).filter(|time| !time.is_zero());
            time.with_context(|| format!("webhook.{field}: expected a time above 0, found {text:?}"))
        }
        (None, Some(default)) => Ok(default),
        (None, None) => bail!("webhook.{field}: Required value"),
    };
    let known = AuthorizationWebhookOptions::default();
    let authorized = time("authorizedTTL", webhook.authorized_ttl.as_ref(), Some(known.authorized_ttl))?;
    let unauthorized =
        time("unauthorizedTTL", webhook.unauthorized_ttl.as_ref(), Some(known.unauthorized_ttl))?;
    let timeout = time("timeout", webhook.timeout.as_ref(), None)?;
    ensure!(timeout <= MAX_TIMEOUT, "webhook.timeout: must be <= 30s");
    let version = ReviewVersion::parse(&webhook.subject_access_review_version);
    let version = version.context("webhook.subjectAccessReviewVersion: expected v1 or v1beta1")?;
    ensure!(
        webhook.match_conditions.len() <= MAX_CONDITIONS,
        "webhook.matchConditions: must have at most {MAX_CONDITIONS} items"
    );
    let seen = webhook.match_condition_subject_access_review_version.as_str();
    ensure!(
        seen == "v1" || (seen.is_empty() && webhook.match_conditions.is_empty()),
        "webhook.matchConditionSubjectAccessReviewVersion: expected v1, found {seen:?}"
    );
    let failure_policy = match webhook.failure_policy.as_str() {
        "NoOpinion" => FailurePolicy::NoOpinion,
        "Deny" => FailurePolicy::Deny,
        other => bail!("webhook.failurePolicy: expected NoOpinion or Deny, found {other:?}"),
    };
    let kubeconfig = match (webhook.connection_info.kind.as_str(), webhook.connection_info.kube_config_file) {
        ("KubeConfigFile", Some(file)) => file,
        ("KubeConfigFile", None) => bail!("webhook.connectionInfo.kubeConfigFile: Required value"),
        ("InClusterConfig", _) => {
            bail!("webhook.connectionInfo.type: kstore does not run inside a cluster; use KubeConfigFile")
        }
        (other, _) => bail!("webhook.connectionInfo.type: expected KubeConfigFile, found {other:?}"),
    };
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
    Ok(Authorizer::Webhook { kubeconfig, options, conditions })
}

#[cfg(test)]
mod tests;
