//! Builds authenticators, authorizers and configured admission plugins from the files that access flags name. Errors name the flag and the
//! file.

mod admission_file;
mod authentication_file;
mod authorization_file;

pub(crate) use admission_file::configured_plugins;

use crate::args::{Authentication, Authorization, IssuerSource, ModeChoice};
use anyhow::{Context, anyhow};
use kstore_apiserver::authn::oidc::Issuers;
use kstore_apiserver::authn::{Bearers, TokenWebhook};
use kstore_apiserver::authz::abac::Abac;
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

/// The authenticators of bearer tokens that flags configure, besides the keys of service accounts.
pub(crate) fn bearers(wanted: &Authentication, rng: &Rng) -> anyhow::Result<Bearers> {
    let webhook = match &wanted.webhook {
        None => None,
        Some(file) => {
            let remote = remote("--authentication-token-webhook-config-file", &file.kubeconfig)?;
            Some(Arc::new(TokenWebhook::new(remote, file.version, file.ttl, rng.fork("token-webhook"))))
        }
    };
    let issuers = issuers(wanted.issuers.as_ref())?.map(Arc::new);
    Ok(Bearers { file: None, bootstrap: wanted.bootstrap_tokens, issuers, webhook })
}

/// The OpenID Connect issuers, from flags or from a file.
fn issuers(from: Option<&IssuerSource>) -> anyhow::Result<Option<Issuers>> {
    match from {
        None => Ok(None),
        Some(IssuerSource::Flags(issuer, authorities)) => {
            let mut issuer = (**issuer).clone();
            if let Some(file) = authorities {
                let read = std::fs::read(file);
                issuer.authorities =
                    read.with_context(|| format!("cannot read --oidc-ca-file {}", file.display()))?;
            }
            Issuers::new(vec![issuer]).context("cannot use --oidc-issuer-url").map(Some)
        }
        Some(IssuerSource::File(file)) => {
            let cannot = || format!("cannot use --authentication-config {}", file.display());
            let text = std::fs::read_to_string(file).with_context(cannot)?;
            let configs = authentication_file::parse(&text).with_context(cannot)?;
            Issuers::new(configs).with_context(cannot).map(Some)
        }
    }
}

/// The authorization modes that flags configure, in order.
pub(crate) fn modes(wanted: Option<&Authorization>, rng: &Rng) -> anyhow::Result<Modes> {
    match wanted {
        None => Ok(Modes::default()),
        Some(Authorization::Modes(modes)) => {
            let modes = modes.iter().map(|choice| mode(choice, rng));
            Ok(Modes::new(modes.collect::<Result<Vec<_>, _>>()?))
        }
        Some(Authorization::File(file)) => authorization_file::open(file, rng)
            .with_context(|| format!("cannot use --authorization-config {}", file.display())),
    }
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
