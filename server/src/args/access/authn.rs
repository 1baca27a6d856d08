//! The settings of the authentication flags.

use super::{FlagError, Given};
use kstore_apiserver::authn::ReviewVersion;
use kstore_apiserver::authn::oidc::{ALGORITHMS, ClaimRule, IssuerConfig, MappingConfig, Source};
use std::path::PathBuf;
use std::time::Duration;

/// How long answers of the token webhook are cached, as in Kubernetes.
const TTL: Duration = Duration::from_secs(120);

/// The authenticators of bearer tokens beside service accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Whether bootstrap tokens are accepted.
    pub bootstrap_tokens: bool,
    /// The token webhook.
    pub webhook: Option<TokenWebhookFile>,
    /// The OpenID Connect issuers.
    pub issuers: Option<IssuersFrom>,
}

/// The source of the settings of OpenID Connect issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuersFrom {
    /// Flags: one issuer without its authorities, and the file of these.
    Flags(Box<IssuerConfig>, Option<PathBuf>),
    /// This file.
    File(PathBuf),
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
        issuers: issuers(flags)?,
        webhook: kubeconfig.map(|kubeconfig| TokenWebhookFile { kubeconfig, version, ttl }),
    })
}

/// The version of reviews that a flag names.
pub(super) fn version(flags: &impl Given, name: &'static str) -> Result<ReviewVersion, FlagError> {
    let Some(value) = flags.text(name) else { return Ok(ReviewVersion::default()) };
    ReviewVersion::parse(value).ok_or_else(|| FlagError::new(name, value, "expected v1 or v1beta1"))
}

const URL: &str = "oidc-issuer-url";
const CLIENT: &str = "oidc-client-id";
const FILE: &str = "authentication-config";
/// Flags that say more about the issuer of [`URL`].
const MORE: [&str; 7] = [
    "oidc-ca-file",
    "oidc-username-claim",
    "oidc-username-prefix",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-required-claim",
    "oidc-signing-algs",
];

fn issuers(flags: &impl Given) -> Result<Option<IssuersFrom>, FlagError> {
    let more = || MORE.into_iter().find(|flag| flags.text(flag).is_some());
    let of_flags = [URL, CLIENT].into_iter().find(|flag| flags.text(flag).is_some()).or_else(more);
    if let Some(file) = flags.file(FILE) {
        return match of_flags {
            None => Ok(Some(IssuersFrom::File(file))),
            Some(flag) => {
                let reason = format!("--{flag} and --{FILE} are mutually exclusive");
                Err(FlagError::new(FILE, &file.to_string_lossy(), reason))
            }
        };
    }
    match (flags.text(URL), flags.text(CLIENT)) {
        (None, None) => match more() {
            None => Ok(None),
            Some(flag) => Err(FlagError::new(
                flag,
                flags.text(flag).unwrap_or_default(),
                format!("needs --{URL} and --{CLIENT}"),
            )),
        },
        (Some(url), Some(client)) => {
            let issuer = Box::new(issuer(flags, url, client)?);
            Ok(Some(IssuersFrom::Flags(issuer, flags.file("oidc-ca-file"))))
        }
        (Some(url), None) => {
            Err(FlagError::new(URL, url, format!("{URL} and {CLIENT} must be specified together")))
        }
        (None, Some(id)) => {
            Err(FlagError::new(CLIENT, id, format!("{URL} and {CLIENT} must be specified together")))
        }
    }
}

