//! Builds authenticators, authorizers and configured admission plugins from the files that access flags name. Errors name the flag and the
//! file.

mod admission_file;

pub(crate) use admission_file::configured_plugins;

use crate::args::{Authentication, Authorization, IssuerSource, ModeChoice};
use anyhow::{Context, anyhow, ensure};
use kstore_apiserver::authn::oidc::Issuers;
use kstore_apiserver::authn::{AnonymousAccess, AuthenticationFile, Bearers, TokenWebhook};
use kstore_apiserver::authz::abac::Abac;
use kstore_apiserver::authz::authorization_file::{self, AuthorizerConfig};
use kstore_apiserver::authz::webhook::{AuthorizationWebhook, AuthorizationWebhookOptions};
use kstore_apiserver::authz::{Mode, Modes};
use kstore_apiserver::outbound::{Remote, RemoteConfig};
use kstore_client::Kubeconfig;
use kstore_nondet::Rng;
use std::path::Path;
use std::sync::Arc;

/// The remote server that the current context of a kubeconfig describes.
pub(crate) fn remote(flag: &str, file: &Path) -> anyhow::Result<Remote> {
    let cannot = || format!("cannot use {flag} {}", file.display());
    let Kubeconfig { server, ca, tls_server_name, insecure, identity, token, .. } =
        Kubeconfig::read(file).with_context(cannot)?;
    let config = RemoteConfig {
        server,
        authorities: ca.unwrap_or_default(),
        server_name: tls_server_name,
        insecure,
        identity: identity.map(|identity| (identity.certificate, identity.key)),
        token,
    };
    Remote::new(&config).with_context(cannot)
}

/// The authenticators that flags configure, besides certificates and the keys of service accounts.
pub(crate) struct Authenticators {
    /// Authenticators of bearer tokens.
    pub bearers: Bearers,
    /// Which requests without credentials are served, if a file says it; then it replaces `--anonymous-auth`.
    pub anonymous: Option<AnonymousAccess>,
}

/// The authenticators that flags configure.
pub(crate) fn authenticators(wanted: &Authentication, rng: &Rng) -> anyhow::Result<Authenticators> {
    let webhook = match &wanted.webhook {
        None => None,
        Some(file) => {
            let remote = remote("--authentication-token-webhook-config-file", &file.kubeconfig)?;
            Some(Arc::new(TokenWebhook::new(remote, file.version, file.ttl, rng.fork("token-webhook"))))
        }
    };
    let (issuers, anonymous) = issuers(wanted)?;
    let issuers = issuers.map(Arc::new);
    let bearers = Bearers { file: None, bootstrap: wanted.bootstrap_tokens, issuers, webhook };
    Ok(Authenticators { bearers, anonymous })
}

/// The OpenID Connect issuers, from flags or from a file, and the anonymous access that the file states.
fn issuers(wanted: &Authentication) -> anyhow::Result<(Option<Issuers>, Option<AnonymousAccess>)> {
    match &wanted.issuers {
        None => Ok((None, None)),
        Some(IssuerSource::Flags(issuer, authorities)) => {
            let mut issuer = (**issuer).clone();
            if let Some(file) = authorities {
                let read = std::fs::read(file);
                issuer.authorities =
                    read.with_context(|| format!("cannot read --oidc-ca-file {}", file.display()))?;
            }
            let issuers = Issuers::new(vec![issuer]).context("cannot use --oidc-issuer-url")?;
            Ok((Some(issuers), None))
        }
        Some(IssuerSource::File(file)) => {
            let cannot = || format!("cannot use --authentication-config {}", file.display());
            let text = std::fs::read(file).with_context(cannot)?;
            let AuthenticationFile { issuers, anonymous } =
                AuthenticationFile::parse(&text).with_context(cannot)?;
            if anonymous.is_some() {
                let is_alone = !wanted.is_anonymous_flag_given;
                ensure!(is_alone, "{}: {ANONYMOUS_TWICE}", cannot());
            }
            Ok((Some(Issuers::new(issuers).with_context(cannot)?), anonymous))
        }
    }
}

/// kube-apiserver's error if both the file and the flag configure anonymous access.
const ANONYMOUS_TWICE: &str = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file";

