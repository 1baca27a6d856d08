//! Builds authenticators, authorizers and configured admission plugins from the files that access flags name.
//! Errors name the flag and the file.

mod admission_file;

use crate::args::{Authentication, Authorization, IssuerSource, ModeChoice};
use crate::files::unusable;
pub(crate) use admission_file::configured_plugins;
use anyhow::{Context, anyhow};
use kstore_access::authn::oidc::Issuers;
use kstore_access::authn::{AnonymousAccess, AuthenticationFile, BasicAuth, Bearers, TokenWebhook};
use kstore_access::authz::abac::Abac;
use kstore_access::authz::authorization_file::{self, AuthorizerConfig, KeptModes};
use kstore_access::authz::webhook::{AuthorizationWebhook, AuthorizationWebhookOptions};
use kstore_access::authz::{Mode, ModeList, Modes};
use kstore_access::reloaded::{Reloaded, UnusableFiles};
use kstore_client::Kubeconfig;
use kstore_nondet::{Clock, Nondet, Rng};
use kstore_registry::outbound::{Remote, RemoteConfig};
use kstore_storage::limits::ACCESS_FILE_LOOK;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

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
pub(crate) fn authenticators(wanted: &Authentication, nondet: &Nondet) -> anyhow::Result<Authenticators> {
    let rng = &nondet.rng;
    let webhook = match &wanted.webhook {
        None => None,
        Some(file) => {
            let remote = remote("--authentication-token-webhook-config-file", &file.kubeconfig)?;
            Some(Arc::new(TokenWebhook::new(remote, file.version, file.ttl, rng.fork("token-webhook"))))
        }
    };
    let (issuers, anonymous) = issuers(wanted, nondet.clock)?;
    let issuers = issuers.map(Arc::new);
    let basic = basic_auth(wanted.basic_auth.as_ref(), nondet)?;
    let bearers = Bearers { file: None, bootstrap: wanted.bootstrap_tokens, issuers, webhook, basic };
    Ok(Authenticators { bearers, anonymous })
}

/// The users of `--basic-auth-file`.
fn basic_auth(file: Option<&PathBuf>, nondet: &Nondet) -> anyhow::Result<Option<Arc<BasicAuth>>> {
    let open = |file: &PathBuf| {
        let users = BasicAuth::of_file(file.clone(), nondet);
        users.with_context(|| format!("cannot use --basic-auth-file {}", file.display()))
    };
    Ok(file.map(open).transpose()?.map(Arc::new))
}

/// The OpenID Connect issuers, from flags or from a file, and the anonymous access that the file states.
fn issuers(
    wanted: &Authentication,
    clock: Clock,
) -> anyhow::Result<(Option<Reloaded<Issuers>>, Option<AnonymousAccess>)> {
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
            Ok((Some(Reloaded::fixed(issuers)), None))
        }
        Some(IssuerSource::File(file)) => {
            let (issuers, anonymous) = issuers_of_file(file, wanted.is_anonymous_flag_given, clock)
                .with_context(|| format!("cannot use --authentication-config {}", file.display()))?;
            Ok((Some(issuers), anonymous))
        }
    }
}

/// The issuers of an `AuthenticationConfiguration`, which follow the file, and the anonymous access that it
/// states. As in kube-apiserver, the file may not change the latter while the server runs.
fn issuers_of_file(
    file: &Path,
    is_anonymous_flag_given: bool,
    clock: Clock,
) -> anyhow::Result<(Reloaded<Issuers>, Option<AnonymousAccess>)> {
    let stated = Arc::new(OnceLock::new());
    let first = stated.clone();
    let make = move |contents: &[String], last: Option<&Issuers>| {
        let AuthenticationFile { issuers, anonymous } =
            AuthenticationFile::parse(contents.concat().as_bytes())
                .map_err(|error| UnusableFiles::new(error.to_string()))?;
        if anonymous.is_some() && is_anonymous_flag_given {
            return Err(UnusableFiles::new(ANONYMOUS_TWICE));
        }
        if *first.get_or_init(|| anonymous.clone()) != anonymous {
            return Err(UnusableFiles::new(ANONYMOUS_CHANGED));
        }
        let made = match last {
            None => Issuers::new(issuers),
            Some(last) => last.replaced(issuers),
        };
        made.map_err(|error| UnusableFiles::new(error.to_string()))
    };
    let issuers = Reloaded::new(vec![file.to_owned()], make)?.at_most_every(ACCESS_FILE_LOOK).timed(clock);
    let anonymous = stated.get().cloned().flatten();
    Ok((issuers, anonymous))
}