fn issuer(flags: &impl Given, url: &str, client: &str) -> Result<IssuerConfig, FlagError> {
    const ALGS: &str = "oidc-signing-algs";
    const REQUIRED: &str = "oidc-required-claim";
    if !url.starts_with("https://") {
        return Err(FlagError::new(URL, url, "must begin with https://"));
    }
    let username = flags.text("oidc-username-claim").unwrap_or("sub").to_owned();
    let prefix = match flags.text("oidc-username-prefix") {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if username == "email" => String::new(),
        None => format!("{url}#"),
    };
    let mut algorithms = flags.elements(ALGS);
    if let Some(unknown) = algorithms.iter().find(|name| !ALGORITHMS.contains(&name.as_str())) {
        return Err(FlagError::new(ALGS, unknown, format!("expected some of {}", ALGORITHMS.join(", "))));
    }
    if algorithms.is_empty() {
        algorithms.push("RS256".to_owned());
    }
    let required = flags.elements(REQUIRED).into_iter().map(|pair| match pair.split_once('=') {
        Some((claim, value)) => Ok(ClaimRule::Required { claim: claim.to_owned(), value: value.to_owned() }),
        None => Err(FlagError::new(REQUIRED, &pair, "expected KEY=VALUE")),
    });
    let groups = flags.text("oidc-groups-claim").map(|claim| Source::Claim {
        claim: claim.to_owned(),
        prefix: flags.text("oidc-groups-prefix").unwrap_or_default().to_owned(),
    });
    Ok(IssuerConfig {
        url: url.to_owned(),
        discovery_url: None,
        authorities: Vec::new(),
        audiences: vec![client.to_owned()],
        algorithms,
        mapping: MappingConfig {
            username: Source::Claim { claim: username, prefix },
            groups,
            uid: None,
            extra: Vec::new(),
            claim_rules: required.collect::<Result<_, _>>()?,
            user_rules: Vec::new(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::given::Words;
    use super::*;

    #[test]
    fn an_issuer_has_kubernetes_defaults() {
        assert_eq!(authentication(&Words(vec![])), Ok(Authentication::default()));
        let with = |more: &[(&'static str, &'static str)]| {
            let mut flags = vec![(URL, "https://a"), (CLIENT, "kube")];
            flags.extend(more);
            match authentication(&Words(flags)).unwrap().issuers {
                Some(IssuersFrom::Flags(issuer, _)) => *issuer,
                other => panic!("no issuer of flags: {other:?}"),
            }
        };
        let username = |issuer: &IssuerConfig| match &issuer.mapping.username {
            Source::Claim { claim, prefix } => format!("{prefix}{claim}"),
            Source::Expression(_) => panic!("an expression"),
        };
        let plain = with(&[]);
        assert_eq!(
            (username(&plain).as_str(), &plain.algorithms[..]),
            ("https://a#sub", &["RS256".to_owned()][..])
        );
        assert_eq!(username(&with(&[("oidc-username-claim", "email")])), "email");
        assert_eq!(username(&with(&[("oidc-username-prefix", "-")])), "sub");
        assert_eq!(username(&with(&[("oidc-username-prefix", "x:")])), "x:sub");
        let full = with(&[
            ("oidc-groups-claim", "roles"),
            ("oidc-groups-prefix", "o:"),
            ("oidc-required-claim", "hd=b"),
            ("oidc-signing-algs", "ES256,RS256"),
        ]);
        let groups = Source::Claim { claim: "roles".to_owned(), prefix: "o:".to_owned() };
        assert_eq!(full.mapping.groups, Some(groups));
        let rule = ClaimRule::Required { claim: "hd".to_owned(), value: "b".to_owned() };
        assert_eq!((full.mapping.claim_rules, full.algorithms.len()), (vec![rule], 2));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (flags, want) in [
            (vec![(URL, "https://a")], "must be specified together"),
            (vec![(CLIENT, "a")], "must be specified together"),
            (vec![(URL, "http://a"), (CLIENT, "a")], "must begin with https://"),
            (vec![("oidc-groups-claim", "g")], "needs --oidc-issuer-url and --oidc-client-id"),
            (vec![(FILE, "f"), (URL, "https://a")], "are mutually exclusive"),
            (
                vec![(URL, "https://a"), (CLIENT, "a"), ("oidc-signing-algs", "HS256")],
                "expected some of RS256",
            ),
            (vec![(URL, "https://a"), (CLIENT, "a"), ("oidc-required-claim", "x")], "expected KEY=VALUE"),
            (vec![("authentication-token-webhook-version", "v2")], "expected v1 or v1beta1"),
        ] {
            let refused = authentication(&Words(flags)).unwrap_err().to_string();
            assert!(refused.contains(want), "{refused}");
        }
    }
}
