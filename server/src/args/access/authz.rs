//! Flags of authorization.

use super::authn::version;
use super::{FlagError, FlagValues};
use kstore_access::authz::webhook::AuthorizationWebhookOptions;
use std::path::PathBuf;

const MODE: &str = "authorization-mode";
const CONFIG: &str = "authorization-config";
const POLICIES: &str = "authorization-policy-file";
const WEBHOOK: &str = "authorization-webhook-config-file";

/// Authorizers that flags configure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Modes, in the order in which they are asked.
    Modes(Vec<ModeChoice>),
    /// An `AuthorizationConfiguration` file.
    File(PathBuf),
}

/// One authorization mode, with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeChoice {
    /// The Node authorizer.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Everything is allowed.
    AlwaysAllow,
    /// Nothing is allowed.
    AlwaysDeny,
    /// Attribute-based policies of this file.
    Abac(PathBuf),
    /// The webhook of this kubeconfig.
    Webhook(PathBuf, AuthorizationWebhookOptions),
}

/// The authorizers that the flags configure; `None` without such flags.
///
/// # Errors
/// A value that cannot be used, a mode without its file, or a file without its mode.
pub(crate) fn authorization(flags: &impl FlagValues) -> Result<Option<Authorization>, FlagError> {
    let names = flags.elements(MODE);
    if let Some(file) = flags.file(CONFIG) {
        if let Some(flag) = [MODE, POLICIES, WEBHOOK].into_iter().find(|flag| flags.text(flag).is_some()) {
            let reason = format!("--{flag} can not be specified when --{CONFIG} is specified");
            return Err(FlagError::new(CONFIG, &file.to_string_lossy(), reason));
        }
        return Ok(Some(Authorization::File(file)));
    }
    let modes = names.iter().map(|name| mode(flags, name)).collect::<Result<Vec<_>, _>>()?;
    if let Some((_, name)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(FlagError::new(MODE, name, "has mode specified more than once"));
    }
    for (flag, mode) in [(POLICIES, "ABAC"), (WEBHOOK, "Webhook")] {
        if let Some(file) = flags.text(flag).filter(|_| !names.iter().any(|name| name == mode)) {
            let reason = format!("cannot specify --{flag} without mode {mode} in --{MODE}");
            return Err(FlagError::new(flag, file, reason));
        }
    }
    Ok((!modes.is_empty()).then_some(Authorization::Modes(modes)))
}

fn mode(flags: &impl FlagValues, name: &str) -> Result<ModeChoice, FlagError> {
    let needs = |flag: &'static str| {
        let missing = || FlagError::new(MODE, name, format!("needs --{flag}"));
        flags.file(flag).ok_or_else(missing)
    };
    Ok(match name {
        "Node" => ModeChoice::Node,
        "RBAC" => ModeChoice::Rbac,
        "AlwaysAllow" => ModeChoice::AlwaysAllow,
        "AlwaysDeny" => ModeChoice::AlwaysDeny,
        "ABAC" => ModeChoice::Abac(needs(POLICIES)?),
        "Webhook" => ModeChoice::Webhook(needs(WEBHOOK)?, options(flags)?),
        _ => {
            let reason =
                "is not a valid mode; expected some of Node, RBAC, ABAC, Webhook, AlwaysAllow and AlwaysDeny";
            return Err(FlagError::new(MODE, name, reason));
        }
    })
}

fn options(flags: &impl FlagValues) -> Result<AuthorizationWebhookOptions, FlagError> {
    let known = AuthorizationWebhookOptions::default();
    Ok(AuthorizationWebhookOptions {
        authorized_ttl: flags.time("authorization-webhook-cache-authorized-ttl", known.authorized_ttl)?,
        unauthorized_ttl: flags
            .time("authorization-webhook-cache-unauthorized-ttl", known.unauthorized_ttl)?,
        version: version(flags, "authorization-webhook-version")?,
        ..known
    })
}

impl Authorization {
    /// Whether the flags allow every request. A file is not read for this.
    pub(crate) fn allows_everything(&self) -> bool {
        match self {
            Self::Modes(modes) => modes.contains(&ModeChoice::AlwaysAllow),
            Self::File(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::TestFlags;
    use kstore_access::authz::ReviewVersion;
    use std::time::Duration;

    #[test]
    fn modes_keep_their_order_and_have_their_files() {
        assert_eq!(authorization(&TestFlags(vec![])), Ok(None));
        let flags = TestFlags(vec![
            (MODE, "Node,ABAC"),
            (MODE, "Webhook,RBAC"),
            (POLICIES, "p"),
            (WEBHOOK, "w"),
            ("authorization-webhook-version", "v1"),
            ("authorization-webhook-cache-authorized-ttl", "1s"),
            ("authorization-webhook-cache-unauthorized-ttl", "0s"),
        ]);
        let options = AuthorizationWebhookOptions {
            version: ReviewVersion::V1,
            authorized_ttl: Duration::from_secs(1),
            unauthorized_ttl: Duration::ZERO,
            ..Default::default()
        };
        let webhook = ModeChoice::Webhook("w".into(), options);
        let want = vec![ModeChoice::Node, ModeChoice::Abac("p".into()), webhook, ModeChoice::Rbac];
        assert_eq!(authorization(&flags), Ok(Some(Authorization::Modes(want))));
        let file = authorization(&TestFlags(vec![(CONFIG, "c")]));
        assert_eq!(file, Ok(Some(Authorization::File("c".into()))));
    }

    #[test]
    fn contradictory_authorization_flags_are_refused() {
        for (flags, want) in [
            (
                vec![(MODE, "RBAC,Nonsense")],
                "is not a valid mode; expected some of Node, RBAC, ABAC, Webhook, ",
            ),
            (vec![(MODE, "RBAC,RBAC")], "has mode specified more than once"),
            (vec![(MODE, "ABAC")], "needs --authorization-policy-file"),
            (vec![(MODE, "Webhook")], "needs --authorization-webhook-config-file"),
            (vec![(MODE, "RBAC"), (POLICIES, "p")], "without mode ABAC"),
            (vec![(WEBHOOK, "w")], "without mode Webhook"),
            (vec![(MODE, "RBAC"), (CONFIG, "c")], "--authorization-mode can not be specified when"),
            (
                vec![(MODE, "Webhook"), (WEBHOOK, "w"), ("authorization-webhook-version", "v2")],
                "v1 or v1beta1",
            ),
        ] {
            let refused = authorization(&TestFlags(flags)).unwrap_err().to_string();
            assert!(refused.contains(want), "{refused}");
        }
    }
}