/// kube-apiserver's error if both the file and the flag configure anonymous access.
const ANONYMOUS_TWICE: &str = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file";

/// kube-apiserver's error if the file changes anonymous access while the server runs.
const ANONYMOUS_CHANGED: &str = "anonymous: Forbidden: changed from initial configuration file";

/// The authorization modes that flags configure, in order.
pub(crate) fn modes(wanted: Option<&Authorization>, nondet: &Nondet) -> anyhow::Result<Modes> {
    let rng = &nondet.rng;
    match wanted {
        None => Ok(Modes::default()),
        Some(Authorization::Modes(modes)) => {
            let modes = modes.iter().map(|choice| mode(choice, rng));
            Ok(Modes::new(modes.collect::<Result<Vec<_>, _>>()?))
        }
        Some(Authorization::File(file)) => modes_of_file(file, nondet)
            .with_context(|| format!("cannot use --authorization-config {}", file.display())),
    }
}

/// The modes of an `AuthorizationConfiguration`, which follow the file. Kubeconfigs of webhooks are read with
/// it.
fn modes_of_file(file: &Path, nondet: &Nondet) -> anyhow::Result<Modes> {
    let (rng, kept) = (nondet.rng.clone(), OnceLock::new());
    let make = move |contents: &[String], _: Option<&ModeList>| {
        let authorizers = authorization_file::parse(contents.concat().as_bytes())
            .map_err(|error| UnusableFiles::new(error.to_string()))?;
        kept.get_or_init(|| KeptModes::of(&authorizers))
            .check(&authorizers)
            .map_err(|error| UnusableFiles::new(error.to_string()))?;
        let modes = authorizers.into_iter().map(|config| mode_of(config, &rng));
        let modes: anyhow::Result<Vec<Mode>> = modes.collect();
        modes.map(ModeList::new).map_err(|error| unusable(&error))
    };
    let modes = Reloaded::new(vec![file.to_owned()], make)?;
    Ok(Modes::following(modes.at_most_every(ACCESS_FILE_LOOK).timed(nondet.clock)))
}

fn mode_of(config: AuthorizerConfig, rng: &Rng) -> anyhow::Result<Mode> {
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
        let found = authenticators(&wanted, &Nondet::real()).map_err(|error| format!("{error:#}"));
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

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_cannot_change_anonymous_access() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("authentication.yaml");
        let write = |text: &str| {
            let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
            std::fs::write(&file, format!("{head}{text}")).unwrap();
        };
        let issuer = "jwt: [{issuer: {url: 'https://a', audiences: [b]}, claimMappings: {username: {claim: sub, prefix: ''}}}]";
        let shown = |issuers: &Reloaded<Issuers>| format!("{:?}", issuers.get());
        write("anonymous: {enabled: true}");
        let (issuers, anonymous) = issuers_of_file(&file, false, Clock::simulated()).unwrap();
        assert_eq!((anonymous, shown(&issuers)), (Some(AnonymousAccess::Everywhere), "[]".to_owned()));
        for (text, expected) in [
            (issuer.to_owned(), "[]"),
            (format!("anonymous: {{enabled: false}}\n{issuer}"), "[]"),
            (format!("anonymous: {{enabled: true}}\n{issuer}"), "[\"https://a\"]"),
        ] {
            write(&text);
            tokio::time::advance(ACCESS_FILE_LOOK).await;
            assert_eq!(shown(&issuers), expected, "{text}");
        }
    }
}