/// The authorization modes that flags configure, in order.
pub(crate) fn modes(wanted: Option<&Authorization>, rng: &Rng) -> anyhow::Result<Modes> {
    match wanted {
        None => Ok(Modes::default()),
        Some(Authorization::Modes(modes)) => {
            let modes = modes.iter().map(|choice| mode(choice, rng));
            Ok(Modes::new(modes.collect::<Result<Vec<_>, _>>()?))
        }
        Some(Authorization::File(file)) => modes_of_file(file, rng)
            .with_context(|| format!("cannot use --authorization-config {}", file.display())),
    }
}

/// Reads an `AuthorizationConfiguration` and builds its modes.
fn modes_of_file(file: &Path, rng: &Rng) -> anyhow::Result<Modes> {
    let text = std::fs::read(file).context("cannot read it")?;
    let open = |config| {
        Ok(match config {
            AuthorizerConfig::Node => Mode::Node,
            AuthorizerConfig::Rbac => Mode::Rbac,
            AuthorizerConfig::AlwaysAllow => Mode::AlwaysAllow,
            AuthorizerConfig::AlwaysDeny => Mode::AlwaysDeny,
            AuthorizerConfig::Webhook { kubeconfig, options, conditions } => {
                let name = options.name.clone();
                let remote = remote("connectionInfo.kubeConfigFile", &kubeconfig)?;
                webhook(remote, options, &conditions, rng).with_context(|| format!("webhook {name:?}"))?
            }
        })
    };
    let modes: anyhow::Result<Vec<Mode>> = authorization_file::parse(&text)?.into_iter().map(open).collect();
    Ok(Modes::new(modes?))
}

fn mode(choice: &ModeChoice, rng: &Rng) -> anyhow::Result<Mode> {
    Ok(match choice {
        ModeChoice::Node => Mode::Node,
        ModeChoice::Rbac => Mode::Rbac,
        ModeChoice::AlwaysAllow => Mode::AlwaysAllow,
        ModeChoice::AlwaysDeny => Mode::AlwaysDeny,
        ModeChoice::Abac(file) => {
            const FLAG: &str = "--authorization-policy-file";
            let shown = file.display();
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {FLAG} {shown}"))?;
            let policies = Abac::parse(&text).with_context(|| format!("cannot use {FLAG} {shown}"))?;
            Mode::Abac(Arc::new(policies))
        }
        ModeChoice::Webhook(file, options) => {
            let remote = remote("--authorization-webhook-config-file", file)?;
            webhook(remote, options.clone(), &[], rng)?
        }
    })
}

fn webhook(
    remote: Remote,
    options: AuthorizationWebhookOptions,
    conditions: &[String],
    rng: &Rng,
) -> anyhow::Result<Mode> {
    let rng = rng.fork(&options.name);
    let webhook = AuthorizationWebhook::new(remote, options, conditions, rng);
    let webhook = webhook.map_err(|(index, why)| anyhow!("matchConditions[{index}].expression: {why}"))?;
    Ok(Mode::Webhook(Arc::new(webhook)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(text: &str, is_anonymous_flag_given: bool) -> Result<Option<AnonymousAccess>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("authentication.yaml");
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        std::fs::write(&file, format!("{head}{text}")).unwrap();
        let wanted = Authentication {
            issuers: Some(IssuerSource::File(file)),
            is_anonymous_flag_given,
            ..Authentication::default()
        };
        let found = authenticators(&wanted, &Rng::seeded(1)).map_err(|error| format!("{error:#}"));
        found.map(|found| found.anonymous)
    }

    #[test]
    fn anonymous_access_is_stated_by_the_file_or_by_the_flag() {
        let paths = AnonymousAccess::Paths(["/livez".to_owned()].into());
        let stated = "anonymous: {enabled: true, conditions: [{path: /livez}]}";
        assert_eq!(anonymous(stated, false), Ok(Some(paths)));
        assert_eq!(anonymous("", true), Ok(None));
        assert_eq!(anonymous("", false), Ok(None));
        for stated in [stated, "anonymous: {enabled: false}"] {
            assert!(anonymous(stated, true).unwrap_err().ends_with(ANONYMOUS_TWICE), "{stated}");
        }
    }
}
